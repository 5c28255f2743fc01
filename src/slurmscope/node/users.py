# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names of users. Who knows them (LDAP, sssd) may take its time, or never answer: a look does not wait for it long."""

from __future__ import annotations

import pwd
import threading

_PATIENCE = 1.0  # seconds that a name is waited for, once
_MOST = 10_000


class Users:
    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # "" for a number that nobody knows
        self._asked: threading.Thread | None = None

    def name(self, uid: int) -> str | None:
        """None: nobody knows it, or has told it yet."""
        # in this order: who has ended has written down what was found
        if (self._asked is None or not self._asked.is_alive()) and uid not in self._names:
            if len(self._names) > _MOST:
                self._names.clear()
            # one at a time, and one that hangs does not keep the agent from ending
            self._asked = threading.Thread(target=self._ask, args=(uid,), name="users", daemon=True)
            self._asked.start()
            self._asked.join(_PATIENCE)
        return self._names.get(uid) or None

    def _ask(self, uid: int) -> None:
        try:
            # what is no UTF-8 in it could be in no document that we send
            name = pwd.getpwuid(uid).pw_name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        except (KeyError, OSError):
            name = ""
        self._names[uid] = name
