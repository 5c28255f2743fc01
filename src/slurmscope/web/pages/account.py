# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One account, for its coordinators and the staff: its limits, its members, what it used and left unused."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from slurmscope.reports import cells, usage
from slurmscope.reports.document import Document, Section, Verdict
from slurmscope.reports.holder import Holder
from slurmscope.reports.period import Period
from slurmscope.reports.sums import Sum, added
from slurmscope.store.protocol import Lives, UsageAsked
from slurmscope.web import addresses, holders
from slurmscope.web.errors import NotFound
from slurmscope.web.limits import blocked_data, blocked_table, limit_datum, limit_table, more
from slurmscope.web.page import Crumb, Page
from slurmscope.web.pages.accounts import tree_data, tree_table
from slurmscope.web.request import address_of
from slurmscope.web.route import JSON
from slurmscope.web.translation import Translation
from slurmscope.web.tree import Tree
from slurmscope.web.visit import Visit
from slurmscope.words import hours, listed, printable

_MOST_ROWS = 100


class AccountAsked(holders.PeriodAsked, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="The cluster.")]
    account: Annotated[str, Meta(description="The account.")]


def account(visit: Visit, asked: AccountAsked) -> Page:
    visit.site.must_know(asked.cluster)
    tree = Tree(visit.site, asked.cluster, visit.viewer)
    if not visit.viewer.sees_account(asked.cluster, asked.account) or not _known(visit, tree, asked.account):
        raise NotFound(
            "No account {account} of {cluster} is known, or none that you may see.",
            "All accounts",
            addresses.within(asked.cluster, "accounts"),
            account=repr(asked.account),
            cluster=asked.cluster,
        )
    period = holders.period_of(visit, asked)
    document = _document(visit, tree, asked.account, period)
    here = addresses.within(asked.cluster, "accounts", asked.account)
    crumbs = (
        Crumb(visit.t("accounts"), addresses.within(asked.cluster, "accounts")),
        Crumb(printable(asked.account), here),
    )
    return Page(
        document=document,
        template="holder.html",
        crumbs=tuple(visit.crumbs(asked.cluster, *crumbs)),
        cluster=asked.cluster,
        shown={
            "asked": asked,
            "here": here,
            "question": address_of("", holders.question(asked)),
            "periods": holders.periods(visit, here, asked),
            "others": [],
            "jobs": address_of(
                addresses.within(asked.cluster, "jobs"), {"account": asked.account, "user": "*", "time": "30d"}
            ),
        },
    )


def _known(visit: Visit, tree: Tree, name: str) -> bool:
    leads = {one.account for one in tree.snapshot.coordinators.value or ()}
    kept = Lives(cluster=tree.cluster, account=name, limit=1)
    return name in tree.accounts or name in leads or bool(visit.store.lives(kept))


def _document(visit: Visit, tree: Tree, name: str, period: Period) -> Document:
    holder = Holder("account", name, tree.cluster)
    found = holders.report(visit, holder, period, holders.version(visit, holder, period, tree.counts(name)))
    below, sections = tree.below(name), []
    if below:
        sums = _below(visit, tree, below, period)
        table = usage.usage_table("by_account", "account", usage.ranked(sums), "account")
        sections.append(Section("Accounts below it", (replace(table, empty="they used nothing"),)))
    if found is None:
        found = holders.nothing(visit, "account", name, period)
        if below and sums:
            found = replace(found, verdict=_of_those_below(name, sums, visit.t))
    where = visit.t("account {name} on {cluster}", name=name, cluster=tree.cluster)
    found = holders.placed(visit, found, name, period, where)
    accounts = {name, *below}
    stopped = tree.blocked_of(lambda _, account: account in accounts)
    limits = tree.limits_of_account(name)
    before = [Section("Limits", (limit_table(visit, tree, limits),))]
    if stopped:
        before.insert(0, Section("Who is blocked by which limit", (blocked_table(visit, stopped),)))
    shares = list(tree.walk(name))
    # many thousand may be below it, and only scripts are told of all
    rows = [(tree, tree.branch(*one)) for one in shares[: None if visit.form == JSON else _MOST_ROWS]]
    members = replace(tree_table(rows[:_MOST_ROWS], visit.t), note=more(visit, shares, _MOST_ROWS))
    behind = [Section("Shares, and who runs and waits now", (members,))]
    found = replace(found, sections=(*found.sections, *sections))
    now = holders.Counts(*tree.counts(name))
    lead = holders.now_words(visit, now, stopped, read=tree.snapshot.jobs.value is not None)
    data = {
        "limits": [limit_datum(tree.cluster, one) for one in limits],
        "blocked": blocked_data(tree.cluster, stopped),
        "shares": tree_data(rows),
        "now": now,
    }
    return holders.shown(visit, holders.composed(found, period, lead, before, behind, data), tree.cluster)


def _below(visit: Visit, tree: Tree, accounts: list[str], period: Period) -> dict[str, Sum]:
    asked = UsageAsked(since=period.since, until=period.until, by=("account",), only={"cluster": tree.cluster})
    wanted = set(accounts)
    return {str(one.key[0]): Sum(one.amounts, {}) for one in visit.store.usage(asked) if one.key[0] in wanted}


def _of_those_below(name: str, sums: dict[str, Sum], t: Translation) -> Verdict:
    total = Sum(added(one.amounts for one in sums.values()), {})
    seconds = ((total.amounts.cpu_seconds, "core"), (total.amounts.gpu_seconds, "GPU"))
    used = listed([hours(value, of) for value, of in seconds if value])
    level = cells.level_of(total.gpu_share if total.amounts.gpu_seconds else total.cpu_share)
    accounts = t("1 account") if len(sums) == 1 else t("{count} accounts", count=f"{len(sums):,}")
    values = {"name": name, "accounts": accounts, "used": used}
    return Verdict(level, t("{name} ran nothing itself; {accounts} below it used {used}", **values), "")
