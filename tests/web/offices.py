# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster with accounts, people in them, limits and a queue, and a portal that believes who somebody says to be.

root
  science              led by lead
    physics  ann, bob
    bio      bob, eve
  arts       zoe
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lives
from waiting.snapshots import limit, partition
from web import sites
from web.client import Client

from slurmscope.life import Accounted
from slurmscope.model import Coordinator, Job, Limit, Part, Share, Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.store.place import open_store
from slurmscope.store.recorder import tell
from slurmscope.web.site import Site

CLUSTER = "lab"
HOUR, DAY = 3600, 86400
STAFF = "boss"
GPUS = limit("GrpTRES", 8, 8, tres="gres/gpu", account="science")
OWN = limit("MaxJobs", 4, 1, account="bio", user="eve")
EACH = limit("MaxWallPJ", 3600, None, qos="normal")
ARTS = limit("GrpTRES", 100, 5, tres="cpu", account="arts")


def share(account: str, parent: str | None, user: str | None = None, depth: int = 0, **fields: Any) -> Share:
    given: dict[str, Any] = {
        "partition": None,
        "raw_shares": 10,
        "norm_shares": 0.5,
        "raw_usage": 36000.0,
        "norm_usage": 0.25,
        "effective_usage": 0.25,
        "fair_share": None if user is None else 0.5,
        "level_fs": 2.0,
    }
    return Share(account=account, user=user, parent=parent, depth=depth, **(given | fields))


SHARES = (
    share("root", None, raw_shares=None, level_fs=None),
    share("science", "root", depth=1),
    share("physics", "science", depth=2),
    share("physics", "physics", "ann", depth=3),
    share("physics", "physics", "bob", depth=3),
    share("bio", "science", depth=2, level_fs=float("inf")),
    share("bio", "bio", "bob", depth=3),
    share("bio", "bio", "eve", depth=3),
    share("arts", "root", depth=1),
    share("arts", "arts", "zoe", depth=2),
)
_LATELY: dict[str, Any] = {"submit_time": sites.NOW - 600, "eligible_time": sites.NOW - 600}


def queued(id_: int, state: str = "PENDING", **fields: Any) -> Job:
    """Submitted ten minutes ago; one that runs, since five."""
    start = sites.NOW - 300 if state == "RUNNING" else None
    return lives.job(id_, state, **({**_LATELY, "start_time": start} | fields))


QUEUE = (
    queued(1, "RUNNING", user="ann", account="physics"),
    queued(
        2, user="ann", account="physics", reason="AssocGrpGRES", gpus={"": 4}, array_id=2, array_tasks="1-5", tasks=5
    ),
    queued(3, user="bob", account="bio", reason="AssocGrpGRES", gpus={"": 4}),
    queued(4, "RUNNING", user="bob", account="bio"),
    queued(5, user="eve", account="bio", reason="Priority"),
    queued(6, "RUNNING", user="zoe", account="arts"),
)
LIMITS = (GPUS, OWN, EACH, ARTS)
LEADS = (Coordinator("science", "lead"), Coordinator("arts", "zoe"))


def snapshot(
    jobs: Sequence[Job] | None = QUEUE,
    shares: Sequence[Share] | None = SHARES,
    limits: Sequence[Limit] | None = LIMITS,
    leads: Sequence[Coordinator] = LEADS,
) -> Snapshot:
    def part(value: Any) -> Part[Any]:
        return Part() if value is None else Part(value=tuple(value), time=sites.NOW)

    return Snapshot(
        cluster=CLUSTER,
        jobs=part(jobs),
        shares=part(shares),
        limits=part(limits),
        coordinators=part(leads),
        partitions=part([partition()]),
    )


def site(folder: Path, found: Snapshot | None = None, told: Sequence[Accounted] = (), *, open_: bool = False) -> Site:
    """Where people are whom a proxy says them to be; or where nobody signs in."""
    signing = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1/32"], staff=[STAFF])
    made = sites.site_of(folder, [found or snapshot()], PortalSettings() if open_ else signing)
    store = open_store(made.url)
    try:
        tell(store, CLUSTER, told, sites.NOW)
    finally:
        store.close()
    return made


def reader(of: Site, name: str = STAFF) -> Client:
    return Client(sites.portal_of(of), headers={"X-Remote-User": name} if name else {})


def ran(
    id_: int, days_ago: float, user: str, account: str, hours: float = 2, used: float = 0.5, **fields: Any
) -> Accounted:
    """A job that ended; it had four CPUs, and used so much of them."""
    start = int(sites.NOW - days_ago * DAY)
    job = lives.job(
        id_,
        "COMPLETED",
        user=user,
        account=account,
        submit_time=start - 60,
        eligible_time=start - 60,
        start_time=start,
        end_time=start + int(hours * HOUR),
        **({"time_limit": 10 * HOUR} | fields),
    )
    return lives.accounted(job, cpu_seconds=used * job.cpus * hours * HOUR)
