# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs used, in every store: found by its job, replaced as a whole, and forgotten in its own time."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from msgspec.structs import replace
from store.made import DAY, HOSTILE, T0, ended, kept_measured, life, measured, opened

from slurmscope.course import AMOUNTS, Course, GpuSum, NodeSum
from slurmscope.store.measured import COLUMNS, columns, packed, to_course, to_summary
from slurmscope.store.protocol import Store, StoreError
from slurmscope.summary import Figures, GpuSummary, NodeSummary, Summary


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
    "throttled_seconds read_bytes written_bytes processes_peak threads_peak open_files_peak",
    GpuSummary: "node uuid index instance model memory_total mean peak memory_peak energy idle_seconds",
    Course: "step start amounts spans nodes programs scratch",
    NodeSum: "source until spans parts live covered cpus cpu cpu_peak memory memory_peak peak limit oom_kills "
    "throttled_seconds read written processes_peak threads_peak open_files_peak gpus",
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


def test_what_is_looked_for_is_that_of_the_summary() -> None:
    summary = measured(1, gpus=1).summary
    found = dict(zip(COLUMNS, columns(summary), strict=True))
    assert summary.memory is not None and summary.gpu is not None
    assert found["memory_peak"] == summary.memory.peak and found["gpu_share"] == summary.gpu.mean
    for name in set(COLUMNS) - {"memory_peak", "gpu_share"}:
        assert found[name] == getattr(summary, name)
    assert columns(replace(summary, memory=None, gpu=None))[6] is None
