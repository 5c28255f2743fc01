# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The next request, from what the last runs of the same work used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import lives
import msgspec
import pytest
from findings import cases
from findings.cases import GIB, RAN
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.findings.cost import Cost, Prices
from slurmscope.findings.efficiency import efficiency
from slurmscope.findings.request import Request, next_request, same_work
from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.settings import Cost as CostSettings
from slurmscope.summary import Summary

HOUR = 3600
DAY = [cases.life(time_limit=24 * HOUR)]
Run = tuple[Life, Summary | None]


def run(
    id_: int = 7,
    state: str = "COMPLETED",
    memory_used: int | None = GIB,
    cores: float | None = 4.0,
    used: Summary | None = None,
    **fields: Any,
) -> Run:
    """One that asked for 4 CPUs, 8 GiB and 4 h, and took 2 h."""
    ran = fields.pop("ran", RAN)
    told = {
        "cpu_seconds": None if cores is None else cores * ran,
        "steps": (lives.step(memory_used=memory_used, max_rss=memory_used),),
    }
    return msgspec.structs.replace(cases.life(state, ran=ran, told=told, **fields), id=id_), used


def asked(found: Request | None) -> dict[str, tuple[str | None, str | None]]:
    return {} if found is None else {one.option: (one.before, one.after) for one in found.changes}


def nobody_waits(*asked: object) -> float | None:
    return None


def request(*runs: Run, seen: Sequence[Life] = (), nodes: Sequence[Node] | None = None) -> Request | None:
    """For the first of them, in a partition of nodes of 64 CPUs and 512 GiB, where others had a day."""
    there = [cases.node(cpus=64, cpus_effective=64, memory=512 * GIB)] if nodes is None else nodes
    of = cases.of(*runs[0], nodes=there)
    return next_request(of, runs, Prices(), nobody_waits, seen or DAY)


def many(count: int, **fields: Any) -> list[Run]:
    return [run(at, **fields) for at in range(count)]


TWO_OF_FOUR = tuple(cases.gpu(at, peak=0.9 if at < 2 else 0.0, mean=0.5 if at < 2 else 0.0) for at in range(4))
ON_GPUS: dict[str, Any] = {"gpus": {"a100": 4}, "memory_used": 7 * GIB, "time_limit": 9000, "cores": 4.0}
JUST: dict[str, Any] = {"memory_used": 6 * GIB, "time_limit": 9000}

TABLE: list[tuple[str, list[Run], dict[str, tuple[str | None, str | None]]]] = [
    (
        "over-asker: the largest peak and 20 %, the longest run and 25 %",
        [*many(5, cpus=16, cores=1.0, memory=64 * GIB, time_limit=48 * HOUR)],
        {
            "--ntasks": (None, "1"),
            "--cpus-per-task": (None, "1"),
            "--mem": ("64G", "2G"),
            "--time": ("2-00:00:00", "02:30:00"),
        },
    ),
    ("one that asks for what it uses", many(5, **JUST), {}),
    (
        "killed for want of memory",
        [run(1, "OUT_OF_MEMORY", memory_used=8 * GIB, time_limit=9000), *many(4, memory_used=5 * GIB, time_limit=9000)],
        {"--mem": ("8G", "12G")},
    ),
    (
        "killed for want of memory, and nothing else is known",
        [run(1, "OUT_OF_MEMORY", memory_used=None, cores=None)],
        {"--mem": ("8G", "12G")},
    ),
    (
        "stopped at its limit",
        [run(1, "TIMEOUT", memory_used=6 * GIB, ran=4 * HOUR), *many(4, memory_used=6 * GIB)],
        {"--time": ("04:00:00", "06:00:00")},
    ),
    (
        "one that was just in time",
        many(5, memory_used=6 * GIB, time_limit=RAN + 60),
        {"--time": ("02:01:00", "02:30:00")},
    ),
    (
        "mixed: what failed early says nothing, and what used more says so",
        [run(1, "FAILED", memory_used=GIB // 4, ran=300), *many(4), run(9, "CANCELLED", memory_used=4 * GIB)],
        {"--mem": ("8G", "6G"), "--time": ("04:00:00", "02:45:00")},
    ),
    ("only what failed", [run(1, "FAILED", memory_used=GIB, cores=1.0), run(2, "CANCELLED")], {}),
    (
        "one run: half as much again",
        [run(1, time_limit=24 * HOUR)],
        {"--mem": ("8G", "2G"), "--time": ("1-00:00:00", "03:00:00")},
    ),
    (
        "the tasks of an array are runs of one work",
        [
            run(at, array_id=7, array_tasks=str(at), memory_used=GIB * at, time_limit=9000, ran=RAN - at)
            for at in range(1, 6)
        ],
        {"--mem": ("8G", "6G")},
    ),
    (
        "half of its GPUs were not used",
        [run(1, used=cases.summary(gpu=cases.figures(0.25, 0.5), gpus=TWO_OF_FOUR), **ON_GPUS)],
        {"--gpus-per-node": ("a100:4", "a100:2"), "--mem": (None, "8G")},
    ),
    (
        "no GPU was",
        [run(1, used=cases.summary(gpus=tuple(cases.gpu(at, peak=0.0) for at in range(4))), **ON_GPUS)],
        {"--gpus-per-node": ("a100:4", None), "--mem": (None, "8G")},
    ),
    (
        "a GPU that tells nothing may be in use",
        [run(1, used=cases.summary(gpus=tuple(cases.gpu(at, peak=None) for at in range(4))), **ON_GPUS)],
        {},
    ),
    ("GPUs that nobody measured", [run(1, **ON_GPUS)], {}),
    ("some of its GPUs are not known", [run(1, used=cases.summary(gpus=TWO_OF_FOUR[2:]), **ON_GPUS)], {}),
    (
        "a run without GPUs says nothing of them",
        [run(1, **ON_GPUS), run(2, memory_used=7 * GIB, time_limit=9000, used=cases.summary())],
        {},
    ),
    ("its memory is not known", many(5, memory_used=None, time_limit=9000), {}),
    ("how much it asked for is not known", many(5, memory=None, time_limit=9000), {}),
    ("it runs, and nothing else is known", [run(1, "RUNNING")], {}),
    (
        "it runs, and earlier ones have ended",
        [run(1, "RUNNING", time_limit=9000), *many(5, memory_used=2 * GIB)],
        {"--mem": ("8G", "3G")},
    ),
    (
        "it has run for longer than all before",
        [run(1, "RUNNING", ran=3 * HOUR), *many(5, memory_used=7 * GIB)],
        {},
    ),
    ("runs of seconds say nothing", many(5, ran=20, cores=1.0), {}),
    (
        "cores that are busy in bursts, as the agent saw them",
        [run(1, cpus=16, cores=5.0, used=cases.summary(cpu=cases.figures(5.0, 16.0)), **JUST)],
        {},
    ),
    (
        "… and those that are busy for most of the time",
        [
            run(
                1,
                cpus=16,
                cores=5.0,
                used=cases.summary(
                    cpu=msgspec.structs.replace(cases.figures(5.0, 16.0), p95=6.05),
                    programs={"work": 16},
                    nodes=(cases.node_summary(processes_peak=3, threads_peak=18),),
                ),
                **JUST,
            )
        ],
        {"--cpus-per-task": ("16", "6"), "--mem": (None, "8G")},
    ),
    ("CPUs that nobody knows how it asked for", many(5, cpus=16, cores=4.0, **JUST), {}),
    (
        "a larger run that was killed does not say that this one needs more",
        [run(1, memory_used=6 * GIB, time_limit=9000), run(2, "OUT_OF_MEMORY", cpus=64, memory=400 * GIB)],
        {},
    ),
    (
        "… but keeps it from getting less",
        [run(1, memory_used=GIB, time_limit=9000), run(2, "OUT_OF_MEMORY", cpus=64, memory=6 * GIB)],
        {},
    ),
    ("shortened by larger runs: no", [run(1, "FAILED", memory_used=6 * GIB), *many(5, cpus=64, cores=64.0)], {}),
]


@pytest.mark.parametrize(("what", "runs", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, runs: list[Run], expected: dict[str, tuple[str | None, str | None]]) -> None:
    assert asked(request(*runs)) == expected


def test_it_says_why() -> None:
    found = request(*many(5, cpus=16, cores=1.0, memory=64 * GIB, time_limit=48 * HOUR))
    assert found is not None
    assert [one.why for one in found.changes] == [
        "1 of 16 were busy in 5 runs",
        "1 of 16 were busy in 5 runs",
        "1 GiB at most in 5 runs, and 20 % more",
        "the longest of 5 runs took 2 h 0 min, and 25 % more",
    ]
    alone = request(run(1, memory=64 * GIB))
    assert alone is not None and alone.changes[0].why.endswith(
        "in one run, and half as much again, for one run tells little"
    )


def test_the_same_work() -> None:
    life = cases.life(name="train-07")
    for other in ("train-08", "train_1_2", "train"):
        assert same_work(life, cases.life(name=other)), other
    for fields in ({"name": "test-07"}, {"user": "bob"}, {"account": "math"}, {"nodes": 2}):
        assert not same_work(life, cases.life(**({"name": "train-07"} | fields))), fields
    assert not same_work(cases.life(name="12"), cases.life(name="13")), "a number is all the name that it has"
    assert request(run(1), *many(5, name="other")) == request(run(1)), "other work says nothing"
    assert same_work(cases.life(name="1" * 100_000 + "a"), cases.life(name="1" * 100_000 + "a_2")), "at once"


def test_cpus_of_tasks() -> None:
    """Fewer tasks is another way to cut the work: told only where half of them are enough."""

    def ranks(count: int, cores: float) -> Run:
        life, _ = run(1, cpus=16, cores=cores, **JUST)
        steps = (*life.steps, lives.step("0", tasks=count, cpus=16))
        return msgspec.structs.replace(life, steps=steps), None

    assert asked(request(ranks(1, 4.0))) == {"--cpus-per-task": ("16", "5"), "--mem": (None, "8G")}, "a quarter more"
    assert asked(request(ranks(4, 5.0))) == {"--cpus-per-task": ("4", "2"), "--mem": (None, "8G")}
    assert asked(request(ranks(16, 8.0))) == {}
    assert asked(request(ranks(16, 4.0))) == {"--ntasks": ("16", "5"), "--mem": (None, "8G")}


def test_a_busy_thread_has_a_core_to_itself() -> None:
    smt = [cases.node(cpus=64, cpus_effective=64, memory=512 * GIB, threads_per_core=2)]
    step = cases.srun(32, 16)

    def ranks(cores: float) -> Run:
        life, _ = run(1, cpus=32, cores=cores, **JUST)
        return msgspec.structs.replace(life, steps=(*life.steps, step)), None

    assert asked(request(ranks(15.9), nodes=smt)) == {}, "one on each core"
    assert asked(request(ranks(6.0), nodes=smt)) == {"--ntasks": ("16", "8"), "--mem": (None, "8G")}


def test_what_no_line_asks_for_is_told_in_words() -> None:
    life, _ = run(1, cpus=16, cores=4.0, memory=64 * GIB, time_limit=9000)
    found = request((life, None))
    assert asked(found) == {"--mem": ("64G", "2G")}, "its CPUs may be of one task or of many"
    assert found is not None and found.notes == ("5 CPUs in all would do",)
    assert found.words().startswith("from 1 run; 5 CPUs in all would do; saves")
    assert found.after.cpus == 16


def test_memory_that_was_asked_for_by_cpu_stays() -> None:
    """8 CPUs of 4 GiB each, of which one was busy and 28 GiB were used."""
    found = request(run(1, cpus=8, cores=1.0, memory=32 * GIB, memory_used=28 * GIB, time_limit=9000))
    assert asked(found) == {"--ntasks": (None, "1"), "--cpus-per-task": (None, "1"), "--mem": (None, "32G")}
    assert found is not None and found.changes[-1].why == "in place of --mem-per-cpu"
    assert (found.after.cpus, found.after.memory) == (1, 32 * GIB)


def test_no_more_than_there_is_is_asked_for() -> None:
    killed = run(1, "OUT_OF_MEMORY", memory=60 * GIB, memory_used=59 * GIB, cores=None)
    assert asked(request(killed, nodes=[cases.node(memory=95 * GIB)])) == {"--mem": ("60G", "90G")}
    assert asked(request(killed, nodes=[cases.node(memory=92 * GIB)])) == {"--mem": ("60G", "90G")}
    assert asked(request(killed, nodes=[cases.node(memory=64 * GIB)])) == {}
    assert asked(request(killed, nodes=[])) == {"--mem": ("60G", "90G")}, "nobody knows what there is"
    stopped = run(1, "TIMEOUT", memory_used=GIB, ran=168 * HOUR, time_limit=168 * HOUR)
    assert asked(request(stopped, seen=[cases.life(time_limit=168 * HOUR)])) == {}
    assert asked(request(stopped, seen=[cases.life(time_limit=300 * HOUR)])) == {
        "--time": ("7-00:00:00", "11-00:00:00")
    }
    assert asked(request(stopped, seen=[cases.life(time_limit=300 * HOUR, partition="long")])) == {}
    more = [stopped, *many(4, memory_used=GIB, time_limit=168 * HOUR)]
    found = request(*more, seen=[cases.life(time_limit=168 * HOUR)])
    assert found is not None and asked(found) == {"--mem": ("8G", "2G")}
    assert found.notes == ("more time, as far as the partition allows: a run was stopped after 7 d 0 h",)
    assert found.after.time == 168 * HOUR


def test_memory_is_asked_for_of_each_node() -> None:
    """… and so for what the fullest one needs."""
    nodes = (cases.node_summary("n1", memory_peak=6 * GIB), cases.node_summary("n2", memory_peak=GIB))
    used = cases.summary(memory=cases.figures(4 * GIB, 7 * GIB), nodes=nodes)
    found = request(run(1, nodes=2, node_list="n[1-2]", memory=64 * GIB, used=used, time_limit=9000))
    assert asked(found) == {"--mem": ("32G", "9G")}
    assert found is not None and found.after.memory == 18 * GIB


def test_what_it_saves() -> None:
    prices = Prices(CostSettings(currency="EUR", core_hour=0.5))
    runs = many(5, cpus=16, cores=1.0, memory=64 * GIB, time_limit=9000)
    found = next_request(cases.of(*runs[0], nodes=[]), runs, prices, nobody_waits)
    assert found is not None and found.runs == 5
    assert found.saving.cpu_seconds == 15 * RAN
    assert found.saving.memory_byte_seconds == 62 * GIB * RAN
    assert found.saving.money == pytest.approx(15.0)
    assert found.words() == "from 5 runs; saves 30 core-hours, about 0.2 kWh, 15 EUR in an average run"
    killed = request(run(1, "OUT_OF_MEMORY", memory_used=None))
    assert killed is not None and killed.saving == Cost() and killed.words() == "from runs that did not end well"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (9000.0, 1800.0, "starts about 2 h earlier"),
        (400000.0, 100.0, "starts about 5 d earlier"),
        (3000.0, 600.0, "starts about 40 min earlier"),
        (700.0, 600.0, None),
        (600.0, 9000.0, None),
        (9000.0, None, None),
        (None, 0.0, None),
    ],
)
def test_how_much_earlier_it_may_start(before: float | None, after: float | None, told: str | None) -> None:
    def waits(partition: str, cpus: int, gpus: int, memory: float | None, time: float | None) -> float | None:
        assert (partition, gpus, memory) == ("main", 0, 8 * GIB if cpus == 16 else 2 * GIB)
        return before if cpus == 16 else after

    runs = many(5, cpus=16, cores=1.0, partition="main,long")
    found = next_request(cases.of(*runs[0]), runs, Prices(), waits)
    assert found is not None
    assert (found.wait_before, found.wait_after) == (before, after)
    assert (found.words().rpartition("; ")[2] if "starts" in found.words() else None) == told


def test_what_asks_for_more_does_not_start_earlier() -> None:
    waits = {2.0: 9000.0, 3.0: 60.0}
    runs = [run(1, "TIMEOUT", memory_used=6 * GIB, ran=2 * HOUR, time_limit=2 * HOUR)]
    found = next_request(
        cases.of(*runs[0]), runs, Prices(), lambda *asked: waits.get((asked[-1] or 0) / HOUR, 9000.0), DAY
    )
    assert found is not None and asked(found) == {"--time": ("02:00:00", "03:00:00")}
    assert found.sooner is None


# --- whatever was run -------------------------------------------------------------------------------------------------


@st.composite
def any_run(draw: st.DrawFn, id_: int) -> Run:
    cpus, gpus = draw(st.sampled_from([1, 2, 4, 16])), draw(st.sampled_from([0, 0, 1, 4]))
    held = {"a100": gpus} if gpus else {}
    state = draw(
        st.sampled_from(["COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "RUNNING"])
    )
    memory = draw(st.one_of(st.none(), st.integers(1, 200 * GIB)))
    cores = draw(st.one_of(st.none(), st.floats(0, cpus)))
    used = None
    if draw(st.booleans()):
        p95 = draw(st.floats(0, cpus))
        peak = draw(st.integers(0, 200 * GIB))
        boards = tuple(cases.gpu(at, peak=draw(st.sampled_from([None, 0.0, 0.7]))) for at in range(gpus))
        used = cases.summary(
            coverage=draw(st.sampled_from([None, 0.2, 0.97])),
            cpu=msgspec.structs.replace(cases.figures(p95 / 2, float(cpus)), p95=p95),
            memory=cases.figures(peak / 2, peak),
            nodes=(cases.node_summary(memory_peak=peak),),
            gpus=boards,
        )
    return run(
        id_, state, memory_used=memory, cores=cores, used=used, cpus=cpus, gpus=held,
        memory=draw(st.one_of(st.none(), st.integers(1 << 20, 300 * GIB))),
        time_limit=draw(st.one_of(st.none(), st.integers(60, 10**6))), ran=draw(st.integers(0, 10**6)),
    )  # fmt: skip


@st.composite
def any_runs(draw: st.DrawFn) -> list[Run]:
    return [draw(any_run(at)) for at in range(1, draw(st.integers(2, 6)))]


def meant(found: Request, option: str) -> float | None:
    """What a line asks for, as Slurm reads it."""
    text = next((one.after for one in found.changes if one.option == option), None)
    if text is None:
        return None
    if option == "--time":
        days, _, clock = text.rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
    if option == "--mem":
        return int(text[:-1]) * {"M": 1 << 20, "G": GIB}[text[-1]]
    return float(re.sub(r".*:", "", text))


@given(any_runs())
def test_following_it_never_asks_for_less_than_a_run_that_completed_used(runs: Sequence[Run]) -> None:
    found = next_request(cases.of(*runs[0]), runs, Prices(), nobody_waits)
    if found is None:
        return
    gone = {one.option for one in found.changes if one.after is None}
    before = {"--time": found.before.time, "--mem": found.before.memory}
    for life, used in runs:
        if life.state != "COMPLETED":
            continue
        facts = efficiency(life, used, life.changed_time)
        for option, least in (
            ("--time", facts.time.mean),
            ("--mem", facts.memory.peak),
            ("--cpus-per-task", None if facts.cpu.source != "sacct" or life.gpus else (facts.cpu.mean or 0.0) - 0.1),
            ("--cpus-per-task", used.cpu.p95 - 0.1 if used and used.cpu and (used.coverage or 0) > 0.5 else None),
        ):
            wanted = meant(found, option)
            # what it had is written out where fewer CPUs would take memory along: that is no less
            more = option in ("--time", "--mem") and wanted is not None and wanted >= (before[option] or 0)
            assert wanted is None or least is None or wanted >= least or more, (option, wanted, least)
        if used is not None and used.gpus and (used.coverage or 0) > 0.5:
            busy = sum(1 for gpu in used.gpus if gpu.peak is None or gpu.peak > 0.1)
            wanted = 0.0 if "--gpus-per-node" in gone else meant(found, "--gpus-per-node")
            assert wanted is None or wanted >= busy
    assert found.after.memory is None or found.before.memory is not None
