# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters made by hand, for jobs to wait on."""

from __future__ import annotations

import asyncio
from typing import Any

from lives import SUBMIT

from slurmscope.demo.source import DemoSource
from slurmscope.model import License, Limit, Node, Part, Partition, Reservation, Share, Snapshot
from slurmscope.poll import Poll
from slurmscope.settings import Cluster

NOW = SUBMIT + 1000


def node(name: str = "n1", **fields: Any) -> Node:
    """Of main: 16 CPUs and 64 GiB, all free."""
    given: dict[str, Any] = {
        "state": "IDLE",
        "flags": frozenset(),
        "partitions": ("main",),
        "cpus": 16,
        "cpus_effective": 16,
        "cpus_allocated": 0,
        "load": None,
        "memory": 64 << 30,
        "memory_reserved": None,
        "memory_allocated": 0,
        "memory_free": None,
        "gpus": {},
        "gpus_allocated": {},
        "weight": 1,
        "version": None,
        "features": (),
        "boot_time": None,
        "reason": None,
        "reason_user": None,
        "reason_time": None,
    }
    return Node(name=name, **(given | fields))


def partition(name: str = "main", **fields: Any) -> Partition:
    given: dict[str, Any] = {
        "state": "UP",
        "default": True,
        "hidden": False,
        "node_list": "n[1-2]",
        "nodes": 2,
        "cpus": 32,
        "max_time": None,
        "default_time": None,
        "max_nodes": None,
        "priority_tier": 1,
        "priority_factor": 1,
        "preempt_mode": None,
        "qos": None,
        "allow_accounts": (),
    }
    return Partition(name=name, **(given | fields))


def reservation(name: str = "maint", **fields: Any) -> Reservation:
    given: dict[str, Any] = {
        "state": None,
        "start_time": NOW + 3600,
        "end_time": NOW + 7200,
        "node_list": "n1",
        "nodes": 1,
        "cores": None,
        "flags": ("MAINT",),
        "partition": None,
        "users": ("root",),
        "accounts": (),
        "licenses": None,
        "tres": {},
    }
    return Reservation(name=name, **(given | fields))


def limit(name: str, amount: float, used: float | None, **fields: Any) -> Limit:
    """Of the account physics, unless it is said to be a QOS's."""
    given: dict[str, Any] = {"kind": "association", "account": "physics", "user": None}
    if "qos" in fields:
        given |= {"kind": "qos", "account": None}
    given |= {"partition": None, "qos": None, "tres": None}
    return Limit(name=name, limit=amount, used=used, **(given | fields))


def account(name: str, parent: str | None = None, **fields: Any) -> Share:
    given: dict[str, Any] = dict.fromkeys(Share.__struct_fields__)
    return Share(**(given | {"account": name, "parent": parent, "depth": 0} | fields))


def licence(name: str, total: int, used: int) -> License:
    return License(name=name, total=total, used=used, free=total - used, reserved=0, remote=False)


def snapshot(**parts: Any) -> Snapshot:
    """Two idle nodes in main, unless said otherwise; what is None was not read."""
    given: dict[str, Any] = {
        "jobs": (),
        "nodes": (node("n1"), node("n2")),
        "partitions": (partition(),),
        "reservations": (),
        "licenses": (),
        "shares": (),
        "limits": (),
    }
    found = {
        name: Part(value=value, time=NOW) if value is not None else Part(error="it did not answer")
        for name, value in (given | parts).items()
    }
    return Snapshot("lab").replaced(**found)


def simulated(now: float) -> Snapshot:
    """All that the demo tells of its cluster."""

    async def look() -> Snapshot:
        async def publish(snapshot: Snapshot, fresh: frozenset[str]) -> None:
            """Nobody is told."""

        poll = Poll(DemoSource(clock=lambda: now), Cluster(), publish, clock=lambda: now)
        await poll.once()
        return poll.snapshot

    return asyncio.run(look())
