# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Lives in which much can be looked for, and what must be found among them, by going over all of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from store.made import DAY, T0, ended, life

from slurmscope.life import Life
from slurmscope.store.protocol import Fold, Lives, Sight, Store, fold_of

CLUSTERS = ("alpha", "b.c")
Findings = Mapping[tuple[str, int, int], tuple[str, ...]]
_NAMES = ("Train", "train-7", "STRASSE", "straße", "100%_[a-z]*", "", "é.É", "x\0y")
_STATES = ("COMPLETED", "COMPLETED", "FAILED", "TIMEOUT")
RULES = ("low_cpu", "timeout", "$or")


def queue(count: int = 60, seed: int = 1) -> list[Life]:
    """Of two clusters: jobs and arrays, many of one second; most are over, some run, some wait."""
    draw = random.Random(seed)
    found: dict[tuple[str, int, int], Life] = {}
    for at in range(count):
        cluster = draw.choice(CLUSTERS)
        submit = T0 + draw.randrange(8) * 600
        common: dict[str, Any] = {
            "user": draw.choice(("ana", "bea", "cyd")),
            "account": draw.choice(("physics", "bio", "a.b")),
            "partition": draw.choice(("cpu", "gpu", "cpu,gpu")),
            "qos": draw.choice(("normal", "high")),
            "name": draw.choice(_NAMES),
            "cpus": draw.choice((1, 4, 64)),
            "memory": draw.choice((None, 1 << 30, 1 << 40)),
            "gpus": draw.choice(({}, {"a100": 2}, {"": 1}, {"a100": 1, "h.100": 3})),
        }
        array = 1000 + at * 50 if draw.random() < 0.3 else None
        for task in range(1 if array is None else draw.randrange(1, 30)):
            id_ = (array or 2000 + at * 50) + task
            tasks = {} if array is None else {"array_id": array, "array_tasks": str(task)}
            one = _lived(draw, life(id_, cluster, submit, **common, **tasks))
            found[one.cluster, *one.key] = one
    return list(found.values())


def _lived(draw: random.Random, one: Life) -> Life:
    chance = draw.random()
    start = (one.submit_time or 0) + draw.randrange(3600)
    if chance < 0.15:
        return replace(one, tasks=draw.choice((1, 7)), eligible_time=draw.choice((None, T0 + DAY, T0)))
    nodes = draw.choice(("n1", "n[1-3]", "n[1-3],m.1", "broken["))
    if chance < 0.3:
        return replace(one, state="RUNNING", start_time=start, end_time=start + 7200, node_list=nodes)
    if chance < 0.4:  # cancelled while it waited
        return replace(one, state="CANCELLED", end_time=start, start_time=None)
    over = ended(start_time=start, end_time=start + draw.randrange(1, 9000), state=draw.choice(_STATES))
    fields = {name: getattr(over, name) for name in ("state", "start_time", "end_time", "counted_time")}
    return replace(one, node_list=nodes, **fields)


def judged(lives: Sequence[Life], seed: int = 1) -> Findings:
    """Of most that are over."""
    draw = random.Random(seed)
    over = [one for one in lives if one.ended and draw.random() < 0.8]
    return {(one.cluster, *one.key): tuple(draw.sample(RULES, draw.randrange(3))) for one in over}


def put(store: Store, lives: Sequence[Life], findings: Findings) -> None:
    for cluster in sorted({one.cluster for one in lives}):
        with store.writing(cluster) as writer:
            writer.put_lives([one for one in lives if one.cluster == cluster])
            writer.put_findings({(id_, at): rules for (where, id_, at), rules in findings.items() if where == cluster})


# --- what must be found -----------------------------------------------------------------------------------------------


def fits(one: Life, asked: Lives, findings: Findings) -> bool:
    end = one.end_time if one.ended else None
    submit = one.submit_time or 0
    nodes = {"n1": ["n1"], "n[1-3]": ["n1", "n2", "n3"], "n[1-3],m.1": ["n1", "n2", "n3", "m.1"]}
    return all(
        (
            asked.cluster in (None, one.cluster),
            asked.id in (None, one.id, one.array_id),
            asked.user in (None, one.user),
            asked.account in (None, one.account),
            asked.partition in (None, one.partition),
            asked.qos in (None, one.qos),
            asked.name in (None, one.name),
            asked.named is None or asked.named.casefold() in one.name.casefold(),
            not asked.states or one.state in asked.states,
            asked.node is None or asked.node in nodes.get(one.node_list, []),
            asked.gpu_type is None or asked.gpu_type in one.gpus,
            asked.finding is None or asked.finding in findings.get((one.cluster, *one.key), ()),
            asked.open in (None, not one.ended),
            asked.since is None or submit >= asked.since,
            asked.until is None or submit < asked.until,
            asked.ended_since is None or (end is not None and end >= asked.ended_since),
            asked.ended_before is None or (end is not None and end < asked.ended_before),
            asked.active_since is None or end is None or end >= asked.active_since,
            asked.sight is None or _seen(one, asked.sight),
        )
    )


def _seen(one: Life, sight: Sight) -> bool:
    return one.user == sight.user or (one.cluster, one.account) in sight.accounts


def _newest(one: Life) -> tuple[int, int, int, str]:
    return -(one.submit_time or 0), -fold_of(one), -one.id, one.cluster


def matching(lives: Sequence[Life], asked: Lives, findings: Findings) -> list[Life]:
    """All of them, the newest first."""
    return sorted((one for one in lives if fits(one, asked, findings)), key=_newest)


def expected(lives: Sequence[Life], asked: Lives, findings: Findings, now: int) -> list[Life]:
    found = matching(lives, asked, findings)
    if asked.order == "submitted":
        if asked.ascending:
            found.reverse()
        if asked.after is not None:
            found = [one for one in found if _behind(one, asked.after, ascending=asked.ascending)]
    else:
        known = [(value, one) for one in found if (value := _value(one, asked.order, now)) is not None]
        known.sort(key=lambda pair: pair[0] if asked.ascending else -pair[0])
        found = [one for _, one in known] + [one for one in found if _value(one, asked.order, now) is None]
    return found[asked.offset :][: asked.limit]


def _behind(one: Life, after: tuple[int, int], *, ascending: bool) -> bool:
    key = one.submit_time or 0, fold_of(one)
    return key > after if ascending else key < after


def _value(one: Life, order: str, now: int) -> int | None:
    start, end = one.start_time if one.started else None, one.end_time if one.ended else None
    if order == "ran":
        return None if start is None else (end or now) - start
    if order == "waited":
        until = start if start is not None else (now if end is None else None)
        return None if until is None else max(0, until - max(one.eligible_time or 0, one.submit_time or 0))
    values: dict[str, int | None] = {"ended": end, "started": start, "cpus": one.cpus, "memory": one.memory}
    return values[order] if order in values else sum(one.gpus.values())


def folds(lives: Sequence[Life], asked: Lives, findings: Findings) -> Iterator[Fold]:
    """All pages of them."""
    found: dict[tuple[str, int, int], list[Life]] = {}
    for one in matching(lives, asked, findings):
        found.setdefault((one.cluster, one.submit_time or 0, fold_of(one)), []).append(one)
    for some in found.values():
        states: Counter[str] = Counter()
        for one in some:
            states[one.state] += one.tasks
        yield Fold(some[0], states.total(), dict(sorted(states.items())))
