# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmscope: what a Slurm cluster is doing, for Prometheus and for people."""

__version__ = "0.1.0"
