# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Things to keep, where they are kept, and all that may be asked of a store."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from slurmscope import usage
from slurmscope.course import AGENT, Course, Sample, add
from slurmscope.life import ENDED_STATES, Life, Step, Transition
from slurmscope.measure import GpuUse
from slurmscope.model import Job, Node
from slurmscope.store.mongodb import open_mongodb
from slurmscope.store.protocol import (
    COARSE,
    FINE,
    MIDDLE,
    KeptNode,
    Lives,
    Measured,
    NodeChange,
    Point,
    Sight,
    Span,
    Store,
    UsageAsked,
)
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import summary

T0 = 1_700_000_000
DAY = usage.DAY
D0 = T0 // DAY
HOSTILE = (
    "a.b",
    "$where",
    "",
    "%2E.%",
    "\x01\x1f\x7f",
    "line\nnext\ttab",
    "😀 ünï",
    "'; DROP TABLE jobs; --",
    '"quoted" \\ back',
    "x" * 1024,
    " ",
    "_id",
)


def opened(url: str) -> Store:
    if url.startswith("sqlite:"):
        return SqliteStore(url.removeprefix("sqlite:"))
    return open_mongodb(url)


def job(**fields: Any) -> Job:
    return replace(_JOB, **fields)


def life(id_: int = 1, cluster: str = "alpha", submit_time: int | None = T0, **fields: Any) -> Life:
    return replace(_LIFE, id=id_, cluster=cluster, submit_time=submit_time, **fields)


def ended(id_: int = 1, cluster: str = "alpha", **fields: Any) -> Life:
    start = fields.pop("start_time", T0 + 60)
    end = fields.pop("end_time", start + 3600)
    state = fields.pop("state", "COMPLETED")
    return life(
        id_, cluster, state=state, start_time=start, end_time=end, counted_time=end, node_list="n[1-2]", **fields
    )


_JOB = Job(
    id=1,
    array_id=None,
    array_tasks=None,
    tasks=1,
    name="train",
    user="ana",
    account="physics",
    partition="gpu",
    qos="normal",
    state="PENDING",
    reason=None,
    priority=100,
    submit_time=T0,
    eligible_time=T0,
    start_time=None,
    end_time=None,
    time_limit=7200,
    cpus=4,
    memory=8 << 30,
    gpus={},
    nodes=1,
    node_list="",
    reservation=None,
    dependency=None,
    features=None,
    licenses=None,
    login_node="login1",
    restarts=0,
    exit_code=None,
)
_LIFE = Life(**{name: getattr(_JOB, name) for name in Job.__struct_fields__}, cluster="alpha", changed_time=T0)


def node(name: str = "n1", **fields: Any) -> Node:
    return replace(_NODE, name=name, **fields)


_NODE = Node(
    name="n1",
    state="MIXED",
    flags=frozenset({"DRAIN", "CLOUD"}),
    partitions=("gpu", "cpu"),
    cpus=64,
    cpus_effective=62,
    cpus_allocated=8,
    load=1.5,
    memory=1 << 38,
    memory_reserved=None,
    memory_allocated=1 << 30,
    memory_free=2**53 + 1,
    gpus={"": 1, "a.100": 4},
    gpus_allocated={"$h": 2},
    weight=1,
    version="24.11",
    features=("avx", "ib"),
    boot_time=T0 - 10,
    reason="bad\nfan",
    reason_user="root",
    reason_time=T0,
)


def kept(name: str = "n1", cluster: str = "alpha", **fields: Any) -> KeptNode:
    return KeptNode(cluster, node(name, **fields), T0, T0 - 100)


def change(name: str = "n1", time: int = T0, cluster: str = "alpha", state: str = "DOWN") -> NodeChange:
    return NodeChange(cluster, name, time, state, ("DRAIN", "FAIL"), "fan", "root", time - 5)


def point(time: int = T0, partition: str = "", step: int = FINE, cluster: str = "alpha", **values: float) -> Point:
    return Point(cluster, partition, step, time, 1, values or {"cpus_allocated": 4.0, "gpus_allocated/a.100": 0.5})


def measured(
    id_: int = 1,
    submit_time: int = T0,
    *,
    seconds: int = 120,
    nodes: int = 1,
    gpus: int = 0,
    programs: Iterable[str] = ("python3",),
    seed: int = 1,
) -> Measured:
    """What a job used that started 100 s after it was submitted."""
    draw = random.Random(f"{id_} {seed}")
    start, course = submit_time + 100, Course.at(submit_time + 100)
    for at in range(0, seconds, 15):
        for node in range(nodes):
            add(course, _sample(draw, f"n{node}", start + at, min(15, seconds - at), gpus, programs))
    return Measured(id_, submit_time, summary(course, nodes, start, start + seconds), course)


def _sample(draw: random.Random, node: str, start: int, seconds: int, gpus: int, programs: Iterable[str]) -> Sample:
    return Sample(
        node=node,
        start=start,
        end=start + seconds,
        source=AGENT,
        cpus=8,
        cpu_seconds=draw.random() * 8 * seconds,
        memory=draw.randrange(1 << 34),
        read_bytes=draw.randrange(1 << 30),
        limit=1 << 34,
        oom_kills=0,
        user_seconds=draw.random() * 4 * seconds,
        system_seconds=draw.random() * 4 * seconds,
        core_seconds={core: draw.random() * seconds for core in (0, 7)},
        swap=draw.randrange(1 << 30),
        reads=draw.randrange(1 << 20),
        writes=draw.randrange(1 << 20),
        programs=tuple((name, draw.randrange(64)) for name in programs),
        gpus=tuple(
            GpuUse(
                uuid=f"GPU-{node}-{index}",
                index=index,
                model="H100",
                utilization=draw.random(),
                memory_used=draw.randrange(1 << 36),
                power=draw.random() * 700,
                processes=1,
            )
            for index in range(gpus)
        )
        or None,
    )


def kept_measured(store: Store, cluster: str) -> list[Measured]:
    return [one for some in store.each_measured(cluster) for one in some]


def summed(lives: Iterable[Life]) -> dict[usage.Key, usage.Amounts]:
    """What a rebuild makes of lives."""
    sums: usage.Sums = {}
    for one in lives:
        usage.add(sums, one, 1)
    return dict(usage.deltas(sums))


def kept_usage(store: Store, cluster: str) -> dict[usage.Key, usage.Amounts]:
    found = store.usage(UsageAsked(since=0, until=1 << 30, by=usage.KEYS, only={"cluster": cluster}))
    return {usage.Key._make(one.key): one.amounts for one in found}


def kept_lives(store: Store, cluster: str) -> list[Life]:
    return [one for some in store.each_life(cluster) for one in some]


def found_in(store: Store, cluster: str) -> dict[tuple[int, int], tuple[str, ...]]:
    return store.findings(cluster, [one.key for one in kept_lives(store, cluster)])


# --- a month ----------------------------------------------------------------------------------------------------------

_OUTCOMES = sorted(ENDED_STATES)


def month(count: int, seed: int, cluster: str) -> Iterator[Life]:
    """Lives as they may be: most are over, some wait, some run, some belong to arrays or have GPUs."""
    draw = random.Random(f"{seed} {cluster}")
    people = [(f"user{at}", f"account{at % 7}") for at in range(25)]
    for id_ in range(1, count + 1):
        user, account = draw.choice(people)
        submit = T0 + draw.randrange(30 * DAY)
        start = submit + draw.randrange(6 * 3600)
        end = start + int(draw.expovariate(1 / 7200)) + 1
        made = life(
            id_,
            cluster,
            submit,
            user=user,
            account=account,
            partition=draw.choice(("cpu", "gpu", "cpu,long")),
            qos=draw.choice(("normal", "high")),
            name=draw.choice(HOSTILE),
            array_id=id_ // 10 * 10 if draw.random() < 0.2 else None,
            cpus=draw.choice((1, 4, 64)),
            gpus=draw.choice(({}, {"a100": 2}, {"": 1}, {"a100": 1, "h.100": 3})),
            changed_time=submit,
        )
        chance = draw.random()
        if chance < 0.02:
            yield made
        elif chance < 0.05:
            yield replace(made, state="RUNNING", start_time=start, node_list="n1", counted_time=start + 1800)
        else:
            yield _over(draw, made, start, end)


def _over(draw: random.Random, made: Life, start: int, end: int) -> Life:
    state = draw.choice(_OUTCOMES)
    return replace(
        made,
        state=state,
        start_time=start,
        end_time=end,
        counted_time=end,
        node_list="n[1-2]",
        accounted=True,
        cpu_seconds=draw.random() * 1e6,
        memory_used=draw.randrange(1 << 34),
        energy=draw.randrange(1 << 40),
        transitions=(Transition(start, "RUNNING"), Transition(end, state, "why")),
        steps=(Step("batch", "b", state, "0:0", start, end, 1, 1, 4, 1.0, 2**53 + 1, 1, None, 5, None),),
    )


# --- all that may be asked --------------------------------------------------------------------------------------------


def questions(clusters: tuple[str, ...] = ("alpha", "beta")) -> Iterator[tuple[str, Any]]:
    """(what is asked, how)"""
    many = [
        Lives(),
        Lives(limit=None),
        Lives(limit=7, offset=5),
        Lives(limit=0),
        Lives(user="user3"),
        Lives(account="account2", limit=20, offset=20),
        Lives(cluster="alpha", open=True, limit=None),
        Lives(open=False, partition="gpu", limit=30),
        Lives(id=10),
        Lives(cluster="beta", id=20),
        Lives(states=("FAILED", "TIMEOUT"), since=T0 + DAY, until=T0 + 9 * DAY, limit=None),
        Lives(cluster="nowhere"),
        Lives(node="n2", gpu_type="h.100", qos="high", limit=None),
        Lives(named="NEXT", sight=Sight("user3", frozenset({("alpha", "account2")})), active_since=T0 + 9 * DAY),
        Lives(order="ended", ascending=True, partition="cpu", limit=20),
        Lives(order="memory", states=("TIMEOUT",), offset=3),
    ]
    yield "folded", lambda store: store.folded(Lives(states=("FAILED", "TIMEOUT"), limit=20))
    yield "users", lambda store: store.names("user", limit=100)
    for asked in many:
        yield f"lives {asked}", lambda store, asked=asked: store.lives(asked)
        yield f"count {asked}", lambda store, asked=asked: store.count(asked)
    by = [(), ("day",), ("account", "user"), ("user", "account"), ("cluster", "partition"), usage.KEYS]
    for names in by:
        sums = UsageAsked(since=D0, until=D0 + 20, by=names)
        yield f"usage by {', '.join(names)}", lambda store, sums=sums: store.usage(sums)
    narrow = UsageAsked(since=0, until=1 << 30, by=("gpu_type",), only={"account": "account2", "cluster": "alpha"})
    yield "usage of one account", lambda store: store.usage(narrow)
    for cluster in clusters:
        yield from _of_cluster(cluster)
    yield "clusters", lambda store: store.clusters()
    yield (
        "stats",
        lambda store: (lambda found: (found.counts, found.clusters, found.oldest, found.newest))(store.stats()),
    )


def _of_cluster(cluster: str) -> Iterator[tuple[str, Any]]:
    yield f"each life of {cluster}", lambda store: kept_lives(store, cluster)
    yield f"what was measured of {cluster}", lambda store: kept_measured(store, cluster)
    yield f"nodes of {cluster}", lambda store: store.nodes(cluster)
    yield f"changes of {cluster}", lambda store: store.node_changes(cluster, 0, sys.maxsize)
    yield f"changes of n1 of {cluster}", lambda store: store.node_changes(cluster, T0, T0 + DAY, "n1")
    for step in (FINE, MIDDLE, COARSE):
        yield (
            f"points of {cluster} every {step} s",
            lambda store, step=step: store.points(cluster, None, step, 0, sys.maxsize),
        )
    yield f"points of gpu of {cluster}", lambda store: store.points(cluster, "gpu", FINE, T0, T0 + DAY)
    yield f"spans of {cluster}", lambda store: store.spans(cluster)
    yield f"what was found in {cluster}", lambda store: found_in(store, cluster)
    yield f"how far {cluster} was judged", lambda store: store.judged(cluster)


def fill_rest(store: Store, cluster: str) -> None:
    """Nodes, changes, points and spans, and what some jobs used, of which a few are not there."""
    with store.writing(cluster) as writer:
        writer.put_measured([measured(at, T0 + at, nodes=1 + at % 3, gpus=at % 2) for at in range(10)])
        writer.put_measured([replace(measured(10), course=None)])
        writer.put_nodes([kept(f"n{at}", cluster) for at in range(12)])
        writer.add_node_changes([change(f"n{at % 3}", T0 + at * 600, cluster) for at in range(10)])
        writer.put_points([point(T0 + at * 10, name, FINE, cluster) for at in range(5) for name in ("", "gpu", "cpu")])
        writer.put_points([point(T0 + at * 3600, "", COARSE, cluster, jobs=float(at)) for at in range(5)])
        writer.put_spans([Span(T0, T0 + 5), Span(T0 + 10, T0 + 20)])
        writer.put_findings({one.key: ("swap",)[: one.id % 2] for one in next(store.each_life(cluster), [])[:20]})
        writer.put_judged(T0 + 5)
