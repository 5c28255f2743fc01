# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Why a job waits: what Slurm's reason means, what is behind it, what can be done, and when it may start."""
