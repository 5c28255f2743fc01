# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmrestd, over TCP or a unix socket."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO

import httpx
import msgspec

from slurmscope.settings import Slurm
from slurmscope.slurm import probe
from slurmscope.slurm.commands import Command
from slurmscope.slurm.text import Marks, decode
from slurmscope.slurm.token import Token, claims, expiry
from slurmscope.slurm.transport import (
    Failed,
    NotFound,
    Output,
    TimedOut,
    TooLong,
    Unreachable,
    error_of,
)

_UNIX = "unix:"
_DOCUMENT = "/openapi/v3"
_MOST_DOCUMENT = 64 << 20
_VERSION = re.compile(r"/slurm/(v(\d+)\.(\d+)\.(\d+))/jobs/?$")
_OLDEST = (0, 0, 37)
_UNKNOWN_OPTION = b"Unknown query field"  # what 22.05 says beside what it tells all the same
_TRIES = 2
_MOMENT = 1.0  # seconds in which questions that wait for the document share one failure
# The last is slurmctld's own, of a token that a later slurmrestd passes on unseen.
_REFUSALS = (401, 403, 511)
_NO_MARKS = Marks("", "")


class _Document(msgspec.Struct):
    paths: dict[str, msgspec.Raw] = {}


class _Said(msgspec.Struct):
    error: str | None = None
    description: str | None = None


class _Errors(msgspec.Struct):
    errors: list[_Said] = []


def versions(paths: Iterable[str]) -> list[str]:
    """The versions among the paths of slurmrestd's own document that we read, the newest last."""
    found = {tuple(map(int, match.groups()[1:])): match[1] for path in paths if (match := _VERSION.match(path))}
    return [found[number] for number in sorted(found) if number >= _OLDEST]


class Rest:
    """Asks slurmrestd. What version of its language it speaks is found in the document that it gives of itself."""

    def __init__(self, slurm: Slurm) -> None:
        self._url = slurm.rest_url
        self._user = slurm.rest_user
        self._ca = slurm.rest_ca
        self._timeout = slurm.timeout
        self.token = Token(slurm)
        self.version: str | None = None  # that is spoken
        self.versions: list[str] = []  # that could be
        self._paths: frozenset[str] = frozenset()
        self._client: httpx.AsyncClient | None = None
        self._discovering = asyncio.Lock()
        self._failed = -_MOMENT

    async def run(self, command: Command) -> Output:
        started = time.monotonic()
        async with self._limit(command.argv[1]):
            await self._discovered()
            path = self._path(command.argv, command.job)
            if path.partition("?")[0] not in self._paths:
                raise NotFound(f"slurmrestd has no {path}")
            try:
                data = await self._get(path, command.row.most_bytes)
                if command.row.old and _UNKNOWN_OPTION in data:
                    path = self._path(command.row.old, command.job)
                    data = await self._get(path, command.row.most_bytes)
            except (NotFound, Unreachable):
                # one that was updated or set up anew may speak another version
                self.version = None
                raise
        return Output(data, _NO_MARKS, ("GET", path), "", time.monotonic() - started)

    def _path(self, argv: Sequence[str], job: str) -> str:
        return argv[1].replace("{version}", self.version or "").replace("{job}", job)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def discover(self) -> str:
        """The version that is spoken, asked for once."""
        async with self._limit(_DOCUMENT):
            return await self._discovered()

    @asynccontextmanager
    async def _limit(self, path: str) -> AsyncIterator[None]:
        """The time that a question may take, whatever has to be asked before it and however often it is tried."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError:
            # without its document it has never said a word, and is not asked for other parts either
            silent = TimedOut if self.version else Unreachable
            raise silent(
                f"slurmrestd at {self._url} did not answer {path.replace('{version}', self.version or '…')} "
                f"in {self._timeout:g} s (slurm.timeout)"
            ) from None

    async def _discovered(self) -> str:
        async with self._discovering:
            if self.version is None:
                if time.monotonic() - self._failed < _MOMENT:
                    raise Unreachable(f"slurmrestd at {self._url} did not give its document ({_DOCUMENT}) a moment ago")
                try:
                    data = await self._get(_DOCUMENT, _MOST_DOCUMENT)
                except BaseException:
                    self._failed = time.monotonic()
                    raise
                try:
                    paths = msgspec.json.decode(data, type=_Document).paths
                except ValueError as error:
                    said = decode(data[:200])
                    raise Unreachable(
                        f"{self._url} is not slurmrestd: no OpenAPI document at {_DOCUMENT}: {said!r}"
                    ) from error
                self.versions = versions(paths)
                if not self.versions:
                    raise NotFound(
                        f"slurmrestd at {self._url} speaks no version from v0.0.37 on: are its plugins loaded?"
                    )
                self._paths = frozenset(path.rstrip("/") for path in paths)
                self.version = self.versions[-1]
            return self.version

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            if self._url.startswith(_UNIX):
                transport = httpx.AsyncHTTPTransport(uds=self._url.removeprefix(_UNIX))
                self._client = httpx.AsyncClient(
                    transport=transport, base_url="http://slurmrestd", timeout=self._timeout
                )
            else:
                try:
                    context = ssl.create_default_context(cafile=self._ca or None)
                except OSError as error:
                    raise Failed(f"{self._ca}: cannot be used as certificates: {error} (slurm.rest_ca)") from error
                # no proxy of the environment stands between a cluster and its slurmrestd
                self._client = httpx.AsyncClient(
                    base_url=self._url, verify=context, timeout=self._timeout, trust_env=False
                )
        return self._client

    async def _get(self, path: str, most: int) -> bytes:
        """The body of an answer."""
        try:
            token = await self.token.get()
            for left in reversed(range(_TRIES)):
                try:
                    status, body = await self._once(path, token, most)
                except (httpx.NetworkError, httpx.RemoteProtocolError):
                    # a connection that was kept may have been closed by the other side meanwhile
                    if not left:
                        raise
                    continue
                if not _refused(status, body, path, token) or not left or not self.token.renewable:
                    break
                token = await self.token.get(refused=token)
            self._check(status, body, path, token)
            return body
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            why = str(error) or type(error).__name__
            raise Unreachable(f"slurmrestd at {self._url} cannot be reached: {why}") from error

    async def _once(self, path: str, token: str, most: int) -> tuple[int, bytes]:
        headers = {"X-SLURM-USER-TOKEN": token} if token else {}
        # 22.05 takes no token without the name that is in it
        if user := self._user or (claims(token).sun if token else None):
            headers["X-SLURM-USER-NAME"] = user
        body = BytesIO()
        async with self._open().stream("GET", path, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body.write(chunk)
                if body.tell() > most:
                    raise TooLong(f"more than {most >> 20} MiB of answer, which no cluster has to say")
        return response.status_code, body.getvalue()

    def _check(self, status: int, body: bytes, path: str, token: str) -> None:
        if status == 200:
            return
        if _refused(status, body, path, token):
            end = expiry(token)
            over = end is not None and end < time.time()
            cure = "it has expired" if over else "none was given" if not token else "is it for this cluster?"
            raise Unreachable(f"slurmrestd at {self._url} refused the token: {cure} (`scontrol token` makes one)")
        if status == 404:
            raise NotFound(f"slurmrestd at {self._url} has no {path}")
        raise error_of(probe.FAILED, f"slurmrestd at {self._url} answered {path} with {status}: {_words(body)}")


def _refused(status: int, body: bytes, path: str, token: str) -> bool:
    # 22.05 passes every token on, and has no better word for one that slurmctld refuses
    unspecified = status == 500 and b"Unspecified error" in body
    return status in _REFUSALS or bool(token and unspecified and path.startswith("/slurm/"))


def _words(body: bytes) -> str:
    """What an answer that is none says for itself."""
    try:
        found = msgspec.json.decode(body, type=_Errors).errors
        said = "; ".join(" ".join(filter(None, (one.error, one.description))) for one in found)
    except ValueError:
        said = ""
    return (said or decode(body).strip() or "no message")[:1000]
