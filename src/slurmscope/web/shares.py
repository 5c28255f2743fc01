# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Links by which one job is shown, for some days, to whoever has them."""

from __future__ import annotations

import msgspec

from slurmscope.settings import Settings
from slurmscope.signed import LinkError, Signer, key_of
from slurmscope.store import place

PATH = "shared"
_DAY = 86400


class Share(msgspec.Struct, frozen=True, array_like=True):
    cluster: str
    id: int
    submit_time: int
    who: str  # has shared it
    expires: int


class Shares:
    def __init__(self, settings: Settings) -> None:
        """Raises StoreError."""
        self._signer = Signer(key_of(place.folder_of(settings.store)), b"slurmscope shared job")

    def token(self, cluster: str, id_: int, submit_time: int, who: str, days: int, now: int) -> str:
        return self._signer.token(Share(cluster, id_, submit_time, who, now + days * _DAY))

    def open(self, token: str, now: int) -> Share:
        """Raises LinkError."""
        found = self._signer.claim(token, Share)
        if now >= found.expires:
            raise LinkError("This link is too old: ask whoever gave it to you for another.")
        return found
