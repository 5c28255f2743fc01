# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of 5,000 nodes whose past is the million jobs, as it was read last."""

from __future__ import annotations

import random
from typing import Any

from million import ACCOUNTS, CLUSTER, DAY, END, PARTITIONS, USERS, jobs
from msgspec.structs import replace

from slurmscope.model import Coordinator, Job, Limit, Node, Part, Partition, Share, Snapshot

NODES, RUNNING, WAITING = 5000, 6000, 14000
REASONS = ("Priority", "Resources", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit")


def nodes() -> tuple[Node, ...]:
    chance = random.Random(5)
    return tuple(_node(at, chance) for at in range(NODES))


def _node(at: int, chance: random.Random) -> Node:
    state = chance.choice(("IDLE", "MIXED", "MIXED", "ALLOCATED", "ALLOCATED", "ALLOCATED"))
    used = {"IDLE": 0, "MIXED": chance.randrange(1, 64), "ALLOCATED": 64}[state]
    away = at % 50 == 0
    gpus = {"a100": 4} if at % 10 == 0 else {}
    return Node(
        name=f"node{at}",
        state="DOWN" if away else state,
        flags=frozenset({"DRAIN"} if away else ()),
        partitions=("gpu",) if gpus else ("main", "long", "debug"),
        cpus=64,
        cpus_effective=64,
        cpus_allocated=0 if away else used,
        load=float(used),
        memory=1 << 38,
        memory_reserved=None,
        memory_allocated=0 if away else used << 32,
        memory_free=1 << 37,
        gpus=gpus,
        gpus_allocated={"a100": chance.randrange(5)} if gpus and used and not away else {},
        weight=1,
        version="24.11.1",
        features=("avx512",),
        boot_time=END - 30 * DAY,
        reason=f"disk {at % 7}" if away else None,
        reason_user="root" if away else None,
        reason_time=END - at if away else None,
    )


def queue() -> tuple[Job, ...]:
    """As they come at the end of the million, with numbers of their own."""
    found = []
    for at, job in enumerate(jobs(RUNNING + WAITING, 1)):
        waits = at >= RUNNING
        found.append(
            replace(
                job,
                id=2_000_000 + at,
                state="PENDING" if waits else "RUNNING",
                reason=REASONS[at % len(REASONS)] if waits else None,
                start_time=None if waits else job.start_time,
                end_time=None,
                node_list="" if waits else job.node_list,
            )
        )
    return tuple(found)


def snapshot(time: float = END - 10.0) -> Snapshot:
    """All of it read at that time."""

    def part(value: object) -> Part[Any]:
        return Part(value, time, "text")

    def share(account: str, user: str | None, parent: str | None, depth: int) -> Share:
        return Share(account, user, None, parent, depth, 1, 0.01, 100.0, 0.01, 0.01, 0.5, 1.0)

    names = [f"account{at}" for at in range(ACCOUNTS)]
    shares = [share("root", None, None, 0)]
    for at, name in enumerate(names):
        shares.append(share(name, None, "root", 1))
        shares += [share(name, f"user{one}", name, 2) for one in range(at, USERS, ACCOUNTS)]
    limits = tuple(Limit("association", one, None, None, None, "GrpTRES", "cpu", 4096.0, 4000.0) for one in names)
    partitions = tuple(
        Partition(one, "UP", one == "main", False, "", NODES, 64 * NODES, 5 * DAY, 3600, None, 1, 1, "OFF", None, ())
        for one in PARTITIONS
    )
    return Snapshot(CLUSTER).replaced(
        nodes=part(nodes()),
        jobs=part(queue()),
        partitions=part(partitions),
        shares=part(tuple(shares)),
        limits=part(limits),
        coordinators=part((Coordinator("account7", "user799"),)),
    )
