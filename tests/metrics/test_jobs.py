# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what jobs use: a whole page that was read and found right, and what must hold of every page.

After a change that is meant, `UPDATE_GOLDEN=1 pytest tests/metrics/test_jobs.py` writes the page anew: read the
difference.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from slurmscope.measure import Gpu, GpuProcess, GpuUse, Measure, Pressure, Program, Report
from slurmscope.metrics.exposition import Topic, render
from slurmscope.metrics.jobs import GPUS, JOBS, OLD, TOPICS, JobsView

GOLDEN = Path(__file__).parent.parent / "golden" / "agent-jobs.prom"

# every field is set, and no two of a kind alike
WHOLE = Gpu(
    uuid="GPU-aaaa",
    index=0,
    minor=1,
    model="NVIDIA H200",
    vendor="nvidia",
    utilization=0.91,
    memory_utilization=0.32,
    memory_used=93000,
    memory_total=94000,
    power=395.5,
    power_limit=700.0,
    energy=97000.25,
    temperature=38.0,
    clock=1980000000.0,
    memory_clock=3201000000.0,
    throttled=("power_cap", "thermal"),
    ecc_corrected=9001,
    ecc_uncorrected=9002,
    xid_errors=9003,
    last_xid=79,
    processes=(GpuProcess(11, 5), GpuProcess(12, 6), GpuProcess(13)),
)
INSTANCE = Gpu(
    uuid="MIG-bbbb", index=1, minor=0, instance=3, profile="1g.18gb", model="NVIDIA H200", processes=(), throttled=()
)
SHARED = GpuUse(
    uuid="GPU-aaaa",
    index=0,
    model="NVIDIA H200",
    utilization=0.91,
    memory_used=83000,
    memory_total=94000,
    power=395.5,
    processes=2,
    shared=2,
)
FULL = Measure(
    job=42,
    uid=1000,
    user="alice",
    account="physics",
    start_time=1700000042,
    cpus=4,
    cores=1.5,
    cpu_seconds=103.5,
    user_seconds=101.25,
    system_seconds=2.25,
    core_seconds={10: 3.5, 2: 100.0},
    throttled_seconds=0.125,
    throttled_periods=5,
    memory=60001,
    anonymous=60002,
    file=60003,
    shared=60004,
    swap=60005,
    peak=60006,
    limit=60007,
    oom_kills=6,
    rss=3 << 19,
    cpu_pressure=Pressure(1.5),
    memory_pressure=Pressure(2.5, 0.25),
    io_pressure=Pressure(3.5, 0.75),
    processes=21,
    threads=22,
    zombies=23,
    open_files=24,
    descriptors=25,
    scratch=True,
    read_bytes=5 << 19,
    written_bytes=7 << 19,
    reads=31,
    writes=32,
    device_read_bytes=33,
    device_written_bytes=34,
    received_bytes=35,
    sent_bytes=36,
    programs=(Program("python3", 3, 12, 8, 70001, 99.5), Program("other", 18, 19, 2, 70002, 4.0)),
    gpus=(SHARED,),
    missed=7,
)
NOTHING = Measure(job=43)
HOSTILE = Measure(
    job=44,
    user='"} 1\nslurm_up 0 #',
    account="back\\slash\\n",
    scratch=False,
    cores=0.0,
    programs=(
        Program('a"b\nc\\d', 1, 1, 1, 1, 0.0),
        Program(r"\xff\xfe", 1, 1, 1, 1, 0.0),
        Program("größe", 1, 1, 1, 1, 0.0),
    ),
    gpus=(GpuUse(uuid="MIG-bbbb", index=1, instance=3, model="NVIDIA H200", processes=0),),
)
SECOND = Measure(
    job=45, user="carol", account="bio", gpus=(msgspec.structs.replace(SHARED, memory_used=10000, processes=1),)
)
REPORTS = (
    Report(
        cluster="lab24",
        node="n1",
        time=1700000100.0,
        seconds=0.02,
        jobs=(FULL, NOTHING, HOSTILE, SECOND),
        gpus=(WHOLE, INSTANCE),
    ),
    Report(
        cluster="lab24", node="n2", time=1700000101.0, seconds=0.02, jobs=(msgspec.structs.replace(NOTHING, job=42),)
    ),
)


def page(reports: Sequence[Report], topics: Iterable[Topic[JobsView]] = TOPICS, *, openmetrics: bool = False) -> str:
    blocks = [render(topic, JobsView(reports), "lab24", openmetrics=openmetrics).plain for topic in topics]
    return b"".join(blocks).decode() + ("# EOF\n" if openmetrics else "")


def samples(text: str, *, openmetrics: bool = False) -> list[tuple[str, dict[str, str], float]]:
    families = read_openmetrics(text) if openmetrics else read_text(text)
    return [(one.name, dict(one.labels), one.value) for family in families for one in family.samples]


def told(reports: Sequence[Report], name: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value) for found, labels, value in samples(page(reports)) if found == name]


def test_golden_page() -> None:
    text = page(REPORTS)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("whole", [FULL, WHOLE, SHARED])
def test_the_golden_page_leaves_no_field_out(whole: msgspec.Struct) -> None:
    """Those of the fields that are not there by nature: a shared GPU that is no instance."""
    unset = {one.name for one in msgspec.structs.fields(type(whole)) if getattr(whole, one.name) == one.default}
    assert unset <= {"instance", "profile"}


def test_what_is_unknown_is_left_out() -> None:
    names = {name for name, labels, _ in samples(page(REPORTS)) if labels.get("jobid", labels.get("slurm_job")) == "43"}
    assert names == {
        "slurm_job_processes",
        "slurm_job_zombies",
        "slurm_job_threads",
        "slurm_job_unreadable_files",
        "jobs_spawned_processes",
    }
    assert page([]) == ""
    assert page([msgspec.structs.replace(REPORTS[0], jobs=(), gpus=())]) == ""


def test_every_family_is_on_the_golden_page() -> None:
    shown = {name for name, _, _ in samples(page(REPORTS))}
    assert shown == {family.name for topic in TOPICS for family in topic.families}


def test_hostile_names_are_one_value_of_one_label() -> None:
    for labels, value in told(REPORTS, "slurm_job_processes"):
        if labels["jobid"] == "44":
            assert (labels["user"], labels["account"], value) == (HOSTILE.user, HOSTILE.account, 0)
    programs = [
        labels["program"] for labels, _ in told(REPORTS, "slurm_job_program_threads") if labels["jobid"] == "44"
    ]
    assert programs == [one.name for one in HOSTILE.programs]
    assert not told(REPORTS, "slurm_up")


def test_an_instance_and_a_shared_gpu() -> None:
    of_jobs = {
        (labels["jobid"], labels["gpu"], labels["uuid"]): value for labels, value in told(REPORTS, "slurm_job_gpu_jobs")
    }
    assert of_jobs == {("42", "0", "GPU-aaaa"): 2, ("45", "0", "GPU-aaaa"): 2, ("44", "1.3", "MIG-bbbb"): 1}
    assert {labels["gpu"]: value for labels, value in told(REPORTS, "slurm_gpu_jobs")} == {"0": 2, "1.3": 1}
    idle = {labels["jobid"]: value for labels, value in told(REPORTS, "slurm_job_gpu_held_idle")}
    assert idle == {"42": 0, "44": 1, "45": 0}
    assert {labels["gpu"]: value for labels, value in told(REPORTS, "slurm_gpu_processes")} == {"0": 3, "1.3": 0}


# --- the names of the exporter that this replaces ---------------------------------------------------------------------

SEED = {
    "jobs_cpu_percent": (150.0, ()),
    "jobs_cpu_percent_per_core": (37.5, ()),
    "jobs_rss": (1.5, ()),
    "jobs_spawned_processes": (21.0, ()),
    "jobs_opened_files": (24.0, ()),
    "jobs_thread_count": (8.0, ("proc_name",)),
    "jobs_user_time": (101.25, ()),
    "jobs_system_time": (2.25, ()),
    "jobs_cpu_time_total": (103.5, ()),
    "jobs_cpu_time_core": (100.0, ("core",)),
    "jobs_uses_scratch": (1.0, ()),
    "jobs_read_mb": (2.5, ()),
    "jobs_write_mb": (3.5, ()),
    "jobs_write_count": (32.0, ()),
    "jobs_read_count": (31.0, ()),
}


@pytest.mark.parametrize("name", SEED)
def test_the_names_that_there_were_with_their_labels(name: str) -> None:
    value, more = SEED[name]
    labels, first = told(REPORTS, name)[0]
    assert first == value
    assert set(labels) == {"cluster", "instance", "slurm_job", *more}
    assert (labels["instance"], labels["slurm_job"]) == ("n1", "42")
    if more:
        assert labels[more[0]] == {"proc_name": "python3", "core": "2"}[more[0]]


def test_a_job_that_may_use_no_core_has_no_share_of_them() -> None:
    report = msgspec.structs.replace(REPORTS[0], jobs=(Measure(job=1, cores=1.0, cpus=0), Measure(job=2, cores=1.0)))
    assert told([report], "jobs_cpu_percent_per_core") == []
    assert [value for _, value in told([report], "jobs_cpu_percent")] == [100, 100]


# --- every page -------------------------------------------------------------------------------------------------------

NAMES = st.text(max_size=4) | st.sampled_from(["other", 'a"b', "a\nb", "a\\", "a\\n", "\udcff", "{}", ",", "# EOF"])
AMOUNTS = st.none() | st.integers(0, 2**64)
SHARES = st.none() | st.floats(0, 1e12)
PRESSURES = st.none() | st.builds(Pressure, st.floats(0, 1e9), SHARES)
PROGRAMS = st.lists(
    st.builds(Program, NAMES, *[st.integers(0, 99)] * 4, st.floats(0, 1e6)), max_size=4, unique_by=lambda one: one.name
).map(tuple)
USES = st.lists(
    st.builds(
        GpuUse,
        uuid=st.sampled_from("abcd"),
        index=st.integers(0, 1),
        instance=st.none() | st.integers(0, 1),
        model=NAMES,
        utilization=SHARES,
        memory_used=AMOUNTS,
        processes=st.none() | st.integers(0, 2),
        shared=st.integers(1, 2),
    ),
    max_size=3,
    unique_by=lambda one: one.uuid,
).map(tuple)
MEASURES = st.builds(
    Measure,
    job=st.integers(0, 2**32 - 1),
    user=NAMES,
    account=NAMES,
    cpus=AMOUNTS,
    cores=SHARES,
    core_seconds=st.none() | st.dictionaries(st.integers(0, 5), st.floats(0, 1e6), max_size=3),
    memory=AMOUNTS,
    cpu_pressure=PRESSURES,
    memory_pressure=PRESSURES,
    io_pressure=PRESSURES,
    scratch=st.none() | st.booleans(),
    programs=PROGRAMS,
    gpus=st.none() | USES,
)
CARDS = st.lists(
    st.builds(
        Gpu,
        uuid=st.sampled_from("abcd"),
        index=st.integers(0, 1),
        instance=st.none() | st.integers(0, 1),
        model=NAMES,
        throttled=st.none() | st.lists(st.sampled_from(["thermal", "power_cap"]), unique=True).map(tuple),
        ecc_corrected=AMOUNTS,
        processes=st.none() | st.just(()),
    ),
    max_size=3,
    unique_by=lambda one: one.uuid,
).map(tuple)
MANY = st.lists(
    st.builds(
        Report,
        cluster=st.just("lab24"),
        node=NAMES,
        time=st.just(1.0),
        seconds=st.just(0.1),
        jobs=st.lists(MEASURES, max_size=3, unique_by=lambda one: one.job).map(tuple),
        gpus=CARDS,
    ),
    max_size=3,
    # as they are on the page
    unique_by=lambda one: one.node.encode("utf-8", "backslashreplace"),
)


@given(MANY, st.booleans())
def test_every_series_is_there_once(reports: list[Report], openmetrics: bool) -> None:
    found = samples(page(reports, openmetrics=openmetrics), openmetrics=openmetrics)
    series = [(name, *sorted(labels.items())) for name, labels, _ in found]
    assert len(set(series)) == len(series)
    jobs = sum(len(report.jobs) for report in reports)
    assert sum(name == "slurm_job_processes" for name, *_ in found) == jobs


@pytest.mark.parametrize("openmetrics", [False, True])
def test_prometheus_own_parser_reads_the_page(openmetrics: bool) -> None:
    found = samples(page(REPORTS, openmetrics=openmetrics), openmetrics=openmetrics)
    assert found == samples(page(REPORTS))
    values: dict[str, Any] = {name: value for name, labels, value in found if labels.get("jobid") == "42"}
    assert values["slurm_job_memory_rss_bytes"] == FULL.rss


@pytest.mark.prometheus
def test_promtool_has_nothing_to_say(promtool: str) -> None:
    text = page(REPORTS, (JOBS, GPUS))
    done = subprocess.run([promtool, "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_names_and_labels_are_not_prometheus_own() -> None:
    for topic in (JOBS, GPUS):
        for family in topic.families:
            assert not {"job", "instance"} & set(family.labels)
            assert family.name.startswith(("slurm_job_", "slurm_gpu_"))
            assert (family.type == "counter") == family.name.endswith("_total")
    names = [family.name for topic in TOPICS for family in topic.families]
    assert len(set(names)) == len(names)
    assert all(family.labels[:2] == ("instance", "slurm_job") for family in OLD.families)
