# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a portal as a browser would, without a socket between."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from slurmscope.web.portal import Portal

_KEY = re.compile(r'name="key" value="([0-9a-f]+)"')


class Got(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes
    cookies: dict[str, str] = {}  # by name, the whole lines by which they were set

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Client:
    """Keeps cookies, as a browser does."""

    def __init__(
        self,
        portal: Portal,
        peer: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        scheme: str = "http",
    ) -> None:
        self._portal = portal
        self._scheme = scheme
        self._peer = peer
        self._headers = dict(headers or {})
        self.cookies: dict[str, str] = {}

    def get(self, address: str, **headers: str) -> Got:
        return self.ask("GET", address, b"", headers)

    def post(self, address: str, form: Mapping[str, str], page: str = "", **headers: str) -> Got:
        """With the key of a form that is on `page`, where one is named."""
        found = _KEY.search(self.get(page).text) if page else None
        fields = {**form, **({"key": found[1]} if found else {})}
        return self.ask("POST", address, urlencode(fields).encode(), headers)

    def ask(self, method: str, address: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Got:
        return asyncio.run(self._ask(method, address, body, {**self._headers, **(headers or {})}))

    async def _ask(self, method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Got:
        path, _, query = address.partition("?")
        lines = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
        if self.cookies:
            lines.append((b"cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()).encode()))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": lines,
            "client": (self._peer, 50000),
            "scheme": self._scheme,
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._portal(scope, receive, send)
        start, *rest = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        for name, value in start["headers"]:
            if name == b"set-cookie":
                self._keep(value.decode())
        whole = b"".join(one.get("body", b"") for one in rest)
        if found.get("content-encoding") == "gzip":
            whole = gzip.decompress(whole)
        lines_of = [value.decode() for name, value in start["headers"] if name == b"set-cookie"]
        return Got(start["status"], found, whole, {one.partition("=")[0]: one for one in lines_of})

    def _keep(self, line: str) -> None:
        pair, _, more = line.partition(";")
        name, _, value = pair.partition("=")
        if "max-age=0" in more.lower():
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value
