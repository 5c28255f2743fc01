# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Two people and a coordinator on one cluster, for tests of who sees what.

alice is in physics, bob in chemistry; carol coordinates physics; sam is of the staff. All that is bob's has a name that
would be noticed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from findings.cases import node
from lives import accounted, job
from web import sites
from web.client import Client

from slurmscope.life import Life, seen, told
from slurmscope.model import Coordinator, Job, Limit, Part, Share, Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site

CLUSTER, NOW = "alpha", sites.NOW
ALICE, BOB, CAROL, SAM = "alice", "bobsecret", "carol", "sam"
PHYSICS, CHEMISTRY = "physics", "chemsecret"
NODE, HIS_NODE = "n1", "hidden9"
HER_JOB, HIS_JOB = 11, 22222
HIS = (BOB, CHEMISTRY, "hushwork", str(HIS_JOB))
"""What nobody else may read. That there is a node of his everybody may know."""
SETTINGS = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=[SAM])


def _job(id_: int, state: str, *, his: bool, ago: int, **fields: object) -> Job:
    given: dict[str, object] = {
        "user": BOB if his else ALICE,
        "account": CHEMISTRY if his else PHYSICS,
        "name": "hushwork" if his else "train",
        "submit_time": NOW - ago,
        "eligible_time": NOW - ago,
        "start_time": NOW - ago + 60 if state != "PENDING" else None,
        "node_list": (HIS_NODE if his else NODE) if state != "PENDING" else "",
        "reason": "AssocGrpCpuLimit" if state == "PENDING" else None,
    }
    return job(id_, state, **(given | fields))


QUEUE = (
    _job(HER_JOB + 1, "RUNNING", his=False, ago=1000),
    _job(HER_JOB + 2, "PENDING", his=False, ago=500),
    _job(HIS_JOB + 1, "RUNNING", his=True, ago=900),
    _job(HIS_JOB + 2, "PENDING", his=True, ago=400),
)


def lives() -> list[Life]:
    over = [
        _job(HER_JOB, "COMPLETED", his=False, ago=9000, end_time=NOW - 5000),
        _job(HIS_JOB, "FAILED", his=True, ago=8000, end_time=NOW - 4000, exit_code="3:0"),
    ]
    found = [told(None, CLUSTER, accounted(one), NOW - 3000) for one in over]
    return found + [seen(None, CLUSTER, one, NOW - 10) for one in QUEUE]


def _share(account: str, user: str | None, parent: str | None, depth: int) -> Share:
    return Share(account, user, None, parent, depth, 1, 0.5, 100.0, 0.5, 0.5, 0.5, 1.0)


def snapshot() -> Snapshot:
    def part(value: object) -> Part[object]:
        return Part(value, float(NOW - 10), "text")

    shares = (
        _share("root", None, None, 0),
        _share(PHYSICS, None, "root", 1),
        _share(PHYSICS, ALICE, PHYSICS, 2),
        _share(CHEMISTRY, None, "root", 1),
        _share(CHEMISTRY, BOB, CHEMISTRY, 2),
    )
    limits = tuple(
        Limit("association", account, None, None, None, "GrpTRES", "cpu", 8.0, 4.0) for account in (PHYSICS, CHEMISTRY)
    )
    return Snapshot(CLUSTER).replaced(
        nodes=part((node(NODE), node(HIS_NODE, cpus_allocated=4))),
        jobs=part(QUEUE),
        shares=part(shares),
        limits=part(limits),
        coordinators=part((Coordinator(PHYSICS, CAROL),)),
    )


def settled(folder: Path, url: str = "") -> Site:
    site = sites.site_of(folder, [snapshot()], SETTINGS, url=url)
    site.script = lambda life: f"#!/bin/sh\n#SBATCH -n1\n./{life.name}\n"
    sites.keep(site, lives())
    store = open_store(site.url)
    try:
        with store.writing(CLUSTER) as writer:
            writer.put_nodes([KeptNode(CLUSTER, one, NOW - 10, NOW - 9999) for one in snapshot().nodes.value or ()])
    finally:
        store.close()
    return site


@contextmanager
def opened(folder: Path, url: str = "") -> Iterator[Portal]:
    portal = sites.portal_of(settled(folder, url))
    try:
        yield portal
    finally:
        portal.close()


def as_(portal: Portal, name: str) -> Client:
    """Somebody whom the proxy names; "" for one whom it does not."""
    return Client(portal, headers={"x-remote-user": name} if name else {})
