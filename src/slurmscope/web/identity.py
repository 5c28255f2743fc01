# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who asks: by a session's cookie, a token of the API, or what a proxy says."""

from __future__ import annotations

import threading
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slurmscope import listening
from slurmscope.hosts import Hosts, host_of
from slurmscope.model import Snapshot
from slurmscope.server import Scope
from slurmscope.settings import Settings
from slurmscope.web import cookies
from slurmscope.web.memory import Same
from slurmscope.web.people import proxy
from slurmscope.web.people.ledger import Ledger, open_ledger
from slurmscope.web.people.local import Local
from slurmscope.web.people.sessions import Sessions
from slurmscope.web.people.tokens import Tokens, presented
from slurmscope.web.people.viewer import NOBODY, Below, Viewer, below, viewer_of
from slurmscope.web.request import Request
from slurmscope.web.site import Site

if TYPE_CHECKING:
    from slurmscope.web.people.oidc import Oidc

COOKIE = "session"


class Identity:
    def __init__(self, settings: Settings, site: Site) -> None:
        self._settings = settings
        self._site = site
        # not this machine's own name, nor serve.names: behind a proxy that passes them on, everybody would be let in
        here = listening.host(settings.serve) if listening.is_local(settings.serve) else ""
        self._hosts = Hosts(here, urlsplit(settings.mail.url).hostname or "")
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._local: Local | None = None
        self._oidc: Oidc | None = None

    @property
    def ways(self) -> list[str]:
        return self._settings.portal.sign_in

    @property
    def ledger(self) -> Ledger:
        """Raises StoreError."""
        with self._lock:
            if self._ledger is None:
                self._ledger = open_ledger(self._settings.store)
            return self._ledger

    @property
    def local(self) -> Local:
        """The one that all use: it counts wrong passwords one after the other. Raises StoreError."""
        ledger = self.ledger
        with self._lock:
            if self._local is None:
                self._local = Local(ledger)
            return self._local

    @property
    def oidc(self) -> Oidc:
        """The one that all use: it remembers what the provider says of itself. Raises StoreError."""
        # only here: most sites do without
        from slurmscope.web.people.oidc import Oidc  # noqa: PLC0415

        ledger = self.ledger
        with self._lock:
            if self._oidc is None:
                self._oidc = Oidc(self._settings.portal, self._settings.mail.url, ledger)
            return self._oidc

    @property
    def sessions(self) -> Sessions:
        return Sessions(self.ledger, self._settings.portal)

    @property
    def tokens(self) -> Tokens:
        return Tokens(self.ledger)

    def viewer(self, request: Request) -> Viewer | None:
        """None: who asks has not signed in. Raises StoreError and ProxyError."""
        if not self.ways:
            return NOBODY if self._is_local(request) else None
        name = self._name(request)
        if name is None:
            return None
        return viewer_of(name, self._settings.portal, [one.snapshot for one in self._site.editions()], self._below)

    def _below(self, snapshot: Snapshot) -> Below:
        """There may be many accounts: looked through when they are read anew, and not for each page."""
        return self._site.remembered(("below", snapshot.cluster), Same(snapshot.shares.value), lambda: below(snapshot))

    def _is_local(self, request: Request) -> bool:
        """Whether it is this machine that a browser means. Another site's name may be made to lead here, and its pages
        could read ours then."""
        asked = request.headers.get("host", "localhost")
        try:
            return ip_address(host_of(asked)).is_loopback
        except ValueError:
            return self._hosts.mean(asked)

    def _name(self, request: Request) -> str | None:
        now = self._site.now
        if secret := presented(request.headers):
            token = self.tokens.of(secret, now)
            return None if token is None else token.user
        if kept := self.kept(request, COOKIE):
            session = self.sessions.of(kept, now)
            if session is not None:
                return session.user
        return proxy.name_of(request.peer, request.lines, self._settings.portal) if "proxy" in self.ways else None

    def client(self, request: Request) -> str:
        """From where somebody comes, as far as it can be believed."""
        return proxy.client_of(request.peer, request.lines, self._settings.portal)

    def secure(self, request: Request) -> bool:
        """Whether a browser comes by TLS, to us or to the proxy before us."""
        return request.secure or self._settings.mail.url.startswith("https://")

    def strict(self, scope: Scope) -> bool:
        """Whether browsers are to come by TLS alone from now on. They take it for all ports of a name, at which there
        may be others who know no TLS: it is said only where the portal is at the usual one, by a name of its own."""
        if url := self._settings.mail.url:
            public = urlsplit(url)
            return public.scheme == "https" and public.port in (None, 443)
        host = dict(scope["headers"]).get(b"host", b"")
        return scope.get("scheme") == "https" and b":" not in host.rpartition(b"]")[2]

    def kept(self, request: Request, name: str) -> str:
        """A cookie of ours on which something depends; "" where the browser has none."""
        return request.cookies.get(cookies.own(name, secure=self.secure(request)), "")

    def close(self) -> None:
        with self._lock:
            if self._oidc is not None:
                self._oidc.close()
                self._oidc = None
            if self._ledger is not None:
                self._ledger.close()
                self._ledger = None
