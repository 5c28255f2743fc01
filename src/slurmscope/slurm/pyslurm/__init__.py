# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What PySlurm tells, as probe.py wrote it down, to the model: pure functions from bytes.

PySlurm has two APIs, with other names and other units in each; releases have one of them, or both. Which one answered
stands in the document. What neither of them can tell is said in commands.py.
"""

from slurmscope.slurm.pyslurm.jobs import parse_jobs
from slurmscope.slurm.pyslurm.nodes import parse_nodes, parse_partitions, parse_reservations
from slurmscope.slurm.pyslurm.reports import parse_config, parse_scheduler

__all__ = ["parse_config", "parse_jobs", "parse_nodes", "parse_partitions", "parse_reservations", "parse_scheduler"]
