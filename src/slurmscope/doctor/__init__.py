# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at this machine and at each cluster, and says what works, what is missing, and what to do next."""
