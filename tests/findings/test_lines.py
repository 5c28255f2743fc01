# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Lines to paste: which there are for every way that a job can have asked, and when there is none."""

from __future__ import annotations

from typing import Any

import lives
import pytest
from findings import anything, cases, gpus
from findings.cases import GIB
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.findings import lines
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Change
from slurmscope.life import Life, Step
from slurmscope.model import Node
from slurmscope.summary import Summary

HOUR = 3600
LARGE = [cases.node(f"n{at}", cpus=64, cpus_effective=64, memory=256 * GIB) for at in (1, 2, 3, 4)]
SMT = [cases.node(f"n{at}", cpus=64, cpus_effective=64, memory=256 * GIB, threads_per_core=2) for at in (1, 2, 3, 4)]
FOUR: dict[str, Any] = {"nodes": 4, "node_list": "n[1-4]"}


def job(cpus: int, *steps: Step, memory: int | None = 8, used: int = 6, **fields: Any) -> Life:
    """With its script, which used so many GiB of so many, and such steps."""
    script = lives.step(cpus=cpus, memory_used=used * GIB, max_rss=used * GIB)
    size = None if memory is None else memory * GIB
    return cases.life(cpus=cpus, memory=size, told={"steps": (script, *steps)}, **fields)


def rank(cpus: int | None, tasks: int | None, name: str = "work") -> Step:
    return lives.step("0", name=name, cpus=cpus, tasks=tasks, memory_used=None, max_rss=None)


def programs(threads: int, processes: int, of_all: int, **fields: Any) -> Summary:
    """One process with so many threads among so many processes, of which all have so many."""
    node = cases.node_summary(processes_peak=processes, threads_peak=of_all)
    return cases.summary(**({"programs": {"work": threads, "bash": 1}, "nodes": (node,)} | fields))


def told(changes: tuple[Change, ...]) -> dict[str, tuple[str | None, str | None]]:
    return {one.option: (one.before, one.after) for one in changes}


Told = dict[str, tuple[str | None, str | None]]
NONE: Told = {}
ONE: Told = {"--ntasks": (None, "1"), "--cpus-per-task": (None, "1")}


# --- CPUs -------------------------------------------------------------------------------------------------------------


def on(life: Life, measured: Summary | None = None, nodes: list[Node] = LARGE) -> Case:
    return cases.of(life, measured, nodes=nodes)


SHAPES: list[tuple[str, Case, int, Told]] = [
    ("a task for each CPU", on(job(16, rank(16, 16))), 5, {"--ntasks": ("16", "5")}),
    ("CPUs of one task", on(job(16, rank(16, 1))), 5, {"--cpus-per-task": ("16", "5")}),
    ("CPUs of four tasks", on(job(16, rank(16, 4))), 5, {"--cpus-per-task": ("4", "2")}),
    ("as many as its tasks", on(job(16, rank(16, 4))), 4, {"--cpus-per-task": ("4", "1")}),
    ("fewer than its tasks", on(job(16, rank(16, 4))), 1, {"--cpus-per-task": ("4", "1")}),
    ("no fewer for each task", on(job(16, rank(16, 4))), 13, NONE),
    ("tasks that do not divide", on(job(6, rank(6, 4))), 3, NONE),
    ("the step with the most tasks", on(job(16, rank(16, 1), rank(16, 16))), 5, {"--ntasks": ("16", "5")}),
    ("what a step has of a job is not its shape", on(job(8, *[rank(1, 1)] * 8)), 4, NONE),
    ("tasks on nodes", on(job(128, rank(128, 128), **FOUR)), 40, {"--ntasks": ("128", "40")}),
    ("not a task for each node", on(job(128, rank(128, 128), **FOUR)), 3, NONE),
    ("a task on each node", on(job(64, rank(64, 4), **FOUR)), 20, {"--cpus-per-task": ("16", "5")}),
    ("a step without CPUs", on(job(16, rank(None, 16))), 5, {"--ntasks": ("16", "5")}),
    ("a step without tasks", on(job(16, rank(16, None))), 5, NONE),
    *(
        (f"{name} is mpirun's", on(job(128, rank(128, 4, name=name), **FOUR)), 40, NONE)
        for name in ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy", "/opt/ORTED", "mpiexec")
    ),
    ("no step", on(job(64), nodes=[]), 24, NONE),
    ("no step, several nodes", on(job(64, **FOUR)), 24, NONE),
    ("no step, one CPU is enough", on(job(64), nodes=[]), 1, ONE),
    ("… of several nodes", on(job(64, **FOUR)), 1, NONE),
    ("… or none at all", on(job(64), nodes=[]), 0, ONE),
    ("one program with as many threads", on(job(16), programs(16, 3, 18)), 5, {"--cpus-per-task": ("16", "5")}),
    ("… and some of its libraries'", on(job(16), programs(18, 3, 20)), 5, {"--cpus-per-task": ("16", "5")}),
    ("… and few of them", on(job(16), programs(11, 3, 13)), 5, NONE),
    ("… and far too many", on(job(16), programs(64, 3, 66)), 5, NONE),
    ("many programs with a thread each", on(job(16), programs(1, 18, 18)), 5, NONE),
    ("four programs with four threads each", on(job(4), programs(4, 6, 18)), 2, NONE),
    ("threads are hidden", on(job(16), cases.summary(programs={"work": 16}, nodes=())), 5, NONE),
    ("it has that already", on(job(16, rank(16, 1))), 16, NONE),
    ("more than it has", on(job(16, rank(16, 1))), 20, NONE),
    ("a whole node", on(job(64, rank(64, 64), memory=250)), 5, NONE),
    ("all CPUs of a node, and little memory", on(job(64, rank(64, 64))), 5, {"--ntasks": ("64", "5")}),
    ("hardware threads: a core for each task", on(job(32, rank(32, 16)), nodes=SMT), 9, {"--ntasks": ("16", "5")}),
    ("hardware threads: whole cores", on(job(32, rank(32, 1)), nodes=SMT), 9, {"--cpus-per-task": ("32", "10")}),
    ("hardware threads: one core", on(job(32), nodes=SMT), 2, ONE),
    ("a core that is all that it has", on(job(2), nodes=SMT), 1, NONE),
]


@pytest.mark.parametrize(("what", "case", "wanted", "expected"), SHAPES, ids=[one[0] for one in SHAPES])
def test_cpus(what: str, case: Case, wanted: int, expected: Told) -> None:
    assert told(lines.cpus_alone(case, wanted)) == expected
    with_memory = told(lines.cpus(case, wanted, "why"))
    assert with_memory == (expected | {"--mem": with_memory["--mem"]} if expected else {})


@pytest.mark.parametrize(
    ("what", "case", "wanted", "expected"),
    [
        ("there is a line", on(job(16, rank(16, 1))), 5, ""),
        ("nobody knows how it asked", on(job(16)), 5, " 5 CPUs in all would do."),
        ("hardware threads", on(job(16), nodes=SMT), 5, " 6 CPUs in all would do."),
        ("fewer than it has nodes", on(job(16, **FOUR)), 3, ""),
        ("all that it has", on(job(16)), 16, ""),
        (
            "a whole node",
            on(job(64, memory=250)),
            5,
            " It has its nodes to itself: others could use what it leaves only if it does without --exclusive.",
        ),
    ],
)
def test_what_no_line_says_is_said_in_words(what: str, case: Case, wanted: int, expected: str) -> None:
    assert lines.in_words(case, wanted) == expected


# --- memory beside fewer CPUs and GPUs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "life", "expected"),
    [
        ("what it used and a fifth more", job(8, memory=32, used=10), ("32G", "12G")),
        ("no more than it had", job(8, memory=32, used=28), (None, "32G")),
        ("all of it, where it did not come to its end", job(8, memory=32, used=10, state="FAILED"), (None, "32G")),
        ("… where it ran out", job(8, memory=32, used=10, state="OUT_OF_MEMORY"), (None, "32G")),
        ("… where it runs", cases.life("RUNNING", cpus=8, memory=32 * GIB), (None, "32G")),
        ("… where nobody told", cases.life(cpus=8, memory=32 * GIB, told={"steps": ()}), (None, "32G")),
        ("nobody knows what it asked for", job(8, memory=None, used=10), (None, "12G")),
        ("nobody knows anything", cases.life(cpus=8, memory=None, told={"steps": ()}), None),
        ("nothing is all that it used", job(8, memory=32, used=0), ("32G", "100M")),
    ],
)
def test_memory_that_came_with_cpus_is_asked_for(
    what: str, life: Life, expected: tuple[str | None, str | None] | None
) -> None:
    found = lines.cpus(cases.of(life), 1, "one was busy")
    assert told(found) == ONE | ({} if expected is None else {"--mem": expected})
    assert [one.why for one in found[2:]] == ["in place of --mem-per-cpu"] * (expected is not None)


def test_memory_beside_fewer_cpus_is_asked_for_of_each_node() -> None:
    life = job(64, rank(64, 64), memory=64, used=20, **FOUR)
    assert told(lines.cpus(cases.of(life, nodes=LARGE), 16)) == {"--ntasks": ("64", "16"), "--mem": ("16G", "6G")}


# --- GPUs -------------------------------------------------------------------------------------------------------------

TWO: dict[str, Any] = {"nodes": 2, "node_list": "n[1-2]"}


@pytest.mark.parametrize(
    ("what", "life", "wanted", "expected"),
    [
        ("of a type", gpus.life(4), 1, ("a100:4", "a100:1")),
        ("of any", gpus.life(gpus={"": 4}), 1, ("4", "1")),
        ("none", gpus.life(4), 0, ("a100:4", None)),
        ("of each node", gpus.life(4, **TWO), 1, ("a100:2", "a100:1")),
        ("it has that already", gpus.life(4), 4, None),
        ("of two types", gpus.life(gpus={"a100": 2, "v100": 2}), 1, None),
        ("not as many on each node", gpus.life(3, **TWO), 1, None),
        ("it has none", cases.life(), 1, None),
    ],
)
def test_gpus(what: str, life: Life, wanted: int, expected: tuple[str | None, str | None] | None) -> None:
    found = lines.gpus(gpus.of(life), wanted, "few were used")
    memory = {"--mem": (None, "4G" if life.nodes == 2 else "8G")}
    assert told(found) == ({} if expected is None else {"--gpus-per-node": expected} | memory)
    if expected is not None:
        told_of = "" if wanted == 0 else ", in place of --gres or --gpus"
        assert found[0].why == f"few were used{told_of}"
        assert found[1].why == "in place of --mem-per-cpu or --mem-per-gpu"


def test_more_gpus_take_no_memory_along() -> None:
    assert told(lines.gpus(gpus.of(gpus.life(1)), 2)) == {"--gpus-per-node": ("a100:1", "a100:2")}


# --- nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "life", "wanted", "expected"),
    [
        ("on each as much", job(64, rank(64, 64), **FOUR), 2, {"--nodes": ("4", "2"), "--ntasks": ("64", "32")}),
        ("a task on each", job(64, rank(64, 4), **FOUR), 1, {"--nodes": ("4", "1"), "--ntasks": ("4", "1")}),
        ("nobody knows of its tasks", job(64, **FOUR), 2, {"--nodes": ("4", "2")}),
        ("not as many tasks on each", job(6, rank(6, 6), **FOUR), 2, {"--nodes": ("4", "2")}),
        ("none", job(64, **FOUR), 0, NONE),
        ("all", job(64, **FOUR), 4, NONE),
    ],
)
def test_nodes(what: str, life: Life, wanted: int, expected: Told) -> None:
    assert told(lines.nodes(cases.of(life, nodes=LARGE), wanted)) == expected


@pytest.mark.parametrize(
    ("what", "life", "wanted", "expected"),
    [
        (
            "all that it has on one",
            job(16, rank(16, 16), **FOUR),
            1,
            {"--nodes": ("4", "1"), "--ntasks-per-node": ("4", "16"), "--mem": ("2G", "8G")},
        ),
        (
            "… on two",
            job(16, rank(16, 8), **FOUR),
            2,
            {"--nodes": ("4", "2"), "--ntasks-per-node": ("2", "4"), "--mem": ("2G", "4G")},
        ),
        (
            "tasks that Slurm dealt out",
            job(6, rank(6, 6), **FOUR),
            2,
            {"--nodes": ("4", "2"), "--ntasks-per-node": (None, "3"), "--mem": ("2G", "4G")},
        ),
        ("tasks that cannot be dealt out", job(9, rank(9, 9), **FOUR), 2, NONE),
        ("nobody knows of its tasks", job(16, **FOUR), 1, NONE),
        ("memory that no node has", job(16, rank(16, 16), memory=400, used=300, **FOUR), 1, NONE),
        ("nobody knows of its memory", cases.life(cpus=4, memory=None, told={"steps": (rank(4, 4),)}, **FOUR), 1, NONE),
        ("no fewer", job(16, rank(16, 16), **FOUR), 4, NONE),
    ],
)
def test_all_on_fewer_nodes(what: str, life: Life, wanted: int, expected: Told) -> None:
    assert told(lines.packed(cases.of(life, nodes=LARGE), wanted)) == expected


# --- memory and time --------------------------------------------------------------------------------------------------

RESERVED = [cases.node(memory_reserved=4 * GIB)]


@pytest.mark.parametrize(
    ("what", "nodes", "wanted", "expected"),
    [
        ("rounded up", None, 10.2, "11G"),
        ("less than a GiB", None, 0.31, "400M"),
        ("none would be all of a node's", None, 0, "100M"),
        ("as much as there is", None, 64, "64G"),
        ("rounded to what there is", None, 62, "64G"),
        ("more than there is", None, 64.1, None),
        ("what is kept for the system is not there", RESERVED, 61, None),
        ("… and the rest is", RESERVED, 59, "60G"),
        ("the largest node counts", [cases.node(), cases.node("n2", memory=128 * GIB)], 100, "100G"),
        ("… of its partition", [cases.node(), cases.node("n2", memory=128 * GIB, partitions=("big",))], 100, None),
        ("nobody knows what there is", [], 1000, "1000G"),
        ("its nodes do not tell", [cases.node(memory=0)], 1000, "1000G"),
    ],
)
def test_memory(what: str, nodes: list[Node] | None, wanted: float, expected: str | None) -> None:
    case = cases.of(nodes=nodes)
    assert told(lines.memory(case, wanted * GIB)) == ({} if expected is None else {"--mem": ("8G", expected)})
    assert lines.there(case, wanted * GIB) == (expected is not None)


@pytest.mark.parametrize(
    ("what", "seen", "wanted", "expected"),
    [
        ("less", [], 1, "01:00:00"),
        ("more than anybody is known to have had", [], 6, None),
        ("another job had more", [cases.life(time_limit=8 * HOUR)], 6, "06:00:00"),
        ("… but not that much", [cases.life(time_limit=5 * HOUR)], 6, None),
        ("… in another partition", [cases.life(time_limit=8 * HOUR, partition="long")], 6, None),
        ("it has that already", [], 4, None),
    ],
)
def test_time(what: str, seen: list[Life], wanted: float, expected: str | None) -> None:
    line = {} if expected is None else {"--time": ("04:00:00", expected)}
    assert told(lines.time(cases.of(), wanted * HOUR, seen=seen)) == line
    assert told(lines.time(cases.of(past=cases.Past(works=seen)), wanted * HOUR)) == line, "its own earlier runs"


# --- whatever the job -------------------------------------------------------------------------------------------------


@given(anything.any_case(anything.LIVES, st.none() | anything.SUMMARIES, lined=False), st.integers(0, 70))
def test_no_line_asks_for_more_cpus_than_the_job_had(case: Case, wanted: int) -> None:
    found = told(lines.cpus(case, wanted))
    if not found:
        return
    shape = lines.shape(case.life) or lines.Shape(1, case.life.cpus)
    tasks = int(found.get("--ntasks", ("", str(shape.tasks)))[1] or 0)
    each = int(found.get("--cpus-per-task", ("", str(shape.cpus)))[1] or 0)
    assert 0 < tasks * each < case.life.cpus
    assert tasks * each >= min(wanted, case.life.cpus) or wanted <= 2
    assert "--mem" in found or case.life.memory is None
    for before, after in found.values():
        assert before != after
