# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From what processes tell of themselves to samples."""

from __future__ import annotations

from typing import Any

from slurmscope.course import Sample
from slurmscope.measured.tracing import Tracing
from slurmscope.trace.body import Body

T0 = 1_700_000_000.0
MIB = 1 << 20


def heard(*bodies: Body) -> list[Sample]:
    found: list[Sample] = []
    tracing = Tracing(lambda cluster, id_, sample: found.append(sample))
    for body in bodies:
        tracing.hear("alpha", body)
    return found


def told(at: float, **more: Any) -> Body:
    given: dict[str, Any] = {"cpus": 100.0, "threads": 1, "mem": MIB, "cpu_seconds": 2.0 * at, "read_bytes": 10.0 * at}
    return Body(job_id=1, pid=7, hostname="n1.example.org", time=T0 + at, **given | more)


def test_two_that_follow_each_other_are_a_sample() -> None:
    (found,) = heard(told(5), told(10, mem=3 * MIB))
    assert (found.node, found.part, found.start, found.end) == ("n1", "7", T0 + 5, T0 + 10)
    assert (found.cpu_seconds, found.read_bytes, found.written_bytes, found.memory) == (10.0, 50, None, 2 * MIB)


def test_a_command_that_tells_when_it_began_counts_from_then() -> None:
    first, second = heard(told(3, started=T0), told(8, started=T0 + 0.2))
    assert (first.start, first.end, first.cpu_seconds, first.read_bytes) == (T0, T0 + 3, 6.0, 30)
    assert (first.written_bytes, first.memory) == (None, MIB)
    assert (second.start, second.cpu_seconds) == (T0 + 3, 10.0)


def test_one_that_began_long_ago_or_just_now_does_not() -> None:
    assert heard(told(301, started=T0)) == []
    assert heard(told(5, started=T0 + 5)) == []


def test_without_its_processor_time_the_percents_count() -> None:
    (found,) = heard(told(4, started=T0, cpu_seconds=None))
    assert found.cpu_seconds == 4.0


def test_another_process_of_the_same_number_counts_from_its_own_start() -> None:
    _, found = heard(told(10, started=T0), told(30, started=T0 + 20, cpu_seconds=4.0))
    assert (found.start, found.cpu_seconds) == (T0 + 20, 4.0)


def test_a_counter_that_falls_counts_nothing() -> None:
    (found,) = heard(told(5), told(10, cpu_seconds=9.0, read_bytes=49.0))
    assert (found.cpu_seconds, found.read_bytes) == (0.0, 0)
