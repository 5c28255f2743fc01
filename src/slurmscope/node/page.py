# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The agent's page of metrics, and the few addresses at which it is."""

from __future__ import annotations

import asyncio
import html
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from slurmscope import __version__
from slurmscope.auth import Guard
from slurmscope.hosts import Hosts
from slurmscope.measure import Report
from slurmscope.metrics import agent, health, jobs
from slurmscope.metrics.agent import AgentView
from slurmscope.metrics.exposition import OPENMETRICS, TEXT, Chunk, Page, Topic, render
from slurmscope.metrics.process import Process
from slurmscope.server import (
    Answer,
    Receive,
    Scope,
    Send,
    accepts_gzip,
    misled,
    plain,
    request_headers,
    wants_openmetrics,
)
from slurmscope.worker import compute

PROFILES: dict[str, tuple[Topic[Any], ...]] = {
    "default": jobs.TOPICS,
    "slurmscope": (jobs.JOBS, jobs.GPUS),
}


class Looking(Protocol):
    """The agent, as its page sees it."""

    cluster: str
    reports: list[Report]

    @property
    def view(self) -> AgentView: ...


class _ProcessView:
    def __init__(self) -> None:
        self.process = Process()

    def known(self, part: str) -> bool:
        return True


class Pages:
    """Rendered when first asked for after a look, and then the same for all who ask."""

    def __init__(self, looking: Looking, *, compat: bool) -> None:
        self.looking = looking
        self._compat = compat
        self._made: dict[tuple[str, bool], Page] = {}
        self._of: list[Report] | None = None

    async def body(self, profile: str, *, openmetrics: bool, gzip: bool) -> list[bytes]:
        reports = self.looking.reports
        if self._of is not reports:
            self._of, self._made = reports, {}
        key = profile, openmetrics
        page = self._made.get(key)
        if page is None:
            page = await self._rendered(profile, reports, openmetrics)
            if self._of is reports:
                self._made[key] = page
        return page.body(self._last(openmetrics), gzip=gzip)

    async def _rendered(self, profile: str, reports: Sequence[Report], openmetrics: bool) -> Page:
        if not reports:
            return Page([])
        rendering = asyncio.ensure_future(compute(self._page, profile, reports, openmetrics))
        # the thread that renders is the one that looks: when that hangs, whoever waits is told of the agent at least
        while not rendering.done() and self.looking.reports:
            await asyncio.wait({rendering}, timeout=1.0)
        return await rendering if rendering.done() else Page([])

    def _page(self, profile: str, reports: Sequence[Report], openmetrics: bool) -> Page:
        topics = PROFILES["slurmscope" if profile == "default" and not self._compat else profile]
        view = jobs.JobsView(reports)
        return Page(
            [Chunk(render(topic, view, self.looking.cluster, openmetrics=openmetrics).plain) for topic in topics]
        )

    def _last(self, openmetrics: bool) -> bytes:
        """What is of this moment."""
        process: Any = health.PROCESS  # its families look at a process, and at nothing else of what serve has
        views: tuple[tuple[Topic[Any], Any], ...] = ((agent.TOPIC, self.looking.view), (process, _ProcessView()))
        pieces = [render(topic, view, self.looking.cluster, openmetrics=openmetrics).plain for topic, view in views]
        return b"".join(pieces) + (b"# EOF\n" if openmetrics else b"")


class AgentApp:
    """`/`, `/metrics`, `/metrics/slurmscope`, `/healthz`."""

    def __init__(self, pages: Pages, guard: Guard, hosts: Hosts | None = None) -> None:
        self._pages = pages
        self._guard = guard
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = await self._answer(scope)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        body = b"".join(answer.body) if scope["method"] != "HEAD" else b""
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope) -> Answer:
        path: str = scope["path"]
        headers = request_headers(scope)
        if scope["method"] not in ("GET", "HEAD"):
            return plain(405, "only GET", [(b"allow", b"GET, HEAD")])
        if path == "/healthz":
            return plain(200, "ok")
        if refused := await self._kept_out(headers):
            return refused
        if path == "/":
            return Answer(200, self._home().encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        if path not in ("/metrics", "/metrics/slurmscope"):
            return plain(404, "not here; there are /, /metrics, /metrics/slurmscope and /healthz")
        openmetrics = wants_openmetrics(headers.get("accept", ""))
        gzip = accepts_gzip(headers.get("accept-encoding", ""))
        profile = "default" if path == "/metrics" else "slurmscope"
        body = await self._pages.body(profile, openmetrics=openmetrics, gzip=gzip)
        more = [(b"vary", b"Accept, Accept-Encoding")] + ([(b"content-encoding", b"gzip")] if gzip else [])
        return Answer(200, body, OPENMETRICS if openmetrics else TEXT, more)

    async def _kept_out(self, headers: Mapping[str, str]) -> Answer | None:
        if await self._guard.allows_async(headers.get("authorization")):
            return misled(self._hosts, self._guard, headers)
        challenge = [(b"www-authenticate", b'Basic realm="slurmscope"')]
        return plain(401, "a name and password or a token is needed", challenge)

    def _home(self) -> str:
        """For whoever comes with a browser: that it works, and which jobs it sees."""
        looking = self._pages.looking
        rows = "".join(
            f"<tr><td>{html.escape(report.node)}<td>{job.job}<td>{html.escape(job.user)}<td>{_count(job.processes)}"
            f"<td>{_cores(job.cores)}<td>{_mebibytes(job.rss)}"
            for report in looking.reports
            for job in report.jobs
        )
        view = looking.view
        age = "not yet" if view.time is None else f"{max(0.0, time.time() - view.time):.0f} s ago"
        return _HOME.format(
            version=html.escape(__version__), node=html.escape(view.node), cgroup=view.cgroup, age=age, rows=rows
        )


def _count(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _cores(cores: float | None) -> str:
    return "unknown" if cores is None else f"{cores:.2f}"


def _mebibytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 20):,.0f} MiB"


_HOME = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>slurmscope agent, {node}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} th, td {{ text-align: left; padding: .2rem 1rem .2rem 0; }}
</style>
<h1>slurmscope agent, {node}</h1>
<p>slurmscope {version}; cgroups {cgroup}; last look {age}. <a href="/metrics">/metrics</a> is for Prometheus.</p>
<table><tr><th>node<th>job<th>user<th>processes<th>cores in use<th>resident memory{rows}</table>
"""
