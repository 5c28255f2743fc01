# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs used, read from a real Prometheus that has scraped agents' pages for half a minute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from measured.agents import MIB, measure, report
from served import Served, serving
from servers.process import Unavailable
from servers.prometheus import Prometheus as Server
from store.made import life

from slurmscope import course
from slurmscope.life import Life
from slurmscope.measure import GpuUse, Report
from slurmscope.measured.prometheus import Prometheus, PrometheusError
from slurmscope.metrics import jobs
from slurmscope.metrics.exposition import render
from slurmscope.store.protocol import Measured
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary, summary

C = "lab24"
SECONDS = 32
HOLE = range(10, 22)
WHOLE, HOLED, FALLEN, OLD, GPU, TOLD = range(101, 107)


def reports(at: float, now: float) -> list[Report]:
    """Jobs as agents see them, so many seconds after they began: each uses two cores of a node."""
    gpu = GpuUse(uuid="GPU-1", index=3, instance=1, model="H200", utilization=0.75, memory_used=30 * MIB, power=200.0)
    fallen = measure(FALLEN, at if at < 15 else at - 15, start_time=None)
    found = [measure(WHOLE, at), fallen, measure(GPU, at, gpus=(gpu,), scratch=True), measure(TOLD, at)]
    if int(at) not in HOLE:
        found.append(measure(HOLED, at))
    return [report("n1", now, *found, cluster=C), report("n2", now, measure(WHOLE, at), cluster=C)]


class Agents(BaseHTTPRequestHandler):
    """The pages of all of them as one; the oldest names are told of one job alone."""

    begin = 0.0

    def do_GET(self) -> None:
        now = time.time()
        at = now - self.begin
        blocks = [render(jobs.JOBS, jobs.JobsView(reports(at, now)), C, openmetrics=False).plain]
        old = jobs.JobsView([report("n1", now, measure(OLD, at, rss=640 * MIB), cluster=C)])
        blocks.append(render(jobs.OLD, old, "", openmetrics=False).plain)
        body = b"".join(blocks)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Scraped(msgspec.Struct):
    server: Server
    begin: int
    end: int


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    page = ThreadingHTTPServer(("127.0.0.1", 0), Agents)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    try:
        server = Server(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{page.server_port}")
        begin = int(time.time()) + 1
        Agents.begin = begin
        server.start()
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        time.sleep(max(0.0, begin + SECONDS - time.time()))
        page.shutdown()
        page.server_close()
        yield Scraped(server, begin, begin + SECONDS)
    finally:
        server.close()


def lived(id_: int, scraped: Scraped, **fields: object) -> Life:
    told = {"start_time": scraped.begin, "end_time": scraped.end, "state": "COMPLETED", "node_list": "n1", "nodes": 1}
    return life(id_, C, submit_time=scraped.begin - 5, counted_time=scraped.end, **told | fields)


def metric(served: Served, name: str) -> float:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")), -1.0)


def until(what: Callable[[], bool], served: Served, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, served.log.read_text()
        time.sleep(0.2)


def kept(path: Path, scraped: Scraped, told: Summary | None = None) -> None:
    store = SqliteStore(path)
    lives = [lived(id_, scraped) for id_ in (HOLED, FALLEN, OLD, TOLD)]
    lives += [lived(WHOLE, scraped, node_list="n[1-2]", nodes=2), lived(GPU, scraped, gpus={"h200": 1})]
    lives += [
        lived(999, scraped),
        lived(998, scraped, start_time=scraped.begin - 9 * 86400, end_time=scraped.begin - 8 * 86400),
    ]
    with store.writing(C) as writer:
        writer.put_lives(lives)
        if told is not None:
            writer.put_measured([Measured(TOLD, scraped.begin - 5, told, None)])
    store.close()


SETTINGS = '[prometheus]\nurl = "{url}"\n[store]\nurl = "sqlite:{path}"\n[accounting]\nenabled = false\n'


@pytest.mark.prometheus
def test_what_prometheus_knows_is_kept(tmp_path: Path, scraped: Scraped) -> None:
    path = tmp_path / "history.db"
    kept(path, scraped, _covered(scraped))
    with serving(tmp_path, SETTINGS.format(url=scraped.server.url, path=path)) as served:
        served.wait()
        until(lambda: metric(served, "slurm_prometheus_asked_total") >= 6, served)
        assert metric(served, "slurm_prometheus_up") == 1
        assert metric(served, "slurm_prometheus_jobs_total") == 5
        assert metric(served, "slurm_prometheus_failures_total") == 0
    store = SqliteStore(path)
    found = store.summaries(C, [(id_, scraped.begin - 5) for id_ in (*range(101, 107), 999, 998)])
    courses = {id_: store.course(C, id_, scraped.begin - 5) for id_ in range(101, 106)}
    store.close()
    by_id = {key[0]: one for key, one in found.items()}
    assert set(by_id) == {WHOLE, HOLED, FALLEN, OLD, GPU, TOLD}
    for id_, nodes in ((WHOLE, 2), (GPU, 1), (OLD, 1)):
        one = by_id[id_]
        assert (one.source, one.coverage) == ("prometheus", near(1.0)), id_
        assert (one.cpu_seconds, one.cpu and one.cpu.mean) == (near(2.0 * SECONDS * nodes), near(2.0 * nodes)), id_
        assert one.memory is not None and one.memory.mean == near(640 * MIB * nodes)
        assert one.read_bytes == near(1000 * SECONDS * nodes)
    assert (by_id[WHOLE].cpu_share, by_id[WHOLE].memory_share) == (near(0.5), near(0.5))
    assert [one.node for one in by_id[WHOLE].nodes] == ["n1", "n2"]
    holed = by_id[HOLED]
    assert holed.coverage == pytest.approx(1 - (len(HOLE) + 1) / SECONDS, abs=0.07), "a gap is a gap"
    assert holed.cpu is not None and holed.cpu.mean == near(2.0)
    assert by_id[FALLEN].cpu_seconds == pytest.approx(2.0 * SECONDS, rel=0.12), (
        "what was counted in its last second is lost"
    )
    (gpu,) = by_id[GPU].gpus
    assert (gpu.uuid, gpu.index, gpu.instance, gpu.model, gpu.mean) == ("GPU-1", 3, 1, "H200", near(0.75))
    assert by_id[GPU].gpu_energy == near(200 * SECONDS)
    assert by_id[GPU].scratch is True
    assert by_id[TOLD].source == "agent", "who was told enough of is not asked for"
    assert all(courses.values())


def near(value: float) -> Any:
    return pytest.approx(value, rel=0.06)


def _covered(scraped: Scraped) -> Summary:
    sample = course.Sample(node="n1", start=scraped.begin, end=scraped.end - 10, source=course.AGENT, cpu_seconds=1.0)
    return summary(course.add(None, sample), 1, scraped.begin, scraped.end)


@pytest.mark.prometheus
def test_prometheus_away_and_back(tmp_path: Path, scraped: Scraped) -> None:
    path = tmp_path / "history.db"
    kept(path, scraped)
    with scraped.server.stopped():
        served = Served(tmp_path, SETTINGS.format(url=scraped.server.url, path=path))
        served.wait()
        until(lambda: metric(served, "slurm_prometheus_failures_total") >= 2, served)
        assert metric(served, "slurm_prometheus_up") == 0
        assert metric(served, "slurm_up") == 1
        assert served.log.read_text().count("Prometheus cannot be asked") == 1
    try:
        until(lambda: metric(served, "slurm_prometheus_jobs_total") == 6, served)
    finally:
        assert served.stop() == 0
    assert "Prometheus answers again" in served.log.read_text()
    assert "Traceback" not in served.log.read_text()


@pytest.mark.prometheus
def test_names_are_quoted(scraped: Scraped) -> None:
    async def ask(cluster: str) -> bool:
        prometheus = Prometheus(scraped.server.url)
        try:
            return await prometheus.course(cluster, lived(WHOLE, scraped, node_list="")) is not None
        finally:
            await prometheus.close()

    assert asyncio.run(ask(C))
    for name in ('"} or {__name__=~".+"} or {a="', "a\\", "a\nb", "ünï", '\\"'):
        assert not asyncio.run(ask(name)), name


@pytest.mark.prometheus
def test_while_prometheus_itself_was_away_nothing_was_measured(tmp_path: Path, scraped: Scraped) -> None:
    """Nobody told it then that a series had ended, and so it tells the last value for 5 minutes."""
    page = ThreadingHTTPServer(("127.0.0.1", 0), Agents)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    server = Server(tmp_path / "prometheus", f"127.0.0.1:{page.server_port}")
    server.start()

    async def coverage(begin: int, end: int) -> float:
        prometheus = Prometheus(server.url)
        job = lived(TOLD, Scraped(server, begin, end))
        found = await prometheus.course(C, job)
        await prometheus.close()
        return 0.0 if found is None else summary(found, 1, begin, end).coverage or 0.0

    def measured(since: int) -> int:
        """Until most of the time since then, which is some seconds at least, is covered; until when that was."""
        for _ in range(120):
            time.sleep(1)
            now = int(time.time())
            if now - since >= 4 and asyncio.run(coverage(since, now)) > 0.7:
                return now
        raise AssertionError("Prometheus has not begun to scrape")

    try:
        begin = measured(int(time.time()))
        time.sleep(8)
        server.kill()
        away = time.time()
        time.sleep(12)
        server.start()
        back = time.time()
        end = measured(int(back) + 1)
        found = asyncio.run(coverage(begin, end))
    finally:
        server.close()
        page.shutdown()
        page.server_close()
    assert found < 1 - (back - away - 1) / (end - begin), "the time in which it was away is a gap"
    # a machine that is busy may have let it scrape less often than it should
    assert found > 0.5 * (away - begin) / (end - begin), "what was before is known"


def test_something_else_in_place_of_prometheus() -> None:
    page = ThreadingHTTPServer(("127.0.0.1", 0), Agents)
    threading.Thread(target=page.serve_forever, daemon=True).start()

    async def ask() -> None:
        prometheus = Prometheus(f"http://me:hunter2@127.0.0.1:{page.server_port}")
        try:
            await prometheus.course(C, life(1, C, start_time=100, end_time=200))
        finally:
            await prometheus.close()

    with pytest.raises(PrometheusError, match=r"answers with 501.*prometheus\.url") as told:
        asyncio.run(ask())
    assert "hunter2" not in str(told.value)
    page.shutdown()
    page.server_close()
