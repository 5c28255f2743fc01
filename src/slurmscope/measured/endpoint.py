# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The address that agents send their reports to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from slurmscope.auth import Guard
from slurmscope.measure import Report
from slurmscope.measured import bodies
from slurmscope.measured.bodies import WrongBody
from slurmscope.measured.reports import NoRoom, Reports
from slurmscope.measured.tally import CLUSTER, ROOM, TOKEN, Tally
from slurmscope.model import Snapshot
from slurmscope.server import Answer, plain
from slurmscope.worker import compute

PATH = "/agent"
# Thousands of agents that keep their connections would take those of the scrapers.
_CLOSE = (b"connection", b"close")


class Keeper(Protocol):
    async def take(self, report: Report) -> None: ...


class AgentReceiver:
    """Takes reports. Who comes with the right token is believed in what it measured, of whichever node it says."""

    most_bytes = bodies.MOST_BYTES

    def __init__(
        self,
        tokens: Sequence[str],
        clusters: Callable[[], Sequence[Snapshot]],
        reports: Reports,
        keeper: Keeper | None,
        tally: Tally,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._guard = Guard({}, tokens)
        self._clusters = clusters
        self._reports = reports
        self._keeper = keeper
        self._tally = tally
        self._clock = clock

    async def refusal(self, headers: Mapping[str, str]) -> Answer | None:
        if self._guard.allows(headers.get("authorization")):
            return None
        self._count(TOKEN)
        cure = (
            "a token is needed: agent.serve_token_file names the file that holds it, on the node; "
            "agents.tokens here has its hash (`slurmscope hash-password --token`)"
        )
        return plain(401, cure, [(b"www-authenticate", b'Bearer realm="slurmscope"')])

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        encoding = headers.get("content-encoding", "")
        try:
            found = bodies.quick(body, encoding, self._clock())
            if found is None:
                found = await compute(bodies.reports, body, encoding, self._clock())
            clusters = [one for one in self._clusters() if one.cluster]
            if not clusters:
                return plain(503, "no cluster has told its name yet: come again", [(b"retry-after", b"10"), _CLOSE])
            found = [_of_cluster(report, clusters) for report in found]
            await self._add(found)
        except WrongBody as error:
            self._count(error.reason)
            return plain(400, str(error), [_CLOSE])
        except NoRoom as error:
            self._count(ROOM)
            return plain(503, str(error), [(b"retry-after", b"60"), _CLOSE])
        return plain(200, f"taken: {len(found)}", [_CLOSE])

    async def _add(self, reports: Sequence[Report]) -> None:
        for report in reports:
            self._reports.take(report)
            if self._keeper is not None:
                await self._keeper.take(report)
            self._tally.reports += 1

    async def about(self) -> Answer:
        return plain(200, "agents send here what jobs use: set agent.serve_url to this address without its path")

    def _count(self, reason: str) -> None:
        self._tally.refused[reason] = self._tally.refused.get(reason, 0) + 1


def _of_cluster(report: Report, clusters: Sequence[Snapshot]) -> Report:
    """The agent has the cluster's name of Slurm; here it may have another ([clusters.NAME])."""
    names = [one.cluster for one in clusters]
    if report.cluster in names:
        return report
    called = [one.cluster for one in clusters if one.config.value and one.config.value.cluster == report.cluster]
    if not report.cluster:
        called = names
    if len(called) == 1:
        return replace(report, cluster=called[0])
    told = f"found {report.cluster[:64]!r}" if report.cluster else "found none"
    raise WrongBody(f"cluster: expected {' or '.join(names)}, for no other is read here, {told}", CLUSTER)
