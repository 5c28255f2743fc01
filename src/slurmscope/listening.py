# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on the address that the settings name: for `serve`, and for the agent."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
from collections.abc import Callable, Generator
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from slurmscope.checks import address
from slurmscope.connection import Connection
from slurmscope.hosts import Hosts
from slurmscope.settings import Serve

STOP_SECONDS = 5
_BACKLOG = 128
_LOOPBACK = ("localhost", "localhost4", "localhost6", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


class ServeError(Exception):
    """The server cannot start; the message says why and what to do."""

    status = 1


class WrongSetting(ServeError):
    """… and to start it again would not help."""

    status = 2


class Server(uvicorn.Server):
    before_end: Callable[[], None] = staticmethod(lambda: None)
    """Ends answers that would not end by themselves."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.before_end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are ours: uvicorn would raise them anew before the poll and its commands have ended."""
        yield


def listen(serve: Serve, setting: str) -> list[socket.socket]:
    """`setting` is the name of the one that says where. Raises ServeError."""
    host, port = _address(serve)
    try:
        if host == "":
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            return [socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=_BACKLOG)]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return [socket.create_server((host, port), family=family, backlog=_BACKLOG)]
    except OSError as error:
        raise ServeError(
            f"cannot listen on {serve.listen}: {_why(error)}; {setting} (or --listen) names another"
        ) from error


def _why(error: OSError) -> str:
    # a name that does not resolve has a number that is none of errno's
    return error.strerror if isinstance(error, socket.gaierror) and error.strerror else os.strerror(error.errno or 0)


def server(serve: Serve, app: Any) -> Server:
    """Raises ServeError."""
    config = uvicorn.Config(
        app,
        http=Connection,
        backlog=_BACKLOG,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # else any client could fill the log with warnings of its bad requests
        access_log=False,
        proxy_headers=False,  # whose word is taken for where somebody comes from, the settings say
        server_header=False,
        timeout_keep_alive=75,  # Prometheus keeps its connection from scrape to scrape
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=serve.tls_cert or None,
        ssl_keyfile=serve.tls_key or None,
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise ServeError(
            f"serve.tls_cert, serve.tls_key: cannot be used (the key must not be encrypted): {error}"
        ) from error
    return Server(config)


def raise_file_limit() -> None:
    """Scrapers and commands share the descriptors; the soft limit is a habit from the days of select()."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def url(serve: Serve, sock: socket.socket) -> str:
    name = host(serve)
    name = f"[{name}]" if ":" in name else name or socket.gethostname()
    return f"http{'s' if serve.tls_cert else ''}://{name}:{sock.getsockname()[1]}"


def is_open(serve: Serve) -> bool:
    """Whether whoever reaches this host may read: neither on loopback alone, nor closed."""
    return not is_local(serve) and not serve.users and not serve.tokens


def is_local(serve: Serve) -> bool:
    name = host(serve)
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower() in _LOOPBACK


def host(serve: Serve) -> str:
    """The name or address on which it listens; empty for all."""
    return _address(serve)[0]


def hosts(serve: Serve, url: str = "") -> Hosts | None:
    """The names by which it may be asked; `url` is the address that people are told. None: by whatever name, for others
    are to come."""
    if not is_local(serve):
        return None
    own = socket.gethostname()
    return Hosts(host(serve), own, own.partition(".")[0], *serve.names, urlsplit(url).hostname or "")


def _address(serve: Serve) -> tuple[str, int]:
    found = address(serve.listen)
    assert found is not None, serve.listen  # the settings were checked
    return found
