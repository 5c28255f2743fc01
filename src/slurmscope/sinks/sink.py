# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What all sinks have in common: how they are run, and how they fare."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Tally(msgspec.Struct):
    """How a sink fares. Counts are since the start, but for `dropped` of a spool, which remembers it."""

    queued: int = 0
    queued_bytes: int = 0
    sent: int = 0
    dropped: int = 0  # for want of room, or because they could not be put on the disk
    rejected: int = 0  # the server would never take them
    failures: int = 0  # tries to send that came to nothing
    up: bool | None = None  # whether the last try worked; None: there was none
    last_success: float | None = None
    last_error: str = ""  # what was wrong the last time, never with a secret


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def tally(self) -> Tally: ...

    async def run(self) -> None:
        """Sends what there is, until it is cancelled. Nothing that a server does ends it."""
        ...

    async def close(self) -> None:
        """Tries once more to send what waits, for a few seconds. `run()` must have ended."""
        ...


class SinkError(Exception):
    """A sink cannot be used as it is set up; the message says what to do."""


class SendError(Exception):
    """Nothing arrived, now; it may later."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after  # seconds, where the server said when to come back


class BatchError(Exception):
    """The server refuses the batch as a whole: it is too large, or one item is bad. Up to the first colon the message
    says what kind of reason that is."""

    def __init__(self, why: str, *, large: bool = False) -> None:
        super().__init__(why)
        self.large = large
