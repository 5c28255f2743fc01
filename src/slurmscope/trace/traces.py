# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs told of themselves, as far as it is remembered: so many jobs, so many processes, and not for long.

A job that the queue has as running is known. What is told of any other waits in a small room, from which the oldest
goes first, until the queue has it: so nobody can push out a job that is known, or use up memory, with made-up ones.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from slurmscope.model import Job, Snapshot
from slurmscope.settings import Trace
from slurmscope.trace.body import REACH, Body, WrongBody
from slurmscope.worker import compute

WAITING = 4000  # samples of jobs that are not known
MOST_WAITING = 720  # … of one process: as many as the wrapper keeps

Sampled = Callable[[str, Body], None]


class Proven(msgspec.Struct, frozen=True):
    """Who sent it, for certain."""

    user: str
    uid: int

    def owns(self, job: Job) -> bool:
        # squeue prints a number for a user whom its host does not know
        return job.user in (self.user, str(self.uid))


class NotTheirs(Exception):
    """A job of somebody else's; the message says whose."""


class Full(Exception):
    """There is no room for it; the message says which, and the setting that makes more."""


class NotYet(Exception):
    """It cannot be told yet which job that is: whoever sends it is to come again."""


class Use(msgspec.Struct):
    """What the processes of a job use on one host, together. None: no process told it."""

    job: Job
    hostname: str
    username: str
    pid: int  # of the first that was heard of
    cpus: float = 0.0
    threads: float = 0.0
    mem: float = 0.0
    read_bytes: float | None = None
    write_bytes: float | None = None

    def add(self, body: Body) -> None:
        self.cpus += body.cpus
        self.threads += body.threads
        self.mem += body.mem
        self.read_bytes = _sum(self.read_bytes, body.read_bytes)
        self.write_bytes = _sum(self.write_bytes, body.write_bytes)


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other + (one or 0.0)


class _Cluster:
    """One that is read, and the jobs that run there."""

    def __init__(self, name: str) -> None:
        self.name = name  # "" until it is known
        self.alias = ""  # what Slurm itself calls it
        self.read = False  # which jobs there are
        self.running: dict[int, Job] = {}

    async def publish(self, snapshot: Snapshot, fresh: frozenset[str]) -> None:
        self.name = snapshot.cluster
        if snapshot.config.value is not None:
            self.alias = snapshot.config.value.cluster
        if "jobs" in fresh:
            self.running = await compute(_running, snapshot.jobs.value or ())
            self.read = True


def _running(jobs: Iterable[Job]) -> dict[int, Job]:
    return {job.id: job for job in jobs if job.holding}


_Place = tuple[int, int]  # a cluster and a job
_Process = tuple[str, int]  # a host and a pid


class _Heard(msgspec.Struct, frozen=True, gc=False):
    """The last sample of a process, and when it came: what it says of its time must not make room for others."""

    body: Body
    at: float


class _Waiting(msgspec.Struct):
    """What was told of a process of a job that is not known, the oldest first."""

    told: list[tuple[Body, Proven | None]]
    at: float  # when the last of it came


class Traces:
    """Remembers the last sample of each process. Used by one thread, that of the event loop.

    `on_sample` is for whoever wants every sample of a known job: each of its functions is called once for each, with
    the cluster's name and the body, of which `time`, `cluster` and `username` are then filled in. Of one process the
    times only grow. Samples that waited for the job to be known are handed on when it is.
    """

    def __init__(self, settings: Trace, clock: Callable[[], float] = time.time) -> None:
        self.on_sample: list[Sampled] = []
        self.samples = 0  # that were taken
        self.refused = dict.fromkeys(("body", "full", "media", "munge", "token", "user"), 0)
        self._settings = settings
        self._clock = clock
        self._clusters: list[_Cluster] = []
        self._known: OrderedDict[_Place, dict[_Process, _Heard]] = OrderedDict()  # who was heard of last is last
        self._waiting: OrderedDict[tuple[_Place, _Process], _Waiting] = OrderedDict()
        self._samples_waiting = 0

    def watch(self, name: str = "") -> Callable[[Snapshot, frozenset[str]], Awaitable[None]]:
        """A listener for the polls of one more cluster, whose jobs are then known."""
        cluster = _Cluster(name)
        number = len(self._clusters)
        self._clusters.append(cluster)

        async def publish(snapshot: Snapshot, fresh: frozenset[str]) -> None:
            await cluster.publish(snapshot, fresh)
            if "jobs" in fresh:
                self._sort_out(number)

        return publish

    # --- taking ---

    def take(self, bodies: Iterable[Body], proven: Proven | None = None) -> int:
        """How many of them were new. Raises WrongBody, NotTheirs, NotYet and, if none of them could be taken, Full."""
        now = self._clock()
        self.expire(now)
        placed = [(self._cluster(body), body) for body in bodies]
        if not all(self._clusters[cluster].read for cluster, _ in placed):
            raise NotYet("it is not known yet which jobs there are")
        if proven is not None:
            for cluster, body in placed:
                job = self._clusters[cluster].running.get(body.job_id)
                if job is not None and not proven.owns(job):
                    raise NotTheirs(f"job {body.job_id} is not {proven.user}'s")
        taken, full = 0, None
        for cluster, body in placed:
            try:
                taken += self._take((cluster, body.job_id), body, proven, now)
            except Full as error:
                full = error
        self.samples += taken
        if full is not None and not taken:
            raise full
        return taken

    def _cluster(self, body: Body) -> int:
        if body.cluster is None:
            if len(self._clusters) == 1:
                return 0
            raise WrongBody(f"cluster: expected one of {self._names}, for several are read here, found nothing")
        for number, one in enumerate(self._clusters):
            if body.cluster in (one.name, one.alias):
                return number
        if not all(one.name for one in self._clusters):
            raise NotYet("not all clusters have told their names yet")
        raise WrongBody(f"cluster: expected one of {self._names}, found {body.cluster!r:.100}")

    @property
    def _names(self) -> str:
        return ", ".join(one.name for one in self._clusters if one.name)

    def _take(self, place: _Place, body: Body, proven: Proven | None, now: float) -> bool:
        process = body.hostname, body.pid
        told = msgspec.structs.replace(
            body,
            time=now if body.time is None else body.time,
            username=body.username if proven is None else proven.user,
        )
        if place[1] in self._clusters[place[0]].running:
            return self._remember(place, process, told, now)
        return self._wait((place, process), told, proven, now)

    def _wait(self, key: tuple[_Place, _Process], body: Body, proven: Proven | None, now: float) -> bool:
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting([], now)
        elif not _newer(body, waiting.told[-1][0]):
            return False
        waiting.told.append((body, proven))
        waiting.at = now
        self._samples_waiting += 1
        self._waiting.move_to_end(key)
        if len(waiting.told) > MOST_WAITING:
            self._lose_one(key)
        elif self._samples_waiting > WAITING:
            self._lose_one(next(iter(self._waiting)))
        return True

    def _lose_one(self, key: tuple[_Place, _Process]) -> None:
        """The oldest sample that waits of a process."""
        del self._waiting[key].told[0]
        self._samples_waiting -= 1
        if not self._waiting[key].told:
            del self._waiting[key]

    def _no_longer_waits(self, key: tuple[_Place, _Process]) -> Iterable[tuple[Body, Proven | None]]:
        found = self._waiting.pop(key).told
        self._samples_waiting -= len(found)
        return found

    def _remember(self, place: _Place, process: _Process, body: Body, now: float) -> bool:
        processes = self._known.get(place)
        if processes is None:
            self._make_room(now)
            processes = self._known[place] = {}
        last = processes.get(process)
        if last is not None and not _newer(body, last.body):
            return False
        if last is None and len(processes) >= self._settings.processes:
            # one that is not heard of any more is kept so that it cannot be replayed, until others need the room
            oldest = min(processes, key=lambda one: processes[one].at)
            if self._is_recent(processes[oldest].at, now):
                raise Full(
                    f"{len(processes)} processes of job {body.job_id} are traced already: trace one a node, "
                    "or raise trace.processes"
                )
            del processes[oldest]
        cluster = self._clusters[place[0]]
        user = cluster.running[place[1]].user or body.username
        known = msgspec.structs.replace(body, username=user, cluster=cluster.name)
        processes[process] = _Heard(known, now)
        self._known.move_to_end(place)
        for tell in self.on_sample:
            tell(cluster.name, known)
        return True

    def _make_room(self, now: float) -> None:
        if len(self._known) < self._settings.jobs:
            return
        place = next(iter(self._known))
        if any(self._is_recent(one.at, now) for one in self._known[place].values()):
            raise Full(f"{len(self._known)} jobs are traced already: raise trace.jobs, or try again later")
        del self._known[place]

    def _live(self, body: Body, now: float) -> bool:
        return body.time is not None and self._is_recent(body.time, now)

    def _is_recent(self, at: float, now: float) -> bool:
        return at > now - self._settings.keep_seconds

    # --- forgetting ---

    def _sort_out(self, number: int) -> None:
        """After a poll: who has ended is forgotten, and who waited and runs is let in."""
        now = self._clock()
        cluster = self._clusters[number]
        for place in [place for place in self._known if place[0] == number and place[1] not in cluster.running]:
            del self._known[place]
        for place, process in [key for key in self._waiting if key[0][0] == number]:
            job = cluster.running.get(place[1])
            if job is not None:
                for body, proven in self._no_longer_waits((place, process)):
                    self._let_in(place, body, job, proven, now)
        self.expire(now)

    def _let_in(self, place: _Place, body: Body, job: Job, proven: Proven | None, now: float) -> None:
        if proven is not None and not proven.owns(job):
            self.refused["user"] += 1
            return
        try:
            self._remember(place, (body.hostname, body.pid), body, now)
        except Full:
            self.refused["full"] += 1

    def expire(self, now: float) -> None:
        """Forgets what is too old to be of use. Looks only at the oldest, and so is cheap."""
        while self._known and not _recent(next(iter(self._known.values())), now - REACH):
            self._known.popitem(last=False)
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            if self._is_recent(waiting.at, now):
                break
            self._no_longer_waits(key)

    # --- telling ---

    def shown(self, cluster: str) -> list[Use]:
        """What the jobs of a cluster use now, by job and host."""
        now = self._clock()
        found: dict[tuple[int, str], Use] = {}
        for number, one in enumerate(self._clusters):
            if one.name != cluster:
                continue
            for (where, job_id), processes in self._known.items():
                job = one.running.get(job_id)
                if where == number and job is not None:
                    for body in (one.body for one in processes.values()):
                        if self._live(body, now):
                            key = job_id, body.hostname
                            if key not in found:
                                found[key] = Use(job, body.hostname, body.username, body.pid)
                            found[key].add(body)
            break  # of two with the same name only the first is shown
        return list(found.values())

    def count(self) -> tuple[int, int]:
        """Jobs and processes that are heard of now."""
        now = self._clock()
        counts = [sum(self._live(one.body, now) for one in processes.values()) for processes in self._known.values()]
        return sum(map(bool, counts)), sum(counts)


def _newer(body: Body, than: Body) -> bool:
    return (body.time or 0.0) > (than.time or 0.0)


def _recent(processes: dict[_Process, _Heard], since: float) -> bool:
    return any((one.body.time or 0.0) > since for one in processes.values())
