# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The ways in that the settings give to a cluster, or that a recording has."""

from __future__ import annotations

from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm.bundle import Bundle, Recorded
from slurmscope.slurm.choice import Choice
from slurmscope.slurm.commands import REST
from slurmscope.slurm.local import Local
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.source import Way
from slurmscope.slurm.transport import Transport


def ways_of(cluster: Cluster) -> list[Way]:
    """Every way that could be tried."""
    slurm = cluster.slurm
    ways = []
    if cluster.has_commands:
        commands = _commands(slurm)
        ways = [Way(name, commands) for name in (TEXT, PYSLURM, JSON)]
    if slurm.rest_url:
        # only here: most sites do without, and its client takes memory
        from slurmscope.slurm.rest import Rest  # noqa: PLC0415

        ways.append(Way(REST, Rest(slurm)))
    return ways


def source_of(cluster: Cluster) -> Choice:
    first = cluster.slurm.source
    return Choice(ways_of(cluster), "" if first == "auto" else first)


def recorded_source(bundle: Bundle, first: str = "auto") -> Choice:
    transport = Recorded(bundle)
    return Choice([Way(name, transport) for name in transport.ways], "" if first == "auto" else first)


def _commands(slurm: Slurm) -> Transport:
    if slurm.ssh:
        from slurmscope.slurm.ssh import Ssh  # noqa: PLC0415 - only here, for the same reason

        return Ssh(
            slurm.ssh,
            config=slurm.ssh_config,
            probe=slurm.ssh_probe,
            python=slurm.python,
            bin_dir=slurm.bin_dir,
            conf=slurm.conf,
            multi_cluster=slurm.multi_cluster,
            timeout=slurm.timeout,
        )
    return Local(slurm.bin_dir, slurm.conf, slurm.timeout, slurm.multi_cluster, slurm.python)
