# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of limits: whose each is, how much of it is used and left, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from slurmscope.model import Limit
from slurmscope.reports import cells
from slurmscope.reports.document import NOTE, Cell, Column, Table
from slurmscope.waiting.blocked import Blocked, full
from slurmscope.waiting.limits import named, shown
from slurmscope.waiting.reason import QOS_LIMIT
from slurmscope.web.translation import Translation
from slurmscope.web.tree import Tree
from slurmscope.web.visit import Visit
from slurmscope.words import percent

_MOST = 40  # rows; what is for scripts has all
_NAMED = 3  # people or accounts that are named; of more it is told how many


def limit_table(visit: Visit, tree: Tree, limits: Sequence[Limit]) -> Table:
    """How much of each is used, and how many jobs wait for it; of the first ones."""
    stopped = {one.limit: one.tasks for one in tree.blocked if one.limit is not None}
    columns = (
        Column("of", "of"),
        Column("limit", "limit"),
        Column("used", "used", True),
        Column("most", "at most", True),
        Column("headroom", "left", True),
        Column("share", "taken"),
        Column("blocked", "jobs blocked", True),
    )
    rows = tuple(
        (
            of_cell(tree, one, visit.t),
            cells.words(f"{one.name} {one.tres}" if one.tres else one.name),
            *amounts(one, visit.t),
            cells.count(stopped.get(one, 0)),
        )
        for one in limits[:_MOST]
    )
    return Table("limits", columns, rows, more(visit, limits), "no limit is set, or none has been read yet")


def more(visit: Visit, found: Sequence[Any], most: int = _MOST) -> str:
    return visit.t("and {count} more", count=f"{len(found) - most:,}") if len(found) > most else ""


_EACH = {
    "PU": "holds for each user",
    "PerUser": "holds for each user",
    "PA": "holds for each account",
    "PerAccount": "holds for each account",
    "PN": "holds for each node",
    "PerNode": "holds for each node",
    "MaxJobs": "holds for each user",
    "MaxSubmitJobs": "holds for each user",
    "MaxJobsAccrue": "holds for each user",
}


def _holds(limit: Limit) -> str:
    """For what one holds of which nothing is counted, as its name tells."""
    return next((words for end, words in _EACH.items() if limit.name.endswith(end)), "holds for each job")


def amounts(limit: Limit, t: Translation) -> tuple[Cell, Cell, Cell, Cell]:
    """Used, at most, left, and the share with its bar. Of one that holds for each job, or that
    nobody has used anything of, nothing is counted."""
    most = Cell(shown(limit, limit.limit, t), limit.limit)
    if limit.used is None:
        return Cell(cells.DASH), most, Cell(cells.DASH), Cell(t(_holds(limit)))
    left = limit.limit - limit.used
    used, rest = shown(limit, limit.used, t), shown(limit, left, t)
    return Cell(used, limit.used), most, Cell(rest, left), fill_cell(limit)


def fill_cell(limit: Limit, text: str = "") -> Cell:
    """Its bar; one that is full is worth a word."""
    share = full(limit) if limit.limit else 1.0
    return Cell(text or percent(share), share, share, NOTE if share >= 1 else "")


def of_cell(tree: Tree, limit: Limit, t: Translation) -> Cell:
    """Whose it is; it leads to the account where that may be opened."""
    if limit.kind == QOS_LIMIT:
        each = limit.user or limit.account
        return cells.words(f"QOS {limit.qos}, {each}" if each else f"QOS {limit.qos}")
    who = f"{limit.account}, {limit.user}" if limit.user else limit.account or ""
    if limit.partition:
        who = t("{who} in {partition}", who=who, partition=limit.partition)
    return cells.words(who, account_link(tree, limit.account or ""))


def account_link(tree: Tree, account: str) -> str:
    opens = bool(account) and tree.viewer.sees_account(tree.cluster, account)
    return f"account:{tree.cluster}/{account}" if opens else ""


def blocked_table(visit: Visit, found: Sequence[Blocked]) -> Table:
    columns = (
        Column("limit", "limit"),
        Column("used", "used", True),
        Column("most", "at most", True),
        Column("headroom", "left", True),
        Column("share", "taken"),
        Column("accounts", "accounts"),
        Column("users", "people"),
        Column("blocked", "jobs", True),
    )
    dashes = (Cell(cells.DASH), Cell(cells.DASH), Cell(cells.DASH), Cell(visit.t("not read")))
    rows = tuple(
        (
            cells.words(one.reason if one.limit is None else named(one.limit, visit.t)),
            *(dashes if one.limit is None else amounts(one.limit, visit.t)),
            cells.words(some(one.accounts, visit.t)),
            cells.words(some(one.users, visit.t)),
            cells.count(one.tasks),
        )
        for one in found[:_MOST]
    )
    return Table("blocked", columns, rows, more(visit, found), "no job waits for a limit")


def some(counts: Mapping[str, int], t: Translation) -> str:
    """Who has the most: `alice 12, bob 4 and 3 more`."""
    named = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:_NAMED])
    left = len(counts) - _NAMED
    return t("{names} and {count} more", names=named, count=f"{left:,}") if left > 0 else named


class LimitDatum(msgspec.Struct, frozen=True):
    """For scripts: base units."""

    kind: str
    account: str | None
    user: str | None
    partition: str | None
    qos: str | None
    name: str
    tres: str | None
    unit: str
    limit: float
    used: float | None
    headroom: float | None
    cluster: str


def limit_datum(cluster: str, one: Limit) -> LimitDatum:
    left = None if one.used is None else one.limit - one.used
    of = one.kind, one.account, one.user, one.partition, one.qos
    return LimitDatum(*of, one.name, one.tres, one.unit, one.limit, one.used, left, cluster)


def blocked_data(cluster: str, found: Iterable[Blocked]) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster,
            "limit": None if one.limit is None else limit_datum(cluster, one.limit),
            "reason": one.reason,
            "jobs": one.tasks,
            "accounts": one.accounts,
            "users": one.users,
        }
        for one in found
    ]
