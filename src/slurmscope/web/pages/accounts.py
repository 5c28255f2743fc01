# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The accounts of a cluster as the tree that they are: shares, use, limits, and who is blocked by which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slurmscope.model import Limit
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Document, Section, Table, Verdict
from slurmscope.waiting.blocked import Blocked, short
from slurmscope.waiting.limits import shown
from slurmscope.waiting.reason import QOS_LIMIT
from slurmscope.web import addresses
from slurmscope.web.errors import NotFound
from slurmscope.web.limits import account_link, blocked_data, blocked_table, fill_cell, limit_datum, limit_table
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.route import JSON
from slurmscope.web.translation import Translation
from slurmscope.web.tree import Branch, Tree
from slurmscope.web.visit import Visit
from slurmscope.words import amount, number, printable

ROWS = 100
_MOST_DEPTH = 9

ROOT = "root"
"""What Slurm calls that which is above all accounts, and is none itself."""

Row = tuple[Tree, Branch]


class AccountsAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Of which cluster; all where it is not given.")] = ""
    under: Annotated[str, Meta(description="Only this account, and what is below it.")] = ""
    depth: Annotated[
        int, Meta(description="So many levels of accounts are shown; 0 for all.", ge=0, le=_MOST_DEPTH)
    ] = 0
    people: Annotated[bool, Meta(description="With everybody who belongs to them.")] = False
    page: Annotated[int, Meta(description="Which page of the tree.", ge=1, le=10_000)] = 1


def accounts(visit: Visit, asked: AccountsAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    names = [asked.cluster] if asked.cluster else visit.site.clusters()
    trees = [Tree(visit.site, name, visit.viewer) for name in names]
    if asked.under and not any(asked.under in one.accounts and one.sees_account(asked.under) for one in trees):
        raise NotFound("There is no such account, or none that you may see.", "All accounts", _here(asked))
    found = [(tree, one) for tree in trees for one in tree.walk(asked.under, asked.depth, people=asked.people)]

    def rows(first: int = 0, last: int | None = None) -> list[Row]:
        return [(tree, tree.branch(*one)) for tree, one in found[first:last]]

    shown_rows = rows((asked.page - 1) * ROWS, asked.page * ROWS)
    after = asked.page + 1 if len(found) > asked.page * ROWS else None
    document = Document(
        kind="accounts",
        title=visit.t("Accounts"),
        subtitle=asked.cluster,
        made=visit.now,
        verdict=Verdict("", visit.t("Accounts"), _sentence(visit, trees)),
        sections=tuple(_sections(visit, trees, tree_table(shown_rows, visit.t, several=len(trees) > 1))),
        data=_data(trees, shown_rows, after) if visit.form == JSON else {},
        sheet=lambda: tree_table(rows(), visit.t, several=len(trees) > 1),
    )
    here, given = _here(asked), msgspec.structs.asdict(asked) | {"cluster": None}
    return Page(
        document=document,
        template="accounts.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(visit.t("accounts"), here))),
        cluster=asked.cluster,
        live=True,
        shown={
            "asked": asked,
            "under": printable(asked.under),
            "here": here,
            "question": address_of("", _changed(given)),
            "rows_of": shown_rows,
            "first": 1 if len(trees) > 1 else 0,  # the column that is indented
            "before": address_of(here, _changed(given, page=asked.page - 1)) if asked.page > 1 else "",
            "after": address_of(here, _changed(given, page=after)) if after else "",
            "all": address_of(here, _changed(given, under=None)) if asked.under else "",
            "depths": range(1, 1 + max((indent + 1 for _, (share, indent) in found if share.user is None), default=1)),
        },
    )


def _here(asked: AccountsAsked) -> str:
    return addresses.within(asked.cluster, "accounts")


def _changed(given: dict[str, object], **news: object) -> dict[str, object]:
    """What stands in an address, with something else in it, from its first page on; defaults are left out."""
    found = {**given, "page": None, **news}
    return {
        name: value
        for name, value in found.items()
        if value not in (None, "", 0, False) and (name, value) != ("page", 1)
    }


# --- the sentence -----------------------------------------------------------------------------------------------------


def _sentence(visit: Visit, trees: Sequence[Tree]) -> str:
    """What a person would say of it: how many accounts, and who waits for which limit."""
    t = visit.t
    unread = [one.cluster for one in trees if one.snapshot.shares.value is None]
    if trees and len(unread) == len(trees):
        return t(
            "Which accounts there are has not been read yet. It is read with Slurm's fair shares; Health says when."
        )
    count = sum(tree.sees_account(name) for tree in trees for name in tree.accounts if name != ROOT)
    if not count:
        return t("You belong to no account that is known here.")
    found = [(tree, one) for tree in trees for one in tree.blocked]
    stopped = {(tree.cluster, name) for tree, one in found for name in one.accounts}
    known = t("1 account") if count == 1 else t("{count} accounts", count=f"{count:,}")
    if not stopped:
        return t("{accounts}, and no job waits for a limit.", accounts=known)
    _, most = max(found, key=lambda one: one[1].tasks)
    who, jobs = next(iter(most.accounts.items()))
    words = "Of {accounts} {blocked} are blocked by a limit: {who} waits for {limit} with {jobs}."
    if len(stopped) == 1:
        words = "Of {accounts} one is blocked by a limit: {who} waits for {limit} with {jobs}."
    return t(
        words,
        accounts=known,
        blocked=f"{len(stopped):,}",
        who=who,
        limit=limit_words(most, who, t),
        jobs=t("1 job") if jobs == 1 else t("{count} jobs", count=f"{jobs:,}"),
    )


def limit_words(found: Blocked, who: str, t: Translation) -> str:
    """`GrpTRES gres/gpu=64`, and whose it is where it is not the own one of `who`."""
    limit = found.limit
    if limit is None:
        return found.reason
    if limit.kind == QOS_LIMIT:
        each = f"{limit.qos} ({limit.user})" if limit.user else limit.qos
        return t("{limit} of the QOS {qos}", limit=short(limit), qos=each)
    if limit.account == who:
        return short(limit)
    return t("{limit} of {account}", limit=short(limit), account=limit.account)


# --- the tables -------------------------------------------------------------------------------------------------------


def _sections(visit: Visit, trees: Sequence[Tree], table: Table) -> list[Section]:
    sections = [Section("", (table,))]
    for tree in trees:
        where = f" · {tree.cluster}" if len(trees) > 1 else ""
        if tree.blocked:
            title = visit.t("Who is blocked by which limit") + where
            sections.append(Section(title, (blocked_table(visit, tree.blocked),)))
        title = visit.t("Limits, the fullest first") + where
        sections.append(Section(title, (limit_table(visit, tree, tree.limits()),)))
    return sections


def tree_table(rows: Sequence[Row], t: Translation, *, several: bool = False) -> Table:
    fair = any(branch.share.fair_share is not None for _, branch in rows)
    columns = (
        *((Column("cluster", "cluster"),) if several else ()),
        Column("account", "account"),
        Column("user", "user"),
        Column("shares", "shares", True),
        Column("norm_shares", "of its level", True),
        Column("usage", "used, hours", True),
        Column("norm_usage", "of all use"),
        Column("level", "level", True),
        *((Column("fair_share", "fair share", True),) if fair else ()),
        Column("limit", "its fullest limit"),
        Column("running", "running", True),
        Column("waiting", "waiting", True),
        Column("blocked", "blocked", True),
    )
    return Table(
        "accounts",
        columns,
        tuple(_row(tree, branch, t, several=several, fair=fair) for tree, branch in rows),
        empty="none is known",
    )


def _row(tree: Tree, branch: Branch, t: Translation, *, several: bool, fair: bool) -> tuple[Cell, ...]:
    share = branch.share
    account, user = cells.words(share.account, account_link(tree, share.account)), Cell("", None)
    if share.user is not None:
        inside = t("{who} in {partition}", who=share.user, partition=share.partition) if share.partition else share.user
        user = Cell(inside, share.user, link=f"user:{share.user}")
    return (
        *((cells.words(tree.cluster, f"cluster:{tree.cluster}"),) if several else ()),
        account,
        user,
        cells.count(share.raw_shares),
        cells.share(share.norm_shares),
        cells.hours(share.raw_usage),
        cells.meter(share.norm_usage, judged=False),
        level_cell(share.level_fs),
        *(
            (Cell(cells.DASH if share.fair_share is None else f"{share.fair_share:.3f}", share.fair_share),)
            if fair
            else ()
        ),
        fullest_cell(branch.limit, t),
        *(cells.count(one or None) for one in (branch.running, branch.waiting)),
        Cell(amount(branch.blocked, "job") if branch.blocked else cells.DASH, branch.blocked),
    )


def level_cell(level: float | None) -> Cell:
    """More than 1: it has used less than its share."""
    if level is None:
        return Cell(cells.DASH)
    return Cell("∞", None) if math.isinf(level) else Cell(number(level, 2), level)


def fullest_cell(limit: Limit | None, t: Translation) -> Cell:
    if limit is None:
        return Cell(cells.DASH)
    used, most = (shown(limit, value, t) for value in (limit.used or 0, limit.limit))
    counted = used.partition(" ")[0] if limit.unit == "count" else used
    return fill_cell(limit, t("{used} of {all}", used=counted, all=most))


def tree_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For scripts: base units, nothing rounded."""
    return [
        {"cluster": branch.cluster}
        | msgspec.structs.asdict(branch.share)
        | {"running": branch.running, "waiting": branch.waiting, "blocked": branch.blocked}
        for _, branch in rows
    ]


def _data(trees: Sequence[Tree], rows: Sequence[Row], after: int | None) -> dict[str, Any]:
    """`after` is the next page of the tree."""
    return {
        "accounts": tree_data(rows),
        "next": None if after is None else {"page": after},
        "blocked": [one for tree in trees for one in blocked_data(tree.cluster, tree.blocked)],
        "limits": [limit_datum(tree.cluster, one) for tree in trees for one in tree.limits()],
    }
