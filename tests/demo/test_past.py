# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's past: nothing in it that could not have been, and all of it written as what was watched is."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest

from slurmscope import model, totals, usage
from slurmscope.demo import habits, measured, past, records
from slurmscope.demo.cluster import DAY, HOUR, build
from slurmscope.demo.quick import Quick
from slurmscope.demo.seasons import TAPER
from slurmscope.demo.simulation import FIRST_ID, Simulation
from slurmscope.life import Accounted, told
from slurmscope.slurm.values import hosts
from slurmscope.store.protocol import COARSE, FINE, MIDDLE, Lives, Point, UsageAsked
from slurmscope.store.sqlite import SqliteStore

END = 1_769_472_000  # 2026-01-27T00:00Z
DAYS = 12
BEGIN = END - DAYS * DAY
NODES = {node.name: node for node in build(BEGIN)}
CLUSTER = "demo"


class Past:
    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.progress: list[tuple[int, int]] = []
        self.needed = past.needed(self.store, CLUSTER, END)
        past.make(self.store, CLUSTER, 1, END + 1800, lambda *done: self.progress.append(done), DAYS)
        self.quick = Quick(1, BEGIN, END)
        self.told = list(past.lives(self.quick))

    @property
    def jobs(self) -> list[model.Job]:
        return [one.job for one in self.told]

    @property
    def ran(self) -> list[model.Job]:
        return [job for job in self.jobs if job.node_list]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past(tmp_path_factory.mktemp("past") / "past.db")


def start_of(job: model.Job) -> int:
    assert job.start_time is not None
    return job.start_time


def end_of(job: model.Job) -> int:
    assert job.end_time is not None
    return job.end_time


# --- the store --------------------------------------------------------------------------------------------------------


def test_all_of_it_is_in_the_store(made: Past) -> None:
    store = made.store
    assert made.needed
    assert store.count(Lives()) == len(made.told)
    assert store.count(Lives(open=True)) == 0
    assert len({one.job.key for one in made.told}) == len(made.told)
    assert 700 * DAYS < len(made.told) < 1600 * DAYS
    assert [span.end for span in store.spans(CLUSTER)] == [END]
    assert len(store.nodes(CLUSTER)) == 200
    assert store.check() == []
    done, of = zip(*made.progress, strict=True)
    assert list(done) == sorted(done)
    assert set(of) == {done[-1]}


def test_the_last_jobs_were_measured(made: Past) -> None:
    """What agents saw comes to what the accounting tells."""
    late = [one for one in made.told if (one.job.end_time or 0) > END - past.MEASURED]
    found = made.store.summaries(CLUSTER, [one.job.key for one in late])
    assert len(found) > 100 and made.store.stats().counts["series"] == len(found)
    for one in late:
        used = found.get(one.job.key)
        if used is None:
            assert one.cpu_seconds is None or (one.job.end_time or 0) - (one.job.start_time or 0) < 60
            continue
        assert used.coverage is not None and used.cpu_seconds is not None and one.cpu_seconds is not None
        assert used.cpu_seconds <= 1.05 * one.cpu_seconds * used.coverage + 1
        if one.job.nodes <= 8:
            assert used.coverage > 0.99 and used.cpu_seconds > 0.8 * one.cpu_seconds - 1
        assert (used.gpu is not None) == bool(one.job.gpus)
        assert made.store.course(CLUSTER, *one.job.key) is not None
        for node in used.nodes:
            assert node.user_seconds is not None and node.system_seconds is not None and node.core_seconds is not None
            assert node.cpu_seconds == pytest.approx(node.user_seconds + node.system_seconds, abs=0.1)
            assert node.cpu_seconds == pytest.approx(sum(node.core_seconds.values()), rel=0.01, abs=0.1)
            assert len(node.core_seconds) == node.cpus and node.swap_peak == 0
            assert node.reads is not None and node.read_bytes is not None and node.reads <= node.read_bytes


def test_what_gpus_did_is_known_of_all_that_had_some(made: Past) -> None:
    with_gpus = [one for one in made.told if one.job.gpus and one.job.node_list and one.cpu_seconds is not None]
    longer = [one.job.key for one in with_gpus if (one.job.end_time or 0) - (one.job.start_time or 0) >= 60]
    assert made.store.summaries(CLUSTER, longer).keys() == set(longer)
    shares = [made.store.life(CLUSTER, *key) for key in longer[:200]]
    assert all(life is not None and life.gpu_share is not None and 0 < life.gpu_share <= 1 for life in shares)
    (sums,) = made.store.usage(UsageAsked(since=0, until=1 << 30))
    assert 0.9 * sums.amounts.gpu_seconds < sums.amounts.gpu_known_seconds <= sums.amounts.gpu_seconds
    assert 0.3 < sums.amounts.gpu_used_ms / 1000 / sums.amounts.gpu_known_seconds < 0.9


def test_what_is_told_in_brief_is_the_same(made: Past) -> None:
    for one in [one for one in made.told if one.job.gpus][:50]:
        whole, brief = measured.of(one), measured.in_brief(one)
        assert (whole is None) == (brief is None)
        if whole is not None and brief is not None:
            assert brief.course is None and whole.summary.gpu is not None and brief.summary.gpu is not None
            assert brief.summary.gpu.mean == pytest.approx(whole.summary.gpu.mean, abs=0.1)
            assert brief.summary.cpu_seconds == pytest.approx(whole.summary.cpu_seconds, rel=0.1, abs=1)
            assert brief.summary.read_bytes == pytest.approx(whole.summary.read_bytes, rel=0.01, abs=100)
            assert brief.summary.coverage == pytest.approx(whole.summary.coverage, abs=0.001)


def test_a_past_belongs_to_one_story(made: Past) -> None:
    assert not past.needed(made.store, CLUSTER, END, DAYS)
    assert past.needed(made.store, CLUSTER, END + 6 * HOUR, DAYS), "a story that begins later is another one"
    assert past.needed(made.store, "another", END, DAYS)


def test_usage_is_what_a_rebuild_makes(made: Past) -> None:
    sums: usage.Sums = {}
    for some in made.store.each_life(CLUSTER):
        for life in some:
            usage.add(sums, life, 1)
    rebuilt = {key: row for key, row in sums.items() if any(row)}
    asked = UsageAsked(since=0, until=10**6, by=usage.KEYS)
    assert {usage.Key(*row.key): list(row.amounts) for row in made.store.usage(asked)} == rebuilt  # type: ignore[arg-type]


def test_the_same_seed_and_end_make_the_same(made: Past) -> None:
    assert list(past.lives(Quick(1, BEGIN, END))) == made.told
    others = [one.job for one in past.lives(Quick(2, BEGIN, END))]
    assert others != made.jobs
    assert [life.key for some in made.store.each_life(CLUSTER) for life in some] == sorted(job.key for job in made.jobs)


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_every_life_has_ended_in_order(made: Past) -> None:
    for one in made.told:
        life = told(None, CLUSTER, one, END)
        assert life.ended and life.accounted
        times = [change.time for change in life.transitions]
        assert times == sorted(times)
        assert life.transitions[-1].state == one.job.state
        assert [change.state for change in life.transitions][:-1] == ["PENDING", "RUNNING"][: 1 + life.started]
        assert BEGIN <= (one.job.submit_time or 0) <= end_of(one.job) <= END
        assert (one.job.submit_time or 0) <= (one.job.eligible_time or 0) <= start_of(one.job) or not life.started


def test_no_node_is_given_twice(made: Past) -> None:
    """Every start and every end on every node, in the order of time; what ends makes room for what starts."""
    events: dict[str, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    for job in made.ran:
        names = hosts(job.node_list)
        assert len(names) == job.nodes
        for name in names:
            node = NODES[name]
            assert job.partition in node.partitions
            assert all(kind == node.kind.gpu for kind in job.gpus)
            cpus, memory = job.cpus // job.nodes, (job.memory or 0) // job.nodes
            gpus = sum(job.gpus.values()) // job.nodes
            if end_of(job) > start_of(job):
                events[name].append((start_of(job), 1, cpus, memory, gpus))
                events[name].append((end_of(job), 0, -cpus, -memory, -gpus))
    assert len(events) > 190
    for name, changes in events.items():
        node = NODES[name]
        held = [0, 0, 0]
        for _, _, *amounts in sorted(changes):
            held = [before + amount for before, amount in zip(held, amounts, strict=True)]
            most = node.cpus, node.memory * 2**20, node.kind.gpus
            assert all(0 <= one <= limit for one, limit in zip(held, most, strict=True))
        assert held == [0, 0, 0]


def test_nothing_runs_in_the_maintenance_or_starts_at_the_end(made: Past) -> None:
    start, end = made.quick.calendar.maintenance
    assert BEGIN < start < end < END
    assert not [job for job in made.ran if start_of(job) < end and end_of(job) > start]
    assert max(start_of(job) for job in made.ran) < END - TAPER
    assert any(end <= start_of(job) < end + HOUR for job in made.ran)


def test_ids_rise_with_the_time_of_submission(made: Past) -> None:
    first: dict[int, int | None] = {}
    for job in sorted(made.jobs, key=lambda job: job.submit_time or 0):
        first.setdefault(job.array_id or job.id, job.submit_time)
    assert list(first) == sorted(first)
    assert max(job.id for job in made.jobs) < FIRST_ID


def test_arrays_are_complete(made: Past) -> None:
    arrays: dict[int, Counter[int]] = defaultdict(Counter)
    for job in made.jobs:
        if job.array_id is not None:
            first, _, last = (job.array_tasks or "").partition("-")
            span = range(int(first), int(last or first) + 1)
            assert len(span) == job.tasks
            arrays[job.array_id].update(span)
    assert len(arrays) > 100
    for found in arrays.values():
        assert sorted(found) == list(range(1, max(found) + 1))


def test_jobs_that_lost_a_node_lived_twice(made: Past) -> None:
    by_id: dict[int, list[model.Job]] = defaultdict(list)
    for job in made.jobs:
        by_id[job.id].append(job)
    again = [lives for lives in by_id.values() if len(lives) > 1]
    assert len(again) > 10
    for lives in again:
        for before, after in pairwise(lives):
            assert before.state in ("NODE_FAIL", "PREEMPTED")
            assert after.submit_time == before.end_time
            assert (after.restarts or 0) == (before.restarts or 0) + 1


def test_every_end_occurs(made: Past) -> None:
    states = Counter(job.state for job in made.jobs)
    assert states.keys() == {
        *("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED"),
    }
    assert 0.65 < states["COMPLETED"] / len(made.jobs) < 0.9
    assert {job.partition for job in made.ran} == {"cpu", "gpu", "long", "debug", "bigmem"}
    by = Counter(one.cancelled_by for one in made.told if one.job.state == "CANCELLED")
    assert None not in by and by.keys() & {"ops.lang", "ops.weber"}
    assert all(one.cancelled_by is None for one in made.told if one.job.state != "CANCELLED")
    assert {one.job.exit_code for one in made.told if one.job.state == "COMPLETED"} == {"0:0"}
    assert len({one.job.exit_code for one in made.told if one.job.state == "FAILED"}) > 3


def test_a_deadline_makes_people_wait(made: Past) -> None:
    start, end = made.quick.calendar.rush

    def waits(since: int, until: int) -> float:
        found = [job for job in made.ran if job.gpus and since <= (job.submit_time or 0) < until]
        return mean(start_of(job) - (job.submit_time or 0) for job in found)

    assert waits(start, end) > 1.5 * waits(BEGIN, start - 4 * DAY)


# --- what they used ---------------------------------------------------------------------------------------------------


def check_figures(one: Accounted) -> None:
    job, steps = one.job, one.steps
    assert len({step.id for step in steps}) == len(steps) >= 2
    elapsed = end_of(job) - start_of(job)
    assert (one.cpu_seconds or 0) <= job.cpus * elapsed
    assert sum(step.cpu_seconds or 0 for step in steps) == pytest.approx(one.cpu_seconds or 0, abs=0.01)
    assert sum(step.energy or 0 for step in steps) == (one.energy or 0)
    assert (one.energy is not None) == bool(job.gpus.keys() & {"a100", "h100"})
    for step in steps:
        assert start_of(job) <= (step.start_time or 0) <= (step.end_time or 0) <= end_of(job)
        assert (step.max_rss or 0) <= (step.memory_used or 0) <= (job.memory or 0) or elapsed < 20
        assert (step.cpu_seconds or 0) >= 0
        assert (step.tasks or 0) >= (step.nodes or 0) >= 1


def test_figures_fit_the_jobs(made: Past) -> None:
    for one in made.told:
        if one.job.node_list:
            check_figures(one)
        else:
            assert one.steps == () and one.cpu_seconds is None
    assert {"batch", "interactive", "extern", "0", "1"} <= {step.id for one in made.told for step in one.steps}


def test_people_keep_their_habits(made: Past) -> None:
    found = made.quick.habits
    kinds: dict[str, str] = {}
    for stream, habit in found.items():
        if habit.kind != habits.TIDY:
            kinds[stream.user.name] = habit.kind
    assert set(kinds.values()) == {
        *(habits.HOARDER, habits.SERIAL, habits.SQUATTER, habits.CAUTIOUS, habits.CARELESS),
    }
    used: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for run in made.quick.runs:
        if run.state == "COMPLETED" and run.end - run.start > 120:
            used[found[run.job.stream].kind].append((*run.job.use, (run.end - run.start) / run.job.ask.limit))
    cpu, memory, limit = ({kind: median(row[at] for row in rows) for kind, rows in used.items()} for at in range(3))
    assert cpu[habits.TIDY] > 0.7 and memory[habits.TIDY] > 0.4 and limit[habits.TIDY] > 0.3
    assert cpu[habits.SERIAL] < 0.2
    assert cpu[habits.SQUATTER] < 0.05
    assert memory[habits.HOARDER] < 0.12
    assert limit[habits.CAUTIOUS] < 0.01


# --- nodes and totals -------------------------------------------------------------------------------------------------


def test_nodes_fail_as_in_the_simulation(made: Past) -> None:
    changes = made.store.node_changes(CLUSTER, BEGIN, END + 1)
    assert {change.node for change in changes if change.time == BEGIN} == NODES.keys()
    away = [change for change in changes if change.reason is not None]
    assert 5 * DAYS < len(away) < 30 * DAYS
    assert len({change.reason for change in away}) >= 7
    assert {change.state for change in changes} >= {"DOWN", "IDLE", "MIXED", "ALLOCATED"}
    last = {change.node: change for change in changes}
    assert not any(change.reason or "MAINT" in change.flags for change in last.values())
    down = [change for change in changes if change.state == "DOWN" and change.reason == "Not responding"]
    assert down and all("NOT_RESPONDING" in change.flags and change.reason_user == "slurm" for change in down)


def test_no_job_starts_on_a_node_that_is_away(made: Past) -> None:
    turns: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for time, node, _, fault, maintained in made.quick.turns:
        turns[node.name].append((time, fault is not None or maintained))
    for job in made.ran:
        for name in hosts(job.node_list):
            # one that comes back, or goes away, in the very second
            before = [away for time, away in turns[name] if time < start_of(job)]
            after = [away for time, away in turns[name] if time <= start_of(job)]
            assert not (before[-1:] == after[-1:] == [True])


def overlap(job: model.Job, since: int, until: int, waiting: bool) -> int:
    start, end = (job.submit_time or 0, start_of(job)) if waiting else (start_of(job), end_of(job))
    return max(0, min(end, until) - max(start, since))


def check_point(made: Past, point: Point) -> None:
    """The jobs of a step, summed up anew."""
    since, until = point.time, point.time + point.step
    expected: Counter[str] = Counter()
    for job in made.jobs:
        gpus = sum(job.gpus.values())
        waited, ran = (overlap(job, since, until, waiting) for waiting in (True, False))
        if waited and point.partition in ("", *job.partitions):
            expected["jobs_pending"] += waited * job.tasks
            expected["cpus_pending"] += waited * job.tasks * job.cpus
            expected["gpus_pending"] += waited * job.tasks * gpus
        if not (ran and job.node_list):
            continue
        expected["jobs_running"] += ran if point.partition in ("", job.partition) else 0
        members = [name for name in hosts(job.node_list) if point.partition in ("", *NODES[name].partitions)]
        part = ran * len(members)
        expected["cpus_allocated"] += part * job.cpus // job.nodes
        expected["memory_allocated"] += part * (job.memory or 0) // job.nodes
        for kind in job.gpus if members else ():
            expected[f"gpus_allocated/{kind}"] += part * gpus // job.nodes
    for name, value in expected.items():
        assert point.values[name] == pytest.approx(value / point.step), (name, point)
    values = point.values
    assert values["cpus_allocated"] + values["cpus_idle"] + values["cpus_other"] == pytest.approx(values["cpus"])
    uses = [values.get(f"gpus_{use}", 0.0) for use in ("allocated", "idle", "stranded", "unavailable")]
    assert sum(uses) == pytest.approx(values["gpus"])
    assert all(value >= 0 for value in values.values())


@pytest.mark.parametrize("step", [MIDDLE, COARSE])
def test_totals_are_those_of_the_jobs(made: Past, step: int) -> None:
    rng = random.Random(step)
    for partition in ("", "gpu", "bigmem", "debug"):
        points = made.store.points(CLUSTER, partition, step, 0, END + DAY)
        assert [point.time for point in points] == list(range(BEGIN, END, step))
        assert {point.samples for point in points} == {step // FINE}
        for point in rng.sample(points, 8):
            check_point(made, point)


def test_coarse_totals_are_the_means_of_the_finer_ones(made: Past) -> None:
    for coarse in made.store.points(CLUSTER, None, COARSE, BEGIN + DAY, BEGIN + DAY + 3 * HOUR):
        finer = made.store.points(CLUSTER, coarse.partition, MIDDLE, coarse.time, coarse.time + COARSE)
        samples, values = totals.mean((point.samples, point.values) for point in finer)
        assert samples == coarse.samples
        assert values == pytest.approx(coarse.values)


def test_totals_have_the_names_that_polls_give_them(made: Past) -> None:
    simulation = Simulation(1, END)
    simulation.advance(END + 600)
    parts = {
        "jobs": records.all_jobs(simulation),
        "nodes": records.all_nodes(simulation),
        "partitions": records.all_partitions(simulation),
    }
    snapshot = model.Snapshot(CLUSTER, **{name: model.Part(value) for name, value in parts.items()})  # type: ignore[arg-type]
    polled = totals.totals(snapshot)
    points = {point.partition: point for point in made.store.points(CLUSTER, None, COARSE, END - DAY, END - DAY + 1)}
    assert points.keys() == polled.keys()
    for partition, values in polled.items():
        # a job that is being configured may be there or not
        assert points[partition].values.keys() == values.keys() - {"jobs_held_up"}
        for name in ("nodes", "cpus", "memory", "gpus"):
            assert points[partition].values[name] == values[name]


def test_the_whole_is_busy_but_for_the_maintenance(made: Past) -> None:
    start, end = made.quick.calendar.maintenance
    points = made.store.points(CLUSTER, "", COARSE, BEGIN + DAY, END - 4 * HOUR)
    shares = {point.time: point.values["cpus_allocated"] / point.values["cpus"] for point in points}
    assert all(share == 0 for time, share in shares.items() if start <= time < end)
    assert mean(shares.values()) > 0.35
    assert max(shares.values()) > 0.7
    resting = [point for point in points if start <= point.time < end]
    assert resting and all(point.values["nodes_usable"] == 0 for point in resting)
