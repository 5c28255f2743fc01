# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""notices.db: what was told to whom, what waits, who does not want to be told, and every decision.

A file of its own beside the store, wherever that is: whether a mail has gone is not to be known by a server that may
be away. What was committed is on the disk, whatever happens then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from slurmscope.mail import schema
from slurmscope.mail.notice import (
    FAILED,
    HANDED,
    HELD,
    QUEUED,
    SENT,
    TOLD,
    UNCERTAIN,
    WITHDRAWN,
    Entry,
    Notice,
    entry,
    plain,
)
from slurmscope.settings import Store as Settings
from slurmscope.store.beside import BUSY_SECONDS, FileBeside, told
from slurmscope.store.place import folder_of

P = ParamSpec("P")
T = TypeVar("T")

FILE = "notices.db"
_NOTICE = tuple(name for name in Notice.__struct_fields__ if name != "rules")
_LISTS = ("accounts", "partitions")
_ENTRY = tuple(name for name in Entry.__struct_fields__ if name != "number")
_EVENTS = {QUEUED: "queued", HELD: "would send"}


class Ledger(FileBeside):
    def __init__(self, path: Path, patience: float = BUSY_SECONDS) -> None:
        """Raises StoreError."""
        super().__init__(path, schema.migrate, patience)

    # --- notices

    @told
    def add(self, notice: Notice, *others: Notice) -> bool:
        """Writes down what is to be sent, or would be, and with it others. False where it was there already."""
        with self._writing():
            if not self._insert(notice):
                return False
            for one in others:
                self._insert(one)
            return True

    def _insert(self, notice: Notice) -> bool:
        marks = ", ".join("?" * len(_NOTICE))
        found = self._db.execute(
            f"INSERT OR IGNORE INTO notices ({', '.join(_NOTICE)}) VALUES ({marks})",  # noqa: S608
            [_kept(getattr(notice, name)) for name in _NOTICE],
        )
        if found.rowcount:
            rules = [(notice.id, plain(rule)) for rule in notice.rules or (notice.rule,)]
            self._db.executemany("INSERT OR IGNORE INTO notice_rules VALUES (?, ?)", rules)
            self._write(entry(_EVENTS[notice.state], notice, notice.changed, notice.subject))
        return bool(found.rowcount)

    @told
    def due(self, now: int) -> Notice | None:
        """The one that waits the longest of those that may be sent."""
        return self._one("state = ? AND next_try <= ? ORDER BY next_try, time, id LIMIT 1", QUEUED, now)

    @told
    def notice(self, id_: str) -> Notice | None:
        return self._one("id = ?", id_)

    @told
    def waiting(self, limit: int = 1000) -> list[Notice]:
        """What is not settled: queued and handed; without the messages."""
        return self._some(f"state IN (?, ?) ORDER BY next_try, id LIMIT {limit:d}", QUEUED, HANDED)

    @told
    def since(self, changed: int, now: int) -> list[int]:
        """When the server was given something, from then on. What lies ahead was told by a clock that was wrong."""
        rows = self._db.execute(
            "SELECT changed FROM notices WHERE changed BETWEEN ? AND ? AND state IN (?, ?, ?) ORDER BY changed",
            (changed, now, HANDED, SENT, UNCERTAIN),
        )
        return [when for (when,) in rows]

    @told
    def earlier(self, person: str, since: int, *, dry: bool) -> list[Notice]:
        """What a person was told from then on, the latest first; in a dry run what would have been told counts too."""
        states = (*TOLD, HELD) if dry else TOLD
        marks = ", ".join("?" * len(states))
        return self._some(f"person = ? AND time >= ? AND state IN ({marks}) ORDER BY time DESC", person, since, *states)

    @told
    def hand(self, id_: str, now: int) -> bool:
        """Before the last line is sent. False where it is not to be sent any more, or by somebody else."""
        with self._writing():
            found = self._db.execute(
                "UPDATE notices SET state = ?, changed = ?, attempts = attempts + 1, "
                "first_try = coalesce(first_try, ?) WHERE id = ? AND state = ?",
                (HANDED, now, now, id_, QUEUED),
            )
            return bool(found.rowcount)

    @told
    def sent(self, notice: Notice, now: int, said: str) -> None:
        self._settle(notice, SENT, now, "sent", f"to {notice.recipient}: {said}")

    @told
    def uncertain(self, notice: Notice, now: int, why: str) -> None:
        self._settle(notice, UNCERTAIN, now, "uncertain", f"{why}; it is not sent again")

    @told
    def failed(self, notice: Notice, now: int, why: str) -> None:
        self._settle(notice, FAILED, now, "not sent", why)

    @told
    def withdrawn(self, notice: Notice, now: int, why: str) -> None:
        self._settle(notice, WITHDRAWN, now, "not sent", why)

    @told
    def again(self, notice: Notice, now: int, next_try: int, why: str, *, tried: bool = True) -> None:
        """It waits for its next try; the same reason is written once. What waits for better hours was not tried."""
        first = now if tried and notice.first_try is None else notice.first_try
        with self._writing():
            self._db.execute(
                "UPDATE notices SET state = ?, changed = ?, attempts = ?, next_try = ?, first_try = ? WHERE id = ?",
                (QUEUED, now, notice.attempts + tried, next_try, first, notice.id),
            )
            same = "person = ? AND job = ? AND event = 'waits' AND notice = ? AND why = ?"
            given = [plain(value) for value in (notice.person, notice.job, notice.id, why)]
            if not self._db.execute(f"SELECT 1 FROM audit WHERE {same} LIMIT 1", given).fetchone():  # noqa: S608
                self._write(entry("waits", notice, now, why))

    @told
    def crashed(self, now: int) -> int:
        """By who alone may send: of what another handed over and did not settle nobody knows whether it arrived."""
        found = self._some("state = ?", HANDED)
        for one in found:
            self.uncertain(one, now, "slurmscope ended while the server was taking it")
        return len(found)

    def _settle(self, notice: Notice, state: str, now: int, event: str, why: str) -> None:
        with self._writing():
            self._db.execute(
                "UPDATE notices SET state = ?, changed = ?, message = NULL WHERE id = ?", (state, now, notice.id)
            )
            self._write(entry(event, notice, now, why))

    # --- what people have said

    @told
    def opt_out(self, person: str, now: int, why: str) -> None:
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO opt_outs VALUES (?, ?)", (plain(person), now))
            self._write(Entry(time=now, event="opted out", person=person, why=why))

    @told
    def opt_in(self, person: str, now: int, why: str) -> None:
        with self._writing():
            self._db.execute("DELETE FROM opt_outs WHERE person = ?", (plain(person),))
            self._write(Entry(time=now, event="opted in", person=person, why=why))

    @told
    def opted_out(self, person: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM opt_outs WHERE person = ?", (plain(person),)).fetchone())

    @told
    def fine(self, person: str, rule: str, work: str, job: str, now: int) -> None:
        """The person says that this is as it should be: what the rule found in work of this name is not told again."""
        with self._writing():
            self._db.execute(
                "INSERT OR REPLACE INTO feedback VALUES (?, ?, ?, ?, ?)", (*map(plain, (person, rule, work, job)), now)
            )
            self._write(
                Entry(time=now, event="said to be fine", person=person, rule=rule, job=job, why=f"work: {work}")
            )

    @told
    def fines(self, person: str) -> frozenset[tuple[str, str]]:
        """Rules and names of work."""
        rows = self._db.execute("SELECT rule, work FROM feedback WHERE person = ?", (plain(person),))
        return frozenset((rule, work) for rule, work in rows)

    # --- the audit log

    @told
    def write(self, *entries: Entry) -> None:
        with self._writing():
            for one in entries:
                self._write(one)

    @told
    def write_once(self, one: Entry) -> None:
        """What was decided already is not written down again each time that it is looked at."""
        given = [plain(value) for value in (one.person, one.kind, one.rule, one.job, one.event)]
        with self._writing():
            same = "person = ? AND kind = ? AND rule = ? AND job = ? AND event = ?"
            if not self._db.execute(f"SELECT 1 FROM audit WHERE {same} LIMIT 1", given).fetchone():  # noqa: S608
                self._write(one)

    @told
    def entries(self, person: str | None = None, limit: int = 200) -> list[Entry]:
        """The latest first."""
        names = (*_ENTRY, "number")
        where, given = ("WHERE person = ?", (plain(person),)) if person is not None else ("", ())
        rows = self._db.execute(
            f"SELECT {', '.join(names)} FROM audit {where} ORDER BY number DESC LIMIT {limit:d}",  # noqa: S608
            given,
        )
        return [Entry(**dict(zip(names, row, strict=True))) for row in rows]

    @told
    def forget(self, before: int, texts_before: int, notices_before: int | None = None) -> None:
        """What was written before then, and what was settled before; what people have said stays.

        Of what would have been sent the text goes earlier. Notices may have to stay longer: they are counted.
        """
        with self._writing():
            self._db.execute(
                "UPDATE notices SET message = NULL WHERE changed < ? AND state = ? AND message IS NOT NULL",
                (texts_before, HELD),
            )
            gone, given = (
                "changed < ? AND state NOT IN (?, ?)",
                (before if notices_before is None else notices_before, QUEUED, HANDED),
            )
            ids = f"SELECT id FROM notices WHERE {gone}"  # noqa: S608
            self._db.execute(f"DELETE FROM notice_rules WHERE notice IN ({ids})", given)  # noqa: S608
            self._db.execute(f"DELETE FROM notices WHERE {gone}", given)  # noqa: S608
            self._db.execute("DELETE FROM audit WHERE time < ?", (before,))
            self._db.execute("DELETE FROM marks WHERE name LIKE 'cancel %' AND value < ?", (before,))

    # --- how far it is

    @told
    def mark(self, name: str) -> int | None:
        row = self._db.execute("SELECT value FROM marks WHERE name = ?", (plain(name),)).fetchone()
        return None if row is None else int(row[0])

    @told
    def put_mark(self, name: str, value: int) -> None:
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (plain(name), value))

    # --- the parts

    def _write(self, one: Entry) -> None:
        marks = ", ".join("?" * len(_ENTRY))
        self._db.execute(
            f"INSERT INTO audit ({', '.join(_ENTRY)}) VALUES ({marks})",  # noqa: S608
            [_kept(getattr(one, name)) for name in _ENTRY],
        )

    def _one(self, where: str, *given: Any) -> Notice | None:
        found = self._read(_NOTICE, where, given)
        return found[0] if found else None

    def _some(self, where: str, *given: Any) -> list[Notice]:
        return self._read([name for name in _NOTICE if name != "message"], where, given)

    def _read(self, names: Sequence[str], where: str, given: Sequence[Any]) -> list[Notice]:
        rules = "(SELECT group_concat(rule) FROM notice_rules WHERE notice = id)"
        rows = self._db.execute(
            f"SELECT {', '.join(names)}, {rules} FROM notices WHERE {where}",  # noqa: S608
            [_kept(one) for one in given],
        )
        return [_notice(names, row) for row in rows]


def open_ledger(settings: Settings, patience: float = BUSY_SECONDS) -> Ledger:
    """Raises StoreError."""
    return Ledger(folder_of(settings) / FILE, patience)


def _notice(names: Sequence[str], row: Sequence[Any]) -> Notice:
    *values, rules = row
    found = dict(zip(names, values, strict=True))
    lists = {name: tuple(msgspec.json.decode(found[name], type=list[str])) for name in _LISTS}
    return Notice(**(found | lists), rules=tuple(str(rules or "").split(",")))


def _kept(value: Any) -> Any:
    if isinstance(value, tuple):
        return msgspec.json.encode([plain(one) for one in value]).decode()
    return plain(value) if isinstance(value, str) else value
