# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept: jobs with their lives, nodes with their changes, who used what, how many of what over time."""
