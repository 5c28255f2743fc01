# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs used, in every store: found by its job, replaced as a whole, and forgotten in its own time."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest
from lives import accounted, job
from msgspec.structs import replace
from store.made import DAY, HOSTILE, T0, ended, kept_measured, life, measured, opened

from slurmscope import life as lives
from slurmscope.buckets import Lane
from slurmscope.course import AMOUNTS, Course, GpuSum, NodeSum
from slurmscope.life import Accounted
from slurmscope.store import recorder
from slurmscope.store.measured import COLUMNS, columns, packed, to_course, to_summary
from slurmscope.store.protocol import Measured, Store, StoreError, UsageAsked
from slurmscope.summary import Figures, GpuSummary, NodeSummary, Summary, node_lines


def put(store: Store, *things: object, cluster: str = "alpha") -> None:
    with store.writing(cluster) as writer:
        writer.put_measured(things)  # type: ignore[arg-type]


# --- in every store ---------------------------------------------------------------------------------------------------


def test_nothing_is_known_of_a_job_that_was_not_measured(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([life(1)])
        writer.put_measured([])
    assert store.summary("alpha", 1, T0) is None and store.course("alpha", 1, T0) is None
    assert store.summaries("alpha", [(1, T0)]) == {} and store.summaries("alpha", []) == {}
    assert store.summary("nowhere", 1, T0) is None and store.course("nowhere", 1, T0) is None
    assert list(store.each_measured("alpha")) == [] and list(store.each_measured("nowhere")) == []


def test_what_was_used_comes_back_as_it_was(store: Store) -> None:
    one, other = measured(1), measured(2, nodes=3, gpus=2, programs=HOSTILE)
    put(store, one, other)
    for found in (one, other):
        assert store.summary("alpha", *found.key) == found.summary
        assert store.course("alpha", *found.key) == found.course
    assert kept_measured(store, "alpha") == [one, other]
    assert store.stats().counts["measured"] == store.stats().counts["series"] == 2
    assert store.check() == [], "an agent may know of a job before a poll does"


def test_it_belongs_to_a_cluster_an_id_and_a_submit_time(store: Store) -> None:
    first, again = measured(1), measured(1, T0 + 9, seed=2)
    put(store, first, again)
    put(store, measured(1, seed=3), cluster="beta")
    put(store, measured(1, seed=4), cluster="a.b")
    assert kept_measured(store, "alpha") == [first, again]
    assert kept_measured(store, "beta") == [measured(1, seed=3)]
    assert store.summary("a.b", 1, T0) == measured(1, seed=4).summary
    assert store.course("alpha", 1, T0 + 9) == again.course
    assert store.course("beta", 1, T0 + 9) is None and store.summary("beta", 1, T0 + 9) is None
    assert store.clusters() == ["a.b", "alpha", "beta"]


def test_both_are_replaced(store: Store) -> None:
    put(store, measured(1), measured(2))
    put(store, measured(1, seed=2), replace(measured(2, seed=2), course=None))
    assert kept_measured(store, "alpha") == [measured(1, seed=2), replace(measured(2, seed=2), course=None)]
    put(store, measured(2, seed=3), replace(measured(2, seed=3), course=None), measured(2, seed=4))
    assert kept_measured(store, "alpha") == [measured(1, seed=2), measured(2, seed=4)], "the last one counts"
    assert store.stats().counts["series"] == 2


def test_summaries_of_a_list_of_jobs(store: Store) -> None:
    """More of them than a query takes at once, some unknown."""
    some = [measured(at, T0 + at % 3, seconds=30) for at in range(1, 900)]
    put(store, *some)
    put(store, measured(1, seed=9), cluster="beta")
    keys = [*(one.key for one in some[::2]), (1, T0 + 2), (5000, T0)]
    assert store.summaries("alpha", keys) == {one.key: one.summary for one in some[::2]}
    assert store.summaries("beta", keys) == {}
    assert [one.key for one in kept_measured(store, "alpha")] == [one.key for one in some]


def test_a_large_job_is_kept(store: Store) -> None:
    """Of nearly as many nodes as a course takes, each with GPUs: some fit into one document of a journal, not all."""
    large = measured(1, seconds=60, nodes=1000, gpus=8)
    assert large.course is not None
    nodes = {f"{name}-{at}": node for at in range(9) for name, node in large.course.nodes.items()}
    large = replace(large, course=replace(large.course, nodes=nodes))
    assert large.course is not None and 2 << 20 < len(packed(large.course)) < 8 << 20
    several = [replace(large, id=at) for at in range(1, 7)]
    put(store, *several)
    assert [one == several[at] for at, one in enumerate(kept_measured(store, "alpha"))] == [True] * 6


def test_what_no_store_can_count_is_told(store: Store) -> None:
    beyond = replace(measured(1).summary, read_bytes=2**63)
    with pytest.raises(StoreError, match="cannot keep this"):
        put(store, replace(measured(1), summary=beyond))
    assert kept_measured(store, "alpha") == []


# --- what GPUs did counts -------------------------------------------------------------------------------------------


def sums_of(store: Store) -> tuple[int, int]:
    assert recorder.wrong_usage(store, "alpha") == []
    amounts = [one.amounts for one in store.usage(UsageAsked(since=0, until=1 << 30))]
    return sum(one.gpu_used_ms for one in amounts), sum(one.gpu_known_seconds for one in amounts)


def over(id_: int, **fields: Any) -> Accounted:
    told: dict[str, Any] = {"start_time": T0 + 100, "end_time": T0 + 220, "submit_time": T0, "gpus": {"a100": 2}}
    return accounted(job(id_, "COMPLETED", **told | fields))


def used(measured: Measured) -> int:
    assert measured.summary.gpu is not None
    return round(measured.summary.gpu.mean * 240_000)


def test_what_gpus_did_counts_when_it_comes_after_the_end(store: Store) -> None:
    one, later = measured(1, gpus=2), measured(1, gpus=2, seed=2)
    recorder.tell(store, "alpha", [over(1), over(2, gpus={})], T0 + 300)
    assert sums_of(store) == (0, 0)
    for found in (one, one, later):
        with store.writing("alpha") as writer:
            recorder.put_measured(writer, [found, measured(2), measured(3, gpus=1)], T0 + 400)
        assert sums_of(store) == (used(found), 240)
    assert store.life("alpha", 1, T0) == replace(
        lives.told(None, "alpha", over(1), T0 + 300),
        gpu_share=later.summary.gpu and later.summary.gpu.mean,
        changed_time=T0 + 400,
    )
    assert kept_measured(store, "alpha")[0] == later
    recorder.tell(store, "alpha", [over(1, end_time=T0 + 160)], T0 + 500)
    assert sums_of(store) == (round(used(later) / 2), 120), "the accounting is the last word of its end"


def test_what_gpus_did_counts_when_it_was_there_before_the_end(store: Store) -> None:
    one = measured(1, gpus=2)
    running = accounted(job(1, "RUNNING", submit_time=T0, start_time=T0 + 100, gpus={"a100": 2}))
    recorder.tell(store, "alpha", [running], T0 + 150)
    with store.writing("alpha") as writer:
        recorder.put_measured(writer, [one, measured(2, gpus=2)], T0 + 160)
    assert sums_of(store) == (0, 0), "it goes on"
    recorder.tell(store, "alpha", [over(1)], T0 + 300)
    assert sums_of(store) == (used(one), 240)
    recorder.tell(store, "alpha", [over(2)], T0 + 300)
    assert sums_of(store) == (used(one) + used(measured(2, gpus=2)), 480), "one that nobody had told of before"


def test_a_rebuild_counts_what_gpus_did_before_that_was_counted(store: Store) -> None:
    some = [measured(at, gpus=2) for at in (1, 2)]
    recorder.tell(store, "alpha", [over(1), over(2), over(3)], T0 + 300)
    put(store, *some)
    assert sums_of(store) == (0, 0)
    recorder.rebuild(store, "alpha")
    assert sums_of(store) == (sum(map(used, some)), 480)


# --- forgetting -------------------------------------------------------------------------------------------------------


def test_a_course_is_forgotten_after_its_last_sample(store: Store) -> None:
    some = [measured(at, seconds=60 * at) for at in (1, 2, 3)]
    put(store, *some)
    put(store, measured(1, seconds=60), cluster="beta")
    assert [one.summary.last for one in some] == [T0 + 160, T0 + 220, T0 + 280]
    assert store.forget("series", T0 + 160) == 0
    assert store.forget("series", T0 + 161) == 2, "of every cluster"
    assert [one.course is None for one in kept_measured(store, "alpha")] == [True, False, False]
    assert store.course("alpha", 1, T0) is None and store.summary("alpha", 1, T0) == some[0].summary
    counts = store.stats().counts
    assert (counts["measured"], counts["series"]) == (4, 2)
    assert store.forget("series", T0 + 10 * DAY) == 2 and store.forget("series", T0 + 10 * DAY) == 0
    assert store.stats().counts["measured"] == 4
    put(store, some[0])
    assert store.course("alpha", 1, T0) == some[0].course, "one that goes on is there again"


def test_what_was_used_goes_with_its_job(store: Store) -> None:
    with store.writing("alpha") as writer:
        writer.put_lives([ended(1), ended(2, end_time=T0 + 9 * DAY), life(3)])
        writer.put_lives([ended(4, submit_time=T0 + 9 * DAY, start_time=T0 + 9 * DAY)])
        writer.put_measured([measured(1), measured(2), measured(3), measured(4, T0 + 9 * DAY)])
    with store.writing("beta") as writer:
        writer.put_lives([ended(1, "beta", end_time=T0 + 9 * DAY)])
        writer.put_measured([measured(1)])
    assert store.forget("jobs", T0 + 2 * DAY) == 1, "jobs are counted"
    assert [one.id for one in kept_measured(store, "alpha")] == [2, 3, 4]
    assert kept_measured(store, "beta") == [measured(1)]
    assert store.course("alpha", 1, T0) is None and store.summary("alpha", 1, T0) is None
    assert store.stats().counts["series"] == 4


def test_what_no_job_is_there_for_goes_when_such_jobs_go(store: Store) -> None:
    """It was written after its job was forgotten; or no poll ever saw that job. A new one is waited for."""
    put(store, measured(1), measured(2, T0 + DAY), replace(measured(3), course=None))
    assert store.forget("jobs", T0) == 0
    assert [one.id for one in kept_measured(store, "alpha")] == [1, 2, 3]
    assert store.forget("jobs", T0 + 1) == 0
    assert [one.id for one in kept_measured(store, "alpha")] == [2]
    counts = store.stats().counts
    assert (counts["measured"], counts["series"]) == (1, 1)


def test_a_store_that_is_opened_again_has_it(store: Store, url: str) -> None:
    put(store, measured(1, gpus=1))
    again = opened(url)
    assert kept_measured(again, "alpha") == [measured(1, gpus=1)]
    again.close()


# --- the bytes --------------------------------------------------------------------------------------------------------

# Names that files have. One may be added, with a default; none may be taken away or renamed, nor mean something else,
# but by a migration that writes all of them anew.
NAMES: dict[type[msgspec.Struct], str] = {
    Summary: "source coverage seconds first last step cpu cpu_seconds cpu_share memory memory_share read written "
    "read_bytes written_bytes gpu gpu_memory gpu_energy oom_kills scratch programs nodes gpus",
    Figures: "mean peak p05 p25 p50 p75 p95",
    NodeSummary: "node seconds cpus cpu_seconds cpu_peak memory_mean memory_peak peak limit oom_kills "
    "throttled_seconds read_bytes written_bytes processes_peak threads_peak open_files_peak user_seconds "
    "system_seconds core_seconds swap_peak reads writes",
    GpuSummary: "node uuid index instance model memory_total mean peak memory_peak energy idle_seconds",
    Course: "step start amounts spans nodes programs scratch",
    NodeSum: "source until spans parts live covered cpus cpu cpu_peak memory memory_peak peak limit oom_kills "
    "throttled_seconds read written processes_peak threads_peak open_files_peak gpus user system "
    "cores swap_peak reads writes lane",
    Lane: "step start amounts",
    GpuSum: "index instance model memory_total covered used peak memory memory_peak energy idle",
}
COURSE = "covered cpu memory io_covered read written gpu_covered gpu gpu_memory gpu_energy wall"


def test_the_names_are_those_that_stores_have() -> None:
    for kind, names in NAMES.items():
        fields = msgspec.structs.fields(kind)
        assert [one.name for one in fields if one.encode_name in names.split()] == names.split(), kind
        new = [one for one in fields if one.name not in names.split()]
        assert not [one.name for one in new if one.required], f"{kind}: what is new needs a default"
    assert AMOUNTS[: len(COURSE.split())] == tuple(COURSE.split())
    one = measured(1, gpus=1)
    assert one.course is not None
    summary, course = (msgspec.msgpack.decode(zlib.decompress(packed(thing))) for thing in (one.summary, one.course))
    assert list(summary)[:3] == ["source", "coverage", "seconds"] and set(summary["cpu"]) == set(NAMES[Figures].split())
    assert summary["nodes"][0]["node"] == "n0" and summary["gpus"][0]["index"] == 0
    assert list(course) == NAMES[Course].split() and list(course["amounts"]) == COURSE.split()
    assert set(course["nodes"]["n0"]) == set(NAMES[NodeSum].split())


def test_what_a_later_version_wrote_or_an_earlier_one_is_read() -> None:
    one = measured(1, gpus=1)
    assert one.course is not None

    def changed(thing: Summary | Course, *without: str, **more: object) -> bytes:
        found = msgspec.msgpack.decode(msgspec.msgpack.encode(thing))
        found = {name: value for name, value in found.items() if name not in without}
        return zlib.compress(msgspec.msgpack.encode(found | more))

    assert to_summary(changed(one.summary, water=5)) == one.summary
    assert to_course(changed(one.course, "scratch", water=5)) == replace(one.course, scratch=None)
    amounts = {name: column for name, column in one.course.amounts.items() if name != "gpu_energy"}
    earlier = to_course(changed(one.course, amounts=amounts))
    assert earlier.amounts["gpu_energy"] == [0] * one.course.length
    assert {name: earlier.amounts[name] for name in amounts} == amounts


def test_what_was_kept_before_nodes_told_more_is_read() -> None:
    one = measured(1)
    assert one.course is not None
    fields = {"user", "system", "cores", "swap_peak", "reads", "writes"}
    fields |= {"user_seconds", "system_seconds", "core_seconds"}
    course, summary = (msgspec.msgpack.decode(msgspec.msgpack.encode(thing)) for thing in (one.course, one.summary))
    for node in (*course["nodes"].values(), *summary["nodes"]):
        for name in fields & set(node):
            assert node.pop(name) is not None
    node = to_course(zlib.compress(msgspec.msgpack.encode(course))).nodes["n0"]
    assert (node.user, node.system, node.cores, node.swap_peak, node.reads, node.writes) == (None,) * 6
    assert node.cpu == one.course.nodes["n0"].cpu
    (told,) = to_summary(zlib.compress(msgspec.msgpack.encode(summary))).nodes
    assert (told.user_seconds, told.core_seconds, told.swap_peak, told.writes) == (None,) * 4
    assert told.cpu_seconds == one.summary.nodes[0].cpu_seconds


def test_what_was_kept_before_each_node_had_its_lane_is_read() -> None:
    one = measured(1, nodes=3)
    assert one.course is not None and node_lines(to_course(packed(one.course))) == node_lines(one.course) is not None
    course = msgspec.msgpack.decode(msgspec.msgpack.encode(one.course))
    for node in course["nodes"].values():
        assert node.pop("lane")["amounts"].keys() == {"covered", "cpu"}
    earlier = to_course(zlib.compress(msgspec.msgpack.encode(course)))
    assert node_lines(earlier) is None and earlier.amounts == one.course.amounts


def test_what_is_looked_for_is_that_of_the_summary() -> None:
    summary = measured(1, gpus=1).summary
    found = dict(zip(COLUMNS, columns(summary), strict=True))
    assert summary.memory is not None and summary.gpu is not None
    assert found["memory_peak"] == summary.memory.peak and found["gpu_share"] == summary.gpu.mean
    for name in set(COLUMNS) - {"memory_peak", "gpu_share"}:
        assert found[name] == getattr(summary, name)
    assert columns(replace(summary, memory=None, gpu=None))[6] is None
