# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs `serve` to take what agents measured, and to keep it.

    python bench/measured.py [--nodes 5000] [--jobs 4]

A report's bare cost is that of decoding its JSON; ratios to that are what holds on other machines. Writing is measured
with courses of two hours, against encoding them. Each node reports every 15 s.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import http.client
import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path

import msgspec

from slurmscope import listening
from slurmscope.auth import Guard
from slurmscope.keeper import Archive
from slurmscope.measure import Measure, Pressure, Program, Report
from slurmscope.measured.service import Measuring
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import Job, Part, Snapshot
from slurmscope.server import App
from slurmscope.settings import Agents, Serve, Settings

CLUSTER = "bench"
EVERY = 15
HEADERS = {"content-encoding": "gzip"}


def job(id_: int, start: int) -> Job:
    return Job(
        id=id_, array_id=None, array_tasks=None, tasks=1, name="bench", user="user", account="account",
        partition="main", qos="normal", state="RUNNING", reason=None, priority=1, submit_time=start - 60,
        eligible_time=start - 60, start_time=start, end_time=start + 86400, time_limit=86400, cpus=16,
        memory=64 << 30, gpus={}, nodes=1, node_list="n1", reservation=None, dependency=None, features=None,
        licenses=None, login_node=None, restarts=0, exit_code=None,
    )  # fmt: skip


def measure(id_: int, at: float, chance: random.Random) -> Measure:
    programs = tuple(Program(f"program-{one}", 2, 8, 4, 1 << 30, at * 2) for one in range(5))
    used = chance.randrange(1 << 30, 1 << 36)
    return Measure(
        job=id_, uid=1000, user="user", account="account", cpus=16, cores=12.3456, cpu_seconds=at * 12.3456,
        user_seconds=at * 12.0, system_seconds=at * 0.3456, throttled_seconds=0.0, throttled_periods=0, memory=used,
        anonymous=used // 2, file=used // 4, shared=1 << 20, swap=0, peak=used, limit=64 << 30, oom_kills=0, rss=used,
        cpu_pressure=Pressure(at / 10, at / 20), memory_pressure=Pressure(0.0, 0.0), io_pressure=Pressure(0.0, 0.0),
        processes=10, threads=40, open_files=120, descriptors=300, scratch=False, read_bytes=int(at * 1e6),
        written_bytes=int(at * 1e5), reads=int(at * 100), writes=int(at * 10), programs=programs,
    )  # fmt: skip


def bodies(nodes: int, jobs: int, time_: float, at: float) -> list[bytes]:
    chance = random.Random(at)
    found = []
    for node in range(nodes):
        told = tuple(measure(1 + node * jobs + one, at, chance) for one in range(jobs))
        report = Report(cluster=CLUSTER, node=f"node{node:05}", time=time_, seconds=0.02, jobs=told)
        found.append(gzip.compress(msgspec.json.encode(report), 6))
    return found


def show(what: str, each: float, per: str, bare: float | None = None) -> None:
    ratio = f"  {each / bare:6.1f} times bare" if bare else ""
    print(f"{what:44} {each * 1e6:10,.0f} us {per}{ratio}")


def decoding(some: list[bytes]) -> float:
    raw = [gzip.decompress(body) for body in some]
    decode = msgspec.json.Decoder(Report).decode
    started = time.process_time()
    for one in raw:
        decode(one)
    bare = (time.process_time() - started) / len(raw)
    print(f"a report is {len(raw[0]):,} bytes, {len(some[0]):,} packed")
    show("bare decoding", bare, "a report")
    return bare


async def taking(measuring: Measuring, args: argparse.Namespace, bare: float, begin: int) -> None:
    receiver = measuring.receivers["/agent"]
    for look in range(3):
        sent = bodies(args.nodes, args.jobs, begin + look * EVERY, 3600.0 + look * EVERY)
        started = time.process_time()
        for body in sent:
            answer = await receiver.take(HEADERS, body)
            assert answer.status == 200, answer.body
        each = (time.process_time() - started) / len(sent)
        show(f"taking it, look {look + 1}", each, "a report", bare)
        if not look:
            await measuring.of(CLUSTER).flush()  # finds out that nothing is kept of any


def client(port: int, sent: list[bytes]) -> None:
    for body in sent:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/agent", body, HEADERS)
        assert connection.getresponse().status == 200
        connection.close()


async def over_http(measuring: Measuring, sent: list[bytes], bare: float) -> None:
    serve = Serve(listen="127.0.0.1:0")
    sockets = listening.listen(serve, "serve.listen")
    app = App(Book([Pages(cluster=CLUSTER)]), Guard({}, []), measuring.receivers, measuring.pages)
    server = listening.server(serve, app)
    task = asyncio.create_task(server.serve(sockets=sockets))
    context = multiprocessing.get_context("fork")
    child = context.Process(target=client, args=(sockets[0].getsockname()[1], sent))
    child.start()
    started = time.process_time()
    await asyncio.to_thread(child.join)
    each = (time.process_time() - started) / len(sent)
    show("… over HTTP, a connection for each", each, "a report", bare)
    print(f"{'… of a core, for all nodes':44} {each * len(sent) / EVERY:10.1%}")
    server.should_exit = True
    await task


async def writing(measuring: Measuring, args: argparse.Namespace, begin: int) -> None:
    courses = measuring.of(CLUSTER)
    jobs = args.nodes * args.jobs
    for what in ("writing it, new", "… of two hours"):
        if what.startswith("…"):
            await _long(measuring, args, begin)
        started = time.process_time()
        await courses.flush()
        show(what, (time.process_time() - started) / jobs, "a job")


async def _long(measuring: Measuring, args: argparse.Namespace, begin: int) -> None:
    """What was measured every minute, for two hours."""
    courses = measuring.of(CLUSTER)
    chance = random.Random(1)
    for look in range(120):
        at = 3630.0 + look * 60
        for node in range(args.nodes):
            told = tuple(measure(1 + node * args.jobs + one, at, chance) for one in range(args.jobs))
            report = Report(cluster=CLUSTER, node=f"node{node:05}", time=begin + at - 3600, seconds=0.02, jobs=told)
            await courses.take(report)
        if not look % 40:
            await courses.flush()


async def page(measuring: Measuring) -> None:
    started = time.process_time()
    body = await measuring.pages["/metrics/jobs"].body(openmetrics=False, gzip=False)
    size = sum(map(len, body))
    print(f"{'/metrics/jobs':44} {time.process_time() - started:10.1f} s, {size / 2**20:.0f} MiB")


async def bench(args: argparse.Namespace, folder: Path) -> None:
    begin = int(time.time()) - 60
    archive = Archive(f"sqlite:{folder}/history.db")
    settings = Settings(agents=Agents(enabled=True))
    measuring = Measuring(settings, lambda: [Snapshot(cluster=CLUSTER)], archive)
    jobs = tuple(job(1 + one, begin - 3600) for one in range(args.nodes * args.jobs))
    started = time.process_time()
    await measuring.listen(Snapshot(cluster=CLUSTER, jobs=Part(jobs, float(begin))), frozenset({"jobs"}))
    print(f"{'a poll':44} {(time.process_time() - started) * 1e3:10.1f} ms")
    sent = bodies(args.nodes, args.jobs, begin + 45, 3645.0)
    bare = decoding(sent)
    await taking(measuring, args, bare, begin)
    await over_http(measuring, sent, bare)
    print(f"{'memory':44} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:10,} MiB")
    await page(measuring)
    if args.write:
        await writing(measuring, args, begin)
    await archive.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=4, help="of each node")
    parser.add_argument("--write", action="store_true", help="measure writing too, which takes minutes")
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(bench(parser.parse_args(), Path(name)))
