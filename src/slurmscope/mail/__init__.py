# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mail to people: what is decided, what is sent, and what is written down of it."""
