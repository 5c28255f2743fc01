# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One look at the jobs of this host: their cgroups, their processes, their GPUs.

Nothing that happens meanwhile is an error: jobs and processes end, files are closed to us. What could not be read is
counted, and what it would have told is unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from slurmscope.measure import Gpu, Measure, Program, Report
from slurmscope.node import groups
from slurmscope.node.groups import Missed
from slurmscope.node.held import held, use
from slurmscope.node.identity import Identity
from slurmscope.node.mounts import Mounts
from slurmscope.node.processes import Inheritance, Networks, Process, Reader
from slurmscope.node.scheduler import Found, Scheduler
from slurmscope.node.users import Users

OTHER = "other"


class _Job:
    """What is remembered of a job from look to look."""

    def __init__(self, found: Found, scheduler: Scheduler) -> None:
        self.found = found
        self.folder, self.owner = _folder(found)
        self.identity = Identity(found, scheduler)
        self.used = Inheritance()
        self.network = Networks()
        self.not_own: set[tuple[int, int]] = set()
        self.scratch: bool | None = None
        self.local: dict[str, groups.Local] = {}  # by folder within the job's
        self.past = groups.Local()  # of folders that are gone
        self.cpu: tuple[float, float] | None = None  # when, and how many seconds of cores until then


def _folder(found: Found) -> tuple[int, int | None]:
    """Which one it is, for one that comes later under the same name is another job's; and whose."""
    try:
        there = os.stat(next(iter(found.folders.values())))  # noqa: PTH116 - this is done at every look
    except OSError:
        return 0, None
    return there.st_ino, there.st_uid


class Change(msgspec.Struct, frozen=True):
    gone: frozenset[tuple[str, int]]  # nodes and jobs that were shown, and have ended
    came: bool


class _Look(msgspec.Struct):
    """What was seen of a job this time, before its GPUs are known."""

    job: _Job
    measure: Measure
    pids: frozenset[int]
    held: tuple[Gpu, ...] | None = None

    @property
    def worth(self) -> tuple[bool, int]:
        """Of two that are told as the same job, the one of which that is certain, or the larger."""
        return self.job.identity.certain, len(self.pids)


class Collector:
    def __init__(
        self,
        mounts: Mounts,
        scheduler: Scheduler,
        *,
        cluster: str,
        node: str,
        scratch: Sequence[str] = (),
        programs: int = 10,
        proc: str = "/proc",
    ) -> None:
        self.missed = Missed()
        self.leftovers = 0  # jobs' cgroups in which there is no process
        self._mounts = mounts
        self._scheduler = scheduler
        self._cluster = cluster
        self._node = node
        self._programs = programs
        self._reader = Reader(scratch, proc)
        self._jobs: dict[str, _Job] = {}
        self._shown: dict[str, tuple[tuple[str, int], frozenset[int]]] = {}
        self._users = Users()
        self._nodes: set[str] = set()  # that had jobs: who listens is told that they have none any more
        self._cpu_count = os.cpu_count() or 0

    def close(self) -> None:
        self._reader.close()

    def change(self) -> Change:
        """What has come and gone since the last look; cheap, for it is asked often."""
        found = {one.key for one in self._scheduler.find(self._mounts)}
        gone = []
        for key, (which, pids) in list(self._shown.items()):
            # a folder may be left over after its job
            if key not in found or not self._lives(key, pids):
                gone.append(which)
                del self._shown[key]
        return Change(frozenset(gone), came=not found <= self._jobs.keys())

    def _lives(self, key: str, pids: Iterable[int]) -> bool:
        if any(self._reader.exists(pid) for pid in pids):
            return True
        return bool(groups.processes(self._jobs[key].found.folders, Missed()))

    @property
    def unknown(self) -> list[str]:
        """Keys of folders of which nobody here can tell which job's they are."""
        return [key for key, job in self._jobs.items() if job.identity.number is None and job.identity.tries > 1]

    def learn(self, jobs: Mapping[str, int]) -> None:
        for key, number in jobs.items():
            if key in self._jobs:
                self._jobs[key].identity.learn(number)

    def collect(self, gpus: Sequence[Gpu] = (), at: float | None = None) -> list[Report]:
        """A report for each node of this host; one without jobs, where there are none."""
        started = time.perf_counter()
        at = time.time() if at is None else at
        self._reader.begin()
        found = {one.key: one for one in self._scheduler.find(self._mounts)}
        self._jobs = {key: self._job(one) for key, one in found.items()}
        self.leftovers = 0
        seen: dict[tuple[str, int], _Look] = {}
        for job in self._jobs.values():
            look = self._look(job)
            if look is not None:
                # what is left over of another job with the same number, or says that it is this, must not be told as it
                which = job.found.node or self._node, look.measure.job
                if which not in seen or look.worth > seen[which].worth:
                    seen[which] = look
        self._reader.end()
        self._share(list(seen.values()), gpus)
        self._nodes |= {node for node, _ in seen}
        by_node: dict[str, list[Measure]] = {node: [] for node in self._nodes or {self._node}}
        self._shown = {}
        for (node, number), look in seen.items():
            by_node[node].append(look.measure)
            self._shown[look.job.found.key] = (node, number), look.pids
        seconds = time.perf_counter() - started
        return [
            Report(cluster=self._cluster, node=node, time=at, seconds=seconds, jobs=tuple(measures), gpus=tuple(gpus))
            for node, measures in sorted(by_node.items())
        ]

    def _job(self, found: Found) -> _Job:
        known = self._jobs.get(found.key)
        if known is None or known.folder != _folder(found)[0]:
            return _Job(found, self._scheduler)
        known.found = found  # a controller's folder may have come later
        return known

    # --- one job ------------------------------------------------------------------------------------------------------

    def _look(self, job: _Job) -> _Look | None:
        missed, before = self.missed, self.missed.now
        folders = job.found.folders
        invisible = missed.counts.get(groups.NAMESPACE, 0)
        pids = groups.processes(folders, missed)
        if not pids and missed.counts.get(groups.NAMESPACE, 0) == invisible:
            self.leftovers += 1
            self._jobs[job.found.key] = _Job(job.found, self._scheduler)  # whoever comes into it is another
            return None
        processes, own = self._sorted(job, pids)
        job.identity.look(pids, processes, own, self._reader, missed)
        number = job.identity.number
        if number is None:
            return None
        figures = groups.figures(folders, missed)
        self._add_local(job, figures, pids)
        told = _of_processes(self._used(job, processes, own, figures))
        if processes or own:
            told |= self._living(job, pids, processes)
        else:
            missed.add("hidden")
            told |= dict.fromkeys(("processes", "threads", "zombies"))
        measure = Measure(
            job=number,
            uid=job.identity.uid,
            user=self._user(job.identity),
            account=job.identity.told.account,
            start_time=job.identity.told.start_time,
            cpus=self._cpus(job.identity.cpus, figures.cpus),
            cores=_rate(job, figures.cpu_seconds, time.monotonic()),
            scratch=job.scratch,
            missed=missed.now - before,
            **_named(figures, ("cpus",)),
            **told,
        )
        return _Look(job, measure, frozenset(pids))

    def _used(
        self, job: _Job, processes: dict[int, Process], own: Mapping[int, Process], figures: groups.Figures
    ) -> list[float] | None:
        """What the job's processes have used, whoever has ended; None where the kernel tells us of none."""
        # one that we could not read, or that was on its way from folder to folder, has not ended
        there = {one.pid: one for one in job.used.unseen(processes) if self._reader.lives(one)}
        used = job.used.total({**there, **processes}, own)
        if figures.cpu_seconds is None and (processes or used[0] + used[1] > 0):
            figures.user_seconds, figures.system_seconds = used[0], used[1]
            figures.cpu_seconds = used[0] + used[1]
        return used if any(one.knows_io for one in processes.values()) or used[4] > 0 else None

    def _living(self, job: _Job, pids: Mapping[int, str], processes: Mapping[int, Process]) -> dict[str, Any]:
        files = [one for process in processes.values() if (one := self._reader.files(process, self.missed)) is not None]
        if files:
            job.scratch = bool(job.scratch) or any(one.scratch for one in files)
        network = job.network.total(self._reader.networks(_some_of_each(pids, processes), self.missed))
        living = [one for one in processes.values() if not one.zombie]
        return {
            "processes": len(living),
            "threads": sum(one.threads for one in living),
            "zombies": len(processes) - len(living),
            "rss": sum(one.rss for one in living),
            "open_files": sum(one.files for one in files) if files or not living else None,
            "descriptors": sum(one.descriptors for one in files) if files or not living else None,
            "received_bytes": network[0] if network else None,
            "sent_bytes": network[1] if network else None,
            "programs": _programs(living, self._programs),
        }

    def _sorted(self, job: _Job, pids: Mapping[int, str]) -> tuple[dict[int, Process], dict[int, Process]]:
        """The job's processes, and the scheduler's own."""
        processes: dict[int, Process] = {}
        own: dict[int, Process] = {}
        known = set()
        for pid, inside in pids.items():
            process = self._reader.process(pid, self.missed)
            if process is None:
                continue
            key = pid, process.started
            if key in job.not_own:
                known.add(key)
                processes[pid] = process
            elif self._scheduler.own(inside, partial(self._reader.title, pid, self.missed)) and self._trusted(job, pid):
                own[pid] = process  # asked again the next time: it may yet become the job's by exec
            else:
                known.add(key)
                processes[pid] = process
        job.not_own = known
        return processes, own

    def _trusted(self, job: _Job, pid: int) -> bool:
        """Anybody can call themselves anything; the scheduler's are root's, or whoever's the cgroups are."""
        owner = self._reader.owner(pid, self.missed)
        return owner in (0, job.owner) and owner is not None

    def _cpus(self, told: int | None, cpus: int | None) -> int | None:
        """Where cores are not fenced off every job may use them all, and what it was given is only told."""
        if told and (cpus is None or (cpus >= self._cpu_count and told < cpus)):
            return told
        return cpus

    def _add_local(self, job: _Job, figures: groups.Figures, pids: Mapping[int, str]) -> None:
        """What the kernel counts in the folder where it happens, and not in those above: kills for want of memory
        (version 1), and time held back by a limit."""
        insides = (one.split("/") for one in set(pids.values()) if one)
        places = {"/".join(parts[:at]) for parts in insides for at in range(1, len(parts) + 1)}
        for place in job.local.keys() - places:
            job.past += job.local.pop(place)  # a step that has ended took its folder along
        for place in places:
            # one that went just now has nothing to tell any more
            before, found = job.local.get(place, groups.Local()), groups.local(job.found.folders, place, self.missed)
            job.local[place] = max(before, found, key=lambda one: (one.oom_kills, one.throttled_periods))
        total = sum(job.local.values(), job.past)
        if figures.oom_kills is not None:
            figures.oom_kills += total.oom_kills
        if figures.throttled_seconds is not None:
            figures.throttled_seconds += total.throttled_seconds
        if figures.throttled_periods is not None:
            figures.throttled_periods += total.throttled_periods

    def _user(self, identity: Identity) -> str:
        """As this host knows the number; where it does not, as the job was told, whatever that is worth."""
        told = identity.told.user
        if identity.uid is None:
            return told
        return self._users.name(identity.uid) or told or str(identity.uid)

    # --- their GPUs ---------------------------------------------------------------------------------------------------

    def _share(self, looks: Sequence[_Look], gpus: Sequence[Gpu]) -> None:
        """Which job has which GPUs, and with how many others."""
        if not gpus:
            return
        holders: dict[str, int] = {}
        for look in looks:
            folder = look.job.found.folders.get("devices")
            text = groups.read(f"{folder}/devices.list", self.missed) if folder else None
            devices = None if text is None else text.decode("ascii", "replace")
            look.held = held(gpus, look.job.identity.environ, devices, look.pids)
            for gpu in look.held or ():
                holders[gpu.uuid] = holders.get(gpu.uuid, 0) + 1
        for look in looks:
            if look.held is not None:
                look.measure = msgspec.structs.replace(look.measure, gpus=use(look.held, look.pids, holders))


def _named(figures: groups.Figures, without: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(figures).items() if name not in without}


def _some_of_each(pids: Mapping[int, str], processes: Mapping[int, Process]) -> list[int]:
    """Some processes of each task: nearly always all of a task are in the same network."""
    by_task: dict[str, list[int]] = {}
    for pid in processes:
        by_task.setdefault(pids[pid], []).append(pid)
    return [pid for some in by_task.values() for pid in (some if len(some) < 4 else (*some[:2], *some[-2:]))]


def _of_processes(used: list[float] | None) -> dict[str, Any]:
    names = ("read_bytes", "written_bytes", "reads", "writes")
    return dict.fromkeys(names) if used is None else dict(zip(names, map(int, used[2:]), strict=True))


def _rate(job: _Job, cpu_seconds: float | None, at: float) -> float | None:
    before, job.cpu = job.cpu, None if cpu_seconds is None else (at, cpu_seconds)
    if before is None or cpu_seconds is None or at <= before[0]:
        return None
    return max(0.0, cpu_seconds - before[1]) / (at - before[0])


def _programs(processes: Sequence[Process], most: int) -> tuple[Program, ...]:
    """Those with the most processor time, and the others as one."""
    by_name: dict[str, list[Process]] = {}
    for one in processes:
        by_name.setdefault(one.name, []).append(one)
    # one that is called as the rest is would be told twice
    found = [_program(name, some) for name, some in by_name.items() if name != OTHER]
    found.sort(key=lambda one: (-one.cpu_seconds, one.name))
    named = {one.name for one in found[:most]}
    rest = [one for one in processes if one.name not in named]
    return (*found[:most], _program(OTHER, rest)) if rest else tuple(found)


def _program(name: str, processes: Sequence[Process]) -> Program:
    return Program(
        name,
        len(processes),
        sum(one.threads for one in processes),
        max(one.threads for one in processes),
        sum(one.rss for one in processes),
        sum(one.used[0] + one.used[1] for one in processes),
    )
