# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A past for the demo: three months of jobs, nodes and totals, written to a store as if they had been watched.

It depends on the seed and on when it ends, which is when the simulation's own story begins; by then nothing runs or
waits any more.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import islice

from slurmscope import model
from slurmscope.demo import figures, jobs, measured
from slurmscope.demo.cluster import DAY, HOUR, Fault, Node, folded
from slurmscope.demo.figures import PREEMPTED
from slurmscope.demo.quick import Quick, Run
from slurmscope.demo.records import FAULT_FLAGS, node_record
from slurmscope.demo.simulation import FIRST_ID
from slurmscope.life import Accounted
from slurmscope.slurm.values import exit_code
from slurmscope.store import recorder
from slurmscope.store.protocol import COARSE, MIDDLE, KeptNode, NodeChange, Span, Store

DAYS = 90
_MIDDLE_DAYS = 60  # for so long the finer totals are kept
MEASURED = 3 * HOUR  # before the end: of these jobs it is kept what they used over time,
_GPUS_MEASURED = 32 * DAY  # … and of those with GPUs a summary since then
_MIB = 2**20
_BATCH = 5000
_QOS = {"normal": 4000, "high": 7000, "debug": 6000}
# Why programs fail, each of them mostly for one reason.
_CODES = ("1:0", "1:0", "1:0", "2:0", "127:0", "134:0", "0:11", "255:0")
_EXITS = {state: (exit_code(str(status)), reason) for state, (status, reason) in jobs.ENDS.items()} | {
    jobs.COMPLETED: ("0:0", None),
    PREEMPTED: ("0:15", None),
}


def needed(store: Store, cluster: str, end: int, days: int = DAYS) -> bool:
    """Whether the store has not the past until `end`. One of another time belongs to another story, whose jobs would
    count twice: a past is written to an empty store only."""
    begin = end // HOUR * HOUR - days * DAY
    return not any(span.start == begin and span.end >= end for span in store.spans(cluster))


def make(
    store: Store,
    cluster: str,
    seed: int,
    end: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
    days: int = DAYS,
) -> None:
    """Writes the past until `end`. That it is complete is told last, by the span of time that was read."""
    collecting = gc.isenabled()
    gc.disable()  # a million objects are made, and all of them stay: looking through them takes a fifth of the time
    try:
        _make(store, cluster, seed, end // HOUR * HOUR, progress, days)
    finally:
        if collecting:
            gc.enable()


def _make(store: Store, cluster: str, seed: int, end: int, progress: Callable[[int, int], None], days: int) -> None:
    begin = end - days * DAY
    quick = Quick(seed, begin, end)
    steps = ((MIDDLE, max(begin, end - _MIDDLE_DAYS * DAY)), (COARSE, begin))
    points = quick.sums.points(cluster, steps)
    of = len(quick.runs) + quick.sums.size(steps)
    done = 0
    told = lives(quick)
    while some := list(islice(told, _BATCH)):
        _measure(store, cluster, some, end)  # before, so that what GPUs did is counted at once
        recorder.tell(store, cluster, some, end)
        done += len(some)
        progress(done, of)
    while batch := list(islice(points, 4 * _BATCH)):
        with store.writing(cluster) as writer:
            writer.put_points(batch)
        done += len(batch)
        progress(done, of)
    with store.writing(cluster) as writer:
        changes = list(_changes(quick, cluster))
        since = {change.node: change.time for change in changes}
        writer.add_node_changes(changes)
        writer.put_nodes(
            [KeptNode(cluster, node_record(node, end), end, since[node.name]) for node in quick.ground.nodes]
        )
        writer.put_spans([Span(begin, end)])


def _measure(store: Store, cluster: str, told: list[Accounted], end: int) -> None:
    found = []
    for one in told:
        age = end - (one.job.end_time or 0)
        if age < MEASURED:
            found.append(measured.of(one))
        elif one.job.gpus and age < _GPUS_MEASURED:
            found.append(measured.in_brief(one))
    with store.writing(cluster) as writer:
        writer.put_measured([one for one in found if one is not None])


# --- jobs -------------------------------------------------------------------------------------------------------------


def lives(quick: Quick) -> Iterator[Accounted]:
    """In the order of their ids, which is that of their submission."""
    first = FIRST_ID - quick.numbers
    for run in sorted(quick.runs, key=lambda run: (run.job.number + _place(run), run.submit)):
        yield _life(run, first + run.job.number, quick)


def _place(run: Run) -> int:
    """Where a task's id is among those of its array: the last has that of the array itself, as in Slurm."""
    return run.first if run.last < run.job.tasks else 0


def _life(run: Run, number: int, quick: Quick) -> Accounted:
    submission = run.job
    ask, stream, nodes = submission.ask, submission.stream, run.nodes
    user = stream.user
    array, state = submission.tasks > 1, run.state
    code, reason = _EXITS[state]
    if state == jobs.FAILED:
        code = _CODES[(submission.number if not submission.doomed else len(stream.work.names[0])) % len(_CODES)]
    record = model.Job(
        id=number + _place(run),
        array_id=number if array else None,
        array_tasks=_tasks(run) if array else None,
        tasks=run.last - run.first + 1,
        name=submission.name,
        user=user.name,
        account=user.account,
        partition=run.partition,
        qos=stream.work.qos,
        state=state,
        reason=reason,
        priority=_QOS[stream.work.qos] + number * 7919 % 3001,
        submit_time=run.submit,
        eligible_time=run.eligible,
        start_time=run.start,
        end_time=run.end,
        time_limit=ask.limit,
        cpus=ask.cpus * ask.nodes,
        memory=ask.memory * ask.nodes * _MIB,
        gpus={nodes[0].kind.gpu if nodes else ask.gpu: ask.gpus * ask.nodes} if ask.gpus else {},
        nodes=ask.nodes,
        node_list=nodes[0].name if len(nodes) == 1 else folded(nodes),
        reservation=ask.reservation,
        dependency=None,
        features=ask.feature,
        licenses=None if ask.licence is None else f"{ask.licence[0]}:{ask.licence[1]}",
        login_node=user.login,
        restarts=run.restarts,
        exit_code=code if nodes else "0:0",
    )
    tasks = f"1-{submission.tasks}" if array else ""
    return figures.accounted(record, submission.use, quick.habits[stream].steps, run.by, tasks)


def _tasks(run: Run) -> str:
    return str(run.first) if run.first == run.last else f"{run.first}-{run.last}"


# --- nodes ------------------------------------------------------------------------------------------------------------


def _changes(quick: Quick, cluster: str) -> Iterator[NodeChange]:
    for time, node, state, fault, maintained in quick.turns:
        reason = (None, None, None) if fault is None else (fault.reason, fault.user, fault.since)
        yield NodeChange(cluster, node.name, time, state, _flags(node, fault, maintained), *reason)


def _flags(node: Node, fault: Fault | None, maintained: bool) -> tuple[str, ...]:
    found = set() if fault is None else set(FAULT_FLAGS[fault.state])
    if fault is not None and fault.reason == "Not responding":
        found.add("NOT_RESPONDING")
    if maintained:
        found.add("MAINT")
    if node.reservation is not None:
        found.add("RESERVED")
    return tuple(sorted(found))
