# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From agents' reports to summaries in the store, through a real `slurmscope serve`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from measured.agents import AGENTS, MIB, measure, post, report
from recorded import read
from served import Served, serving
from servers.process import Server

from slurmscope.measure import GpuUse, Program
from slurmscope.store.place import open_store
from slurmscope.store.protocol import Lives, Store
from slurmscope.summary import Summary, moments

JOBS = {job.id: job for job in read("24.11")[0].jobs.value or ()}
STORE = AGENTS + '[store]\nurl = "{url}"\n'


def key(id_: int) -> tuple[int, int]:
    return JOBS[id_].key


def summary_of(store: Store, id_: int) -> Summary:
    found = store.summary("lab24", *key(id_))
    assert found is not None
    return found


def until(what: Callable[[], bool], served: Served, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, served.log.read_text()
        time.sleep(0.2)


def metric(served: Served, name: str) -> float:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")), -1.0)


def tell(served: Served, node: str, begin: float, looks: range, *ids: int, **more: object) -> None:
    """Reports of looks, so many seconds after a moment."""
    body = [report(node, begin + at, *(measure(id_, at, **more) for id_ in ids)) for at in looks]
    assert post(served, body, packed=True) == (200, f"taken: {len(looks)}\n")


def test_summaries_are_right_to_the_number_and_go_on_over_a_restart(tmp_path: Path) -> None:
    begin = int(time.time()) - 3600  # jobs of the recording began long ago
    settings = STORE.format(url=f"sqlite:{tmp_path}/history.db")
    gpus = (
        GpuUse(uuid="GPU-a", index=0, model="RTX8000", utilization=0.5, memory_used=MIB, power=100.0, processes=1),
        GpuUse(uuid="GPU-b", index=1, model="RTX8000", utilization=0.0, memory_used=0, power=20.0, processes=0),
    )
    more = {"gpus": gpus, "programs": (Program("python3", 2, 9, 7, 5, 1.0),), "scratch": True, "open_files": 12}
    with serving(tmp_path, settings) as served:
        served.wait()
        tell(served, "g1", begin, range(0, 601, 15), 2, 4, **more)
        tell(served, "n1", begin, range(0, 601, 15), 14)
        tell(served, "n4", begin, range(300, 601, 15), 14)
        tell(served, "g1", begin, range(0, 601, 15), 2, 4, **more)  # once more: the answer was lost on the way
        until(lambda: metric(served, "slurm_measured_jobs") == 3, served)
    with serving(tmp_path, settings) as served:
        served.wait()
        tell(served, "g1", begin, range(540, 901, 15), 2, **more)  # some of it was told before
        until(lambda: metric(served, "slurm_measured_jobs") == 1, served)
    store = open_store(f"sqlite:{tmp_path}/history.db")
    found = summary_of(store, 2)
    # 600 s were told before the restart and all of it to 900 s after it; between two looks nothing is lost
    assert (found.source, found.seconds, found.cpu_seconds) == ("agent", 900.0, 1800.0)
    assert found.cpu is not None and (found.cpu.mean, found.cpu.peak, found.cpu.p05) == (2.0, 2.0, 2.0)
    assert (found.cpu_share, found.memory_share) == (0.5, 0.5)
    assert found.memory is not None and found.memory.mean == 640 * MIB
    assert (found.read_bytes, found.written_bytes) == (900_000, 450_000)
    assert found.gpu is not None and found.gpu.mean == pytest.approx(0.25)
    assert found.gpu_energy == 900 * 120
    assert [(one.mean, one.idle_seconds) for one in found.gpus] == [(0.5, 0.0), (0.0, 900.0)]
    assert (found.scratch, found.programs) == (True, {"python3": 7})
    assert found.coverage == pytest.approx(900 / (time.time() - (JOBS[2].start_time or 0)), rel=0.02)
    two = summary_of(store, 14)
    assert two.seconds == 900.0, "600 s on one node, 300 s on the other"
    assert [(one.node, one.seconds, one.cpu_seconds) for one in two.nodes] == [("n1", 600, 1200), ("n4", 300, 600)]
    assert two.cpu is not None and (two.cpu.mean, two.cpu.peak) == (3.0, 4.0), "of those that told: one, then both"
    assert summary_of(store, 4).seconds == 600.0
    course = store.course("lab24", *key(2))
    assert course is not None
    assert {one.cpu for one in moments(course)} == {2.0}
    life = store.lives(Lives(cluster="lab24", id=2))[0]
    assert (life.user, life.account) == ("bob", "physics"), "and not who the report says"
    store.close()


def test_a_job_that_began_just_now_counts_from_its_start(tmp_path: Path) -> None:
    now = int(time.time())
    with serving(tmp_path, STORE.format(url=f"sqlite:{tmp_path}/history.db")) as served:
        # a job that starts now: squeue tells it so
        squeue = tmp_path / "bin" / "squeue"
        squeue.write_text(squeue.read_text().replace("| sed", f"| sed 's/1794741942/{now}/' | sed", 1))
        served.wait()
        until(lambda: "slurm_measured_jobs" in served.get("/metrics/slurmscope")[2].decode(), served)
        tell(served, "n2", now, range(10, 11), 6, start_time=now)
        time.sleep(2)
        tell(served, "n2", now, range(12, 13), 6, start_time=now)
    store = open_store(f"sqlite:{tmp_path}/history.db")
    found = summary_of(store, 6)
    assert (found.seconds, found.cpu_seconds) == (12.0, 24.0)
    store.close()


def test_what_a_job_tells_of_itself_is_kept_where_no_agent_tells(tmp_path: Path) -> None:
    begin = int(time.time()) - 600
    settings = STORE.format(url=f"sqlite:{tmp_path}/history.db") + "[trace]\nenabled = true\n"

    def traced(id_: int, pid: int, at: int, **more: object) -> dict[str, object]:
        told = {"job_id": id_, "pid": pid, "cpus": 150, "threads": 3, "mem": 64 * MIB, "hostname": "n4.example.org"}
        return told | {"time": begin + at, "read_bytes": 100 * at, "write_bytes": None} | more

    with serving(tmp_path, settings) as served:
        served.wait()
        bodies = [traced(5, pid, at) for pid in (10, 11) for at in range(0, 301, 10)]
        bodies += [traced(7, 12, at, cpu_seconds=3.0 * at) for at in range(0, 301, 10)]
        until(lambda: post(served, bodies, path="/trace")[0] == 200, served)
        tell(served, "n4", begin, range(0, 601, 15), 7)
        until(lambda: metric(served, "slurm_measured_jobs") == 2, served)
    store = open_store(f"sqlite:{tmp_path}/history.db")
    found, told = summary_of(store, 5), summary_of(store, 7)
    assert (found.source, found.seconds, found.cpu_seconds) == ("trace", 300.0, 900.0), "of both processes"
    assert found.memory is not None and found.memory.mean == 128 * MIB
    assert (found.read_bytes, found.written_bytes) == (60_000, None)
    # what the job told before the agent did counts, and what both told counts once
    assert (told.source, told.seconds, told.cpu_seconds) == ("agent", 600.0, 900.0 + 600.0)
    store.close()


def test_without_a_store_nothing_is_summarised(tmp_path: Path) -> None:
    with serving(tmp_path, STORE.format(url="none")) as served:
        served.wait()
        tell(served, "g1", time.time() - 100, range(0, 90, 15), 2)
        assert "slurm_measured" not in served.get("/metrics/slurmscope")[2].decode()
        assert 'jobid="2"' in served.get("/metrics/jobs")[2].decode()


def test_mongodb_away_and_back(tmp_path: Path, mongodb: Server) -> None:
    url = f"{mongodb.url}measured?authSource=admin"
    begin = int(time.time()) - 3600
    with serving(tmp_path, STORE.format(url=url)) as served:
        served.wait()
        tell(served, "g1", begin, range(0, 301, 15), 2)
        until(lambda: metric(served, "slurm_measured_written_total") >= 1, served)
        with mongodb.stopped():
            until(lambda: "degraded: the store" in served.get("/readyz")[2].decode(), served)
            tell(served, "g1", begin, range(315, 601, 15), 2)
            tell(served, "g1", begin, range(0, 601, 15), 3)
        until(lambda: "degraded" not in served.get("/readyz")[2].decode(), served)
        until(lambda: metric(served, "slurm_measured_written_total") >= 2, served)
        assert metric(served, "slurm_measured_dropped_total") == 0
    store = open_store(url)
    assert [summary_of(store, id_).seconds for id_ in (2, 3)] == [600.0, 600.0]
    assert summary_of(store, 2).cpu_seconds == 1200.0
    store.close()
