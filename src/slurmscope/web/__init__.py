# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal: what is kept and what is seen, for people. It reads the store and snapshots, and asks no Slurm."""
