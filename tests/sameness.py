# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether two recordings are the same but for names, as our readers read them."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from slurmscope.life import Accounted, Step
from slurmscope.model import (
    Accounting,
    Config,
    Controller,
    Coordinator,
    Job,
    License,
    Limit,
    Node,
    Partition,
    Reservation,
    Scheduler,
    Share,
)
from slurmscope.slurm import values
from slurmscope.slurm.bundle import Bundle, Recorded
from slurmscope.slurm.source import Reading, SourceError, Way
from slurmscope.slurm.text import ACCOUNTING_HOST, SLURM_USER
from slurmscope.slurm.transport import TransportError

NAMES: dict[type, tuple[str, ...]] = {
    Job: ("user", "account", "reservation"),
    Node: ("reason_user",),
    Partition: ("allow_accounts",),
    Reservation: ("name", "users", "accounts"),
    Share: ("account", "user", "parent"),
    Limit: ("account", "user"),
    Coordinator: ("account", "user"),
    Config: ("cluster",),
}
HOSTS: dict[type, tuple[str, ...]] = {
    Job: ("node_list", "login_node"),
    Node: ("name",),
    Partition: ("node_list",),
    Reservation: ("node_list",),
    Controller: ("host",),
    License: ("nodes",),
}
STANDING = {"root", "nobody", "localhost", "", None}


def read(bundle: Bundle) -> dict[tuple[str, str], Reading]:
    """Every part by every way that is in it; one that a reader refuses has no value."""
    ways = {way: Way(way, Recorded(bundle)) for way in {answer.way for answer in bundle.answers}}

    async def part(way: str, name: str) -> Reading:
        try:
            return await ways[way].read(name)
        except (SourceError, TransportError):
            return Reading(None, way)

    return {(one.way, one.part): asyncio.run(part(one.way, one.part)) for one in bundle.answers}


def shape(name: str) -> str:
    """A name with its letters and digits made alike, and its odd characters as they are."""
    name = re.sub(r"\\x[0-9a-f]{2}", "!", name)  # a byte that is not UTF-8, as the readers show it
    return re.sub(r"[A-Z]", "A", re.sub(r"[a-z]", "a", re.sub(r"\d", "0", name)))


class Dictionary:
    """What became of each name, over all parts: one pseudonym for each, and one name for each pseudonym."""

    def __init__(self, standing: set[Any]) -> None:
        self.standing = standing
        self.there: dict[str, str] = {}
        self.back: dict[str, str] = {}

    def note(self, name: Any, other: Any) -> None:
        if name in self.standing:
            assert other == name
            return
        assert self.there.setdefault(name, other) == other, "one name has become two"
        assert self.back.setdefault(other, name) == name, "two names have become one"
        assert other != name or not any(map(str.isalnum, name))


class Comparison:
    def __init__(self) -> None:
        self.names, self.hosts, self.ids = Dictionary(STANDING), Dictionary(STANDING), Dictionary(STANDING)
        self.jobs = Dictionary({"", "(null)"})

    def same(self, one: Any, other: Any) -> None:
        """Two values are alike, and what became of the names in them is noted."""
        if isinstance(one, tuple):
            assert len(one) == len(other)
            for left, right in zip(one, other, strict=True):
                self.same(left, right)
        elif type(one) in NAMES or type(one) in HOSTS:
            self._record(one, other)
        elif isinstance(one, Accounted):
            self.same(one.job, other.job)
            self.same(one.steps, other.steps)
            for field in ("suspended_seconds", "cpu_seconds", "energy", "derived_exit_code"):
                assert getattr(one, field) == getattr(other, field), field
            for field in ("submit_line", "work_dir"):
                left, right = getattr(one, field), getattr(other, field)
                assert (left is None) == (right is None)
                assert left is None or left != right or not any(map(str.isalnum, left))
        elif isinstance(one, Step):
            assert msgspec.structs.replace(one, name="") == msgspec.structs.replace(other, name="")
        elif isinstance(one, Scheduler | Accounting):
            self._report(one, other)
        else:
            assert one == other

    def _record(self, one: Any, other: Any) -> None:
        kind = type(one)
        fields, others = (msgspec.structs.asdict(copy.deepcopy(some)) for some in (one, other))
        if kind is Job:
            self.jobs.note(fields.pop("name"), others.pop("name"))
        if kind is Config:
            self._settings(fields["settings"], others["settings"])
        for field in NAMES.get(kind, ()):
            for left, right in zip(_names(fields.pop(field)), _names(others.pop(field)), strict=True):
                self.names.note(left, right)
        for field in HOSTS.get(kind, ()):
            for left, right in zip(_hosts(fields.pop(field)), _hosts(others.pop(field)), strict=True):
                self.hosts.note(left, right)
        for field, value in fields.items():
            if field == "reason" and value is not None and value != others[field]:
                left, right = (re.sub(r"UnavailableNodes:.*", "", reason) for reason in (value, others[field]))
                assert shape(left) == shape(right), "of an operator's reason the shape stays"
            else:
                assert value == others[field], field

    def _settings(self, one: dict[str, str], other: dict[str, str]) -> None:
        assert one.keys() == other.keys()
        if ACCOUNTING_HOST in one:
            self.hosts.note(one.pop(ACCOUNTING_HOST), other.pop(ACCOUNTING_HOST))
        if SLURM_USER in one:
            self.names.note(one.pop(SLURM_USER).partition("(")[0], other.pop(SLURM_USER).partition("(")[0])

    def _report(self, one: Any, other: Any) -> None:
        """Users' RPCs are alike but for the users' names and numbers; all else is the same."""
        for left, right in zip(one.rpc_users, other.rpc_users, strict=True):
            self.names.note(left.name, right.name)
            self.ids.note(str(left.id) if left.id else "", str(right.id) if right.id else "")
            assert (left.calls, left.seconds) == (right.calls, right.seconds)
        assert msgspec.structs.replace(one, rpc_users=()) == msgspec.structs.replace(other, rpc_users=())


def _names(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, tuple) else (value,)


def _hosts(value: str | None) -> tuple[str, ...]:
    return values.hosts(value or "")


def compared(bundle: Bundle, other: Bundle) -> Comparison:
    """Both, read by every way; raises AssertionError where they differ in more than names."""
    found = Comparison()
    before, after = read(bundle), read(other)
    assert before.keys() == after.keys()
    for key, reading in before.items():
        assert reading.rows_skipped == after[key].rows_skipped, key
        try:
            found.same(reading.value, after[key].value)
        except AssertionError as error:
            error.add_note(f"in {key[1]} by {key[0]}")
            raise
    return found
