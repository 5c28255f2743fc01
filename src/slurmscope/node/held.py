# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a job holds, from what Slurm told its processes, its cgroup, and the driver's list of processes. Pure.

Slurm tells a job the numbers of its GPUs (`SLURM_STEP_GPUS`, `SLURM_JOB_GPUS`), which are places in its own list. Where
gres.conf names files, that list is in the order of /dev/nvidia<minor>; where Slurm looks for itself (AutoDetect), in
that of the bus, by which the driver counts as well. On most machines these are the same. Where they are not, that order
is taken which agrees with what else is known: device cgroup, UUIDs, processes on a GPU; else that of the files.
Instances (MIG) stand in Slurm's list in the place of their GPU, in the driver's order. A GPU that is gone leaves its
number free, so that the others keep theirs, but not where there are instances or AMD's GPUs, whose files are not
counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from slurmscope.measure import Gpu, GpuProcess, GpuUse

_NUMBERS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_NONE = "NoDevFiles"  # what Slurm says to a job that was given none
_JOB = "SLURM_JOB_ID"
# one of these is there in a job that asked for GPUs, or for a part of one, even where none of the above is
_ASKED = (
    *_NUMBERS,
    "SLURM_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_GPU_FREQ",
    "SLURM_CPUS_PER_GPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_SHARDS_ON_NODE",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)
NAMES = (_JOB, *_VISIBLE, *_ASKED)
"""All that is read of a process's environment; the rest of it need not be kept."""


_NUMBER = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)
# A job may have written anything, and it is read at every look. No node has so many GPUs, nor names as long as that.
_LONGEST = 4096
_MOST = 1024
_DEVICE = re.compile(r"^([abc]) (\d+|\*):(\d+|\*) ([rwm]+)$", re.MULTILINE | re.ASCII)
_MAJORS = {"nvidia": "195", "amd": "226"}
_LEAST_PREFIX = 5  # of a UUID: GPU-8; "GPU-" alone would mean any


def held(
    gpus: Sequence[Gpu], environ: Mapping[str, str] | None, devices: str | None, pids: Collection[int]
) -> tuple[Gpu, ...] | None:
    """The GPUs that a job may use. None: nobody can tell. ``()``: it has none.

    `environ` is of one of its processes, the nearer to a step the better; `devices` is its cgroup's `devices.list`,
    which there is in version 1 only. A GPU on which one of its processes is, is held in any case.
    """
    usable = _usable(gpus)
    told = environ or {}
    used = [gpu for gpu in usable if any(one.pid in pids for one in gpu.processes or ())]
    named = _named(usable, told)
    allowed = None if devices is None else _allowed(usable, devices)
    numbers = next((found for key in _NUMBERS if (found := parsed(told.get(key, ""))) is not None), None)
    if numbers is not None:
        sure = [*used, *(named or ())]
        chosen = _best([_numbered(usable, numbers, files=files) for files in (True, False)], sure, allowed)
        if chosen is not None:
            return _together(usable, chosen, used)
    if named is not None:
        return _together(usable, named, used)
    if allowed is not None and not any(gpu.instance is not None for gpu in allowed):
        return _together(usable, allowed, used)  # the files of a GPU do not tell which of its instances
    if used:
        return tuple(used)
    return () if _without(told) else None


def use(gpus_held: Iterable[Gpu], pids: Collection[int], holders: Mapping[str, int]) -> tuple[GpuUse, ...]:
    """What a job has of the GPUs that it holds. `holders` has how many jobs hold each, by UUID."""
    return tuple(_use(gpu, pids, holders) for gpu in gpus_held)


def _use(gpu: Gpu, pids: Collection[int], holders: Mapping[str, int]) -> GpuUse:
    own = None if gpu.processes is None else [one for one in gpu.processes if one.pid in pids]
    sizes = [one.memory for one in own or ()]
    known = own is not None and None not in sizes
    return GpuUse(
        uuid=gpu.uuid,
        index=gpu.index,
        instance=gpu.instance,
        model=gpu.model,
        utilization=_utilization(gpu, own, holders.get(gpu.uuid, 1)),
        memory_used=sum(size or 0 for size in sizes) if known else gpu.memory_used,
        memory_total=gpu.memory_total,
        power=gpu.power,
        processes=None if own is None else len(own),
        shared=max(1, holders.get(gpu.uuid, 1)),
    )


def _utilization(gpu: Gpu, own: Sequence[GpuProcess] | None, shared: int) -> float | None:
    """The whole GPU's is the job's, unless others use it too: a job without a process on it does not use it, and of
    several each is told its own where the driver knows it."""
    if gpu.utilization is None or own is None:
        return gpu.utilization
    if not own:
        return 0.0
    shares = [one.utilization for one in own]
    if shared > 1 and None not in shares:
        return min(gpu.utilization, sum(share or 0.0 for share in shares))
    return gpu.utilization


def parsed(text: str) -> tuple[int, ...] | None:
    """The numbers of a list such as ``0,2`` or ``0-3``. None: it is no such list. Whatever a user wrote, no error."""
    if len(text) > _LONGEST:
        return None
    if text.strip() == _NONE:
        return ()
    found: dict[int, None] = {}
    count = 0
    for part in text.split(","):
        match = _NUMBER.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        count += last - first + 1
        if not first <= last < _MOST or count > _MOST:
            return None
        found.update(dict.fromkeys(range(first, last + 1)))
    return tuple(found)


def _usable(gpus: Sequence[Gpu]) -> list[Gpu]:
    """What jobs can be given: a GPU that is divided only in its parts."""
    divided = {(gpu.vendor, gpu.index) for gpu in gpus if gpu.instance is not None}
    return [gpu for gpu in gpus if gpu.instance is not None or (gpu.vendor, gpu.index) not in divided]


def _numbered(usable: Sequence[Gpu], numbers: Sequence[int], *, files: bool) -> list[Gpu] | None:
    """The GPUs with these numbers; None where there is one that we do not know."""
    plain = all(gpu.instance is None and gpu.vendor == "nvidia" for gpu in usable)
    if plain and files:
        by_number = {gpu.minor: gpu for gpu in usable if gpu.minor is not None}
    elif plain:
        by_number = {gpu.index: gpu for gpu in usable}
    else:
        row = sorted(usable, key=lambda gpu: -1 if gpu.minor is None else gpu.minor) if files else usable
        by_number = dict(enumerate(row))
    found = [by_number.get(number) for number in numbers]
    return None if None in found else [gpu for gpu in found if gpu is not None]


def _best(
    candidates: Iterable[list[Gpu] | None], sure: Sequence[Gpu], allowed: Sequence[Gpu] | None
) -> list[Gpu] | None:
    """The candidate with the most of what is held for sure and the least of what the cgroup forbids; else the first."""
    held_uuids = {gpu.uuid for gpu in sure}
    free = None if allowed is None else {gpu.uuid for gpu in allowed}

    def merit(candidate: list[Gpu]) -> int:
        uuids = {gpu.uuid for gpu in candidate}
        return len(uuids & held_uuids) - (0 if free is None else len(uuids - free))

    return max((one for one in candidates if one is not None), key=merit, default=None)


def _together(usable: Sequence[Gpu], chosen: Iterable[Gpu], used: Iterable[Gpu]) -> tuple[Gpu, ...]:
    uuids = {gpu.uuid for gpu in (*chosen, *used)}
    return tuple(gpu for gpu in usable if gpu.uuid in uuids)


def _named(usable: Sequence[Gpu], told: Mapping[str, str]) -> list[Gpu] | None:
    """GPUs by UUID, or by what a UUID begins with, as CUDA takes it. None: they are not named so."""
    for key in _VISIBLE:
        text = told.get(key, "")
        if len(text) > _LONGEST:
            continue
        names = [name.strip().lower() for name in text.split(",")]
        if not all(name.startswith(("gpu-", "mig-")) and len(name) >= _LEAST_PREFIX for name in names):
            continue
        found = [[gpu for gpu in usable if gpu.uuid.lower().startswith(name)] for name in names]
        if all(len(each) == 1 for each in found):
            return [gpu for each in found for gpu in each]
    return None


def _unconstrained(devices: str) -> bool:
    return any(
        kind == "a" or (kind == "c" and major == "*" and minor == "*" and "r" in rights)
        for kind, major, minor, rights in _DEVICE.findall(devices)
    )


def _allowed(usable: Sequence[Gpu], devices: str) -> list[Gpu] | None:
    """GPUs whose files a cgroup lets a job open. None: it lets it open all files, or is not there.

    195:255 and 195:254 are for the driver itself, and every job with a GPU may open them; no GPU has these numbers.
    """
    rows = _DEVICE.findall(devices)
    if not rows or _unconstrained(devices):
        return None
    # to make a file (m) is not to open it
    open_to = {(major, minor) for kind, major, minor, rights in rows if kind == "c" and "r" in rights}

    def free(gpu: Gpu) -> bool:
        major = _MAJORS.get(gpu.vendor, "")
        return (major, str(gpu.minor)) in open_to or (major, "*") in open_to

    return [gpu for gpu in usable if free(gpu)]


def _without(told: Mapping[str, str]) -> bool:
    """Whether Slurm would have told this process of GPUs, had its job any."""
    if any(told.get(key, "").strip() == _NONE for key in _VISIBLE):
        return True
    return _JOB in told and not any(key in told for key in _ASKED) and not any(map(told.get, _VISIBLE))
