# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The agent: what the jobs of this node use, from cgroups, /proc and GPUs."""
