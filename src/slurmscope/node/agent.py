# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope agent`: looks at the jobs of this node from time to time, shows what it saw, and sends it on."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from slurmscope import listening
from slurmscope.auth import Guard
from slurmscope.logs import fields
from slurmscope.measure import Report
from slurmscope.metrics.agent import AgentView
from slurmscope.node.collector import Collector
from slurmscope.node.gpus import Gpus
from slurmscope.node.mounts import Mounts, mounts
from slurmscope.node.page import AgentApp, Pages
from slurmscope.node.post import Poster
from slurmscope.node.scheduler import Scheduler
from slurmscope.node.slurm import Slurm, cluster_name
from slurmscope.node.squeue import Squeue
from slurmscope.notify import Notifier, watchdog_interval
from slurmscope.settings import Serve, Settings
from slurmscope.sinks.pushgateway import PushgatewaySink
from slurmscope.sinks.sink import Tally
from slurmscope.worker import compute

log = logging.getLogger(__name__)

_TICK = 2.0  # seconds between two looks at which jobs there are
_ASK_EVERY = 60.0  # seconds between questions to slurmctld, where nothing else tells
_LOOKS_MISSED = 3  # after which what was seen last is not shown as if it were of now
_LEAST_PATIENCE = 15.0  # seconds; a driver of GPUs that hangs costs a look five
_PUSH_WAIT = 2.0  # a gateway that comes back must not go on showing jobs that have ended


class Agent:
    """Looks; who shows or sends it is told of each look."""

    def __init__(self, settings: Settings, found: Mounts, scheduler: Scheduler, gpus: Gpus) -> None:
        agent = settings.agent
        self.node = agent.node or socket.gethostname().partition(".")[0]
        self.cluster = settings.slurm.cluster or cluster_name(settings.slurm.conf)
        self.reports: list[Report] = []
        self.listeners: list[Callable[[list[Report]], Awaitable[None]]] = []
        self.sinks: list[tuple[str, Tally]] = []
        self._mounts = found
        self._scheduler = scheduler
        self._gpus = gpus
        self._interval = agent.interval
        self._looks = 0
        self._seconds = 0.0
        self._last_seconds = 0.0
        self._completed = time.monotonic()  # the last look, in this clock
        self._time: float | None = None
        self._is_stuck = False
        self._asked = float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._drivers: dict[str, bool] = {}
        self._collector = Collector(
            found,
            scheduler,
            cluster=self.cluster,
            node=self.node,
            scratch=agent.scratch,
            programs=agent.programs,
        )

    async def look(self) -> None:
        started = time.monotonic()
        gpus = await self._gpus.read()
        # one card of several that fell off its bus is a problem of the driver's, which still tells of the others
        self._drivers = dict.fromkeys(self._gpus.problems, False) | dict.fromkeys((gpu.vendor for gpu in gpus), True)
        reports = await compute(self._collector.collect, gpus)
        self._looks += 1
        self._completed = time.monotonic()
        self._last_seconds = self._completed - started
        self._seconds += self._last_seconds
        self._time = max((report.time for report in reports), default=self._time)
        if self._is_stuck:
            self._is_stuck = False
            log.info("the jobs of this node are looked at again")
        await self._tell(reports)
        self._ask()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._gpus.close()
        self._collector.close()

    @property
    def stale(self) -> bool:
        """The kernel may keep whoever reads of a process waiting for as long as that waits for a dead file server."""
        age = time.monotonic() - self._completed
        return age > max(_LOOKS_MISSED * self._interval, _LEAST_PATIENCE)

    async def mind(self) -> None:
        """Takes the jobs away when looks do not come to an end any more: they would go on as if they lived."""
        while True:
            if self.stale and not self._is_stuck:
                self._is_stuck = True
                age = round(time.monotonic() - self._completed)
                log.error("no look at the jobs comes to an end, and none is shown any more", extra=fields(seconds=age))
                await self._tell([])
            await asyncio.sleep(_TICK)

    async def run(self) -> None:
        """Looks until it is cancelled: at each interval, and sooner when a job has come; those that have gone are
        forgotten at once."""
        last = float("-inf")
        while True:
            due = last + self._interval
            try:
                if time.monotonic() >= due:
                    # agents that were all started at once must not all look, and send, in the same second
                    shift = random.uniform(0, self._interval) if self._looks == 0 else 0.0  # noqa: S311 - no secret
                    last = time.monotonic() - shift
                    await self.look()
                else:
                    change = await compute(self._collector.change)
                    if change.gone:
                        await self._tell([_without(report, change.gone) for report in self.reports])
                    # not so soon that many short jobs would make it cost more than a hundredth of a core
                    early = max(self._interval / 3, 100 * self._last_seconds)
                    if change.came and time.monotonic() >= last + early:
                        last = time.monotonic()
                        await self.look()
            except Exception:  # a fault of ours must not end the agent
                log.exception("the jobs of this node could not be looked at")
            await asyncio.sleep(max(0.05, min(_TICK, last + self._interval - time.monotonic())))

    async def _tell(self, reports: list[Report]) -> None:
        self.reports = reports
        for listener in self.listeners:
            await listener(reports)

    def _ask(self) -> None:
        """Only where neither the folder, nor slurmstepd, nor the environment of a process tells whose it is. Looks go
        on meanwhile: slurmctld may take its time."""
        unknown = self._collector.unknown
        if not unknown or time.monotonic() - self._asked <= _ASK_EVERY:
            return
        if self._asking is None or self._asking.done():
            self._asked = time.monotonic()
            self._asking = asyncio.create_task(self._learn(unknown))

    async def _learn(self, unknown: list[str]) -> None:
        try:
            told = await self._scheduler.ask(unknown)
            # by the thread that looks, so that it does not happen within a look
            await compute(self._collector.learn, told)
        except Exception:  # a fault of ours must not end the agent
            log.exception("whose some cgroups are could not be learnt")

    @property
    def view(self) -> AgentView:
        collector = self._collector
        return AgentView(
            self.node,
            self._mounts.version,
            sum(len(report.jobs) for report in self.reports),
            self._looks,
            self._seconds,
            self._last_seconds,
            self._time,
            dict(collector.missed.counts),
            collector.leftovers,
            self._drivers,
            self.sinks,
        )


def _without(report: Report, gone: frozenset[tuple[str, int]]) -> Report:
    left = tuple(job for job in report.jobs if (report.node, job.job) not in gone)
    return msgspec.structs.replace(report, jobs=left)


def of_settings(settings: Settings) -> Agent:
    # before the files of /proc that are kept open are counted out
    listening.raise_file_limit()
    return Agent(settings, mounts(), Slurm(Squeue(settings.slurm, settings.agent.node)), Gpus())


async def serve(settings: Settings, announce: Callable[[str], None] = lambda url: None) -> None:
    """Looks, serves and sends until SIGTERM or SIGINT. Raises ServeError."""
    if settings.agent.listen == "none" and not settings.agent.serve_url and not settings.pushgateway.url:
        raise listening.WrongSetting(
            'agent.listen is "none", and there is nothing to send to: set agent.listen, agent.serve_url or '
            "pushgateway.url"
        )
    agent = of_settings(settings)
    if not agent.cluster:
        log.warning(
            "the cluster's name is unknown: set slurm.cluster, or slurm.conf to a file that this user may read; "
            "`slurmscope agent --check` says where it was looked for"
        )
    pages = Pages(agent, compat=settings.metrics.compat)
    address = msgspec.structs.replace(settings.serve, listen=settings.agent.listen)
    stopped = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, stopped.set)
    tasks = [asyncio.create_task(agent.run()), asyncio.create_task(agent.mind())]
    closing: list[Any] = []
    if settings.agent.serve_url:
        poster = Poster(settings.agent)
        agent.listeners.append(poster.take)
        agent.sinks.append((poster.name, poster.tally))
        tasks.append(asyncio.create_task(poster.run()))
        closing.append(poster)
    if settings.pushgateway.url:
        push = _push(settings, agent, pages)
        agent.listeners.append(lambda reports: push.take())
        agent.sinks.append((push.name, push.tally))
        tasks.append(asyncio.create_task(push.run()))
        closing.append(push)
    if settings.agent.listen != "none":
        tasks.append(asyncio.create_task(_listen(address, pages, announce)))
    notifier = Notifier()
    if (interval := watchdog_interval()) is not None:
        tasks.append(asyncio.create_task(_watch(notifier, interval, agent)))
    for task in tasks:
        task.add_done_callback(lambda task: stopped.set())
    notifier.ready()
    try:
        await stopped.wait()
    finally:
        notifier.stopping()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in (*closing, agent)), return_exceptions=True)
        log.info("stopped")
    for result in results:
        if isinstance(result, Exception):
            raise result


def _push(settings: Settings, agent: Agent, pages: Pages) -> PushgatewaySink:
    """All of the node's series are one group, which each push replaces whole: a job that has ended is gone with the
    next, and there is no moment at which the others are missing."""
    grouping = settings.pushgateway.grouping | {"instance": agent.node}
    ours = msgspec.structs.replace(settings.pushgateway, grouping=grouping, interval=1.0, delete_on_stop=True)

    async def page() -> bytes:
        return b"".join(await pages.body("default", openmetrics=False, gzip=True))

    return PushgatewaySink(ours, page, _PUSH_WAIT)


async def _listen(address: Serve, pages: Pages, announce: Callable[[str], None]) -> None:
    server = listening.server(address, AgentApp(pages, Guard(address.users, address.tokens), listening.hosts(address)))
    sockets = listening.listen(address, "agent.listen")
    url = listening.url(address, sockets[0])
    if listening.is_open(address):
        log.warning(
            "anybody who reaches this address can read users' names; serve.users or serve.tokens closes it",
            extra=fields(listen=address.listen),
        )
    log.info("serving", extra=fields(url=url))
    announce(url)
    try:
        await server.serve(sockets=sockets)
    except asyncio.CancelledError:
        server.should_exit = True
        raise


async def _watch(notifier: Notifier, interval: float, agent: Agent) -> None:
    """systemd starts anew what does not look any more."""
    while True:
        if not agent.stale:
            notifier.watchdog()
        await asyncio.sleep(interval)
