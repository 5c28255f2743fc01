# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a life adds to the sums of its days."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from lives import SUBMIT, accounted, job

from slurmscope import life as lives
from slurmscope import usage
from slurmscope.life import Life
from slurmscope.usage import DAY, Amounts, Key

TODAY = SUBMIT // DAY
MIDNIGHT = (TODAY + 1) * DAY


def ended(start: int, end: int, **fields: Any) -> Life:
    more = {name: fields.pop(name) for name in ("cpu_seconds", "energy", "suspended_seconds") if name in fields}
    found = job(state=fields.pop("state", "COMPLETED"), start_time=start, end_time=end, **fields)
    return lives.told(None, "alpha", accounted(found, **more), end)


def sums(*found: Life) -> dict[Key, Amounts]:
    made: usage.Sums = {}
    for life in found:
        usage.add(made, life, 1)
    return dict(usage.deltas(made))


def key(day: int, gpu_type: str = "") -> Key:
    return Key(day, "alpha", "physics", "alice", "main", "normal", gpu_type)


def test_a_job_within_a_day() -> None:
    found = sums(ended(SUBMIT + 100, SUBMIT + 1100, cpu_seconds=2000.25, energy=5000))
    assert found == {
        key(TODAY): Amounts(
            submitted=1,
            started=1,
            ended=1,
            completed=1,
            wait_seconds=100,
            cpu_seconds=4000,
            memory_mib_seconds=8192 * 1000,
            cpu_used_ms=2_000_250,
            cpu_known_seconds=4000,
            memory_used_mib_seconds=2048 * 1000,
            memory_known_mib_seconds=8192 * 1000,
            energy_joules=5000,
        )
    }


def test_a_job_that_spans_midnight_is_split() -> None:
    found = sums(ended(MIDNIGHT - 100, MIDNIGHT + 300, cpu_seconds=800.001, gpus={"a100": 2}))
    before, after = found[key(TODAY, "a100")], found[key(TODAY + 1, "a100")]
    assert (before.cpu_seconds, after.cpu_seconds) == (400, 1200)
    assert (before.gpu_seconds, after.gpu_seconds) == (200, 600)
    assert before.cpu_used_ms + after.cpu_used_ms == 800_001
    assert (before.started, before.ended, after.started, after.ended) == (1, 0, 0, 1)


def test_gpus_of_several_types_count_for_each_and_the_rest_once() -> None:
    found = sums(ended(SUBMIT, SUBMIT + 10, gpus={"v100": 1, "a100": 3, "": 2}))
    assert {one.gpu_type: amounts.gpu_seconds for one, amounts in found.items()} == {
        "untyped": 20,
        "a100": 30,
        "v100": 10,
    }
    assert sum(amounts.cpu_seconds for amounts in found.values()) == 40
    assert sum(amounts.ended for amounts in found.values()) == 1


def test_while_it_is_suspended_a_job_gives_up_its_cpus_alone() -> None:
    """Its memory and its GPUs are nobody else's: so counts slurmdbd."""
    (found,) = sums(ended(SUBMIT, SUBMIT + 1000, suspended_seconds=400, gpus={"a100": 2}, cpu_seconds=1.0)).values()
    assert found.cpu_seconds == found.cpu_known_seconds == 4 * 600
    assert found.gpu_seconds == 2 * 1000
    assert found.memory_mib_seconds == found.memory_known_mib_seconds == 8192 * 1000
    assert found.memory_used_mib_seconds == 2048 * 1000
    (found,) = sums(ended(SUBMIT, SUBMIT + 10, suspended_seconds=400)).values()
    assert (found.cpu_seconds, found.memory_mib_seconds) == (0, 8192 * 10), "never less than nothing"


def test_what_was_not_measured_is_not_known() -> None:
    life = ended(SUBMIT, SUBMIT + 1000, cpu_seconds=None)
    (found,) = sums(life).values()
    assert (found.cpu_used_ms, found.cpu_known_seconds, found.cpu_seconds) == (0, 0, 4000)


def test_what_gpus_did_counts_once_it_is_known() -> None:
    life = ended(MIDNIGHT - 100, MIDNIGHT + 301, gpus={"a100": 2, "": 1}, suspended_seconds=1)
    assert {(one.gpu_used_ms, one.gpu_known_seconds) for one in sums(life).values()} == {(0, 0)}
    found = sums(lives.measured(life, 1 / 3, MIDNIGHT + 400))
    for kind, count in (("a100", 2), ("untyped", 1)):
        some = [amounts for one, amounts in found.items() if one.gpu_type == kind]
        assert sum(one.gpu_known_seconds for one in some) == sum(one.gpu_seconds for one in some) == count * 401
        assert sum(one.gpu_used_ms for one in some) == round(count * 401_000 / 3)
    running = lives.seen(None, "alpha", job(state="RUNNING", gpus={"a100": 2}), SUBMIT + 200)
    assert lives.measured(running, 0.5, SUBMIT + 300) is running, "not before it has ended"


def test_every_end_is_one_of_five() -> None:
    for state, name in (
        ("COMPLETED", "completed"),
        ("FAILED", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("NODE_FAIL", "failed"),
        ("TIMEOUT", "timed_out"),
        ("CANCELLED", "cancelled"),
        ("PREEMPTED", "other"),
        ("REQUEUED", "other"),
    ):
        (found,) = sums(ended(SUBMIT, SUBMIT + 10, state=state)).values()
        assert getattr(found, name) == found.ended == 1, state


def test_a_job_that_runs_counts_up_to_when_it_was_last_counted() -> None:
    life = lives.seen(None, "alpha", job(state="RUNNING"), SUBMIT + 200)
    (found,) = sums(life).values()
    assert (found.cpu_seconds, found.ended, found.cpu_known_seconds) == (400, 0, 0)
    same = lives.seen(life, "alpha", job(state="RUNNING"), SUBMIT + 300)
    assert same is life, "not at every poll"
    (found,) = sums(lives.seen(life, "alpha", job(state="RUNNING"), SUBMIT + 5000)).values()
    assert found.cpu_seconds == 4 * 4900


def test_a_waiting_array_counts_its_tasks_as_submitted() -> None:
    (found,) = sums(lives.seen(None, "alpha", job(tasks=40, array_id=1, array_tasks="1-40"), SUBMIT)).values()
    assert found == Amounts(submitted=40)


def lived(begin: int, length: int, cpus: int, used: float, memory: int) -> Life:
    gpus = {kind: count for kind, count in (("a100", cpus % 7), ("h100", cpus % 3)) if count}
    start, end = SUBMIT + begin, SUBMIT + begin + length
    life = ended(start, end, cpus=cpus, cpu_seconds=used, memory=memory, gpus=gpus)
    return lives.measured(life, 1 / cpus, end)


TIMES = some.integers(0, 20 * DAY)


@given(
    some.lists(
        some.tuples(TIMES, TIMES, some.integers(1, 10_000), some.floats(0.001, 1e9), some.integers(0, 2**45)),
        max_size=6,
    )
)
def test_days_add_up_and_taking_away_leaves_nothing(found: list[tuple[int, int, int, float, int]]) -> None:
    made: usage.Sums = {}
    for begin, length, cpus, used, memory in found:
        life = lived(begin, length, cpus, used, memory)
        usage.add(made, life, 1)
        whole = Amounts(*map(sum, zip(*sums(life).values(), strict=True)))
        assert whole.cpu_seconds == whole.cpu_known_seconds == cpus * length
        assert whole.memory_mib_seconds == memory // 2**20 * length
        assert whole.gpu_seconds == whole.gpu_known_seconds == (cpus % 7 + cpus % 3) * length
        assert abs(whole.gpu_used_ms - whole.gpu_seconds * 1000 / cpus) <= 2
        assert whole.cpu_used_ms == (round(used * 1000) if length else 0)
        assert all(amount >= 0 for amounts in sums(life).values() for amount in amounts)
    for begin, length, cpus, used, memory in found:
        usage.add(made, lived(begin, length, cpus, used, memory), -1)
    assert usage.deltas(made) == {}
