# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Asks slurmctld for the jobs of SLUIDs: the last resort, where nothing on the node tells whose a cgroup is."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Sequence

from slurmscope.logs import fields
from slurmscope.settings import Slurm as Settings
from slurmscope.slurm import probe, process
from slurmscope.slurm.transport import TransportError

log = logging.getLogger(__name__)

ARGV = ("squeue", "--noheader", "--local", "--states=running,completing,suspended", "--Format=JobID:|,Sluid:|")
"""Neither a number nor a SLUID can hold the mark between them."""

_ROW = re.compile(r"^([0-9]{1,10})\|(s[0-9A-Z]{13})\|$", re.MULTILINE)
_MOST = 8 << 20


class Squeue:
    def __init__(self, settings: Settings, node: str = "") -> None:
        self._settings = settings
        self._node = node or socket.gethostname().partition(".")[0]
        self._stuck = process.Stuck()

    async def __call__(self, sluids: Sequence[str]) -> dict[str, int]:
        settings = self._settings
        try:
            done = await process.run(
                [*ARGV, f"--nodelist={self._node}"],
                probe.environment(settings.conf, settings.multi_cluster, probe.TEXT),
                settings.timeout,
                _MOST,
                stuck=self._stuck,
                key="sluid",
                path=probe.bin_path(settings.bin_dir),
            )
        except TransportError as error:
            log.warning("whose some cgroups are cannot be asked", extra=fields(error=str(error)))
            return {}
        return parse(done.data.decode("utf-8", "replace"))


def parse(text: str) -> dict[str, int]:
    """Jobs by their SLUIDs."""
    return {sluid: int(job) for job, sluid in _ROW.findall(text)}
