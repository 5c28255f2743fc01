# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real OpenID provider on loopback, a browser before it, and somebody between it and slurmscope who may lie."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from servers.process import Server, free_port

CLIENT, SECRET = "slurmscope", "of the client: + % & ="
USER, PASSWORD = "alice", "correct horse battery"
HERE = Path(__file__).resolve().parent
Tamper = Callable[[str, bytes], bytes]


def new_key() -> str:
    """An RSA key, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


class OpenId(Server):
    """django-oauth-toolkit, at `issuer` through the relay."""

    name = "django-oauth-toolkit"

    def __init__(self, folder: Path, portal: str) -> None:
        """`portal` is the address that its users come from and go back to."""
        super().__init__(folder)
        self.key = new_key()
        self.redirect = f"{portal}/sign-in/oidc"
        self.relay = Relay(self.port)

    @property
    def issuer(self) -> str:
        return f"{self.relay.url}/o"

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, HERE / "openid_site.py"]

    def environment(self) -> Mapping[str, str]:
        found = {
            "folder": self.folder,
            "port": self.port,
            "issuer": self.issuer,
            "key": self.key,
            "client": CLIENT,
            "secret": SECRET,
            "redirect": self.redirect,
            "user": USER,
            "password": PASSWORD,
        }
        return {f"OPENID_{name.upper()}": str(value) for name, value in found.items()}

    def look(self) -> str:
        answer = httpx.get(f"{self.url}/o/.well-known/openid-configuration").raise_for_status()
        return str(answer.json()["issuer"])

    def close(self) -> None:
        super().close()
        self.relay.close()


class Relay:
    """Passes everything on, but what it is told to change."""

    def __init__(self, port: int) -> None:
        self.tamper: Tamper = _as_it_is
        self.asked: list[str] = []

        class Handler(_Handler):
            relay = self
            behind = f"http://127.0.0.1:{port}"

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def changing(self, end: str, change: Callable[[Any], Any]) -> Iterator[None]:
        """The JSON of addresses that end so."""

        def tamper(path: str, body: bytes) -> bytes:
            if not path.rstrip("/").endswith(end):
                return body
            return msgspec.json.encode(change(msgspec.json.decode(body)))

        self.tamper = tamper
        try:
            yield
        finally:
            self.tamper = _as_it_is


def _as_it_is(path: str, body: bytes) -> bytes:
    return body


class _Handler(BaseHTTPRequestHandler):
    relay: ClassVar[Relay]
    behind: ClassVar[str]

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"}
        self.relay.asked.append(urlsplit(self.path).path)
        try:
            answer = httpx.request(
                self.command, self.behind + self.path, headers=headers, content=self.rfile.read(length)
            )
        except httpx.HTTPError:
            self.send_error(502)
            return
        body = self.relay.tamper(urlsplit(self.path).path, answer.content)
        self.send_response(answer.status_code)
        for name, value in answer.headers.multi_items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def browse(url: str, portal: str, password: str = PASSWORD) -> dict[str, list[str]]:
    """What a browser does until the provider sends it back: what it is sent back with."""
    with httpx.Client() as browser:
        answer = browser.get(url)
        for _ in range(10):
            if answer.is_redirect:
                to = str(answer.url.join(answer.headers["location"]))
                if to.startswith(portal):
                    return parse_qs(urlsplit(to).query)
                answer = browser.get(to)
                continue
            # the form of the login, as it is shown
            fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', answer.text))
            fields = {name: value.replace("&amp;", "&") for name, value in fields.items()}
            answer = browser.post(answer.url, data=fields | {"username": USER, "password": password})
        raise AssertionError(f"not sent back: {answer.status_code} {answer.text[:500]}")
