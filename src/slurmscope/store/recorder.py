# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From polls and the accounting to the store.

A poll is compared with the one before, at once and in memory; what changed waits here until the store takes it. So a
store that is slow, or away, costs no transition of a job, and a poll costs by what changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from slurmscope import life as lives
from slurmscope import totals, usage
from slurmscope.life import Accounted, Life
from slurmscope.model import Job, Node, Snapshot
from slurmscope.store.protocol import (
    COARSE,
    FINE,
    MIDDLE,
    JobKey,
    KeptNode,
    Measured,
    NodeChange,
    Point,
    Store,
    UsageAsked,
    Writer,
)
from slurmscope.summary import Summary

_MOST_WAITING = 500_000  # observations that are kept for a store that is away
_MOST_POINTS, _POINTS_AT_ONCE = 50_000, 5000  # a point takes two kilobytes of memory
_AT_ONCE = 2000  # lives in a transaction: others can write between two, and they take memory
_NODES_EVERY = 300  # seconds after which a node's numbers are written again
_UP_STATES = frozenset({"IDLE", "MIXED", "ALLOCATED"})
# Flags that come and go with jobs, or are there from the start.
_PASSING_FLAGS = frozenset({"COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_FUTURE", "DYNAMIC_NORM"})
_FINER = {MIDDLE: FINE, COARSE: MIDDLE}
_EVER = 1 << 31  # a day that never comes
_LOOK_BACK = 86400  # how far back totals are thinned after a stop


Condition = tuple[str, frozenset[str], str | None, str | None]
_WELL: Condition = ("UP", frozenset(), None, None)


class Changes(msgspec.Struct):
    """What was written anew, for the sinks."""

    lives: list[Life] = []
    nodes: list[KeptNode] = []
    node_changes: list[NodeChange] = []


class _Sight(msgspec.Struct, frozen=True, gc=False):
    """A job that a poll saw; or did not see any more, when there is none."""

    key: JobKey
    at: int
    job: Job | None


HandOn = Callable[[Changes], None]
"""Is given what changes before it is kept: what was handed on and not kept is handed on again, so none is missed."""


def nobody(changes: Changes) -> None:
    """Nobody else wants to know."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    """What is to be known of a node that the store has."""

    condition: Condition
    time: int
    since: int


def tell(store: Store, cluster: str, told: Sequence[Accounted], at: int, hand_on: HandOn = nobody) -> int:
    """Writes down what the accounting told; returns how many lives that changed."""
    changed = 0
    for start in range(0, len(told), _AT_ONCE):
        some = told[start : start + _AT_ONCE]
        with store.writing(cluster) as writer:
            before = writer.lives({one.job.key for one in some})
            after = dict(before)
            forgotten = store.forgotten()
            for one in some:
                key, end = one.job.key, one.job.end_time
                # what was forgotten is in the sums of its days already, and would be counted again
                if key in after or end is None or end >= forgotten:
                    after[key] = lives.told(after.get(key), cluster, one, at)
            changed += _put(writer, before, _known(store, before, after), hand_on)
    return changed


def put_measured(writer: Writer, measured: Sequence[Measured], at: int) -> None:
    """Writes what jobs used. Of those that have ended, usage counts from now on what their GPUs did."""
    writer.put_measured(measured)
    shares = _gpu_shares({one.key: one.summary for one in measured})
    before = writer.lives(shares.keys())
    _put(writer, before, {key: lives.measured(life, shares[key], at) for key, life in before.items()}, nobody)


def _gpu_shares(found: Mapping[JobKey, Summary]) -> dict[JobKey, float]:
    return {key: one.gpu.mean for key, one in found.items() if one.gpu is not None}


def _known(store: Store, before: Mapping[JobKey, Life], after: Mapping[JobKey, Life]) -> Mapping[JobKey, Life]:
    """Those that end now, with what was measured of them while they ran."""
    ending = {
        key: life
        for key, life in after.items()
        if life.gpus and life.ended and (key not in before or not before[key].ended)
    }
    if not ending:
        return after
    shares = _gpu_shares(store.summaries(next(iter(ending.values())).cluster, ending.keys()))
    known = {key: lives.measured(ending[key], share, ending[key].changed_time) for key, share in shares.items()}
    return {**after, **known}


def give_up(store: Store, cluster: str, before: int, at: int, hand_on: HandOn = nobody) -> None:
    """Closes lives that have been in no queue since `before`, and of which the accounting never told."""
    with store.writing(cluster) as writer:
        lost = {
            life.key: life for life in writer.open_lives() if life.gone_time is not None and life.gone_time < before
        }
        after = {key: lives.given_up(life, at) for key, life in lost.items()}
        _put(writer, lost, _known(store, lost, after), hand_on)


def rebuilt(store: Store, cluster: str) -> usage.Sums:
    """The sums of usage as they follow from the lives."""
    sums: usage.Sums = {}
    for some in store.each_life(cluster):
        for life in some:
            usage.add(sums, life, 1)
    return sums


def rebuild(store: Store, cluster: str) -> int:
    """Makes the sums anew of all days of which all lives are still there; says how many."""
    _remember(store, cluster)
    since = store.forgotten() // usage.DAY + 1
    with store.writing(cluster) as writer:
        # within, so that nobody adds to them meanwhile
        sums = {key: amounts for key, amounts in usage.deltas(rebuilt(store, cluster)).items() if key.day >= since}
        writer.clear_usage(since)
        writer.add_usage(sums)
    return len(sums)


def _remember(store: Store, cluster: str) -> None:
    """Lets lives know how much their GPUs were in use that ended before that was counted."""
    for some in store.each_life(cluster):
        keys = [life.key for life in some if life.gpus and life.ended and life.gpu_share is None]
        shares = _gpu_shares(store.summaries(cluster, keys)) if keys else {}
        if shares:
            with store.writing(cluster) as writer:
                before = writer.lives(shares.keys())
                after = {key: lives.measured(life, shares[key], life.changed_time) for key, life in before.items()}
                _put(writer, before, after, nobody)


def wrong_usage(store: Store, cluster: str) -> list[str]:
    """Sums that are not what follows from the lives; the first few of them."""
    found = _wrong_usage(store, cluster)
    if found:
        with store.writing(cluster):  # somebody may have written meanwhile
            found = _wrong_usage(store, cluster)
    return found


def _wrong_usage(store: Store, cluster: str) -> list[str]:
    since = store.forgotten() // usage.DAY + 1
    asked = UsageAsked(since=since, until=_EVER, by=usage.KEYS, only={"cluster": cluster})
    kept = {usage.Key(*one.key): one.amounts for one in store.usage(asked)}  # type: ignore[arg-type]
    sums = {key: amounts for key, amounts in usage.deltas(rebuilt(store, cluster)).items() if key.day >= since}
    wrong = sorted(key for key in kept.keys() | sums.keys() if kept.get(key) != sums.get(key))
    found = [_told(key, kept.get(key, usage.ZERO), sums.get(key, usage.ZERO)) for key in wrong[:5]]
    if wrong:
        found.append(f"{len(wrong)} sums of usage are wrong: `slurmscope store rebuild` makes them anew")
    return found


def _told(key: usage.Key, kept: usage.Amounts, right: usage.Amounts) -> str:
    day = datetime.fromtimestamp(key.day * usage.DAY, UTC).date()
    differ = (
        f"{name} is {one}, and should be {other}"
        for name, one, other in zip(usage.AMOUNTS, kept, right, strict=True)
        if one != other
    )
    return f"usage of {day}, {' '.join(filter(None, key[2:]))}: {'; '.join(differ)}"


def _put(writer: Writer, before: Mapping[JobKey, Life], after: Mapping[JobKey, Life], hand_on: HandOn) -> int:
    """Writes what differs, and what that changes in the sums of usage; returns how many."""
    changed = []
    sums: usage.Sums = {}
    for key, life in after.items():
        old = before.get(key)
        if life is not old:
            if old is not None:
                usage.add(sums, old, -1)
            usage.add(sums, life, 1)
            changed.append(life)
    writer.put_lives(changed)
    writer.add_usage(usage.deltas(sums))
    if changed:
        hand_on(Changes(changed, [], []))
    return len(changed)


class Recorder:
    """Of one cluster. `notice()` is told of polls; `write()` is called in the store's thread."""

    def __init__(self) -> None:
        self._cluster = ""
        self._jobs: dict[JobKey, Job] = {}  # as they were last noticed, those of the last poll
        self._guessed: set[JobKey] = set()  # those of them of which it was told when they might start
        self._sights: deque[_Sight] = deque()
        self._nodes: dict[str, Node] | None = None  # of the last poll that is not written yet
        self._nodes_at = 0
        self._kept: dict[str, _Kept] | None = None  # as the store has them; None: not asked yet
        self._points: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._thinned: dict[int, int] = {}  # by step: until when
        self._counted = 0  # when running jobs were last noticed for usage
        self._missed = False  # whether those were looked for that ended while nobody polled
        self.dropped = 0

    @property
    def waiting(self) -> int:
        """What the store has yet to take."""
        return len(self._sights) + len(self._points)

    # --- what a poll tells --------------------------------------------------------------------------------------------

    def notice(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        if not snapshot.cluster:
            return
        self._cluster = snapshot.cluster
        if "jobs" in fresh and snapshot.jobs.value is not None:
            self._notice_jobs(snapshot.jobs.value, int(snapshot.jobs.time or 0))
        if "nodes" in fresh and snapshot.nodes.value is not None:
            self._nodes = {node.name: node for node in snapshot.nodes.value}
            self._nodes_at = int(snapshot.nodes.time or 0)
            if snapshot.jobs.good:
                points = [
                    Point(self._cluster, name, FINE, self._nodes_at, 1, values)
                    for name, values in totals.totals(snapshot).items()
                ]
                self.dropped += max(0, len(self._points) + len(points) - _MOST_POINTS)
                self._points.extend(points)

    def _notice_jobs(self, jobs: Iterable[Job], at: int) -> None:
        count = at - self._counted >= lives.COUNT_EVERY
        if count:
            self._counted = at
            self._missed = False  # the accounting may have told of some that are in no queue
        now: dict[JobKey, Job] = {}
        for job in jobs:
            key = job.key
            before = self._jobs.get(key)
            guessed = job.start_time is not None and job.start_time > at and job.waiting and key not in self._guessed
            if guessed:
                self._guessed.add(key)
            if before is job and not guessed and not (count and job.holding):
                now[key] = job
            elif before is None or guessed or (count and job.holding) or _substance(before) != _substance(job):
                now[key] = job
                self._sights.append(_Sight(key, at, job))
            else:
                now[key] = before  # only its priority or another guess: those change for everybody, all the time
        self._sights.extend(_Sight(key, at, None) for key in self._jobs if key not in now)
        self._jobs = now
        self._guessed &= now.keys()
        while len(self._sights) > _MOST_WAITING:
            self._sights.popleft()
            self.dropped += 1
            self._missed = False  # it may have been one that left

    # --- what the store gets ------------------------------------------------------------------------------------------

    def write(self, store: Store, hand_on: HandOn = nobody) -> int:
        """Writes all that was noticed; returns how many lives that changed.

        What could not be written is kept for the next time.
        """
        changed = 0
        if not self._cluster:
            return changed
        if not self._missed and self._jobs:
            self._look_for_missed(store)
        while self._sights:
            some = [self._sights.popleft() for _ in range(min(_AT_ONCE, len(self._sights)))]
            try:
                with store.writing(self._cluster) as writer:
                    changed += self._put_sights(store, writer, some, hand_on)
            except BaseException:
                self._sights.extendleft(reversed(some))
                raise
        if self._nodes is not None:
            self._write_nodes(store, hand_on)
        while self._points:
            self._write_points(store)
        return changed

    def _look_for_missed(self, store: Store) -> None:
        """What was in the queue when we last stopped, and is not now."""
        with store.writing(self._cluster) as writer:
            lost = [life for life in writer.open_lives() if life.gone_time is None and life.key not in self._jobs]
        # they went some time after they were last seen, and that is where they are looked for
        self._sights.extend(_Sight(life.key, _last_seen(life), None) for life in lost)
        self._missed = True

    def _put_sights(self, store: Store, writer: Writer, sights: Sequence[_Sight], hand_on: HandOn) -> int:
        before = writer.lives({sight.key for sight in sights})
        after = dict(before)
        missing = any(sight.job is None for sight in sights)
        again = dict(sorted(self._jobs)) if missing else {}
        for sight in sights:
            life = after.get(sight.key)
            if sight.job is not None:
                after[sight.key] = lives.seen(life, self._cluster, sight.job, sight.at)
            elif life is not None:
                # it has ended; or it is in the queue again, as another life
                id_, submit = sight.key
                later = again.get(id_, submit)
                after[sight.key] = lives.succeeded(life, later) if later > submit else lives.unseen(life, sight.at)
        return _put(writer, before, _known(store, before, after), hand_on)

    def _write_nodes(self, store: Store, hand_on: HandOn) -> None:
        assert self._nodes is not None
        at, cluster = self._nodes_at, self._cluster
        if self._kept is None:
            self._kept = {
                one.node.name: _Kept(_condition(one.node), one.time, one.since) for one in store.nodes(cluster)
            }
        kept, new, turns = self._kept, [], []
        after: dict[str, _Kept] = {}
        for name, node in self._nodes.items():
            condition, before = _condition(node), kept.get(name)
            turned = before is None or before.condition != condition
            if turned:
                turns.append(_turn(cluster, node, at))
            if before is None or turned or at - before.time >= _NODES_EVERY:
                after[name] = _Kept(condition, at, at if before is None or turned else before.since)
                new.append(KeptNode(cluster, node, at, after[name].since))
        lost = kept.keys() - self._nodes.keys()
        turns += [NodeChange(cluster, name, at, "", (), None, None, None) for name in sorted(lost)]
        if new or lost:
            with store.writing(cluster) as writer:
                writer.put_nodes(new)
                writer.drop_nodes(lost)
                writer.add_node_changes(turns)
                hand_on(Changes([], new, turns))
        kept.update(after)
        for name in lost:
            del kept[name]
        self._nodes = None

    def _write_points(self, store: Store) -> None:
        some = list(self._points)[:_POINTS_AT_ONCE]
        latest = some[-1].time
        middle = list(self._means(store, MIDDLE, some, latest))
        coarse = list(self._means(store, COARSE, middle, latest))
        with store.writing(self._cluster) as writer:
            writer.put_points([*some, *middle, *coarse])
        for step in (MIDDLE, COARSE):
            self._thinned[step] = latest // step * step
        for _ in some:
            self._points.popleft()

    def _means(self, store: Store, step: int, new: Sequence[Point], latest: int) -> Iterator[Point]:
        """The means of the steps that are over now, of finer ones that the store has and of new ones."""
        end = latest // step * step
        since = self._thinned.get(step, (latest - _LOOK_BACK) // step * step)
        if since >= end:
            return
        finer = {(one.time, one.partition): one for one in store.points(self._cluster, None, _FINER[step], since, end)}
        finer |= {(one.time, one.partition): one for one in new if since <= one.time < end}
        groups: dict[tuple[int, str], list[tuple[int, Mapping[str, float]]]] = {}
        for one in finer.values():
            groups.setdefault((one.time // step * step, one.partition), []).append((one.samples, one.values))
        for (time, partition), rows in groups.items():
            yield Point(self._cluster, partition, step, time, *totals.mean(rows))


def _last_seen(life: Life) -> int:
    return max(life.counted_time or 0, life.changed_time, life.transitions[-1].time if life.transitions else 0)


def _substance(job: Job) -> Job:
    """A job without what changes by itself while it waits: its priority, and when it might start."""
    return replace(job, priority=None, start_time=None, end_time=None) if job.waiting else job


def _condition(node: Node) -> Condition:
    state = "UP" if node.state in _UP_STATES else node.state
    # most have no flag that counts, and share what says so
    flags = node.flags - _PASSING_FLAGS if node.flags else node.flags
    return _WELL if state == "UP" and not flags and not node.reason else (state, flags, node.reason, node.reason_user)


def _turn(cluster: str, node: Node, at: int) -> NodeChange:
    return NodeChange(
        cluster, node.name, at, node.state, tuple(sorted(node.flags)), node.reason, node.reason_user, node.reason_time
    )
