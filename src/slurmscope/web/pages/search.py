# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a job, a user, a node or an account by what somebody typed; goes there at once where only one is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.life import Life
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Document, Section, Table, Verdict
from slurmscope.reports.job import job_link, number_of
from slurmscope.reports.kept import NoSuchJobError
from slurmscope.store.protocol import Lives
from slurmscope.web import states
from slurmscope.web.addresses import address
from slurmscope.web.page import Crumb, Elsewhere, Page
from slurmscope.web.route import HTML
from slurmscope.web.tree import Tree
from slurmscope.web.visit import Visit

_MOST = 20  # of each kind
_NUMBER = re.compile(r"\d{1,10}(_\d{1,10})?", re.ASCII)


class SearchAsked(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[
        str, Meta(description="A job's number, or how the name of a user, node or account begins.", max_length=200)
    ] = ""


class Hit(msgspec.Struct, frozen=True):
    kind: str
    name: str
    where: str
    link: str
    more: Cell = Cell("")


def search(visit: Visit, asked: SearchAsked) -> Page | Elsewhere:
    wanted = asked.q.strip()
    kinds = [list(one) for one in _hits(visit, wanted)] if wanted else []
    hits = [hit for some in kinds for hit in some[:_MOST]]
    cut = any(len(some) > _MOST for some in kinds)
    exact = [one for one in hits if one.name == wanted]
    only = exact if len(exact) == 1 else hits
    # a program that asks gets what was found
    if visit.form == HTML and len(only) == 1 and (found := address(only[0].link)):
        return Elsewhere(location=found)
    columns = (Column("kind", "what"), Column("name", "name"), Column("cluster", "cluster"), Column("more", "about it"))
    rows = tuple(
        (cells.words(visit.t(one.kind)), Cell(one.name, one.name, link=one.link), cells.words(one.where), one.more)
        for one in hits
    )
    empty = visit.t("Nothing that you may see begins so. Try a job's number, or the name of a user, node or account.")
    note = visit.t("There are more than are shown: write more of the name.") if cut else ""
    found_for = "More than {count} found for “{wanted}”" if cut else "{count} found for “{wanted}”"
    heading = visit.t("Search") if not wanted else visit.t(found_for, count=len(hits), wanted=wanted)
    return Page(
        document=Document(
            kind="search",
            title=visit.t("Search"),
            subtitle=wanted,
            made=visit.now,
            verdict=Verdict("", heading, ""),
            sections=(Section("", (Table("found", columns, rows, note, empty),)),),
            data={"found": [_datum(one) for one in hits], "more": cut},
        ),
        template="list.html",
        crumbs=(Crumb(visit.t("Search"), "/search"),),
    )


def _datum(hit: Hit) -> dict[str, str]:
    return {"kind": hit.kind, "name": hit.name, "cluster": hit.where, "address": address(hit.link)}


def _hits(visit: Visit, wanted: str) -> Iterator[Iterator[Hit]]:
    """By kind, of nodes last: they are many of one name. One more of each than is shown."""
    clusters = visit.site.clusters()
    if _NUMBER.fullmatch(wanted):
        yield from (_jobs(visit, wanted, cluster) for cluster in clusters)
    yield _people(visit, wanted)
    yield from (_accounts(visit, wanted, cluster) for cluster in clusters)
    yield from (_nodes(visit, wanted, cluster) for cluster in clusters)


def _people(visit: Visit, wanted: str) -> Iterator[Hit]:
    viewer = visit.viewer
    own = [viewer.name] if viewer.name and viewer.name.startswith(wanted) else []
    for name in visit.store.names("user", wanted, limit=_MOST + 1) if viewer.staff else own:
        yield Hit("user", name, "", f"user:{name}")


def _accounts(visit: Visit, wanted: str, cluster: str) -> Iterator[Hit]:
    viewer, known = visit.viewer, Tree(visit.site, cluster, visit.viewer).accounts
    led = sorted(name for where, name in viewer.leads if where == cluster and name.startswith(wanted))
    for name in visit.store.names("account", wanted, cluster=cluster, limit=_MOST + 1) if viewer.staff else led:
        above = known[name].parent if name in known else None
        more = Cell(visit.t("in {account}", account=above), above) if above else Cell("")
        yield Hit("account", name, cluster, f"account:{cluster}/{name}", more)


def _nodes(visit: Visit, wanted: str, cluster: str) -> Iterator[Hit]:
    found = visit.store.names("node", wanted, cluster=cluster, limit=_MOST + 1, sight=visit.viewer.sight)
    names = set(found)
    known = {one.name: one for one in visit.site.snapshot(cluster).nodes.value or () if one.name in names}
    for name in found:
        node = known.get(name)
        more = Cell("")
        if node is not None:
            more = Cell(", ".join((states.said(states.node_words(node), visit.t), *node.partitions)), node.state)
        yield Hit("node", name, cluster, f"node:{cluster}/{name}", more)


def _jobs(visit: Visit, wanted: str, cluster: str) -> Iterator[Hit]:
    lives = _lives(visit, wanted, cluster)
    if any(one.array_id != one.id and str(one.array_id) == wanted for one in lives):
        yield Hit("array", wanted, cluster, f"job:{cluster}/{wanted}")
        lives = [one for one in lives if one.array_id is None]
    for one in lives:
        when = "" if one.submit_time is None else visit.t.minute(one.submit_time, visit.now, zone=visit.taste.zone)
        more = Cell(f"{one.name}, {states.words(one, visit.t)}, {when}", one.name)
        yield Hit("job", number_of(one), one.cluster, job_link(one), more)


def _lives(visit: Visit, wanted: str, cluster: str) -> Sequence[Life]:
    """Those that have that number, or had it, or are of that array; of the task of one, that which had it last."""
    sight = visit.viewer.sight
    if wanted.isdecimal():
        return visit.store.lives(Lives(cluster=cluster, id=int(wanted), sight=sight, limit=_MOST + 1))
    try:
        return visit.reports.meant(wanted, cluster, sight)
    except NoSuchJobError:
        return []
