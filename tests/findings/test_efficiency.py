# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How much of what a job asked for it used. What is expected was worked out by hand, as seff does it."""

from __future__ import annotations

from typing import Any

import lives
import msgspec
import pytest
from findings import cases
from findings.cases import GIB, RAN, START

from slurmscope import life as lifes
from slurmscope.findings.efficiency import Efficiency, Use, efficiency, ran
from slurmscope.findings.rule import NoData
from slurmscope.life import Life
from slurmscope.summary import Summary

NOW = START + RAN
RUNS = cases.life("RUNNING")


def of(life: Life, summary: Summary | None = None, now: int = NOW) -> Efficiency:
    return efficiency(life, cases.stretched(summary, life, now), now)


def used(cpu_seconds: float | None, memory: float | None = None, **fields: Any) -> dict[str, Any]:
    size = None if memory is None else int(memory * GIB)
    return {"cpu_seconds": cpu_seconds, "steps": (lives.step(max_rss=size, memory_used=size),)} | fields


def requeued() -> Life:
    """The first attempt: it ran for 1000 s, with a CPU and a half busy."""
    job = lives.job(7, "REQUEUED", start_time=START, node_list="n1", end_time=START + 1000, time_limit=14400)
    return lifes.told(None, "c", lives.accounted(job, **used(1500.0)), START + 2000)


# A job, its CPU time over CPUs x time, and the same of memory; all of which sacct told.
SEFF = [
    ("a job", cases.life(), 25920 / (4 * 7200), 6 / 8),
    ("a task of an array", cases.life(array_id=5, array_tasks="3", cpus=2, told=used(7200.0, 2)), 0.5, 0.25),
    ("a component of a het job", cases.life(cpus=1, memory=GIB, told=used(3600.0, 0.5)), 0.5, 0.5),
    ("an attempt that was requeued", requeued(), 1500 / (4 * 1000), None),
    ("many nodes", cases.life(cpus=64, nodes=4, memory=128 * GIB, told=used(230400.0, 96)), 0.5, 0.75),
    # of 2 hours it was suspended for one
    ("suspended time", cases.life(told=used(7200.0, 4, suspended_seconds=3600)), 0.5, 0.5),
    # --mem-per-cpu=4G with 4 CPUs: memory is all of it
    ("memory by CPU", cases.life(memory=16 * GIB, told=used(28800.0, 4)), 1.0, 0.25),
    ("more than it asked for", cases.life(told=used(43200.0, 10)), 1.5, 1.25),
    ("nobody told", cases.life(told=used(None)), None, None),
    ("memory that it asked for is not known", cases.life(memory=None, told=used(28800.0, 4)), 1.0, None),
]


@pytest.mark.parametrize(("what", "life", "cpu", "memory"), SEFF, ids=[one[0] for one in SEFF])
def test_as_seff_has_it(what: str, life: Life, cpu: float | None, memory: float | None) -> None:
    found = of(life)
    assert found.cpu.share == (None if cpu is None else pytest.approx(cpu))
    assert found.cpu.asked == life.cpus
    assert found.cpu.known is (cpu is not None)
    assert found.memory.share == (None if memory is None else pytest.approx(memory))
    assert (found.cpu.source, found.cpu.coverage) == (("sacct", 1.0) if cpu is not None else ("", None))


def test_all_of_it() -> None:
    found = of(cases.life(), cases.summary())
    assert found == Efficiency(
        Use(4.0, 3.6, 4.0, 0.9, "sacct", 1.0, "high"),
        Use(8.0 * GIB, 5.0 * GIB, 6.0 * GIB, 0.75, "agent", 0.98, "high"),
        Use(),
        Use(),
        Use(14400.0, 7200.0, 7200.0, 0.5, "slurm", 1.0, "high"),
    )


ENDS = [
    ("COMPLETED", "high"),
    ("FAILED", "high"),
    ("CANCELLED", "medium"),
    ("TIMEOUT", "medium"),
    ("OUT_OF_MEMORY", "medium"),
    ("NODE_FAIL", "medium"),
]


@pytest.mark.parametrize(("state", "confidence"), ENDS)
def test_of_what_was_killed_sacct_may_not_have_got_everything(state: str, confidence: str) -> None:
    found = of(cases.life(state))
    assert (found.cpu.confidence, found.memory.confidence) == (confidence, confidence)


@pytest.mark.parametrize(("state", "confidence"), ENDS)
def test_no_verdict_rests_on_the_cpu_time_of_the_killed_alone(state: str, confidence: str) -> None:
    life, doubt = cases.life(state), confidence == "medium"
    assert bool(of(life).cpu.doubt) is doubt and of(life).cpu.known, "the figure is told all the same"
    assert isinstance(cases.asked("low_cpu", cases.of(cases.life(state, cpus=8, told=used(0.0, 6)))), NoData) is doubt
    # somebody measured, and found no more than that
    assert of(life, cases.summary()).cpu == Use(4.0, 3.6, 4.0, 0.9, "sacct", 1.0, confidence)
    assert bool(of(life, cases.summary(coverage=0.4)).cpu.doubt) is doubt


COVERAGES = [(1.0, "high"), (0.9, "high"), (0.89, "medium"), (0.5, "medium"), (0.49, "low"), (None, "low")]


@pytest.mark.parametrize(("coverage", "confidence"), COVERAGES)
def test_while_it_runs_what_was_measured_counts_as_far_as_it_goes(coverage: float | None, confidence: str) -> None:
    found = of(RUNS, cases.summary(cpu_share=0.4, coverage=coverage))
    assert found.cpu == Use(4.0, 1.6, 4.0, 0.4, "agent", coverage, confidence)
    assert (found.memory.coverage, found.memory.confidence) == (coverage, confidence)


def test_of_one_that_runs_sacct_knows_nothing_yet() -> None:
    life = lifes.told(None, "c", lives.accounted(lives.job(7, "RUNNING"), **used(100.0, 1)), START + 50)
    found = of(life)
    assert (found.cpu, found.memory) == (Use(4.0), Use(8.0 * GIB))


def test_sacct_that_missed_something_is_not_believed() -> None:
    """Where processes were not accounted for, an agent has seen more than it tells."""
    life = cases.life(told=used(10_000.0))
    assert of(life, cases.summary(cpu_seconds=10_499.0)).cpu.source == "sacct"
    found = of(life, cases.summary(cpu_seconds=20_000.0, cpu_share=0.7)).cpu
    assert (found.source, found.share) == ("agent", 0.7)


def test_what_slurm_itself_takes_is_nothing_that_sacct_missed() -> None:
    """On each node its processes are in the job's cgroup; of a job that does little they are much."""
    assert of(cases.life(told=used(0.5)), cases.summary(cpu_seconds=1.2)).cpu.source == "sacct"
    assert of(cases.life(told=used(0.5)), cases.summary(cpu_seconds=1.6)).cpu.source == "agent"
    on_two = cases.life(told=used(20.0), nodes=2, node_list="n[1-2]")
    assert of(on_two, cases.summary(cpu_seconds=22.5)).cpu.source == "sacct"
    assert of(on_two, cases.summary(cpu_seconds=23.5)).cpu.source == "agent"


def test_of_memory_the_larger_figure_is_the_truer_one() -> None:
    more = of(cases.life(told=used(100.0, 7)), cases.summary()).memory
    assert (more.peak, more.mean, more.source, more.share) == (7 * GIB, 5 * GIB, "sacct", 0.875)
    less = of(cases.life(told=used(100.0, 3)), cases.summary()).memory
    assert (less.peak, less.source, less.share) == (6 * GIB, "agent", 0.75)


def test_memory_of_many_nodes_is_added_up() -> None:
    nodes = tuple(cases.node_summary(f"n{at}", memory_peak=at * GIB) for at in (1, 2, 3))
    life = cases.life("RUNNING", nodes=3, node_list="n[1-3]", memory=24 * GIB)
    assert of(life, cases.summary(nodes=nodes, memory=cases.figures(4 * GIB, 5 * GIB))).memory.share == 0.25
    # not all of them tell a peak, and together they had more at one moment
    unknown = (*nodes[:2], cases.node_summary("n3", memory_peak=None))
    assert of(life, cases.summary(nodes=unknown, memory=cases.figures(4 * GIB, 12 * GIB))).memory.share == 0.5


GPUS = (cases.gpu(0, memory_peak=10 * GIB), cases.gpu(1, memory_peak=30 * GIB))
BUSY = {"gpu": cases.figures(0.25, 0.75), "gpus": GPUS}


@pytest.mark.parametrize("types", [{"a100": 2}, {"": 2}, {"a100": 1, "h100": 1}])
def test_gpus_of_any_type_or_none(types: dict[str, int]) -> None:
    found = of(cases.life(gpus=types), cases.summary(**BUSY))
    assert found.gpu == Use(2.0, 0.5, 1.5, 0.25, "agent", 0.98, "high")
    assert (found.gpu_memory.asked, found.gpu_memory.peak, found.gpu_memory.share) == (80 * GIB, 40 * GIB, 0.5)


def test_gpus_of_which_nobody_tells_are_not_idle() -> None:
    life = cases.life(gpus={"a100": 2})
    assert of(life).gpu == of(life, cases.summary()).gpu == Use(2.0)
    silent = cases.summary(gpus=(GPUS[0], cases.gpu(1, memory_peak=None)))
    assert of(life, silent).gpu_memory == of(life).gpu_memory == Use()


def test_without_gpus_there_is_nothing_to_tell_of_them() -> None:
    assert of(cases.life(), cases.summary(**BUSY)).gpu == Use()


def test_time() -> None:
    assert of(cases.life()).time.share == 0.5
    assert of(cases.life(time_limit=None)).time == Use(None, 7200.0, 7200.0, None, "slurm", 1.0, "high")
    assert of(cases.life("PENDING")).time == Use(14400.0)
    assert of(cases.life(time_limit=0)).time.share is None


def polled(*states: tuple[int, str], ran: int = RAN) -> Life:
    """One that polls saw in these states, at seconds since its start; up to `ran`."""
    life: Life | None = None
    for at, state in (*states, (ran, states[-1][1])):
        life = lifes.seen(life, "c", lives.job(7, state, time_limit=14400), START + at)
    assert life is not None
    return life


SLEPT = polled((0, "RUNNING"), (1000, "SUSPENDED"), (4000, "RUNNING"))
SLEEPS = polled((0, "RUNNING"), (1000, "SUSPENDED"), (2000, "RUNNING"), (5000, "SUSPENDED"))


def over(life: Life, suspended: int) -> Life:
    """As the accounting tells of it in the end."""
    job = lives.job(7, "COMPLETED", time_limit=14400, end_time=START + RAN)
    return lifes.told(life, "c", lives.accounted(job, suspended_seconds=suspended), NOW + 60)


def gone(life: Life, at: int) -> Life:
    return lifes.unseen(life, START + at)


RANS = [
    ("it has ended", cases.life(ran=500), NOW, 500),
    ("it runs", RUNS, START + 300, 300),
    ("it waits", cases.life("PENDING"), NOW, 0),
    ("it was suspended", cases.life(told={"suspended_seconds": 1200}), NOW, RAN - 1200),
    ("it was suspended for longer than it was there", cases.life(told={"suspended_seconds": 9999}), NOW, 0),
    ("it was cancelled while it waited", cases.life("CANCELLED", node_list="", told={"steps": ()}), NOW, 0),
    ("an attempt", requeued(), NOW, 1000),
    ("a clock was put back", RUNS, START - 50, 0),
    ("it was suspended, and runs again", SLEPT, NOW, RAN - 3000),
    ("it is suspended for the second time", SLEEPS, NOW, 4000),
    ("the accounting knows of it by now", msgspec.structs.replace(SLEPT, suspended_seconds=2990), NOW, RAN - 3000),
    ("the accounting knows better", over(SLEPT, 2950), NOW, RAN - 2950),
    ("it is gone, and nobody told how", gone(RUNS, RAN + 60), NOW + 86400, RAN + 60),
    ("nobody has looked for days", RUNS, NOW + 10 * 86400, 14400 + 3600),
    ("nobody has looked since it was resumed", SLEPT, NOW + 10 * 86400, 14400 + 3600),
    ("it was seen long after its limit", polled((0, "RUNNING"), (90000, "RUNNING"), ran=90000), NOW + 99999, 90000),
    ("it has no limit", msgspec.structs.replace(RUNS, time_limit=None), START + 99999, 99999),
]


@pytest.mark.parametrize(("what", "life", "now", "seconds"), RANS, ids=[one[0] for one in RANS])
def test_how_long_it_ran(what: str, life: Life, now: int, seconds: int) -> None:
    assert ran(life, now) == seconds


@pytest.mark.parametrize("life", [SLEPT, SLEEPS])
def test_what_was_measured_of_one_that_was_suspended_is_in_doubt(life: Life) -> None:
    found = of(msgspec.structs.replace(life, gpus={"a100": 2}), cases.summary(**BUSY))
    assert [found.cpu.doubt, found.gpu.doubt] == ["what it used while it was not suspended"] * 2
    assert (found.cpu.confidence, found.gpu.confidence, found.memory.doubt) == ("low", "low", "")
    # sacct counts the CPU time, and knows for how long it ran
    assert of(over(life, 3000), cases.summary(cpu_seconds=100.0)).cpu.doubt == ""
    short = polled((0, "RUNNING"), (1000, "SUSPENDED"), (1300, "RUNNING"))
    assert of(short, cases.summary()).cpu.doubt == ""


def test_one_that_ended_in_the_second_it_began() -> None:
    found = of(cases.life(ran=0, told=used(0.5, 1)))
    assert (found.cpu.share, found.memory.share, found.time.share) == (None, None, 0.0)
