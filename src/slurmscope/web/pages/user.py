# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One person: what is in the queue, what to ask for next, what was found, used and left unused, and which limits hold.

The staff and the person see all of it. Who coordinates an account that the person works in sees what was done in it,
one account at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slurmscope.findings.request import Request, stem
from slurmscope.life import Life
from slurmscope.model import Job
from slurmscope.reports.document import Block, Changes, Line, Paragraph, Section
from slurmscope.reports.holder import SCREEN, Holder
from slurmscope.reports.job import sentence
from slurmscope.store.protocol import Lives
from slurmscope.web import addresses, holders, now
from slurmscope.web.errors import NotFound
from slurmscope.web.limits import LimitDatum, limit_datum, limit_table
from slurmscope.web.page import Crumb, Page
from slurmscope.web.pages.accounts import Row, tree_data, tree_table
from slurmscope.web.request import address_of
from slurmscope.web.route import JSON
from slurmscope.web.translation import Translation
from slurmscope.web.tree import Tree
from slurmscope.web.visit import Visit
from slurmscope.words import listed, printable

_LOOKED = 300  # of the latest jobs among which the most frequent work is looked for
_WORKS, _RUNS = 4, 20
_NUMBERS = 1000  # of the latest jobs whose numbers a program is told


class UserAsked(holders.PeriodAsked, frozen=True, kw_only=True):
    user: Annotated[str, Meta(description="The user's name.")]
    cluster: Annotated[str, Meta(description="On which cluster; on all where it is not given.")] = ""
    account: Annotated[str, Meta(description="Only what was done in this account.")] = ""


class _Scope(msgspec.Struct, frozen=True):
    """Of whom, and how much of it."""

    user: str
    cluster: str | None
    account: str | None
    others: tuple[tuple[str, str], ...] = ()  # clusters and accounts that may be chosen instead

    @property
    def lives(self) -> Lives:
        return Lives(cluster=self.cluster, user=self.user, account=self.account)

    def has(self, user: str, account: str) -> bool:
        return user == self.user and self.account in (None, account)

    def where(self, t: Translation) -> str:
        on = self.cluster or t("all clusters")
        if self.account:
            values = {"user": self.user, "account": self.account, "cluster": on}
            return t("user {user} in the account {account} on {cluster}", **values)
        return t("user {user} on {cluster}", user=self.user, cluster=on)


class _Work(msgspec.Struct, frozen=True):
    """What somebody runs again and again."""

    name: str
    nodes: int  # of each run: on others the same name asks for other things
    runs: int  # among the latest
    request: Request | None  # None: it asks for what it uses, as far as that is known

    def words(self, t: Translation) -> str:
        runs = t("1 run") if self.runs == 1 else t("{count} runs", count=f"{self.runs:,}")
        nodes = t("1 node") if self.nodes == 1 else t("{count} nodes", count=f"{self.nodes:,}")
        return t("{name} ({runs} on {nodes} lately)", name=self.name, runs=runs, nodes=nodes)


def user(visit: Visit, asked: UserAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    scope = _scope(visit, asked)
    period = holders.period_of(visit, asked)
    trees = [
        Tree(visit.site, name, visit.viewer) for name in ([scope.cluster] if scope.cluster else visit.site.clusters())
    ]
    holder = Holder("user", scope.user, scope.cluster, scope.account)
    queue = tuple((tree.cluster, job.key, job.state, job.tasks) for tree in trees for job in _queued(tree, scope))
    version = holders.version(visit, holder, period, queue)
    found = holders.report(visit, holder, period, version)
    document = found or holders.nothing(visit, "user", scope.user, period)
    document = holders.placed(visit, document, scope.user, period, scope.where(visit.t))
    stopped = [one for tree in trees for one in tree.blocked_of(scope.has)]
    counts = _counts(trees, scope, sum(one.tasks for one in stopped))
    lead = holders.now_words(visit, counts, stopped, read=any(one.snapshot.jobs.value is not None for one in trees))
    works = visit.site.remembered(("works", scope.lives, visit.viewer, period), version, lambda: _works(visit, scope))
    limits, limit_values = _limits(visit, trees, scope)
    shares, rows = _shares(visit, trees, scope)
    data = {
        "user": {"username": scope.user},
        "jobs": _numbers(visit, scope),
        "now": counts,
        "limits": limit_values,
        "shares": tree_data(rows),
        "next_requests": works,
    }
    before = [*now.sections(visit, scope.lives), *_advice(visit, works)]
    document = holders.composed(document, period, lead, before, [*limits, *shares], data)
    here = addresses.within(asked.cluster, "users", asked.user)
    kept = {"account": asked.account}
    return Page(
        document=holders.shown(visit, document, trees[0].cluster if len(trees) == 1 else None),
        template="holder.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(printable(asked.user), here))),
        cluster=asked.cluster,
        shown={
            "asked": asked,
            "here": here,
            "question": address_of("", holders.question(asked, **kept)),
            "periods": holders.periods(visit, here, asked, **kept),
            "others": [
                (
                    printable(f"{account} · {cluster}"),
                    address_of(addresses.within(cluster, "users", asked.user), {"account": account}),
                )
                for cluster, account in scope.others
            ],
            "jobs": address_of(
                addresses.within(scope.cluster or "", "jobs"),
                {"user": scope.user, "account": scope.account, "time": "30d"},
            ),
        },
    )


def _scope(visit: Visit, asked: UserAsked) -> _Scope:
    """Raises NotFound: nobody is known by that name, or nobody of whom the viewer may see anything."""
    viewer = visit.viewer
    if viewer.sees_user(asked.user):
        # who has signed in is somebody, though nothing is known of them yet
        if asked.user == viewer.name or _known(visit, asked):
            return _Scope(asked.user, asked.cluster or None, asked.account or None)
        raise _none(asked)
    pairs = [
        (cluster, account)
        for cluster, account in _common(visit, asked.user)
        if asked.cluster in ("", cluster) and asked.account in ("", account)
    ]
    if not pairs:
        raise _none(asked)
    others = tuple(one for one in _common(visit, asked.user) if one != pairs[0])
    return _Scope(asked.user, *pairs[0], others)


def _none(asked: UserAsked) -> NotFound:
    text = "Nobody called {user} is known here, or nobody of whom you may see anything."
    return NotFound(text, user=repr(asked.user))


def _known(visit: Visit, asked: UserAsked) -> bool:
    for name in [asked.cluster] if asked.cluster else visit.site.clusters():
        tree = Tree(visit.site, name, visit.viewer)
        if tree.shares_of(asked.user) or any(one.user == asked.user for one in tree.snapshot.coordinators.value or ()):
            return True
    return bool(visit.store.lives(Lives(cluster=asked.cluster or None, user=asked.user, limit=1)))


def _common(visit: Visit, name: str) -> list[tuple[str, str]]:
    """The accounts that the viewer coordinates and somebody works in, with their clusters."""
    leads = visit.viewer.leads
    if not leads:
        return []
    belongs = {
        (cluster, one.account)
        for cluster in sorted({cluster for cluster, _ in leads})
        for one in Tree(visit.site, cluster, visit.viewer).shares_of(name)
    }
    latest = visit.store.lives(Lives(user=name, sight=visit.viewer.sight, limit=1))
    return sorted(leads & (belongs | {(one.cluster, one.account) for one in latest}))


# --- the sections -----------------------------------------------------------------------------------------------------


def _queued(tree: Tree, scope: _Scope) -> list[Job]:
    return [job for job in tree.jobs_of(scope.user) if scope.has(job.user, job.account)]


def _counts(trees: Sequence[Tree], scope: _Scope, stopped: int) -> holders.Counts:
    jobs = [job for tree in trees for job in _queued(tree, scope)]
    running = sum(job.tasks for job in jobs if job.holding)
    return holders.Counts(running, sum(job.tasks for job in jobs if job.waiting), stopped)


def _numbers(visit: Visit, scope: _Scope) -> list[int]:
    """Of the latest jobs, for programs."""
    if visit.form != JSON:
        return []
    asked = replace(scope.lives, sight=visit.viewer.sight, limit=_NUMBERS)
    return [life.id for life in visit.store.lives(asked)]


def _works(visit: Visit, scope: _Scope) -> list[_Work]:
    """The most frequent work among what ended lately, with what to ask for at its next run."""
    asked = replace(scope.lives, open=False, sight=visit.viewer.sight, limit=_LOOKED)
    groups: dict[tuple[str, str, int, str], list[Life]] = {}
    for life in visit.store.lives(asked):
        if life.started:
            groups.setdefault((life.cluster, life.account, life.nodes, stem(life.name)), []).append(life)
    most = sorted(groups.values(), key=lambda runs: -len(runs))[:_WORKS]
    reports = visit.reports
    return [_Work(stem(runs[0].name), runs[0].nodes, len(runs), reports.request(runs[:_RUNS], SCREEN)) for runs in most]


def _advice(visit: Visit, works: Sequence[_Work]) -> list[Section]:
    """Lines to paste; of work that asks for what it uses, that it does."""
    if not works:
        return []
    blocks: list[Block] = []
    for one in works:
        if one.request is not None:
            lines = tuple(Line(each.option, each.before, each.after, each.why) for each in one.request.changes)
            blocks += [Paragraph(f"{one.words(visit.t)}:"), Changes(lines, sentence(one.request.words()))]
    fine = [one.words(visit.t) for one in works if one.request is None]
    if fine:
        told = visit.t("What is asked for is used, as far as that is known: {works}.", works=listed(fine))
        blocks.append(Paragraph(told, soft=bool(blocks)))
    return [Section("What to ask for next time", tuple(blocks))]


def _limits(visit: Visit, trees: Sequence[Tree], scope: _Scope) -> tuple[list[Section], list[LimitDatum]]:
    sections, values = [], []
    for tree in trees:
        own = {one.account for one in tree.shares_of(scope.user)}
        accounts = own if scope.account is None else own & {scope.account}
        found = tree.limits_of_user(scope.user, accounts)
        values += [limit_datum(tree.cluster, one) for one in found]
        if found:
            where = f" · {tree.cluster}" if len(trees) > 1 else ""
            table = limit_table(visit, tree, found)
            sections.append(Section(visit.t("Limits that hold") + where, (table,)))
    return sections, values


def _shares(visit: Visit, trees: Sequence[Tree], scope: _Scope) -> tuple[list[Section], list[Row]]:
    rows = [
        (tree, tree.branch(one))
        for tree in trees
        for one in tree.shares_of(scope.user)
        if scope.account in (None, one.account)
    ]
    return [Section("Shares", (tree_table(rows, visit.t, several=len(trees) > 1),))] if rows else [], rows
