# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the portal's pages cost among a million jobs and 5,000 nodes, and how long readers wait while polls go on.

    python bench/portal.py [--jobs 1000000] [--folder DIR] [--keep] [--only pages|load] [--pause 1 3]

Pages are asked for without a socket between, by one of the staff and by a user of many jobs. The first answer is of a
portal that has just been opened and whose first poll has ended; both are told by a median of some. The load is on a
`demo` of its own, for a minute for each pause: each reader follows a link of the page before, and reads for so many
seconds on average before the next click. Before that the demo judges the jobs of its past, as any site does after its
first start. Those who click take of the same processors as what they ask; how much, is told.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

from cluster import NODES, RUNNING, WAITING, snapshot
from million import CLUSTER, DAY, END, jobs
from reports import BATCH, DAYS, fill

from slurmscope.life import Life, seen
from slurmscope.metrics.pages import Edition
from slurmscope.model import Snapshot
from slurmscope.settings import Portal as PortalSettings
from slurmscope.settings import Settings
from slurmscope.settings import Store as StoreSettings
from slurmscope.store.protocol import KeptNode, Lives
from slurmscope.store.sqlite import SqliteStore
from slurmscope.web.preparation import prepare_kept, prepare_polled
from slurmscope.web.route import GET
from slurmscope.web.shares import Shares
from slurmscope.web.start import portal_of
from slurmscope.web.table import ROUTES

AIM = 100.0  # ms for a page
STAFF, USER = "admin", "user3"
RULES = ("low_cpu", "memory_request", "time_request", "timeout")
SCRIPT = "#!/bin/sh\n#SBATCH -n 1\n./work\n"
FIRSTS, TIMES = 3, 7
ELSEWHERE = {"sign-in by OpenID", "back from OpenID"}  # they ask the provider

READERS, SECONDS = 50, 60.0
PAUSES = [1.0, 3.0]  # seconds between a reader's clicks
INTERVAL = 5  # of polls, in seconds
AIM_P95 = 200.0
MOST_SETTLING, SETTLED = 900.0, 0.15  # seconds, and the share of a processor below which nothing but polls goes on
SHOWN = 5  # of the slowest
LISTEN = "127.0.0.1:19093"
LINK = re.compile(rb'<a [^>]*href="(/[^"#]*)')


def make(path: Path, count: int, cluster: Snapshot) -> None:
    store = SqliteStore(path)
    try:
        if store.clusters():
            return
        fill(store, count)
        found = [((job.id, job.submit_time or 0), (RULES[job.id // 10 % 4],)) for job in jobs(count, DAYS)][::10]
        for at in range(0, len(found), BATCH):
            with store.writing(CLUSTER) as writer:
                writer.put_findings(dict(found[at : at + BATCH]))
        with store.writing(CLUSTER) as writer:
            writer.put_lives([seen(None, CLUSTER, one, END) for one in cluster.jobs.value or ()])
            kept = cluster.nodes.value or ()
            writer.put_nodes([KeptNode(CLUSTER, one, END, END - 9 * DAY) for one in kept])
    finally:
        store.close()


# --- pages ------------------------------------------------------------------------------------------------------------


class Took(NamedTuple):
    wall: float  # ms
    used: float  # ms of processors


def addresses(store: SqliteStore, settings: Settings) -> dict[str, list[str]]:
    """Of each route, what is asked for; every one must be here, so that none is forgotten."""
    measured = _measured(store)
    own = store.lives(Lives(cluster=CLUSTER, user=USER, open=False, limit=1))[0]
    waiting = store.lives(Lives(cluster=CLUSTER, user=USER, states=("PENDING",), limit=1))[0]
    here = f"/clusters/{CLUSTER}"
    token = Shares(settings).token(CLUSTER, *measured.key, STAFF, 3, END)
    return {
        "overview": ["/", f"{here}?span=30d", f"{here}.json"],
        "jobs": [
            "/jobs",
            "/jobs?user=*",
            f"{here}/jobs?user=*&state=failed",
            f"{here}/jobs?user=*&finding=timeout",
            f"{here}/jobs?user=*&node=node77",
            f"{here}/jobs?user=*&sort=ran",
            "/jobs.json?user=*",
            "/jobs.csv?user=*",
        ],
        "job": [f"{here}/jobs/{one.id}" for one in (own, measured, waiting)] + [f"{here}/jobs/{measured.id}.json"],
        "script": [f"{here}/jobs/{own.id}/script"],
        "reports": ["/reports"],
        "report": [f"{here}/report", f"{here}/report?days=17"],
        "search": ["/search?q=user7", f"/search?q={own.id}", "/search?q=node77"],
        "shared": [f"/shared/{token}"],
        "sign-in": ["/sign-in"],
        "settings": ["/settings"],
        "accounts": ["/accounts", "/accounts.json"],
        "account": [f"{here}/accounts/{own.account}"],
        "user": [f"/users/{USER}", f"/users/{USER}?days=90", f"/users/{USER}.json"],
        "nodes": ["/nodes", f"{here}/nodes?view=table", "/nodes.json", "/nodes.csv"],
        "node": [f"{here}/nodes/{own.node_list}"],
        "health": ["/health"],
        "api": ["/api"],
        "openapi": ["/api/v1/openapi.json"],
        "usage": [f"/api/v1/jobs/{own.id}/usage"],
        "mail": [f"/mail/{own.id}"],
        "pdf": [f"/pdf/{own.id}"],
        "plot": [f"/plot/{measured.id}/cpu"],
        "pie": [f"/pie/{own.id}"],
    }


def _measured(store: SqliteStore) -> Life:
    """With charts, which are the most that a job's page can have."""
    found = store.lives(Lives(cluster=CLUSTER, partition="gpu", open=False, limit=200))
    return next(one for one in found if store.summary(CLUSTER, *one.key) is not None)


class Asking:
    """A portal that has just been opened."""

    def __init__(self, settings: Settings, path: Path, cluster: Snapshot) -> None:
        self.cluster = cluster
        portal = portal_of(settings, f"sqlite:{path}", self._editions, lambda: END, script=lambda life: SCRIPT)
        assert portal is not None
        self.portal = portal
        self.polled()

    def polled(self) -> None:
        """What is done after a poll."""
        prepare_polled(self.portal.site, CLUSTER)
        prepare_kept(self.portal.site, CLUSTER)

    def _editions(self) -> list[Edition]:
        return [Edition(self.cluster, True, lambda: END)]

    def ask(self, address: str, name: str) -> tuple[int, Took]:
        began, used = time.perf_counter(), time.process_time()
        status = asyncio.run(self._ask(address, name))
        return status, Took((time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000)

    async def _ask(self, address: str, name: str) -> int:
        path, _, query = address.partition("?")
        scope = {
            "type": "http",
            "method": GET,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"x-remote-user", name.encode()), (b"accept-encoding", b"gzip")],
            "client": ("127.0.0.1", 50000),
            "scheme": "http",
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.portal(scope, receive, send)
        status: int = sent[0]["status"]
        return status


def pages(folder: Path, count: int) -> None:
    path = folder / "jobs.db"
    cluster = snapshot()
    make(path, count, cluster)
    portal = PortalSettings(sign_in=["proxy"], proxies=["127.0.0.1"], staff=[STAFF])
    settings = Settings(portal=portal, store=StoreSettings(folder=str(folder)))
    store = SqliteStore(path)
    asked = addresses(store, settings)
    store.close()
    forgotten = {one.name for one in ROUTES if one.method == GET} - asked.keys() - ELSEWHERE
    if forgotten:
        sys.exit(f"bench/portal.py asks for no page of {', '.join(sorted(forgotten))}")
    print(f"{count:,} jobs, {NODES:,} nodes, {RUNNING:,} jobs that run and {WAITING:,} that wait; ms of processors")
    _prepared(settings, path, cluster)
    print(f"{'':10}{'':44}{'first':>8}{'again':>8}{'wall':>8}   of {AIM:.0f} ms")
    over = 0
    for name in (STAFF, USER):
        print("staff" if name == STAFF else "a user")
        for route, some in asked.items():
            for address in some:
                over += _page(settings, path, cluster, route, address, name)
    print(f"{over} take more than {AIM:.0f} ms of processors when asked again")


def _prepared(settings: Settings, path: Path, cluster: Snapshot) -> None:
    """Prints what is done after each poll, so that no reader has to wait for it."""
    took = []
    for _ in range(TIMES):
        asking = Asking(settings, path, cluster)
        asking.cluster = snapshot(float(END))
        began = time.process_time()
        asking.polled()
        took.append((time.process_time() - began) * 1000)
        asking.portal.close()
    print(f"made after each poll: {median(took):.0f} ms")


def _page(settings: Settings, path: Path, cluster: Snapshot, route: str, address: str, name: str) -> bool:
    """Prints a line; says whether it is over the aim."""
    first = []
    for at in range(FIRSTS + 1):
        asking = Asking(settings, path, cluster)
        status, took = asking.ask(address, name)
        if at:  # before that templates are read, which happens once in a process
            first.append(took.used)
        if at < FIRSTS:
            asking.portal.close()
    again = [asking.ask(address, name)[1] for _ in range(TIMES)]
    asking.portal.close()
    used, wall = median(one.used for one in again), median(one.wall for one in again)
    told = "" if status == 200 else f"  {status}"
    shown = address if len(address) < 43 else address[:41] + "…"
    print(f"  {route:10}{shown:42}{median(first):8.0f}{used:8.1f}{wall:8.1f}{used / AIM:8.2f} x{told}", flush=True)
    return used > AIM


# --- load -------------------------------------------------------------------------------------------------------------


class Reader:
    """Follows links on one connection, as a browser keeps it."""

    def __init__(self, number: int, pause: float) -> None:
        self.took: list[tuple[float, str]] = []
        self.errors: Counter[str] = Counter()
        self._chance = random.Random(number)
        self._pause = pause
        self._here = "/"

    async def read(self, end: float) -> None:
        host, _, port = LISTEN.partition(":")
        await asyncio.sleep(self._chance.random() * self._pause)
        reader, writer = await asyncio.open_connection(host, int(port))
        asked = f" HTTP/1.1\r\nHost: {LISTEN}\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n\r\n"
        while time.monotonic() < end:
            began = time.perf_counter()
            writer.write(f"GET {self._here}{asked}".encode())
            try:
                status, kind, body = await _answer(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.errors[f"closed {self._here}"] += 1
                reader, writer = await asyncio.open_connection(host, int(port))
                continue
            self.took.append(((time.perf_counter() - began) * 1000, self._here))
            if status not in (200, 303):
                self.errors[f"{status} {self._here}"] += 1
            links = LINK.findall(body) if status == 200 and kind.startswith(b"text/html") else []
            self._here = unescape(self._chance.choice(links).decode()) if links else "/"
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._pause)
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    body = await reader.readexactly(int(lines.get(b"content-length", 0)))
    if lines.get(b"content-encoding") == b"gzip":
        body = zlib.decompress(body, wbits=31)
    return int(head.split(b" ", 2)[1]), lines.get(b"content-type", b""), body


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """A demo; gives the number of its process."""
    program = [str(Path(sys.executable).parent / "slurmscope"), "demo", "--listen", LISTEN]
    environment = {
        **os.environ,
        "SLURMSCOPE_STORE_FOLDER": str(folder / "demo"),
        "SLURMSCOPE_POLL_INTERVAL": str(INTERVAL),
        "LOGLEVEL": "warn",
    }
    process = subprocess.Popen(program, env=environment, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 300
        while not _ready():
            if time.monotonic() > end or process.poll() is not None:
                sys.exit("the demo does not come up")
            time.sleep(0.5)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _ready() -> bool:
    try:
        with urlopen(f"http://{LISTEN}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _settled(pid: int) -> float:
    """Waits until what ended before the start is judged; says how busy it is then, without readers."""
    end = time.monotonic() + MOST_SETTLING
    while True:
        before = _used(pid)
        time.sleep(2 * INTERVAL)
        busy = (_used(pid) - before) / (2 * INTERVAL)
        if busy < SETTLED or time.monotonic() > end:
            return busy


def _used(pid: int) -> float:
    """Seconds of processors."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figure(page: str, name: str) -> float:
    found = re.search(rf'^{name}{{[^}}]*part="jobs"[^}}]*}} (\S+)', page, re.MULTILINE)
    return float(found[1]) if found else 0.0


class Polls:
    """Whether the cluster is still read in time, as its metrics tell."""

    def __init__(self) -> None:
        self.oldest = 0.0
        self.runs: list[float] = []

    async def watch(self, end: float) -> None:
        while time.monotonic() < end:
            page = await asyncio.to_thread(self._page)
            self.oldest = max(self.oldest, _figure(page, "slurm_part_age_seconds"))
            self.runs.append(_figure(page, "slurm_command_runs_total"))
            await asyncio.sleep(1)

    @staticmethod
    def _page() -> str:
        with urlopen(f"http://{LISTEN}/metrics") as answer:
            text: bytes = answer.read()
        return text.decode()


async def _click(pause: float) -> tuple[list[Reader], Polls]:
    readers, polls = [Reader(at, pause) for at in range(READERS)], Polls()
    end = time.monotonic() + SECONDS
    await asyncio.gather(polls.watch(end), *(one.read(end) for one in readers))
    return readers, polls


def load(folder: Path, pauses: Sequence[float]) -> None:
    with served(folder) as pid:
        print(f"without readers: busy for {_settled(pid):.0%} of one processor", flush=True)
        for pause in pauses:
            before, own = _used(pid), time.process_time()
            readers, polls = asyncio.run(_click(pause))
            _told(pause, readers, polls, _used(pid) - before, time.process_time() - own)


def _told(pause: float, readers: Sequence[Reader], polls: Polls, used: float, own: float) -> None:
    """`used` and `own` are seconds of processors, of what was asked and of those who did."""
    took = sorted(one for reader in readers for one in reader.took)
    errors = sum((reader.errors for reader in readers), Counter[str]())
    each = len(took) / SECONDS
    print(f"{READERS} readers, {pause:g} s between clicks: {len(took):,} pages in {SECONDS:.0f} s, {each:.0f} a second")
    _waits([ms for ms, _ in took])
    print(f"  {used * 1000 / len(took):.1f} ms of processors a page, polls among it")
    print(f"  busy for {used / SECONDS:.0%} of one processor; the readers themselves for {own / SECONDS:.0%}")
    print(f"  {sum(errors.values())} errors {dict(errors.most_common(5)) if errors else ''}")
    for ms, address in took[: -SHOWN - 1 : -1]:
        print(f"  slowest: {ms:.0f} ms {address}")
    ran, due = polls.runs[-1] - polls.runs[0], SECONDS / INTERVAL
    oldest = polls.oldest / INTERVAL
    print(f"  {ran:.0f} polls of {due:.0f}; data never older than {oldest:.1f} intervals (aim: 2)", flush=True)


def _waits(took: Sequence[float]) -> None:
    p50, p95, p99 = (took[int(len(took) * share)] for share in (0.5, 0.95, 0.99))
    print(f"  p50 {p50:.0f} ms, p95 {p95:.0f} ms ({p95 / AIM_P95:.2f} x the aim of {AIM_P95:.0f}), p99 {p99:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many the store holds (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where the files are made; default: a temporary folder")
    parser.add_argument("--keep", action="store_true", help="do not delete them, and take those that are there")
    parser.add_argument("--only", choices=("pages", "load"), help="one of both")
    parser.add_argument("--pause", type=float, nargs="+", default=PAUSES, help="seconds between clicks (%(default)s)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="slurmscope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if options.only != "load":
            pages(folder, options.jobs)
        if options.only != "pages":
            load(folder, options.pause)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
