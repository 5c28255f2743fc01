# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages, by noun. Each is a function from a visit and what is asked for to a Page."""
