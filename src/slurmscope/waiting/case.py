# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job that waits, with what is known of its cluster: what all that looks for facts needs of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from slurmscope.model import Job, License, Limit, Node, Partition, Reservation, Share, Snapshot
from slurmscope.slurm import values
from slurmscope.waiting.reason import Reason
from slurmscope.waiting.reasons import Told
from slurmscope.words import number

_NAMED = 3  # people, nodes or jobs that are named; of more it is told how many
OTHERS = "others"
"""All whom a reader may not know by name."""


class Fact(msgspec.Struct, frozen=True):
    """Something behind a reason: for people, and in base units for programs."""

    name: str
    text: str
    values: dict[str, Any] = {}


class Case:
    """What is not known is empty here; `Part`s that are missing or old are told by explanation.py."""

    def __init__(
        self, job: Job, snapshot: Snapshot, told: Told, reason: Reason, now: float, *, discreet: bool = False
    ) -> None:
        """`discreet`: for one who may know of this job, and not of other people's."""
        self.job = job
        self.snapshot = snapshot
        self.told = told
        self.reason = reason
        self.now = now
        self.discreet = discreet

    def called(self, user: str) -> str:
        """Somebody, as far as the reader may know."""
        return OTHERS if self.discreet and user != self.job.user else user

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        return self.snapshot.jobs.value or ()

    @cached_property
    def holding(self) -> list[Job]:
        return [job for job in self.jobs if job.holding]

    @cached_property
    def partitions(self) -> list[Partition]:
        """Those that it waits in, as far as they are known."""
        known = {one.name: one for one in self.snapshot.partitions.value or ()}
        return [known[name] for name in self.job.partitions if name in known]

    @cached_property
    def nodes(self) -> list[Node]:
        """Those of all its partitions."""
        wanted = set(self.job.partitions)
        return [node for node in self.snapshot.nodes.value or () if not wanted.isdisjoint(node.partitions)]

    def nodes_of(self, partition: str) -> list[Node]:
        return [node for node in self.nodes if partition in node.partitions]

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        return self.snapshot.limits.value or ()

    @cached_property
    def licenses(self) -> tuple[License, ...]:
        return self.snapshot.licenses.value or ()

    @cached_property
    def reservations(self) -> tuple[Reservation, ...]:
        return self.snapshot.reservations.value or ()

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        return self.snapshot.shares.value or ()

    @cached_property
    def partition_qos(self) -> dict[str, str]:
        """The QOS that holds for all jobs of a partition, by its name."""
        return {one.name: one.qos for one in self.snapshot.partitions.value or () if one.qos}

    @cached_property
    def _parents(self) -> dict[str, str]:
        return {one.account: one.parent for one in self.shares if one.user is None and one.parent}

    def above(self, account: str) -> tuple[str, ...]:
        """An account and those above it, as far as the tree is known."""
        found = [account]
        while (parent := self._parents.get(found[-1])) and parent not in found:
            found.append(parent)
        return tuple(found)


def most(counts: Mapping[str, float]) -> str:
    """Who has the most: `alice 12, bob 4 and 3 others`."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{who} {number(count)}" for who, count in ranked[:_NAMED])
    rest = len(ranked) - _NAMED
    return named + (f" and {rest:,} other{'s' if rest > 1 else ''}" if rest > 0 else "")


def some(names: Iterable[str]) -> str:
    """The first few of them, and how many more there are."""
    found = list(names)
    rest = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def hosts(text: str) -> tuple[str, ...]:
    """The nodes of a hostlist; none where it is cut short or is none."""
    try:
        return values.hosts(text)
    except ValueError:
        return ()


def licenses_of(text: str | None) -> dict[str, int]:
    """`matlab:3,ansys@server:1` by name; of alternatives (`a|b`) all are named."""
    found: Counter[str] = Counter()
    for item in (text or "").replace("|", ",").split(","):
        name, colon, count = item.strip().replace("=", ":").rpartition(":")
        if not colon:
            name, count = item.strip(), "1"
        if name and count.isascii() and count.isdigit() and len(count) < 10:
            found[name] += int(count)
    return dict(found)


def gpus(job: Job) -> int:
    return sum(job.gpus.values())


def id_of(job: Job) -> str:
    """The job's number as `scontrol` and `squeue` take it."""
    if job.array_id is None:
        return str(job.id)
    if job.array_tasks is not None and job.array_tasks.isdigit():
        return f"{job.array_id}_{job.array_tasks}"
    return str(job.array_id)
