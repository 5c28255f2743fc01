# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the pieces together: a source, the poll, the pages, the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Sequence

import msgspec
import uvicorn

from slurmscope import logs
from slurmscope.auth import Guard
from slurmscope.config import listen_address
from slurmscope.connection import Connection
from slurmscope.keeper import Archive
from slurmscope.logs import fields
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import Snapshot
from slurmscope.notify import Notifier, watchdog_interval
from slurmscope.poll import Poll
from slurmscope.server import App
from slurmscope.settings import Cluster, Settings
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.source import Source
from slurmscope.upkeep import Upkeep, UpkeepError

log = logging.getLogger(__name__)

_STOP_SECONDS = 5
_BACKLOG = 128
_LOOPBACK = ("127.", "::1", "localhost")


class ServeError(Exception):
    """The server cannot start; the message says why and what to do."""

    status = 1


class WrongSetting(ServeError):
    """… and to start it again would not help."""

    status = 2


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


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are ours: uvicorn would raise them anew before the poll and its commands have ended."""
        yield


def _listen(settings: Settings) -> list[socket.socket]:
    host, port = listen_address(settings)
    try:
        if host == "":
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            return [socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=_BACKLOG)]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [socket.create_server((host, port), family=family, backlog=_BACKLOG)]
    except OSError as error:
        raise ServeError(
            f"cannot listen on {settings.serve.listen}: {_why(error)}; serve.listen (or --listen) names another"
        ) from error


def _why(error: OSError) -> str:
    # a name that does not resolve has a number that is none of errno's
    return error.strerror if isinstance(error, socket.gaierror) and error.strerror else os.strerror(error.errno or 0)


def _server(settings: Settings, app: App) -> _Server:
    serve = settings.serve
    config = uvicorn.Config(
        app,
        http=Connection,
        backlog=_BACKLOG,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # else any client could fill the log with warnings of its bad requests
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # Prometheus keeps its connection from scrape to scrape
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_certfile=serve.tls_cert or None,
        ssl_keyfile=serve.tls_key or None,
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise ServeError(
            f"serve.tls_cert, serve.tls_key: cannot be used (the key must not be encrypted): {error}"
        ) from error
    return _Server(config)


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
    server = _server(settings, App(book, guard))
    sockets = _listen(settings)
    try:
        upkeep = await Upkeep.of(settings, clusters, book, archive)
    except UpkeepError as error:
        for sock in sockets:
            sock.close()
        raise WrongSetting(str(error)) from error
    url = _url(settings, sockets[0])
    _warn_if_open(settings)
    # A poll computes for tenths of a second in another thread; with the default of 5 ms for each change of hands a
    # scrape that needs several would be late.
    sys.setswitchinterval(0.0002)
    _raise_file_limit()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, lambda: setattr(server, "should_exit", True))
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
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await upkeep.close()
        await asyncio.gather(*(one.source.close() for one in clusters), return_exceptions=True)
        log.info("stopped")
    for result in results:
        if isinstance(result, Exception):
            raise result


def _raise_file_limit() -> None:
    """Scrapers and commands share the descriptors; the soft limit is a habit from the days of select()."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _url(settings: Settings, sock: socket.socket) -> str:
    host, _ = listen_address(settings)
    name = f"[{host}]" if ":" in host else host or socket.gethostname()
    return f"http{'s' if settings.serve.tls_cert else ''}://{name}:{sock.getsockname()[1]}"


def _warn_if_open(settings: Settings) -> None:
    host, _ = listen_address(settings)
    if not host.startswith(_LOOPBACK) and not settings.serve.users and not settings.serve.tokens:
        log.warning(
            "anybody who reaches this address can read users' names; serve.users or serve.tokens closes it",
            extra=fields(listen=settings.serve.listen),
        )
