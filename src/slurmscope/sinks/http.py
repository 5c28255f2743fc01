# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP to a server that data is sent to: who we are to it, whether it is the one it should be, what it answers."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import ssl
import time
from pathlib import Path
from typing import NamedTuple

import httpx

from slurmscope.settings import Elasticsearch, Pushgateway
from slurmscope.sinks.sink import BatchError, SendError

_TIMEOUT = 30.0  # seconds for a whole request; a server may take its time over a large batch
_MOST_ANSWER = 8 << 20
_BUSY = (429, 502, 503, 504)
_REFUSED = (401, 403)


class Target(NamedTuple):
    """A server that wants a bearer token, if anything."""

    url: str
    ca: str
    token_file: str
    token_setting: str  # which names that file


class Answer(NamedTuple):
    status: int
    body: bytes
    after: float | None


class Server:
    """What `section` of the settings names. TLS is always checked."""

    def __init__(self, section: str, settings: Elasticsearch | Pushgateway | Target) -> None:
        self._section = section
        self._settings = settings
        self._url = settings.url.rstrip("/")
        self._client: httpx.AsyncClient | None = None

    async def request(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """The answer, whatever it is, but for those of a server that refuses us or is too busy.

        Raises SendError, BatchError.
        """
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = await self._ask(method, path, content, headers or {})
        except (TimeoutError, httpx.TimeoutException):
            raise SendError(f"{self._url} did not answer in {_TIMEOUT:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise SendError(f"{self._url} cannot be reached: {_why(error)}") from error
        if answer.status in _REFUSED:
            await self.close()  # so that a password file is read anew
            raise SendError(
                f"{self._url} refused {method} {path} with {answer.status}: {self._who()}: {words(answer.body)}"
            )
        if answer.status in _BUSY:
            raise SendError(f"{self._url} is busy, {answer.status}: {words(answer.body)}", answer.after)
        if answer.status == 413:
            raise BatchError(f"too large: {self._url} takes no {len(content)} bytes at a time", large=True)
        return answer

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> Answer:
        client = self._open()
        body = bytearray()
        async with client.stream(method, self._url + path, content=content, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_ANSWER:
                    raise SendError(f"{self._url} answered {method} {path} with more than {_MOST_ANSWER >> 20} MiB")
        return Answer(response.status_code, bytes(body), _after(response.headers.get("Retry-After")))

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            ca = self._settings.ca
            try:
                context = ssl.create_default_context(cafile=ca or None)
            except OSError as error:
                raise SendError(f"{ca}: cannot be used as certificates: {error} ({self._section}.ca)") from error
            # no proxy and no .netrc of the environment: where data goes is told by the settings alone
            self._client = httpx.AsyncClient(
                headers=self._authorization(), verify=context, timeout=_TIMEOUT, trust_env=False
            )
        return self._client

    def _authorization(self) -> dict[str, str]:
        settings = self._settings
        if isinstance(settings, Target):
            token = self._secret(settings.token_file, settings.token_setting) if settings.token_file else ""
            return {"Authorization": f"Bearer {token}"} if token else {}
        if isinstance(settings, Elasticsearch) and settings.api_key:
            return {"Authorization": f"ApiKey {settings.api_key}"}
        if not settings.user:
            return {}
        password = settings.password
        if settings.password_file:
            password = self._secret(settings.password_file, f"{self._section}.password_file")
        pair = base64.b64encode(f"{settings.user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def _secret(self, path: str, setting: str) -> str:
        try:
            return Path(path).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise SendError(f"{path} ({setting}): cannot be read: {why}") from error

    def _who(self) -> str:
        """What we are to the server; the first half of what is to be looked at when it refuses us."""
        if isinstance(self._settings, Target):
            return f"is the token of {self._settings.token_setting} one that it takes?"
        if isinstance(self._settings, Elasticsearch) and self._settings.api_key:
            return f"is {self._section}.api_key right, and may it do this?"
        if self._settings.user:
            return f"is the password of {self._settings.user} right ({self._section}.password), and may he do this?"
        return f"it wants to know who we are ({self._section}.user)"


def words(body: bytes) -> str:
    """What an answer says for itself, on one line."""
    return " ".join(body.decode("utf-8", "replace").split())[:300] or "no message"


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _after(value: str | None) -> float | None:
    """Retry-After: seconds, or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
