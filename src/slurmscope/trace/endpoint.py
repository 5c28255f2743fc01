# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The address that jobs send to: who may, what they are told, and what becomes of it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from slurmscope.auth import Guard
from slurmscope.server import Answer, Headers, plain
from slurmscope.settings import Trace
from slurmscope.trace import body
from slurmscope.trace.munge import Munge, NoMunge, NotProven, is_credential
from slurmscope.trace.traces import Full, NotTheirs, NotYet, Proven, Traces

_JSON = "application/json"
_SCHEMA = "application/schema+json"
_SOON: Headers = [(b"retry-after", b"10")]
_LATER: Headers = [(b"retry-after", b"30")]


class TraceEndpoint:
    """A Receiver of samples, which it gives to Traces."""

    most_bytes = body.MOST_BYTES

    def __init__(self, settings: Trace, traces: Traces) -> None:
        self._settings = settings
        self._traces = traces
        self._guard = Guard({}, settings.tokens)
        self._munge = Munge()

    async def about(self) -> Answer:
        """The schema, for all: it tells of nobody."""
        return Answer(200, msgspec.json.format(msgspec.json.encode(body.schema()), indent=2) + b"\n", _SCHEMA)

    async def refusal(self, headers: Mapping[str, str]) -> Answer | None:
        kind = headers.get("content-type", _JSON).partition(";")[0].strip().lower()
        authorization = headers.get("authorization", "")
        credential = _credential(authorization) if self._settings.munge else None
        if credential is not None and not is_credential(credential):
            return self._refused("munge", 401, "munge: that is no credential of munge's", self._challenge)
        if credential is None and not self._may_send(authorization):
            return self._refused("token", 401, self._cure, self._challenge)
        if kind != _JSON:
            return self._refused("media", 415, f"content-type: expected {_JSON}")
        return None

    def _may_send(self, authorization: str) -> bool:
        if self._settings.munge and not self._settings.tokens:
            return False
        return self._guard.allows(authorization)

    @property
    def _cure(self) -> str:
        ways = ["set SLURMSCOPE_TRACE_TOKEN to a token of trace.tokens"] if self._settings.tokens else []
        ways += ["sign with munge (--munge)"] if self._settings.munge else []
        return f"who are you? {', or '.join(ways)}"

    @property
    def _challenge(self) -> Headers:
        ways = [b"Bearer"] if self._settings.tokens else []
        return [(b"www-authenticate", b", ".join([*ways, b"Munge"] if self._settings.munge else ways))]

    async def take(self, headers: Mapping[str, str], raw: bytes) -> Answer:
        try:
            proven = await self._proven(headers.get("authorization", ""), raw)
            taken = self._traces.take(body.read(raw, time.time()), proven)
        except (NotProven, NoMunge) as error:
            return self._unproven(error)
        except body.WrongBody as error:
            return self._refused("body", 400, str(error))
        except NotTheirs as error:
            return self._refused("user", 403, str(error))
        except NotYet as error:
            return plain(503, f"{error}: come again", _SOON)
        except Full as error:
            return self._refused("full", 429, str(error), _LATER)
        return Answer(200, msgspec.json.encode({"taken": taken}) + b"\n", _JSON)

    def _unproven(self, error: NotProven | NoMunge) -> Answer:
        if isinstance(error, NoMunge):
            return self._refused("munge", 503, str(error), _LATER)
        return self._refused("munge", 401, f"munge: {error}: sign each body anew", self._challenge)

    async def _proven(self, authorization: str, raw: bytes) -> Proven | None:
        credential = _credential(authorization) if self._settings.munge else None
        return None if credential is None else await self._munge.signer(credential, raw)

    def _refused(self, reason: str, status: int, why: str, headers: Headers | None = None) -> Answer:
        self._traces.refused[reason] += 1
        return plain(status, why, list(headers or []))


def _credential(authorization: str) -> str | None:
    scheme, _, credential = authorization.strip().partition(" ")
    return credential.strip() if scheme.lower() == "munge" else None
