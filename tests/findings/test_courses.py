# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is judged of a job from its course: samples as agents send them, with gaps, silent agents and GPUs untold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import lives
import msgspec
import pytest
from findings import cases, gpus
from findings.cases import FINE, FIRES, GIB, NO_DATA, START

from slurmscope import life as lifes
from slurmscope.course import AGENT, Course, Sample, add
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.life import Life
from slurmscope.measure import GpuUse
from slurmscope.summary import moments, summary

HOUR = 3600
Busy = Callable[[int, int], float | None]  # a second since the start and a GPU; None: the driver does not tell


def of(life: Life, busy: Busy, until: int, told: Callable[[int], bool] = lambda at: True, nodes: int = 1) -> Case:
    """A job up to now, of which agents on so many nodes told `until` a second; of its GPUs when they `told`."""
    now = life.end_time if life.ended and life.end_time is not None else life.changed_time
    each = sum(life.gpus.values()) // life.nodes
    course: Course | None = None
    for at in range(0, until, 30):
        for number in range(nodes):
            held = range(number * each, (number + 1) * each)
            course = add(
                course, sample(f"n{number + 1}", at, [(one, busy(at, one)) for one in held] if told(at) else [])
            )
    assert course is not None
    found = summary(course, life.nodes, START, START + until)
    ground = [gpus.node(f"n{number + 1}", gpus={"a100": each}) for number in range(life.nodes)]
    return cases.of(life, found, moments=moments(course), now=now, nodes=ground)


def sample(node: str, at: int, busy: Sequence[tuple[int, float | None]]) -> Sample:
    told = tuple(
        GpuUse(uuid=f"g{index}", index=index, utilization=one, memory_used=GIB, memory_total=40 * GIB)
        for index, one in busy
    )
    start = float(START + at)
    return Sample(
        node=node,
        start=start,
        end=start + 30,
        source=AGENT,
        cpus=4,
        cpu_seconds=108.0,
        memory=GIB,
        gpus=told or None,
    )


def runs(count: int = 1, hours: int = 6, nodes: int = 1) -> Life:
    given = {"nodes": nodes, "node_list": "n1" if nodes == 1 else f"n[1-{nodes}]", "cpus": 4 * nodes}
    return gpus.life(count, "RUNNING", ran=hours * HOUR, time_limit=10 * 86400, **given)


def never(at: int, gpu: int) -> float:
    return 0.0


def one_works(at: int, gpu: int) -> float:
    """The first of them, for half a minute in each hour: of eight a share of less than a thousandth."""
    return 0.9 if gpu == 0 and at % HOUR < 30 else 0.0


def one_untold(at: int, gpu: int) -> float | None:
    return None if gpu else 0.0


def one_silent(at: int, gpu: int) -> float | None:
    """The first works; the second is not told of after ten minutes."""
    return 0.9 if gpu == 0 else 0.0 if at < 600 else None


TABLE = [
    ("zero_gpu", "it never worked", of(runs(), never, 6 * HOUR), FIRES),
    ("zero_gpu", "its agent died after half an hour", of(runs(), never, HOUR // 2), NO_DATA),
    ("low_gpu", "its agent died after half an hour", of(runs(), never, HOUR // 2), NO_DATA),
    ("zero_gpu", "the driver told for ten minutes", of(runs(), never, 6 * HOUR, lambda at: at < 600), NO_DATA),
    ("low_gpu", "the driver told for ten minutes", of(runs(), never, 6 * HOUR, lambda at: at < 600), NO_DATA),
    ("zero_gpu", "one of two GPUs is never told of", of(runs(2), one_untold, 6 * HOUR), NO_DATA),
    ("zero_gpu", "agents on two of three nodes", of(runs(12, 3, 3), never, 3 * HOUR, nodes=2), NO_DATA),
    ("low_gpu", "agents on two of three nodes", of(runs(12, 3, 3), never, 3 * HOUR, nodes=2), FIRES),
    ("low_gpu", "agents on one of three nodes", of(runs(12, 3, 3), never, 3 * HOUR, nodes=1), NO_DATA),
    ("unused_gpus", "a GPU was told of for ten minutes", of(runs(2), one_silent, 6 * HOUR), NO_DATA),
    ("zero_gpu", "one of eight works now and then", of(runs(8, 24), one_works, 24 * HOUR), FINE),
    ("stopped_gpu", "one of eight works now and then", of(runs(8, 24), one_works, 24 * HOUR), FINE),
    ("unused_gpus", "one of eight works now and then", of(runs(8, 24), one_works, 24 * HOUR), FIRES),
]


@pytest.mark.parametrize(("rule", "what", "case", "expected"), TABLE, ids=[f"{one[0]}: {one[1]}" for one in TABLE])
def test_table(rule: str, what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked(rule, case), expected)


def test_coverage_is_that_of_all_of_its_time() -> None:
    """The summary is of the time up to the last sample, all of which was measured."""
    silent = of(runs(), never, HOUR // 2)
    assert silent.summary is not None and silent.summary.coverage == 1.0
    used = silent.efficiency
    assert [silent.coverage, used.cpu.coverage, used.memory.coverage] == [pytest.approx(1 / 12)] * 3
    assert [used.gpu.coverage, used.gpu_memory.coverage] == [pytest.approx(1 / 12)] * 2
    assert used.cpu.confidence == used.gpu.confidence == "low"


def test_gpus_have_a_coverage_of_their_own() -> None:
    some = of(runs(2), one_untold, 6 * HOUR)
    assert (some.coverage, some.efficiency.gpu.coverage) == (1.0, 0.5)


def test_a_figure_of_some_gpus_says_of_how_many() -> None:
    found = cases.asked("low_gpu", of(runs(12, 3, 3), never, 3 * HOUR, nodes=2))
    assert isinstance(found, Finding)
    assert found.text.endswith("on average, as far as 8 of them tell.")
    assert (found.figures["gpus"], found.figures["told"]) == (12.0, 8.0)
    assert found.waste.gpu_seconds == 8 * 3 * HOUR, "of the others nobody knows what they did"


# --- suspended jobs ---------------------------------------------------------------------------------------------------


def polled(*states: tuple[int, str]) -> Life:
    """A job with a GPU that polls saw in these states, at hours since its start."""
    life: Life | None = None
    for at, state in states:
        job = lives.job(7, state, gpus={"a100": 1}, time_limit=10 * 86400)
        life = lifes.seen(life, "c", job, START + at * HOUR)
    assert life is not None
    return life


def until(hour: int) -> Busy:
    """At work up to that hour."""
    return lambda at, gpu: 0.9 if at < hour * HOUR else 0.0


SLEEPS = polled((0, "RUNNING"), (1, "SUSPENDED"), (4, "SUSPENDED"))
AWAKE = polled((0, "RUNNING"), (1, "SUSPENDED"), (4, "RUNNING"))
SLEPT = polled((0, "RUNNING"), (1, "SUSPENDED"), (4, "RUNNING"), (6, "RUNNING"))


def test_one_that_is_suspended_does_nothing_wrong() -> None:
    assert cases.told(of(SLEEPS, until(1), 4 * HOUR)) == []


def test_one_that_was_resumed_just_now_did_nothing_wrong() -> None:
    case = of(AWAKE, until(1), 4 * HOUR)
    assert cases.told(case) == []
    assert [one.gpu is None for one in case.line if one.time < START + HOUR] == [False] * (HOUR // case.step)
    assert {(one.cpu, one.gpu) for one in case.line if one.time >= START + HOUR} == {(None, None)}
    assert all(one.memory == GIB for one in case.line), "which it keeps"


def test_one_that_stands_still_since_it_was_resumed_is_told_of() -> None:
    still = of(SLEPT, until(1), 6 * HOUR)
    idle = [msgspec.structs.replace(one, cpu=0.0) for one in still.line]
    found = cases.asked("idle_node", cases.of(SLEPT, still.summary, moments=idle, now=still.now))
    assert isinstance(found, Finding) and found.figures["idle_seconds"] == 2 * HOUR
