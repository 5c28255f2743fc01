# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""portal.db: local accounts, who is signed in, tokens, wrong passwords, and what was done by whom.

A file of its own beside the store. Of secrets it has hashes alone: who reads it can be nobody by what is in it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from slurmscope.settings import Store as Settings
from slurmscope.store.beside import BUSY_SECONDS, FileBeside, told
from slurmscope.store.place import folder_of
from slurmscope.web.people import schema

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

FILE = "portal.db"
DAY = 86400
AUDIT_DAYS = 400
REVOKED = "token revoked"
_SECRET_BYTES = 32
_MOST_PENDING = 10_000


class Account(msgspec.Struct, frozen=True):
    name: str
    made: int
    changed: int  # when it last got a password


class Session(msgspec.Struct, frozen=True):
    user: str
    how: str  # local, proxy or oidc
    made: int
    seen: int
    expires: int
    hash: str


class Token(msgspec.Struct, frozen=True):
    id: int
    user: str
    label: str
    made: int
    used: int | None
    expires: int


class Ended(msgspec.Struct, frozen=True):
    """How many there were by which somebody could go on."""

    sessions: int
    tokens: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the audit log."""

    time: int
    who: str  # "" where nobody knows
    address: str = ""
    action: str
    detail: str = ""
    number: int = 0


_ENTRY = tuple(name for name in Entry.__struct_fields__ if name != "number")


def new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def hashed(secret: str) -> str:
    """What is kept of one. It is long and random, so that a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def plain(value: str) -> str:
    """What is no text, as text that can be kept and compared."""
    return value.encode("utf-8", "backslashreplace").decode()


class Ledger(FileBeside):
    def __init__(self, path: Path, patience: float = BUSY_SECONDS) -> None:
        """Raises StoreError."""
        super().__init__(path, schema.migrate, patience)
        with self.lock:
            self._db.execute("PRAGMA secure_delete = ON")  # what is deleted here is somebody's

    # --- accounts

    @told
    def accounts(self) -> list[Account]:
        return self._some(Account, "accounts ORDER BY name")

    @told
    def password_hash(self, name: str) -> str | None:
        row = self._db.execute("SELECT hash FROM accounts WHERE name = ?", (plain(name),)).fetchone()
        return None if row is None else str(row[0])

    @told
    def add_account(self, name: str, hash_: str, entry: Entry) -> bool:
        """False where there is one."""
        with self._writing():
            found = self._db.execute(
                "INSERT OR IGNORE INTO accounts VALUES (?, ?, ?, ?)", (plain(name), hash_, entry.time, entry.time)
            )
            if found.rowcount:
                self._write(entry)
            return bool(found.rowcount)

    @told
    def change_password(self, name: str, hash_: str, entry: Entry) -> Ended | None:
        """Whoever came by the older one, or by what was made with it, does not any more. None where there is no such
        account."""
        with self._writing():
            found = self._db.execute(
                "UPDATE accounts SET hash = ?, changed = ? WHERE name = ?", (hash_, entry.time, plain(name))
            )
            return self._end_all(name, entry) if found.rowcount else None

    @told
    def remove_account(self, name: str, entry: Entry) -> Ended | None:
        """With all by which its user could go on. None where there is no such account."""
        with self._writing():
            found = self._db.execute("DELETE FROM accounts WHERE name = ?", (plain(name),))
            return self._end_all(name, entry) if found.rowcount else None

    def _end_all(self, name: str, entry: Entry) -> Ended:
        """Each token is written down behind the entry, as if it had been revoked by itself."""
        self._write(entry)
        # those that have ended by themselves may still be there
        tokens = self._some(Token, "tokens WHERE user = ? AND expires > ? ORDER BY id", name, entry.time)
        for one in tokens:
            self._write(msgspec.structs.replace(entry, action=REVOKED, detail=str(one.id)))
        sessions, _ = (
            self._db.execute(f"DELETE FROM {table} WHERE user = ?", (plain(name),)).rowcount  # noqa: S608
            for table in ("sessions", "tokens")
        )
        return Ended(sessions, len(tokens))

    # --- sessions

    @told
    def add_session(self, session: Session, entry: Entry) -> None:
        names = Session.__struct_fields__
        with self._writing():
            self._db.execute(
                f"INSERT INTO sessions ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608
                [_kept(getattr(session, name)) for name in names],
            )
            self._write(entry)

    @told
    def session(self, hash_: str) -> Session | None:
        found = self._some(Session, "sessions WHERE hash = ?", hash_)
        return found[0] if found else None

    @told
    def see_session(self, hash_: str, now: int) -> None:
        self._note("UPDATE sessions SET seen = ? WHERE hash = ?", (now, hash_))

    @told
    def end_session(self, hash_: str, entry: Entry) -> bool:
        with self._writing():
            ended = self._db.execute("DELETE FROM sessions WHERE hash = ?", (hash_,)).rowcount
            if ended:
                self._write(entry)
            return bool(ended)

    @told
    def end_sessions(self, user: str, entry: Entry) -> int:
        with self._writing():
            ended = self._db.execute("DELETE FROM sessions WHERE user = ?", (plain(user),)).rowcount
            if ended:
                self._write(entry)
            return ended

    # --- tokens

    @told
    def add_token(self, hash_: str, token: Token, entry: Entry) -> int:
        """Its id."""
        with self._writing():
            given = (hash_, plain(token.user), plain(token.label), token.made, token.expires)
            made = self._db.execute(
                "INSERT INTO tokens (hash, user, label, made, expires) VALUES (?, ?, ?, ?, ?)", given
            )
            self._write(entry)
            assert made.lastrowid is not None
            return made.lastrowid

    @told
    def token(self, hash_: str) -> Token | None:
        found = self._some(Token, "tokens WHERE hash = ?", hash_)
        return found[0] if found else None

    @told
    def tokens(self, user: str | None) -> list[Token]:
        """A user's, or everybody's."""
        if user is None:
            return self._some(Token, "tokens ORDER BY user, id")
        return self._some(Token, "tokens WHERE user = ? ORDER BY id", user)

    @told
    def use_token(self, id_: int, now: int) -> None:
        self._note("UPDATE tokens SET used = ? WHERE id = ?", (now, id_))

    @told
    def remove_token(self, id_: int, user: str | None, entry: Entry) -> bool:
        """False where that user has none of this id; None: whosever it is."""
        where, given = ("", ()) if user is None else (" AND user = ?", (plain(user),))
        with self._writing():
            found = self._db.execute(f"DELETE FROM tokens WHERE id = ?{where}", (id_, *given))  # noqa: S608
            if found.rowcount:
                self._write(entry)
            return bool(found.rowcount)

    # --- wrong passwords

    @told
    def attempts(self, key: str, since: int) -> list[int]:
        rows = self._db.execute("SELECT time FROM attempts WHERE key = ? AND time > ? ORDER BY time", (key, since))
        return [time for (time,) in rows]

    @told
    def add_attempt(self, keys: Sequence[str], now: int, *entries: Entry) -> None:
        with self._writing():
            self._db.executemany("INSERT INTO attempts VALUES (?, ?)", [(key, now) for key in keys])
            for one in entries:
                self._write(one)

    @told
    def right(self, key: str, now: int) -> None:
        """The password was right: what was wrong before with this key does not count any more."""
        with self._writing():
            self._db.execute("DELETE FROM attempts WHERE key = ?", (key,))
            self._db.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (key, now))

    @told
    def known(self, key: str, since: int) -> bool:
        return bool(self._db.execute("SELECT 1 FROM known WHERE key = ? AND time > ?", (key, since)).fetchone())

    # --- who is at the provider

    @told
    def add_pending(self, hash_: str, now: int) -> None:
        with self._writing():
            self._db.execute("INSERT INTO pending VALUES (?, ?)", (hash_, now))
            # whoever begins again and again and never comes back must not fill the disk
            self._db.execute(
                "DELETE FROM pending WHERE time < (SELECT time FROM pending ORDER BY time DESC LIMIT 1 OFFSET ?)",
                (_MOST_PENDING,),
            )

    @told
    def take_pending(self, hash_: str) -> int | None:
        """When it was begun; it can be taken once."""
        with self._writing():
            row = self._db.execute("SELECT time FROM pending WHERE hash = ?", (hash_,)).fetchone()
            self._db.execute("DELETE FROM pending WHERE hash = ?", (hash_,))
            return None if row is None else int(row[0])

    # --- the audit log

    @told
    def write(self, *entries: Entry) -> None:
        with self._writing():
            for one in entries:
                self._write(one)

    @told
    def entries(self, who: str | None = None, limit: int = 200) -> list[Entry]:
        """The latest first."""
        where, given = ("", ()) if who is None else ("WHERE who = ? ", (who,))
        return self._some(Entry, f"audit {where}ORDER BY number DESC LIMIT {limit:d}", *given)

    @told
    def forget(self, now: int) -> None:
        """What has ended, and what was written long ago."""
        with self._writing():
            for table, column, before in (
                ("sessions", "expires", now),
                ("tokens", "expires", now),
                ("attempts", "time", now - DAY),
                ("known", "time", now - AUDIT_DAYS * DAY),
                ("pending", "time", now - DAY),
                ("audit", "time", now - AUDIT_DAYS * DAY),
            ):
                self._db.execute(f"DELETE FROM {table} WHERE {column} < ?", (before,))  # noqa: S608

    # --- the parts

    def _write(self, one: Entry) -> None:
        self._db.execute(
            f"INSERT INTO audit ({', '.join(_ENTRY)}) VALUES ({', '.join('?' * len(_ENTRY))})",  # noqa: S608
            [_kept(getattr(one, name)) for name in _ENTRY],
        )

    def _some(self, kind: type[S], what: str, *given: Any) -> list[S]:
        names = kind.__struct_fields__
        rows = self._db.execute(f"SELECT {', '.join(names)} FROM {what}", [_kept(one) for one in given])  # noqa: S608
        return [kind(**dict(zip(names, row, strict=True))) for row in rows]


def open_ledger(settings: Settings, patience: float = BUSY_SECONDS) -> Ledger:
    """Raises StoreError."""
    return Ledger(folder_of(settings) / FILE, patience)


def _kept(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value
