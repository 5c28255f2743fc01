# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The simulated cluster's life: a queue of events, from which everything follows.

What is at a moment depends on the seed and on when the story began, and not on how often somebody looked.
"""

from __future__ import annotations

import copy
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slurmscope.demo import habits, jobs, people, trouble
from slurmscope.demo.cluster import DAY, HOUR, Fault, Node, next_change
from slurmscope.demo.fairshare import FairShare
from slurmscope.demo.jobs import Ask, Job
from slurmscope.demo.ledger import SLURMD, Ledger, next_midnight
from slurmscope.demo.limits import Limits
from slurmscope.demo.machine import Machine
from slurmscope.demo.people import Stream
from slurmscope.demo.queue import Queue
from slurmscope.demo.trouble import Trouble
from slurmscope.demo.work import MEAN_RHYTHM, Work, rhythm

MIN_JOB_AGE = 300
_TICK = 300  # priorities are computed this often (PriorityCalcPeriod)
_SOON, _APART = 2, 30  # a cycle comes this soon after what calls for it, but not sooner after the last one
_BACKFILL = 150
_PATIENCE = 4  # nobody submits more of one kind of work while so much of it waits
_BACKLOG = 44 * HOUR  # the work of so many hours waits, or runs, when the story begins
FIRST_ID = 4_817_000
_MOST_ENDED = 40_000  # about a week's
_REQUEUE_DELAY = 120


class Simulation:
    def __init__(self, seed: int, begin: int) -> None:
        self.now = self.begin = begin
        cast = people.cast(seed)
        self._rng = cast.rng
        self.users = cast.users
        self.habits = habits.of(seed, cast.streams)
        self.machine = Machine(begin)
        self.limits = Limits()
        self.shares = FairShare(self.users, begin)
        self.queue = Queue(self.machine, self.limits, self.shares)
        self.ledger = Ledger(begin, cast.looks, cast.hammer)
        self.holding: dict[int, Job] = {}  # what has an allocation: running and completing jobs
        self.finished: list[Job] = []  # those that slurmctld has not yet forgotten
        self.ended: deque[Job] = deque(maxlen=_MOST_ENDED)  # those that slurmdbd has, the last ones
        self._ids = FIRST_ID
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._cycle_due = False
        self._last_cycle = begin
        self._open(cast.streams)

    def _open(self, streams: list[Stream]) -> None:
        self.shares.seed(streams)
        self.shares.tick(self.now)
        for when, place in self._backlog(streams):
            self._submit(streams[place], when)
        for stream in streams:
            self._next_submission(stream)
        for kind in trouble.TROUBLES:
            self._at(self.now + trouble.gap(kind, self._rng), self._trouble, kind)
        for kind in trouble.EARLIER:
            self._strike(kind, since=self.now - trouble.duration(kind, self._rng))
        self._at(self.now + _BACKFILL, self._backfill)
        self._at(self.now + _TICK, self._tick)
        self._at(next_midnight(self.now), self._midnight)
        self._at(next_change(self.now), self._change_reservations)

    def _backlog(self, streams: list[Stream]) -> list[tuple[int, int]]:
        """What is there when the story begins: when it was submitted, and from which stream."""
        found = []
        for place, stream in enumerate(streams):
            usual = stream.rate * (1 if stream.work.steady else MEAN_RHYTHM) * _BACKLOG
            for _ in range(min(_PATIENCE, int(usual + self._rng.random()))):
                found.append((self.now - int(self._rng.uniform(0, _BACKLOG)), place))
        return sorted(found)

    def _at(self, time: int, what: Callable[..., None], *args: Any) -> None:
        self._serial += 1
        heapq.heappush(self._events, (time, self._serial, what, args))

    def advance(self, to: int) -> None:
        """Lives on until `to`, which may not lie in the past."""
        while self._events[0][0] <= to:
            self.now, _, what, args = heapq.heappop(self._events)
            what(*args)
        self.now = max(self.now, to)
        self._forget()

    def _forget(self) -> None:
        self.finished = [job for job in self.finished if (job.end or 0) + MIN_JOB_AGE >= self.now]

    # --- people ---------------------------------------------------------------------------------------------------

    def _next_submission(self, stream: Stream) -> None:
        self._at(self.now + 1 + int(self._rng.expovariate(stream.rate)), self._consider, stream)

    def _consider(self, stream: Stream) -> None:
        """Somebody may submit something, if it is their time of the day and they do not wait for too much already."""
        at_work = stream.work.steady or self._rng.random() < rhythm(self.now)
        if at_work and self.queue.waiting[stream] < _PATIENCE:
            self._submit(stream, self.now)
        self._next_submission(stream)

    def _submit(self, stream: Stream, when: int) -> None:
        rng, work, user = self._rng, stream.work, stream.user
        habit = self.habits[stream]
        ask = self._ask(work)
        name = rng.choice(work.names).format(n=rng.randint(1, 99))
        typical = habit.typical(ask.limit * rng.betavariate(2.0, 2.0 / work.use - 2.0))
        ask = habit.asked(ask)
        tasks = rng.choice(work.array)
        before: Job | None = None
        for _ in range(rng.choice(work.chain)):
            job = Job(self._new_id(), stream, ask, name, when)
            job.typical, job.after = typical, before
            job.efficiency, job.touched = habit.use(ask.cpus, rng)
            if tasks > 1:
                job.array_id, job.first, job.last = job.id, 1, tasks
                job.throttle = work.throttle if tasks > work.throttle else 0
                job.array = f"1-{tasks}%{job.throttle}" if job.throttle else f"1-{tasks}"
            if before is not None:
                before.children.append(job)
            elif rng.random() < work.nightly:
                job.begin = (self.now // DAY * DAY + 19 * HOUR) + rng.randint(0, 3 * HOUR)
                job.begin += 0 if job.begin > self.now else DAY
                self._at(job.begin, self._begin, job)
            elif rng.random() < 0.015:
                job.held = True
                self._at(self.now + int(rng.uniform(0.5, 20) * HOUR), self._unhold, job)
            job.claims = self.limits.claims(job)
            self.queue.add(job, when)
            self.ledger.jobs["submitted"] += job.tasks
            self.ledger.calls.add("REQUEST_SUBMIT_BATCH_JOB", user.name)
            if rng.random() < 0.03:
                self._at(self.now + int(rng.uniform(0.1, 9) * HOUR), self._cancel, job)
            before = job
        self._call_cycle()

    def _ask(self, work: Work) -> Ask:
        ask = jobs.draw(work, self._rng)
        if ask.nodes == 1 and work.array == (1,) and work.reservation is None and self._rng.random() < 0.02:
            return replace(ask, host=self._favourite(work, ask.cpus))
        return ask

    def _favourite(self, work: Work, cpus: int) -> str:
        """The one node on which somebody wants to run, for the sake of comparison."""
        found = [
            node.name
            for node in self.machine.nodes
            if work.partitions[0] in node.partitions
            and work.gpu in ("", node.kind.gpu)
            and node.cpus >= cpus
            and node.memory >= cpus * work.memory
            and node.reservation is None
        ]
        return self._rng.choice(found)

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def _begin(self, job: Job) -> None:
        job.begin = None
        self._release(job)

    def _unhold(self, job: Job) -> None:
        job.held = False
        self._release(job)

    def _release(self, job: Job) -> None:
        self.queue.release(job, self.now)
        self._call_cycle()

    def _cancel(self, job: Job) -> None:
        """Its owner does not want it any more, if it has not run yet."""
        if job.state != jobs.PENDING or job not in self.queue:
            return
        self.queue.remove(job)
        self.ledger.calls.add("REQUEST_KILL_JOB", job.user.name)
        self.ledger.jobs["canceled"] += job.tasks
        job.state, job.reason = jobs.CANCELLED, None
        job.start = job.end = self.now  # as Slurm has it for a job that never ran
        job.nodes = []
        self.finished.append(job)
        self.ended.append(job)
        self._settle(job)

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _call_cycle(self) -> None:
        if not self._cycle_due:
            self._cycle_due = True
            self._at(max(self.now + _SOON, self._last_cycle + _APART), self._main)

    def _main(self) -> None:
        self._cycle_due = False
        self._last_cycle = self.now
        self.ledger.see_main(self.queue.cycle(self.now, self._start, backfill=False), self.now)

    def _backfill(self) -> None:
        self.ledger.see_backfill(self.queue.cycle(self.now, self._start, backfill=True), self.now)
        self.ledger.count(sum(job.tasks for job in self.queue), len(self.holding), self.now)
        self._at(self.now + _BACKFILL, self._backfill)

    def _start(self, job: Job, nodes: list[Node], partition: str) -> None:
        """The next task of a waiting job gets its nodes."""
        if job.tasks > 1:
            job = job.split(self._new_id())
        else:
            self.queue.remove(job)
        job.nodes, job.partition = nodes, partition
        job.state, job.reason, job.estimate = jobs.RUNNING, None, None
        job.start = self.now
        job.end = None
        self.machine.take(job)
        self.limits.take(job)
        self.shares.charge(job.user.name, job.billing, self.now)
        self.holding[job.id] = job
        self.ledger.jobs["started"] += 1
        self.ledger.calls.add("REQUEST_COMPLETE_PROLOG", SLURMD, job.ask.nodes)
        self.ledger.dbd_calls.add("DBD_JOB_START", "slurm")
        self.ledger.dbd_calls.add("DBD_STEP_START", "slurm", 2)
        outcome, seconds = jobs.fate(job.ask.limit, job.typical, self._rng)
        self._at(self.now + seconds, self._end, job, self.now, outcome)

    def _end(self, job: Job, started: int, outcome: str) -> None:
        """A job is over and its nodes are cleaned up. It may have been killed, and run again, since this was set."""
        if job.state != jobs.RUNNING or job.start != started:
            return
        job.state, job.outcome, job.end = jobs.COMPLETING, outcome, self.now
        self.ledger.calls.add("REQUEST_STEP_COMPLETE", SLURMD, 2)
        self.ledger.calls.add("REQUEST_COMPLETE_BATCH_SCRIPT", SLURMD)
        if outcome == jobs.CANCELLED:
            self.ledger.calls.add("REQUEST_KILL_JOB", job.user.name)
        if outcome != jobs.COMPLETED and self._rng.random() < trouble.UNKILLABLE:
            self._at(self.now + trouble.KILL_TASK_TIME, self._unkillable, job)
        else:
            self._at(self.now + self._rng.choice((1, 2, 3, 4, 6, 15)), self._complete, job)

    def _unkillable(self, job: Job) -> None:
        """A process that would not die: the node is drained, unless it went down meanwhile."""
        node = job.nodes[0]
        self._complete(job)
        if node.open:
            fault = Fault(Fault.DRAIN, trouble.KILL_TASK_FAILED, "root", self.now)
            self.machine.fail(node, fault)
            self._at(self.now + int(self._rng.uniform(0.3, 6) * HOUR), self._repair, node, fault)

    def _complete(self, job: Job) -> None:
        if job.state != jobs.COMPLETING:  # a node of it went down meanwhile
            return
        self._let_go(job)
        self._conclude(job, job.outcome)

    def _let_go(self, job: Job) -> None:
        self.machine.give(job)
        self.limits.give(job)
        self.shares.charge(job.user.name, -job.billing, self.now)
        del self.holding[job.id]
        self._call_cycle()

    def _conclude(self, job: Job, state: str) -> None:
        job.state = state
        job.exit_code, job.reason = jobs.ENDS.get(state, (0, None))
        event = {jobs.COMPLETED: "completed", jobs.CANCELLED: "canceled"}.get(state, "failed")
        self.ledger.jobs[event] += 1
        self.ledger.calls.add("MESSAGE_EPILOG_COMPLETE", SLURMD, job.ask.nodes)
        self.ledger.dbd_calls.add("DBD_STEP_COMPLETE", "slurm", 2)
        self.ledger.dbd_calls.add("DBD_JOB_COMPLETE", "slurm")
        self.finished.append(job)
        self.ended.append(job)
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """What waited for a job goes on, or never will."""
        for child in job.children:
            if job.state == jobs.COMPLETED:
                child.after = None
                self._release(child)
            elif child.state == jobs.PENDING:
                child.reason = "DependencyNeverSatisfied"
                self._at(self.now + int(self._rng.uniform(0.2, 10) * HOUR), self._cancel, child)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _trouble(self, kind: Trouble) -> None:
        self._strike(kind, since=self.now)
        self._at(self.now + trouble.gap(kind, self._rng), self._trouble, kind)

    def _strike(self, kind: Trouble, since: int) -> None:
        node = trouble.victim(kind, self.machine.nodes, self._rng)
        if node is None:
            return
        fault = Fault(kind.state, kind.reason, kind.user, since)
        self.machine.fail(node, fault)
        self.ledger.calls.add("REQUEST_UPDATE_NODE", kind.user)
        self.ledger.dbd_calls.add("DBD_NODE_STATE", "slurm")
        lasts = trouble.duration(kind, self._rng)
        if kind.state == Fault.REBOOT_REQUESTED:
            self._reboot(node, fault, lasts)
            return
        if kind.state == Fault.DOWN:
            for job in list(node.jobs):
                self._lose(job)
        self._at(self.now + lasts, self._repair, node, fault)

    def _reboot(self, node: Node, fault: Fault, lasts: int) -> None:
        """A reboot waits until the node's jobs are over."""
        if node.jobs:
            self._at(self.now + 60, self._reboot, node, fault, lasts)
            return
        fault.state, fault.since = Fault.REBOOT_ISSUED, self.now
        self._at(self.now + lasts, self._repair, node, fault)

    def _repair(self, node: Node, fault: Fault) -> None:
        if fault.state != Fault.DRAIN:
            node.boot_time = self.now - 45
        self.machine.mend(node)
        self.ledger.dbd_calls.add("DBD_NODE_STATE", "slurm")
        self._call_cycle()

    def _lose(self, job: Job) -> None:
        """A node under a job went down. Most jobs are put back into the queue."""
        ended = job.state == jobs.COMPLETING
        self._let_go(job)
        if ended:
            self._conclude(job, job.outcome)
            return
        if self._rng.random() < 0.3:
            job.end = self.now
            self._conclude(job, jobs.NODE_FAIL)
            return
        lost = copy.copy(job)  # what follows is another life, as slurmdbd has it
        lost.state, lost.end, lost.children = jobs.NODE_FAIL, self.now, []
        lost.exit_code, lost.reason = jobs.ENDS[jobs.NODE_FAIL]
        self.ended.append(lost)
        job.state, job.start, job.nodes, job.submit = jobs.PENDING, None, [], self.now
        job.partition = ",".join(job.ask.partitions)
        job.restarts += 1
        job.begin = self.now + _REQUEUE_DELAY
        self.queue.add(job, self.now)
        self._at(job.begin, self._begin, job)

    # --- the clock ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.shares.tick(self.now)
        self.queue.rerank(self.now)
        self.ledger.tick(self.now)
        self._forget()
        self._at(self.now + _TICK, self._tick)

    def _midnight(self) -> None:
        self.ledger.midnight(self.now)
        self._at(next_midnight(self.now), self._midnight)

    def _change_reservations(self) -> None:
        over = [node for node in self.machine.nodes if node.maintained]
        self.machine.reserve(self.now)
        for node in over:
            if not node.maintained and not node.jobs and node.fault is None:
                node.boot_time = self.now - 30 * 60  # what a maintenance is for
        self._at(next_change(self.now), self._change_reservations)
        self._call_cycle()
