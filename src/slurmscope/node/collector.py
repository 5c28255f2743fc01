# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One look at the jobs of this host: their cgroups, their processes, their GPUs.

Nothing that happens meanwhile is an error: jobs and processes end, files are closed to us. What could not be read is
counted, and what it would have told is unknown.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from slurmscope.measure import Gpu, Measure, Program, Report
from slurmscope.node import groups
from slurmscope.node.groups import Missed
from slurmscope.node.held import held, use
from slurmscope.node.mounts import Mounts
from slurmscope.node.processes import Inheritance, Networks, Process, Reader
from slurmscope.node.scheduler import Found, Scheduler, Told

OTHER = "other"
_TRIES = 20  # looks at a job in which its environment is sought; then it has none that we may see
_KEPT = ("SLURM_", "CUDA_", "ROCR_", "HIP_", "GPU_", "NVIDIA_")


class _Job:
    """What is remembered of a job from look to look."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.job = found.job
        self.uid = found.uid
        self.told = Told()
        self.environ: dict[str, str] | None = None
        self.tries = 0
        self.used = Inheritance()
        self.network = Networks()
        self.not_own: set[tuple[int, int]] = set()
        self.scratch: bool | None = None
        self.local: dict[str, groups.Local] = {}  # by folder within the job's
        self.past = groups.Local()  # of folders that are gone
        self.cpu: tuple[float, float] | None = None  # when, and how many seconds of cores until then


class Change(msgspec.Struct, frozen=True):
    gone: frozenset[tuple[str, int]]  # nodes and jobs that were shown, and have ended
    came: bool


class _Look(msgspec.Struct):
    """What was seen of a job this time, before its GPUs are known."""

    job: _Job
    measure: Measure
    pids: frozenset[int]
    held: tuple[Gpu, ...] | None = None


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
        self._users: dict[int, str] = {}
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
        return [key for key, job in self._jobs.items() if job.job is None and job.tries > 1]

    def learn(self, jobs: Mapping[str, int]) -> None:
        for key, number in jobs.items():
            if key in self._jobs:
                self._jobs[key].job = number

    def collect(self, gpus: Sequence[Gpu] = (), at: float | None = None) -> list[Report]:
        """A report for each node of this host; one without jobs, where there are none."""
        started = time.perf_counter()
        at = time.time() if at is None else at
        self._reader.begin()
        found = {one.key: one for one in self._scheduler.find(self._mounts)}
        self._jobs = {key: self._jobs.get(key) or _Job(one) for key, one in found.items()}
        self.leftovers = 0
        seen: dict[tuple[str, int], _Look] = {}
        for key, one in found.items():
            self._jobs[key].found = one  # a controller's folder may have come later
            look = self._look(self._jobs[key], at)
            if look is not None:
                # what is left over of another job with the same number must not be told as the same
                which = one.node, look.measure.job
                if which not in seen or len(look.pids) > len(seen[which].pids):
                    seen[which] = look
        looks = list(seen.values())
        self._reader.end()
        self._share(looks, gpus)
        by_node: dict[str, list[Measure]] = {} if looks else {self._node: []}
        self._shown = {}
        for look in looks:
            node = look.job.found.node or self._node
            by_node.setdefault(node, []).append(look.measure)
            self._shown[look.job.found.key] = (node, look.measure.job), look.pids
        seconds = time.perf_counter() - started
        return [
            Report(cluster=self._cluster, node=node, time=at, seconds=seconds, jobs=tuple(measures), gpus=tuple(gpus))
            for node, measures in sorted(by_node.items())
        ]

    # --- one job ------------------------------------------------------------------------------------------------------

    def _look(self, job: _Job, at: float) -> _Look | None:
        missed, before = self.missed, self.missed.now
        folders = job.found.folders
        pids = groups.processes(folders, missed)
        if not pids:
            self.leftovers += 1
            return None
        processes, own = self._sorted(job, pids)
        self._identify(job, processes, own)
        if job.job is None:
            return None
        figures = groups.figures(folders, missed)
        self._add_local(job, figures, pids)
        used = job.used.total(processes, own)
        knows_io = any(one.knows_io for one in processes.values()) or (used[4] > 0)
        if figures.cpu_seconds is None:
            figures.user_seconds, figures.system_seconds = used[0], used[1]
            figures.cpu_seconds = used[0] + used[1]
        files = [one for process in processes.values() if (one := self._reader.files(process, missed)) is not None]
        if files:
            job.scratch = bool(job.scratch) or any(one.scratch for one in files)
        network = job.network.total(self._reader.networks(_one_of_each(pids, processes), missed))
        living = [one for one in processes.values() if not one.zombie]
        measure = Measure(
            job=job.job,
            uid=job.uid,
            user=self._user(job.uid, job.told.user),
            account=job.told.account,
            start_time=job.told.start_time,
            cpus=self._cpus(job, figures.cpus),
            cores=_rate(job, figures.cpu_seconds, at),
            processes=len(living),
            threads=sum(one.threads for one in living),
            zombies=len(processes) - len(living),
            rss=sum(one.rss for one in living),
            open_files=sum(one.files for one in files) if files or not living else None,
            descriptors=sum(one.descriptors for one in files) if files or not living else None,
            scratch=job.scratch,
            read_bytes=int(used[2]) if knows_io else None,
            written_bytes=int(used[3]) if knows_io else None,
            reads=int(used[4]) if knows_io else None,
            writes=int(used[5]) if knows_io else None,
            received_bytes=network[0] if network else None,
            sent_bytes=network[1] if network else None,
            programs=_programs(living, self._programs),
            missed=missed.now - before,
            **_named(figures, ("cpus",)),
        )
        return _Look(job, measure, frozenset(pids))

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
            elif self._scheduler.own(inside, partial(self._reader.title, pid, self.missed)):
                own[pid] = process  # asked again the next time: it may yet become the job's by exec
            else:
                known.add(key)
                processes[pid] = process
        job.not_own = known
        return processes, own

    def _identify(self, job: _Job, processes: Mapping[int, Process], own: Mapping[int, Process]) -> None:
        if job.environ is not None or job.tries >= _TRIES:
            return
        job.tries += 1
        if job.job is None:
            titles = (self._scheduler.titled(self._reader.title(pid, self.missed)) for pid in own)
            job.job = next((number for number in titles if number is not None), None)
        for pid in processes:
            if job.uid is None:
                job.uid = self._reader.owner(pid, self.missed)
            environ = self._reader.environ(pid, self.missed)
            told = self._scheduler.told(environ) if environ else Told()
            # one that was started with an empty environment, or another's, tells nothing
            known = {told.job, *told.others} if job.job is not None or not told.others else set()
            if environ and told.job is not None and (job.job in known or (job.job is None and known)):
                job.job, job.told = told.job if job.job is None else job.job, told
                job.environ = {name: value for name, value in environ.items() if name.startswith(_KEPT)}
                return

    def _cpus(self, job: _Job, cpus: int | None) -> int | None:
        """Where cores are not fenced off every job may use them all, and what it was given is only told."""
        told = job.told.cpus
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
            job.local[place] = groups.local(job.found.folders, place, self.missed)
        total = sum(job.local.values(), job.past)
        if figures.oom_kills is not None:
            figures.oom_kills += total.oom_kills
        if figures.throttled_seconds is not None:
            figures.throttled_seconds += total.throttled_seconds
        if figures.throttled_periods is not None:
            figures.throttled_periods += total.throttled_periods

    def _user(self, uid: int | None, told: str) -> str:
        """As this host knows the number; where it does not, as the job was told, whatever that is worth."""
        if uid is None:
            return told
        name = self._users.get(uid)
        if name is None:
            try:
                name = pwd.getpwuid(uid).pw_name
            except KeyError:
                return told or str(uid)
            if len(self._users) > 10_000:
                self._users.clear()
            self._users[uid] = name
        return name

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
            look.held = held(gpus, look.job.environ, devices, look.pids)
            for gpu in look.held or ():
                holders[gpu.uuid] = holders.get(gpu.uuid, 0) + 1
        for look in looks:
            if look.held is not None:
                look.measure = msgspec.structs.replace(look.measure, gpus=use(look.held, look.pids, holders))


def _named(figures: groups.Figures, without: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(figures).items() if name not in without}


def _one_of_each(pids: Mapping[int, str], processes: Mapping[int, Process]) -> list[int]:
    """A process of each task: those of one are in the same network, but for rare ones."""
    return list({inside: pid for pid, inside in pids.items() if pid in processes}.values())


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
    found = sorted(
        (_program(name, some) for name, some in by_name.items()), key=lambda one: (-one.cpu_seconds, one.name)
    )
    if len(found) <= most:
        return tuple(found)
    named = {one.name for one in found[:most]}
    return (*found[:most], _program(OTHER, [one for one in processes if one.name not in named]))


def _program(name: str, processes: Sequence[Process]) -> Program:
    return Program(
        name,
        len(processes),
        sum(one.threads for one in processes),
        max(one.threads for one in processes),
        sum(one.rss for one in processes),
        sum(one.used[0] + one.used[1] for one in processes),
    )
