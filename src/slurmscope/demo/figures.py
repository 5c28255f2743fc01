# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the accounting tells of a job of the demo: its steps, and what they used.

All of it follows from the job and from how its owner works, so that it is the same whenever it is asked for.
"""

from __future__ import annotations

from msgspec.structs import replace

from slurmscope import model
from slurmscope.demo import jobs
from slurmscope.demo.scripts import SALLOC, program, submit_line, work_dir
from slurmscope.life import Accounted, Step

PREEMPTED = "PREEMPTED"
# Power is measured where the vendor's management controller tells it: watts of a busy core, and of a busy GPU.
_POWER = {"a100": (3.5, 310), "h100": (4.0, 560)}
_ENDS = {
    # what is told of the step that was the last: its state, and its exit code where the job's is not it
    jobs.COMPLETED: ("COMPLETED", None),
    jobs.FAILED: ("FAILED", None),
    jobs.OUT_OF_MEMORY: ("OUT_OF_MEMORY", "0:125"),
}
_KILLED = ("CANCELLED", "0:15")


def _noise(job: model.Job) -> float:
    """Something between 0 and 1, of each life another."""
    return (job.id * 2_654_435_761 + (job.submit_time or 0)) % 4093 / 4093


def accounted(
    job: model.Job, use: tuple[float, float], steps: int, cancelled_by: str | None = None, array: str = ""
) -> Accounted:
    """Of a life that used such parts of its CPUs and its memory, with so many steps of srun; of an array with such
    tasks."""
    found = _used(job, *use, steps, cancelled_by)
    return replace(found, submit_line=submit_line(job, array), work_dir=work_dir(job.user, job.account))


def _used(job: model.Job, cpu: float, memory: float, steps: int, cancelled_by: str | None) -> Accounted:
    if not job.node_list:
        return Accounted(job, (), 0, None, None, "0:0", cancelled_by)
    if job.end_time is None:
        return Accounted(job, _running(job, steps), 0, None, None, None, None)
    noise = _noise(job)
    ran = job.end_time - (job.start_time or 0)
    used = round(job.cpus * ran * cpu * (0.97 + 0.03 * noise), 3)
    if job.state == jobs.OUT_OF_MEMORY:
        memory = 0.995
    touched = int((job.memory or 0) * memory * (0.93 + 0.07 * noise))
    energy = _energy(job, cpu, ran)
    found = _steps(job, steps if ran > 20 else 0, used, touched, energy, noise)
    failed = job.exit_code if job.state == jobs.FAILED else "0:0"
    return Accounted(job, found, 0, used or None, energy, failed, cancelled_by)


def _energy(job: model.Job, cpu: float, ran: int) -> int | None:
    for kind, count in job.gpus.items():
        if kind in _POWER:
            core, gpu = _POWER[kind]
            busy = min(1.0, 0.12 + 2 * cpu)
            return int(ran * (job.cpus * (1 + core * cpu) + count * (45 + gpu * busy)))
    return None


def _steps(job: model.Job, count: int, used: float, touched: int, energy: int | None, noise: float) -> tuple[Step, ...]:
    """The script, the container of what comes by ssh, and what was started with srun, one after the other."""
    start, end, nodes = job.start_time or 0, job.end_time or 0, job.nodes
    state, code = _ENDS.get(job.state, _KILLED)
    code = code or job.exit_code
    moved = int(touched * (0.4 + 2 * noise))
    salloc = "interactive" if job.name in SALLOC else "batch"
    extern = Step(
        "extern", "extern", "COMPLETED", "0:0", start, end, nodes, nodes, job.cpus, None, 1_000_000,
        1_000_000 * nodes, None, 6000, None,
    )  # fmt: skip
    if count == 0:
        script = Step(
            salloc, salloc, state, code, start, end, 1, 1, job.cpus // nodes, used or None, touched // nodes,
            touched // nodes, energy, moved, moved // 3,
        )  # fmt: skip
        return script, extern
    # the script only waits; what it used itself is what is missing in the sum of the others
    tasks = sum(job.gpus.values()) or (job.cpus if nodes > 1 else 1)
    name, lasts = program(job.name), (end - start - 4) // count
    most = min(touched, int(touched / tasks * (1.02 + 0.2 * noise)))
    share = round(used * 0.996 / count, 3)
    power = None if energy is None else energy * 99 // 100 // count
    rest = None if energy is None or power is None else energy - power * count
    own = 9_000_000 + int(noise * 4e7)
    found = [
        Step(
            salloc, salloc, state, code, start, end, 1, 1, job.cpus // nodes, round(used - share * count, 3) or None,
            own, own, rest, 2_000_000, 300_000,
        ),
        extern,
    ]  # fmt: skip
    for number in range(count):
        begun = start + 3 + number * lasts
        last = number == count - 1
        found.append(
            Step(
                str(number), name, state if last else "COMPLETED", code if last else "0:0", begun,
                end if last else begun + lasts, nodes, tasks, job.cpus, share, most, touched, power,
                moved // count, moved // 3 // count,
            )
        )  # fmt: skip
    return tuple(found)


def _running(job: model.Job, count: int) -> tuple[Step, ...]:
    """Of steps that are not over, nothing is known but that they are."""
    start, nodes = job.start_time, job.nodes
    salloc = "interactive" if job.name in SALLOC else "batch"
    found = [(salloc, salloc, 1, 1, job.cpus // nodes), ("extern", "extern", nodes, nodes, job.cpus)]
    if count:
        found.append(("0", program(job.name), nodes, sum(job.gpus.values()) or nodes, job.cpus))
    return tuple(
        Step(id_, name, "RUNNING", "0:0", start, None, many, tasks, cpus, None, None, None, None, None, None)
        for id_, name, many, tasks, cpus in found
    )
