# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs to be judged: what is not said of one is as of a job that does all right.

The job has 4 CPUs, 8 GiB and no GPU on node n1 (16 CPUs, 64 GiB), ran for 2 hours of 4, and all of it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lives
import msgspec

from slurmscope import life as lifes
from slurmscope.findings.case import Case, case
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.ground import Ground
from slurmscope.findings.judgement import judge
from slurmscope.findings.past import NodeRecord
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import Change, Exempt, Finding, Fine, NoData, Outcome
from slurmscope.life import Life, Step
from slurmscope.model import Node
from slurmscope.summary import Figures, GpuSummary, Moment, NodeSummary, Summary

GIB = 1 << 30
RAN = 7200
START = lives.SUBMIT + 100


def node(name: str = "n1", **fields: Any) -> Node:
    given: dict[str, Any] = {
        "state": "MIXED",
        "flags": frozenset(),
        "partitions": ("main",),
        "cpus": 16,
        "cpus_effective": 16,
        "cpus_allocated": 4,
        "load": 4.0,
        "memory": 64 * GIB,
        "memory_reserved": None,
        "memory_allocated": 8 * GIB,
        "memory_free": 50 * GIB,
        "gpus": {},
        "gpus_allocated": {},
        "weight": 1,
        "version": None,
        "features": (),
        "boot_time": None,
        "reason": None,
        "reason_user": None,
        "reason_time": None,
        "threads_per_core": 1,
    }
    return Node(name=name, **(given | fields))


def life(state: str = "COMPLETED", ran: int = RAN, told: dict[str, Any] | None = None, **fields: Any) -> Life:
    """`told` is what the accounting tells besides the job: steps, cpu_seconds. By default 90 % of its CPU time."""
    over = state not in ("RUNNING", "PENDING")
    given: dict[str, Any] = {"time_limit": 14400, "end_time": START + ran if over else None, "reason": None}
    job = lives.job(7, state, **(given | fields))
    if not over:
        return lifes.seen(None, "c", job, START + (ran if state == "RUNNING" else -50))
    used: dict[str, Any] = {
        "cpu_seconds": 0.9 * job.cpus * ran,
        "steps": (lives.step(cpu_seconds=0.9 * job.cpus * ran, memory_used=6 * GIB, max_rss=6 * GIB),),
    }
    return lifes.told(None, "c", lives.accounted(job, **(used | (told or {}))), START + ran + 10)


def srun(cpus: int, tasks: int = 1, **fields: Any) -> Step:
    """A step that has all CPUs of a job, as srun starts it when it is told nothing else."""
    given: dict[str, Any] = {"cpus": cpus, "tasks": tasks, "memory_used": 6 * GIB, "max_rss": 6 * GIB // tasks}
    return lives.step("0", **(given | {"name": "work"} | fields))


KEPT = Change("--mem", None, "8G", "in place of --mem-per-cpu")
"""The line that stands beside fewer CPUs, of a job that needs its 8 GiB."""


def figures(mean: float, peak: float | None = None) -> Figures:
    most = mean if peak is None else peak
    return Figures(mean, most, mean, mean, mean, mean, most)


def gpu(index: int = 0, **fields: Any) -> GpuSummary:
    given: dict[str, Any] = {
        "node": "n1",
        "uuid": f"GPU-{index}",
        "instance": None,
        "model": "NVIDIA A100-SXM4-40GB",
        "memory_total": 40 * GIB,
        "mean": 0.8,
        "peak": 1.0,
        "memory_peak": 30 * GIB,
        "energy": None,
        "idle_seconds": 0.0,
        "seconds": float(RAN) if fields.get("mean", 0.8) is not None else 0.0,
    }
    return GpuSummary(index=index, **(given | fields))


def node_summary(name: str = "n1", **fields: Any) -> NodeSummary:
    given: dict[str, Any] = {
        "seconds": float(RAN),
        "cpus": 4,
        "cpu_seconds": 0.9 * 4 * RAN,
        "cpu_peak": 4.0,
        "memory_mean": 5 * GIB,
        "memory_peak": 6 * GIB,
        "peak": 7 * GIB,
        "limit": 8 * GIB,
        "oom_kills": 0,
        "throttled_seconds": 0.0,
        "read_bytes": GIB,
        "written_bytes": GIB,
        "processes_peak": 4,
        "threads_peak": 6,
        "open_files_peak": 20,
    }
    return NodeSummary(node=name, **(given | fields))


def summary(**fields: Any) -> Summary:
    """Of all nodes and GPUs of the job that it is told of (`of`), for a share of its time: `coverage`."""
    given: dict[str, Any] = {
        "source": "agent",
        "coverage": 0.98,
        "seconds": float(RAN),
        "first": START,
        "last": START + RAN,
        "step": 30,
        "cpu": figures(3.6, 4.0),
        "cpu_seconds": 0.9 * 4 * RAN,
        "cpu_share": 0.9,
        "memory": figures(5 * GIB, 6 * GIB),
        "memory_share": 0.75,
        "read": figures(1e5, 1e6),
        "written": figures(1e5, 1e6),
        "read_bytes": GIB,
        "written_bytes": GIB,
        "gpu": None,
        "gpu_memory": None,
        "gpu_energy": None,
        "oom_kills": 0,
        "scratch": True,
        "programs": {"work": 4},
        "nodes": (node_summary(),),
        "gpus": (),
    }
    return Summary(**(given | fields))


def stretched(measured: Summary | None, of_life: Life, now: int) -> Summary | None:
    """For as long as the job ran, on all that it has, where it does not say for how long."""
    if measured is None or of_life.start_time is None:
        return measured
    long = ((of_life.end_time or 0) if of_life.ended else now) - of_life.start_time
    share = 1.0 if measured.coverage is None else measured.coverage
    seconds = share * of_life.nodes * long if measured.seconds == RAN else measured.seconds
    each = seconds / max(1, of_life.nodes)
    told = tuple(msgspec.structs.replace(one, seconds=each) if one.seconds == RAN else one for one in measured.gpus)
    return msgspec.structs.replace(measured, seconds=seconds, gpus=told)


def line(count: int = 240, step: int = 30, **of: Callable[[int], float | int | None]) -> list[Moment]:
    """Moments from the start on; each field is a function of its number."""
    found = []
    for at in range(count):
        given: dict[str, Any] = {
            "cpu": 3.6,
            "memory": 5 * GIB,
            "read": 1e5,
            "written": 1e5,
            "gpu": None,
            "gpu_memory": None,
            "gpu_power": None,
        }
        found.append(Moment(time=START + at * step, **(given | {name: one(at) for name, one in of.items()})))
    return found


class Past(msgspec.Struct):
    """What was before, as told here."""

    works: Sequence[Life] = ()
    tries: Sequence[Life] = ()
    late: Sequence[Life] = ()
    records: Sequence[NodeRecord] = ()

    def same_work(self, life: Life) -> Sequence[Life]:
        return self.works

    def attempts(self, life: Life) -> Sequence[Life]:
        return self.tries or (life,)

    def lately(self, life: Life, seconds: int) -> Sequence[Life]:
        return self.late or (life,)

    def record(self, life: Life) -> Sequence[NodeRecord]:
        return self.records


def of(
    of_life: Life | None = None,
    measured: Summary | None = None,
    *,
    nodes: Sequence[Node] | None = None,
    past: Past | None = None,
    moments: Sequence[Moment] = (),
    now: int = START + RAN,
) -> Case:
    """Without `measured` nothing was: the accounting alone tells."""
    ground = Ground([node()] if nodes is None else nodes)
    one = of_life or life()
    return case(one, stretched(measured, one, now), ground, past or Past(), now, moments)


def asked(name: str, of_case: Case, **limits: float) -> Outcome:
    """What the rule of that name says of a case."""
    rule = catalogue()[name]
    return rule.ask(of_case, rule.defaults | limits)


def told(of_case: Case) -> list[str]:
    """The rules that tell of a case when all are asked, the worst first."""
    return [one.rule for one in judge(of_case, Policy()).findings]


FIRES, FINE, EXEMPT, NO_DATA = Finding, Fine, Exempt, NoData
