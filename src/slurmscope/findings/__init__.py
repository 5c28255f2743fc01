# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What went wrong with a job, what it cost, and what to change. Reads what is kept; asks nobody."""
