# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The months before the story, lived through quickly: who ran what, when and where.

The same people with the same work and the same troubles as in the simulation, with a scheduler that is much simpler:
first come, first served, by groups of nodes; who finds no room lets others pass that do not take whole nodes from them.
Limits of accounts and QOSs are left out.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from math import inf
from typing import Any

from slurmscope.demo import habits, jobs, people, trouble
from slurmscope.demo.cluster import DAY, HOUR, WEEK, Fault, Node, reservations
from slurmscope.demo.figures import PREEMPTED
from slurmscope.demo.ground import Ground, Group, Queue, Submission, Waiting
from slurmscope.demo.jobs import Ask
from slurmscope.demo.people import Stream
from slurmscope.demo.seasons import TAPER, Calendar
from slurmscope.demo.sums import Sums
from slurmscope.demo.trouble import Trouble
from slurmscope.slurm.values import hosts

_ARRAYS = 5  # arrays had so many times fewer tasks
_DEPTH, _DEEPER = 24, 400  # jobs of a queue that are looked at; and before a maintenance, for which many must wait
_FAILURES = 3  # … that find no room, before the queue is given up
_LONG = 5 * HOUR  # nobody passes who has waited for so long
_REQUEUE_DELAY = 120
_ADMINS = ("ops.lang", "ops.weber")
_SHARED = frozenset({"cpu", "big"})


class Run:
    """A life that has ended."""

    __slots__ = (
        *("by", "eligible", "end", "first", "job", "last", "nodes"),
        *("partition", "restarts", "start", "state", "submit"),
    )

    def __init__(self, waiting: Waiting, last: int, partition: str, nodes: list[Node]) -> None:
        self.job = waiting.job
        self.first = waiting.first
        self.last = last
        self.submit = waiting.submit
        self.eligible = waiting.eligible
        self.restarts = waiting.restarts
        self.partition = partition
        self.nodes = nodes
        self.start = self.end = 0
        self.state = ""
        self.by: str | None = None


class Quick:
    """Lived through from the start; then all that was is there."""

    def __init__(self, seed: int, begin: int, end: int) -> None:
        self.runs: list[Run] = []
        self.turns: list[tuple[int, Node, str, Fault | None, bool]] = []  # when a node's condition changed, and to what
        self.ground = Ground(begin)
        self.sums = Sums(begin, end, self.ground.groups)
        self.calendar = Calendar(begin, end)
        self.numbers = 0
        cast = people.cast(seed)
        self._rng = random.Random(f"slurmscope demo past {seed} {end}")  # noqa: S311 - a story, no secret
        self._end = end
        self._streams = cast.streams
        self.habits = habits.of(seed, cast.streams)
        self._events: list[tuple[int, int, Callable[..., None], Any]] = []
        self._serial = 0
        self._now = begin
        self._closing: float = self.calendar.maintenance[0]
        self._on: dict[Node, dict[Run, None]] = {node: {} for node in self.ground.nodes}
        self._racks: list[tuple[int, list[Node]]] = []  # when each of the weekly maintenances begins
        self._waiting: Counter[Stream] = Counter()
        self._unlucky: dict[Stream, int] = defaultdict(int)  # how many more will fail in a row
        self._open(begin)
        self._live()
        self._close()

    def _open(self, begin: int) -> None:
        for node in self.ground.nodes:
            node.closes = self._closing
            self._turned(node)
        start, end = self.calendar.maintenance
        self._at(start, self._maintain, (self.ground.nodes, end))
        self._announce(begin)
        for kind in trouble.TROUBLES:
            self._at(begin + trouble.gap(kind, self._rng), self._trouble, kind)

    def _at(self, time: int, what: Callable[[Any], None], arg: Any) -> None:
        self._serial += 1
        heapq.heappush(self._events, (time, self._serial, what, arg))

    def _live(self) -> None:
        events = self._events
        for time, place in self.calendar.submissions(self._streams, self._rng):
            while events and events[0][0] <= time:
                self._now, _, what, arg = heapq.heappop(events)
                what(arg)
            self._now = time
            self._consider(self._streams[place])
        while events and events[0][0] <= self._end:
            self._now, _, what, arg = heapq.heappop(events)
            what(arg)

    def _close(self) -> None:
        """Nodes are mended for the story to begin; the rest of an array that never ran is taken back."""
        self._now = self._end
        for node in self.ground.nodes:
            if node.fault is not None:
                self._mend((node, node.fault))
        for queue in self.ground.queues:
            for waiting in list(queue.jobs):
                if waiting.first > 1:
                    self._drop(waiting, waiting.job.stream.user.name)

    # --- people -------------------------------------------------------------------------------------------------------

    def _consider(self, stream: Stream) -> None:
        if self._waiting[stream] < self.calendar.patience(stream, self._now):
            self._submit(stream)

    def _submit(self, stream: Stream) -> None:
        rng, work, now, habit = self._rng, stream.work, self._now, self.habits[stream]
        drawn = jobs.draw(work, rng)
        typical = habit.typical(drawn.limit * rng.betavariate(2.0, 2.0 / work.use - 2.0))
        ask, queue = habit.asked(drawn), self.ground.queue(drawn)
        name = rng.choice(work.names).format(n=rng.randint(1, 99))
        tasks = rng.choice(work.array)
        tasks = max(2, tasks // _ARRAYS) if tasks > 1 else 1
        before: Submission | None = None
        for _ in range(rng.choice(work.chain)):
            doomed = self._doomed(stream, habit.luckless)
            use = habit.use(ask.cpus, rng)
            job = Submission(self.numbers, stream, ask, name, tasks, typical, use, doomed, left=tasks)
            self.numbers += tasks
            waiting = Waiting(job, queue, 1, tasks, now)
            self._waiting[stream] += 1
            if before is not None:
                before.children.append(waiting)
            else:
                self._at_first(waiting)
            if rng.random() < 0.03:
                by = stream.user.name if rng.random() < 0.85 else rng.choice(_ADMINS)
                self._at(now + int(rng.uniform(0.1, 9) * HOUR), self._give_up, (waiting, by))
            before = job

    def _doomed(self, stream: Stream, luckless: float) -> bool:
        if self._unlucky[stream]:
            self._unlucky[stream] -= 1
            return True
        if self._rng.random() < luckless:
            self._unlucky[stream] = self._rng.randint(3, 11)
        return False

    def _at_first(self, waiting: Waiting) -> None:
        """Most may start at once; some are for the evening, and some are held."""
        now, rng = self._now, self._rng
        chance = rng.random()
        if chance < waiting.job.stream.work.nightly:
            begin = now // DAY * DAY + 19 * HOUR + rng.randint(0, 3 * HOUR)
            self._at(begin if begin > now else begin + DAY, self._release, waiting)
        elif chance > 0.985:
            self._at(now + int(rng.uniform(0.5, 20) * HOUR), self._release, waiting)
        else:
            self._release(waiting)

    def _release(self, waiting: Waiting) -> None:
        if not waiting.over:
            waiting.eligible = self._now
            waiting.queue.jobs[waiting] = None
            self._look(waiting.queue)

    def _give_up(self, what: tuple[Waiting, str]) -> None:
        waiting, by = what
        if not waiting.over:
            self._drop(waiting, by)

    def _drop(self, waiting: Waiting, by: str) -> None:
        """It is cancelled before it ran."""
        waiting.over = True
        waiting.queue.jobs.pop(waiting, None)
        self._waiting[waiting.job.stream] -= 1
        run = Run(waiting, waiting.last, ",".join(waiting.job.ask.partitions), [])
        run.start = run.end = self._now
        run.state, run.by = jobs.CANCELLED, by
        self._ended(run)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _look_all(self, groups: Iterable[Group]) -> None:
        """Room was made in some groups: the queues that want it, the one whose first job came first, first."""
        found = [queue for queue in dict.fromkeys(queue for group in groups for queue in group.queues) if queue.jobs]
        if len(found) > 1:
            found.sort(key=lambda queue: (-queue.tier, next(iter(queue.jobs)).eligible))
        for queue in found:
            self._look(queue)

    def _look(self, queue: Queue) -> None:
        now, closing, whole, failures = self._now, self._closing, True, 0
        if now >= self._end - TAPER:
            return
        near = closing - now < 4 * DAY
        for waiting in list(islice(queue.jobs, _DEEPER if near else _DEPTH)):
            ask = waiting.job.ask
            until = now + ask.limit + jobs.LATE
            if until > closing or self._start_all(waiting, ask, until, whole):
                continue
            failures += 1
            if failures > _FAILURES:
                return
            node = queue.ways[0][1][0].nodes[0]
            if ask.cpus == node.cpus or (ask.gpus and ask.gpus == node.kind.gpus):
                whole = False
            elif now - (waiting.eligible or now) > _LONG:
                return

    def _start_all(self, waiting: Waiting, ask: Ask, until: int, whole: bool) -> bool:
        """Starts as many tasks as can be, and says whether that is all."""
        fit = self.ground.fit
        while True:
            found = None
            for partition, groups in waiting.queue.ways:
                nodes = fit(groups, ask, until, whole=whole)
                if nodes is not None:
                    found = Run(waiting, waiting.first, partition, nodes)
                    break
            if found is None:
                return False
            self._start(found)
            if waiting.first == waiting.last:
                waiting.over = True
                del waiting.queue.jobs[waiting]
                self._waiting[waiting.job.stream] -= 1
                return True
            waiting.first += 1

    def _start(self, run: Run) -> None:
        ground, now, ask = self.ground, self._now, run.job.ask
        for node in run.nodes:
            ground.take(node, ask)
            self._on[node][run] = None
            self.sums.see(node, ground.group[node], now)
        run.start = now
        state, seconds = self._fate(run)
        if now + seconds > self._end - TAPER:
            latest = self._end - int(TAPER * self._rng.random())
            if now + seconds > latest:
                state, seconds = jobs.COMPLETED, latest - now
        run.end = now + seconds
        self._at(run.end, self._finish, (run, state))

    def _fate(self, run: Run) -> tuple[str, int]:
        rng, job = self._rng, run.job
        state, seconds = jobs.fate(job.ask.limit, job.typical, rng)
        if job.doomed and state != jobs.TIMEOUT:
            return jobs.FAILED, 2 + int(min(seconds, 900) * rng.random() ** 2)
        work = job.stream.work
        # since the maintenance nobody is preempted any more
        lesser = work.qos == "normal" and work.pool in _SHARED and run.start < self.calendar.maintenance[0]
        if lesser and state == jobs.COMPLETED and rng.random() < 0.008:
            return PREEMPTED, int(seconds * rng.random())
        return state, seconds

    def _finish(self, what: tuple[Run, str]) -> None:
        run, state = what
        if run.state:  # a node of it went down meanwhile
            return
        if state == jobs.CANCELLED:
            run.by = run.job.stream.user.name if self._rng.random() < 0.92 else self._rng.choice(_ADMINS)
        self._let_go(run, state)
        if state == PREEMPTED:
            self._again(run)
        self._look_all(dict.fromkeys(self.ground.group[node] for node in run.nodes))

    def _let_go(self, run: Run, state: str) -> None:
        ground, ask, now = self.ground, run.job.ask, self._now
        run.end, run.state = now, state
        for node in run.nodes:
            ground.give(node, ask)
            inside = self._on[node]
            del inside[run]
            self.sums.see(node, ground.group[node], now)
            if node.fault is not None and node.fault.state == Fault.REBOOT_REQUESTED and not inside:
                self._reboot(node, node.fault)
        self._ended(run)

    def _ended(self, run: Run) -> None:
        self.runs.append(run)
        job, ask = run.job, run.job.ask
        tasks = run.last - run.first + 1
        cpus, gpus = ask.cpus * ask.nodes, ask.gpus * ask.nodes
        self.sums.waited(",".join(ask.partitions), tasks, cpus, gpus, run.submit, run.start)
        if run.nodes:
            self.sums.ran(run.partition, run.start, run.end)
        job.left -= tasks
        job.well = job.well and run.state == jobs.COMPLETED
        if not job.left:
            self._settle(job)

    def _settle(self, job: Submission) -> None:
        """What waited for a job goes on, or never will."""
        for child in job.children:
            if job.well:
                self._release(child)
            else:
                by = child.job.stream.user.name
                self._at(self._now + int(self._rng.uniform(0.2, 10) * HOUR), self._give_up, (child, by))

    def _again(self, run: Run) -> None:
        """It is put back into the queue, as another life."""
        waiting = Waiting(run.job, self.ground.queue(run.job.ask), run.first, run.first, self._now, run.restarts + 1)
        run.job.left += 1
        self._waiting[run.job.stream] += 1
        self._at(self._now + _REQUEUE_DELAY, self._release, waiting)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _turned(self, node: Node) -> None:
        """Notes a node's condition, which is new."""
        self.ground.turn(node)
        self.sums.see(node, self.ground.group[node], self._now)
        if node.fault is not None and node.fault.state in (Fault.DOWN, Fault.REBOOT_ISSUED):
            state = "DOWN"
        else:
            state = "IDLE" if not self._on[node] else "MIXED" if node.free_cpus else "ALLOCATED"
        fault = node.fault and Fault(node.fault.state, node.fault.reason, node.fault.user, node.fault.since)
        self.turns.append((self._now, node, state, fault, node.maintained))

    def _trouble(self, kind: Trouble) -> None:
        self._at(self._now + trouble.gap(kind, self._rng), self._trouble, kind)
        node = trouble.victim(kind, self.ground.nodes, self._rng)
        if node is None or self._now >= self._end - TAPER:
            return
        fault = node.fault = Fault(kind.state, kind.reason, kind.user, self._now)
        self._turned(node)
        if kind.state == Fault.DOWN:
            lost = list(self._on[node])
            for run in lost:
                self._lose(run)
            self._look_all(dict.fromkeys(self.ground.group[one] for run in lost for one in run.nodes))
        if kind.state != Fault.REBOOT_REQUESTED:
            self._at(self._now + trouble.duration(kind, self._rng), self._mend, (node, fault))
        elif not self._on[node]:
            self._reboot(node, fault)

    def _lose(self, run: Run) -> None:
        self._let_go(run, jobs.NODE_FAIL)
        if self._rng.random() < 0.7:
            self._again(run)

    def _reboot(self, node: Node, fault: Fault) -> None:
        fault.state, fault.since = Fault.REBOOT_ISSUED, self._now
        self._turned(node)
        self._at(self._now + 60 + int(self._rng.uniform(240, 600)), self._mend, (node, fault))

    def _mend(self, what: tuple[Node, Fault]) -> None:
        node, fault = what
        if node.fault is fault:
            node.fault = None
            self._turned(node)
            self._look_all([self.ground.group[node]])

    def _announce(self, now: int) -> None:
        """The next maintenance of a rack, as the simulation has it: what starts from now on may not run into it."""
        one = next(one for one in reservations(now) if one.maintenance and one.start > now)
        start, end = self.calendar.maintenance
        if one.end <= self._end - TAPER and (one.end <= start or end <= one.start):
            names = frozenset(hosts(one.node_list))
            nodes = [node for node in self.ground.nodes if node.name in names]
            self._racks.append((one.start, nodes))
            self._await()
            self._at(one.start, self._maintain, (nodes, one.end))
        self._at(now + WEEK, self._announce, now + WEEK)

    def _await(self) -> None:
        for start, nodes in self._racks:
            for node in nodes if start > self._now else ():
                node.closes = min(node.closes, start)

    def _maintain(self, what: tuple[list[Node], int]) -> None:
        nodes, end = what
        for node in nodes:
            if not node.maintained:
                node.maintained = True
                self._turned(node)
        self._at(end, self._open_again, nodes)

    def _open_again(self, nodes: list[Node]) -> None:
        if self._now >= self.calendar.maintenance[1]:
            self._closing = inf
        for node in nodes:
            node.closes = self._closing
            node.maintained = False
            self._turned(node)
        self._await()
        self._look_all(dict.fromkeys(self.ground.group[node] for node in nodes))
