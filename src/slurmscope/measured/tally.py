# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was taken, refused, kept and lost of what was measured, since the start."""

from __future__ import annotations

import msgspec

TOKEN, BODY, CLUSTER, TIME, ROOM = "token", "body", "cluster", "time", "room"
REASONS = (TOKEN, BODY, CLUSTER, TIME, ROOM)
"""Why a body may be refused."""
HOST, NUMBER = "host", "number"
IGNORED = (HOST, NUMBER)
"""Why something that was told of a job may not be counted: the host is none of its nodes; a number cannot be."""


class Tally(msgspec.Struct):
    reports: int = 0  # taken
    refused: dict[str, int] = {}  # bodies, by reason
    written: int = 0  # courses, new ones and longer ones
    dropped: int = 0  # jobs of which something was measured and could not be kept
    ignored: dict[str, int] = {}  # what was told and is not counted, by reason

    def ignore(self, reason: str) -> None:
        self.ignored[reason] = self.ignored.get(reason, 0) + 1


class PrometheusTally(msgspec.Struct):
    up: bool | None = None  # whether it answered the last time; None: it was not asked yet
    asked: int = 0
    failures: int = 0
    found: int = 0  # jobs of which it told enough to be written
