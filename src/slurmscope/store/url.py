# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The URLs of stores, as far as they can be read without opening one."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

DATABASE = "slurmscope"
DOCTOR = "doctor_"
"""What the names of collections begin with that `slurmscope doctor` makes for a moment."""
# A part of a password that was not percent-encoded may stand where a host should: then nothing of the URL is shown.
_MONGODB = re.compile(
    r"(?P<scheme>[a-z+]+://)((?P<user>[^:/?@]*)(:[^/?@]*)?@)?(?P<hosts>[^/?@]+)(/(?P<path>[^?@]*))?(\?[^@]*)?"
)


def sqlite_path(url: str) -> Path | None:
    """The file of `sqlite:/path`, or of `sqlite:///path`, as others write it; None where it is another URL."""
    scheme, _, path = url.partition(":")
    if scheme != "sqlite" or not path.strip("/"):
        return None
    return Path(f"/{path.lstrip('/')}" if path.startswith("/") else path)


class MongoPlace:
    """An URL of MongoDB for people: without a password, and without options, which may hold secrets too."""

    def __init__(self, url: str, database: str = "") -> None:
        found = _MONGODB.fullmatch(url)
        self.plain = found is not None
        self.user = unquote(found["user"] or "") if found else ""
        self.database = database or (found["path"] if found else "") or DATABASE
        whose = f"{found['user']}@" if found and found["user"] else ""
        self.words = f"{found['scheme']}{whose}{found['hosts']}/{self.database}" if found else "mongodb://…"
