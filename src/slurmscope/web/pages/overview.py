# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster, or all of them, in the morning: what there is, what can start now, who waits, what needs a hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slurmscope.findings.cost import Prices
from slurmscope.model import Node
from slurmscope.reports import allocations, cells
from slurmscope.reports.document import Block, Column, Document, Section, Table
from slurmscope.reports.period import last_days
from slurmscope.usage import DAY
from slurmscope.web import capacity, map, queue, room, states, trends, trouble
from slurmscope.web.addresses import within
from slurmscope.web.errors import NotNow
from slurmscope.web.now import own
from slurmscope.web.outlook import Outlook, clusters_table, outlook, over_all, verdict
from slurmscope.web.page import Page
from slurmscope.web.request import address_of
from slurmscope.web.stack import swatch
from slurmscope.web.translation import Translation
from slurmscope.web.visit import Visit

_MOST_STATES = 12
_MOST_CHARTS = 4  # of allocations; the others are in a table
_MOST_TILES = 1000  # nodes of a map that stands on this page; of more it has its own
_PROGRESS_SECONDS = 600  # for which what was used of an allocation is not summed up again


class OverviewAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Which cluster; all where it is not given.")] = ""
    span: Annotated[trends.Span, Meta(description="How far back charts go.")] = "1d"


def overview(visit: Visit, asked: OverviewAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
        return _one(visit, asked.cluster, asked)
    clusters = visit.site.clusters()
    if not clusters:
        raise NotNow("No cluster has been read yet.", "Health says what is being tried.", "/health")
    return _one(visit, clusters[0], asked) if len(clusters) == 1 else _all(visit, clusters)


# --- one cluster ------------------------------------------------------------------------------------------------------


def _one(visit: Visit, cluster: str, asked: OverviewAsked) -> Page:
    t, now = visit.t, visit.now
    found = outlook(visit, cluster)
    site, store = visit.site, visit.store
    since = site.until_polled(("started", cluster), lambda: queue.started(store, cluster, now))
    line = site.until_polled(("trend", cluster, asked.span), lambda: trends.trend(store, cluster, asked.span, now))
    sections = [
        Section("What there is", (capacity.table(found.resources, t),)),
        *own(visit, cluster),
        Section("Needs a hand", (trouble.table(found.troubles, cluster, visit.viewer, t),)),
        Section("Trends", trends.charts(line, cluster, visit.site.settings.allocations, now, t)),
        Section("Waiting", (queue.waiting_table(found.queue, since, cluster, t),)),
        Section("Why jobs wait", (queue.reasons_table(found.queue.waiting, t),), half=True),
        Section("Nodes by state", (_nodes_table(found.ground.states, visit),), half=True),
        Section("What can start now", (room.table(found.ground.rooms, t),)),
    ]
    if any(one.kind == "gpu" for one in found.resources):
        sections.append(Section("GPUs that can start work now", (room.gpu_table(found.ground.free_gpus, t),)))
    promised = _promised(visit, cluster)
    sections += _allocated(promised)
    document = Document(
        kind="overview",
        title=cluster,
        subtitle="",
        made=now,
        verdict=verdict(found, t),
        sections=tuple(sections),
        data={
            **found.data,
            "started": since,
            "trend": line,
            "allocations": [allocations.data(one) for one in promised],
        },
    )
    here = within(cluster)
    return Page(
        document=document,
        template="overview.html",
        crumbs=tuple(visit.crumbs(cluster)),
        cluster=cluster,
        live=True,
        shown={
            **_drawn(found.resources, t),
            "tiles": _tiles(visit, found),
            "nodes_page": within(cluster, "nodes"),
            "here": here,
            "question": address_of("", {} if asked.span == "1d" else {"span": asked.span}),
            "spans": [
                (t(title), address_of(here, {"span": name}), name == asked.span)
                for name, title in trends.TITLES.items()
            ],
        },
    )


def _drawn(resources: Sequence[capacity.Resource], t: Translation) -> dict[str, Any]:
    """What the template needs for bars; the table with their numbers is the document's."""
    return {"bars": [one.bar(t) for one in resources], "patterns": map.FILLS, "swatch": swatch, "tile": map.swatch}


def _tiles(visit: Visit, found: Outlook) -> list[map.Block]:
    """A map of the nodes. Of which others than the staff may open which, their own page knows."""
    nodes, cluster, staff, t = found.snapshot.nodes, found.cluster, visit.viewer.staff, visit.t
    if len(nodes.value or ()) > _MOST_TILES:
        return []

    def linked(node: Node) -> str:
        return within(cluster, "nodes", node.name) if staff else ""

    return visit.site.remembered(
        ("tiles", cluster, staff, t.language), nodes.time, lambda: map.blocks(list(nodes.value or ()), linked, t)
    )


def _nodes_table(counts: Mapping[str, int], visit: Visit) -> Table:
    """By base state and flags; nothing is folded into another."""
    columns = (Column("state", "state"), Column("nodes", "nodes", True))
    shown = list(counts.items())[:_MOST_STATES]
    rows = tuple((cells.words(states.said(words, visit.t)), cells.count(count)) for words, count in shown)
    rest = sum(counts.values()) - sum(count for _, count in shown)
    note = visit.t("and {count} in other states", count=f"{rest:,}") if rest else ""
    return Table("nodes_by_state", columns, rows, note, visit.t("No node has been seen yet."))


def _promised(visit: Visit, cluster: str) -> list[allocations.Progress]:
    """Of the cluster, and of those accounts that the viewer may see."""
    site, today = visit.site, visit.now // DAY
    prices = Prices(site.settings.cost)

    def make() -> list[allocations.Progress]:
        return [
            allocations.progress(visit.store, one, prices, today)
            for one in site.settings.allocations
            if allocations.applies(one, cluster, last_days(1, visit.now))
        ]

    found = site.for_a_while(("progress", cluster), _PROGRESS_SECONDS, make)
    return [
        one for one in found if not one.allocation.account or visit.viewer.sees_account(cluster, one.allocation.account)
    ]


def _allocated(promised: Sequence[allocations.Progress]) -> list[Section]:
    """The cluster's own as charts, accounts' in a table."""
    if not promised:
        return []
    whole = [one for one in promised if not one.allocation.account][:_MOST_CHARTS]
    rest = [one for one in promised if one not in whole]
    blocks: list[Block] = [allocations.chart(one, f"allocation_{at}") for at, one in enumerate(whole)]
    if rest:
        blocks.append(allocations.table(rest))
    return [Section("Allocations", tuple(blocks))]


# --- all clusters -----------------------------------------------------------------------------------------------------


def _all(visit: Visit, clusters: Sequence[str]) -> Page:
    """A line for each, with the same figures."""
    each = [outlook(visit, one) for one in clusters]
    resources = capacity.together(one.resources for one in each)
    document = Document(
        kind="overview",
        title=visit.t("Overview"),
        subtitle="",
        made=visit.now,
        verdict=over_all(each, resources, visit.t),
        sections=(
            Section("What there is", (capacity.table(resources, visit.t),)),
            *own(visit, None),
            Section("Clusters", (clusters_table(each),)),
        ),
        data={"resources": [capacity.datum(one) for one in resources], "clusters": [one.data for one in each]},
        table="clusters",
    )
    return Page(
        document=document,
        template="overview.html",
        crumbs=tuple(visit.crumbs("")),
        live=True,
        shown={**_drawn(resources, visit.t), "tiles": [], "here": "/index", "question": "", "spans": []},
    )
