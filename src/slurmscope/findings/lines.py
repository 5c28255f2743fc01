# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The `#SBATCH` lines that ask for this much.

Lines are pasted, so that one that is wrong is worse than none. Slurm does not keep the options that a job was asked
for with, only what it got: where what it got can have been asked for in ways that a line does not agree with, there is
none, and the advice has to say it in words.

- CPUs come by tasks or by CPUs of a task. Steps of srun tell which, and so does a program whose threads are as many.
- Fewer CPUs or GPUs take memory along, where that was asked for by CPU or by GPU: `--mem` stands beside them.
- No more is asked for than there is: of memory what the largest node of the partition has, of time what other jobs
  there had as their limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from slurmscope.findings import memory as memories
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change
from slurmscope.life import Life
from slurmscope.words import amount

_GIB, _MIB = 1 << 30, 1 << 20
_STEPS = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400)  # seconds that people write
# What mpirun and mpiexec start on each node by srun, in place of the program.
_LAUNCHERS = ("orted", "prted", "prte", "hydra", "pmi_proxy", "mpiexec", "mpirun", "mpispawn", "smpd")
_FEWEST_THREADS, _MOST_THREADS = 0.75, 1.5  # of its CPUs: a program that was told how many there are
_HELPERS = 2  # threads that libraries start beside those


class Shape(msgspec.Struct, frozen=True):
    """How its CPUs are cut into tasks."""

    tasks: int
    cpus: int  # of each


def shape(life: Life) -> Shape | None:
    """As the steps of srun tell that had all of the job's CPUs; None: nobody does."""
    told = [
        step.tasks
        for step in life.steps
        if step.id.isdecimal() and step.tasks and step.cpus in (None, life.cpus) and not _launcher(step.name)
    ]
    tasks = max(told, default=0)
    return Shape(tasks, life.cpus // tasks) if tasks and life.cpus and life.cpus % tasks == 0 else None


def cpus(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """So many CPUs in all, which are fewer than it has, and the memory that it needs beside them."""
    found = cpus_alone(case, wanted, why)
    return (*found, *_memory_beside(case)) if found else ()


def cpus_alone(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """None where nobody knows how it asked for them, or they came with the node."""
    life, known, total = case.life, shape(case.life), fitting(case, wanted)
    if total >= life.cpus or total < life.nodes or case.ground.whole(life):
        return ()
    if known is not None and known.cpus <= core(case):
        tasks = total // known.cpus
        return (Change("--ntasks", str(known.tasks), str(tasks), why),) if tasks >= life.nodes else ()
    if known is not None:
        return (Change("--cpus-per-task", str(known.cpus), str(total // known.tasks), why),)
    if life.nodes == 1 and total == core(case):
        return Change("--ntasks", None, "1", why), Change("--cpus-per-task", None, "1", why)
    return (Change("--cpus-per-task", str(life.cpus), str(total), why),) if _threaded(case) else ()


def in_words(case: Case, wanted: int) -> str:
    """To be added to advice: what no line can say."""
    life, total = case.life, fitting(case, wanted)
    if not life.nodes <= total < life.cpus or cpus_alone(case, wanted):
        return ""
    if case.ground.whole(life):
        return " It has its nodes to itself: others could use what it leaves only if it does without --exclusive."
    return f" {amount(total, 'CPU')} in all would do."


def core(case: Case) -> int:
    """CPUs of a core: Slurm gives out no less to a task."""
    return max(1, round(case.life.cpus / (case.ground.cores(case.life) or case.life.cpus or 1)))


def fitting(case: Case, wanted: int) -> int:
    """So many CPUs, or as many more as its tasks come in."""
    return -(-max(1, wanted) // _unit(case)) * _unit(case)


def nodes(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """Fewer nodes, and on each as much as before."""
    life, known = case.life, shape(case.life)
    if not 0 < wanted < life.nodes:
        return ()
    found = Change("--nodes", str(life.nodes), str(wanted), why)
    if known is None or known.tasks % life.nodes:
        return (found,)
    return found, Change("--ntasks", str(known.tasks), str(known.tasks // life.nodes * wanted), why)


def packed(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """All that it has on fewer nodes. None where its tasks cannot be dealt out to them, or nobody knows of them."""
    life, known, each = case.life, shape(case.life), memories.enough(case)
    if not 0 < wanted < life.nodes or known is None or known.tasks % wanted or each is None:
        return ()
    before = None if known.tasks % life.nodes else str(known.tasks // life.nodes)
    found = (
        Change("--nodes", str(life.nodes), str(wanted), why),
        Change("--ntasks-per-node", before, str(known.tasks // wanted), why),
    )
    larger = _memory(case, each / wanted, why)
    return (*found, *larger) if larger else ()


def memory(case: Case, wanted: float, why: str = "") -> tuple[Change, ...]:
    """So many bytes in all, as it is asked for of each node; none where no node there has that much."""
    return _memory(case, wanted / max(1, case.life.nodes), why)


def memory_kept(case: Case) -> tuple[Change, ...]:
    """As much as it had, beside fewer CPUs or GPUs."""
    life = case.life
    had = None if life.memory is None else _size(life.memory / max(1, life.nodes))
    return () if had is None else (Change("--mem", None, had, _place(case)),)


def advised(case: Case, count: float) -> int:
    """So many bytes in all, as they are written for each node."""
    count_of = max(1, case.life.nodes)
    return _within(case, count / count_of) * count_of


def there(case: Case, wanted: float) -> bool:
    """Whether a node of its partition has its part of so many bytes, as far as is known."""
    most = case.ground.largest(case.life)
    return most is None or wanted / max(1, case.life.nodes) <= most


def gpus(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """So many GPUs on each node, of the type that it had, and the memory that it needs beside them."""
    found = gpus_alone(case, wanted, why)
    fewer = found and wanted < sum(case.life.gpus.values()) / max(1, case.life.nodes)
    return (*found, *_memory_beside(case)) if fewer else found


def gpus_alone(case: Case, wanted: int, why: str = "") -> tuple[Change, ...]:
    """None where it has several types, or not as many on each node: nobody knows how it asked for them."""
    life, count = case.life, max(1, case.life.nodes)
    total = sum(life.gpus.values())
    if len(life.gpus) != 1 or not total or total % count or total // count == wanted:
        return ()
    kind = next(iter(life.gpus))
    named = f"{kind}:" if kind else ""
    after = f"{named}{wanted}" if wanted > 0 else None
    told = f"{why}, in place of --gres or --gpus" if after and why else why
    return (Change("--gpus-per-node", f"{named}{total // count}", after, told),)


def time(case: Case, wanted: float, why: str = "", seen: Iterable[Life] = ()) -> tuple[Change, ...]:
    """None where it is more than any job of its partition had as its limit, of those `seen` and earlier runs."""
    life, after = case.life, rounded_time(wanted)
    if life.time_limit is not None and after > life.time_limit and after > longest(case, seen):
        return ()
    before = None if life.time_limit is None else _clock(life.time_limit)
    return () if before == _clock(after) else (Change("--time", before, _clock(after), why),)


def longest(case: Case, seen: Iterable[Life] = ()) -> int:
    """The longest time limit that is known of a job in its partition: what is allowed nobody keeps."""
    known = (*seen, *case.past.same_work(case.life), case.life)
    return max(one.time_limit or 0 for one in known if one.partition == case.life.partition)


def rounded_time(seconds: float) -> int:
    """Up to what people write: minutes, quarters of an hour, hours."""
    for step in _STEPS:
        if seconds <= step * 12:
            return math.ceil(seconds / step) * step
    return math.ceil(seconds / 86400) * 86400


def rounded_size(count: float) -> int:
    """Up to a GiB, to 5 and to 10 where it is more; below a GiB, to 100 MiB."""
    if count <= _GIB:
        return max(1, math.ceil(count / (100 * _MIB))) * 100 * _MIB  # none would be all that there is
    step = next(step for most, step in ((20, 1), (100, 5), (math.inf, 10)) if count <= most * _GIB)
    return math.ceil(count / (step * _GIB)) * step * _GIB


def _launcher(name: str) -> bool:
    return name.rpartition("/")[2].lower().startswith(_LAUNCHERS)


def _unit(case: Case) -> int:
    """CPUs that a request can be larger by."""
    known, least = shape(case.life), core(case)
    return least if known is None or known.cpus <= least else known.tasks * least


def _threaded(case: Case) -> bool:
    """One process had about as many threads as there are CPUs, and all others one: no task was meant beside it."""
    summary, life = case.summary, case.life
    if summary is None or life.nodes != 1 or len(summary.nodes) != 1 or not summary.programs:
        return False
    most, node = max(summary.programs.values()), summary.nodes[0]
    if node.threads_peak is None or not node.processes_peak:
        return False
    many = _FEWEST_THREADS * life.cpus <= most <= _MOST_THREADS * life.cpus + _HELPERS
    return many and node.threads_peak - most <= node.processes_peak - 1 + _HELPERS


def _memory_beside(case: Case) -> tuple[Change, ...]:
    """Where it was asked for by CPU or by GPU, fewer of these would have less of it. No more than it had."""
    life, enough = case.life, memories.enough(case)
    if enough is None:
        return ()
    if life.memory is not None and advised(case, enough) >= life.memory:
        return memory_kept(case)
    return memory(case, enough, _place(case))


def _place(case: Case) -> str:
    return "in place of --mem-per-cpu" + (" or --mem-per-gpu" if case.gpus else "")


def _memory(case: Case, each: float, why: str) -> tuple[Change, ...]:
    """Of each node."""
    life, most = case.life, case.ground.largest(case.life)
    if most is not None and each > most:
        return ()
    before = None if life.memory is None else _size(life.memory / max(1, life.nodes))
    return (Change("--mem", before, _size(_within(case, each)), why),)


def _within(case: Case, each: float) -> int:
    """As people write it, and not for that more than there is."""
    most, rounded = case.ground.largest(case.life), rounded_size(each)
    return rounded if most is None or each > most or rounded <= most else max(math.ceil(each), most // _MIB * _MIB)


def _size(count: float) -> str:
    whole = math.ceil(count / _MIB) * _MIB
    return f"{whole // _GIB}G" if whole >= _GIB and whole % _GIB == 0 else f"{whole // _MIB}M"


def _clock(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text
