# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the pieces together: a source, the poll, the pages, the server."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from slurmscope import constants, home, listening, logs
from slurmscope.auth import Guard
from slurmscope.keeper import Archive
from slurmscope.life import Life
from slurmscope.listening import WrongSetting
from slurmscope.logs import fields
from slurmscope.measured.service import Measuring
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import Snapshot
from slurmscope.notify import Notifier, watchdog_interval
from slurmscope.poll import Poll
from slurmscope.server import Answer, App, Receiver
from slurmscope.settings import Cluster, Mail, Settings
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.source import Source
from slurmscope.store.protocol import StoreError
from slurmscope.trace.endpoint import TraceEndpoint
from slurmscope.trace.traces import Traces
from slurmscope.upkeep import Upkeep, UpkeepError

if TYPE_CHECKING:
    from slurmscope.mail.service import Mailing
    from slurmscope.web.portal import Portal

log = logging.getLogger(__name__)

Listener = Callable[[Snapshot, frozenset[str]], Awaitable[None]]


class Watched(msgspec.Struct):
    """A cluster that is read."""

    source: Source
    poll: Poll
    pages: Pages
    listeners: list[Listener]  # who is told of each poll, one after the other

    async def run(self, *, alone: bool) -> None:
        if not alone:
            logs.cluster.set(self.poll.snapshot.cluster)
        await self.poll.run()


def assemble(
    cluster: Cluster,
    settings: Settings,
    source: Source,
    *,
    from_zero: bool,
    clock: Callable[[], float] = time.time,
) -> Watched:
    pages = Pages(
        cluster=cluster.slurm.cluster,
        compat=settings.metrics.compat,
        top=settings.metrics.top,
        from_zero=from_zero,
        clock=clock,
    )
    listeners: list[Listener] = [pages.publish]

    async def publish(snapshot: Snapshot, fresh: frozenset[str]) -> None:
        for listener in listeners:
            await listener(snapshot, fresh)

    poll = Poll(source, cluster, publish, clock)
    pages.source = source
    pages.up = lambda: poll.up
    return Watched(source, poll, pages, listeners)


def clusters_of(settings: Settings, *, from_zero: bool) -> list[Watched]:
    """The clusters that the settings name."""
    return [assemble(one, settings, source_of(one), from_zero=from_zero) for one in settings.read]


def receivers_of(settings: Settings, clusters: Sequence[Watched], book: Book) -> dict[str, Receiver]:
    """What is received, by its address."""
    found: dict[str, Receiver] = {}
    if settings.trace.enabled:
        traces = book.requests.traces = Traces(settings.trace)
        for one in clusters:
            one.listeners.append(traces.watch(one.poll.snapshot.cluster))
        found[settings.trace.path] = TraceEndpoint(settings.trace, traces)
    return found


def _fixed(settings: Settings) -> dict[str, Answer]:
    """What is answered the same to everybody, as long as this runs."""
    return {constants.PATH: Answer(200, constants.document(settings), "application/json")}


async def _watch(notifier: Notifier, interval: float) -> None:
    while True:
        notifier.watchdog()
        await asyncio.sleep(interval)


async def serve(
    settings: Settings,
    clusters: Sequence[Watched],
    announce: Callable[[str], None] = lambda url: None,
    archive: Archive | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, then lets requests end and leaves no command behind.

    What is seen is kept in the archive, where there is one, and goes to the sinks that are set up.
    """
    guard = Guard(settings.serve.users, settings.serve.tokens)
    book = Book([one.pages for one in clusters])
    measuring = Measuring(settings, lambda: [one.pages.snapshot for one in clusters], archive)
    receivers = receivers_of(settings, clusters, book) | measuring.receivers
    measuring.hear(book.requests.traces)
    pages = measuring.pages | {constants.METRICS_PATH: constants.ConstantsPage(settings)}
    mailing = _mailing(settings)
    doors = {} if mailing is None else mailing.prefixes
    fixed = _fixed(settings)
    portal = None if archive is None else _portal(settings, archive, clusters, book, home.served(pages, fixed))
    hosts = listening.hosts(settings.serve, settings.mail.url)
    server = listening.server(settings.serve, App(book, guard, receivers, pages, fixed, doors, portal, hosts))
    if portal is not None:
        server.before_end = portal.events.close
    sockets = listening.listen(settings.serve, "serve.listen")
    try:
        upkeep = await Upkeep.of(settings, clusters, book, archive, measuring, mailing)
    except UpkeepError as error:
        for sock in sockets:
            sock.close()
        raise WrongSetting(str(error)) from error
    url = listening.url(settings.serve, sockets[0])
    _warn_if_open(settings)
    _make_room()
    _stop_on_signals(server)
    notifier = Notifier()
    # each cluster at its own pace: one that hangs keeps no other waiting
    tasks = [asyncio.create_task(one.run(alone=len(clusters) == 1)) for one in clusters]
    tasks += upkeep.start()
    for task in tasks:
        task.add_done_callback(lambda task: setattr(server, "should_exit", True))
    if (interval := watchdog_interval()) is not None:
        tasks.append(asyncio.create_task(_watch(notifier, interval)))
    log.info("serving", extra=fields(url=url))
    announce(url)
    notifier.ready()
    notifier.status(f"serving {url}")
    try:
        await server.serve(sockets=sockets)
    finally:
        notifier.stopping()
        results = await _ended(tasks)
        await upkeep.close()
        if portal is not None:
            portal.close()
        await asyncio.gather(*(one.source.close() for one in clusters), return_exceptions=True)
        log.info("stopped")
    for result in results:
        raise result


def _make_room() -> None:
    # A poll computes for tenths of a second in another thread; with the default of 5 ms for each change of hands a
    # scrape that needs several would be late.
    sys.setswitchinterval(0.0002)
    listening.raise_file_limit()


def _stop_on_signals(server: listening.Server) -> None:
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, lambda: setattr(server, "should_exit", True))


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> list[Exception]:
    """What went wrong in them, once they have ended."""
    for task in tasks:
        task.cancel()
    return [one for one in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(one, Exception)]


def _portal(
    settings: Settings, archive: Archive, clusters: Sequence[Watched], book: Book, served: Mapping[str, str]
) -> Portal | None:
    # only here: its templates and reports take memory
    from slurmscope.web.scripts import Scripts  # noqa: PLC0415
    from slurmscope.web.start import portal_of  # noqa: PLC0415

    def read(life: Life) -> Coroutine[None, None, str | None] | None:
        where = next((one for one in clusters if one.pages.snapshot.cluster == life.cluster), None)
        return None if where is None else where.source.script(life)

    portal = portal_of(
        settings,
        archive.url,
        lambda: [one.pages.latest for one in clusters],
        views=book.views,
        script=Scripts(read, asyncio.get_running_loop()).of,
        served=served,
    )
    if portal is not None:
        for one in clusters:
            one.listeners.append(portal.preparation.publish)
    return portal


def _mailing(settings: Settings) -> Mailing | None:
    """None where nothing is said of mail. What is said of rules is looked at, too, before anything is done."""
    # the address alone is the portal's as well
    silent = msgspec.structs.replace(settings.mail, url="") == Mail()
    if silent and not settings.rules:
        return None
    # only here: what judges and tells takes memory
    from slurmscope.findings.policy import Policy, PolicyError  # noqa: PLC0415
    from slurmscope.mail.service import Mailing  # noqa: PLC0415

    try:
        Policy(settings.rules)
        return None if silent else Mailing(settings)
    except (PolicyError, StoreError) as error:
        raise WrongSetting(str(error).replace("\n", "\nslurmscope: ")) from error


def _warn_if_open(settings: Settings) -> None:
    if listening.is_open(settings.serve):
        log.warning(
            "anybody who reaches this address can read users' names; serve.users or serve.tokens closes it",
            extra=fields(listen=settings.serve.listen),
        )
    if settings.agents.enabled and not (settings.agents.tokens or listening.is_local(settings.serve)):
        log.warning(
            "anybody who reaches this address can say what jobs used; agents.tokens closes it",
            extra=fields(listen=settings.serve.listen),
        )
    trace = settings.trace
    if trace.enabled and not (trace.tokens or trace.munge or listening.is_local(settings.serve)):
        log.warning(
            "anybody who reaches this address can tell anything of any job; trace.tokens or trace.munge closes it",
            extra=fields(listen=settings.serve.listen, path=trace.path),
        )
    if trace.enabled and trace.munge and shutil.which("unmunge") is None:
        log.warning("unmunge is not on the PATH: nobody can prove by munge who they are; install munge here")
