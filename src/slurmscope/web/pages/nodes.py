# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All nodes, as a map or as a table: what is allocated, what is away, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slurmscope.model import Node
from slurmscope.reports.document import Document, Section, Verdict
from slurmscope.web import addresses, map
from slurmscope.web.inventory import Openable, Seen, openable, seen
from slurmscope.web.map import CONDITIONS
from slurmscope.web.node_table import COLUMNS, Row, reasons, sheet, table
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.route import HTML
from slurmscope.web.visit import Visit
from slurmscope.words import percent, printable

ROWS = 100
_MOST_PAGES = 1000
_DIGITS = re.compile(r"(\d+)")
_MOST_REASONS = 2  # of which the sentence tells
_LONG = 60  # characters of a reason in it

Group = Literal["partition", "gpu", "none"]
Sort = Literal["name", "state", "cpus", "memory", "gpus", "load", "jobs", "since"]
SORTS: dict[Sort, str] = {
    "name": "name",
    "state": "state",
    "cpus": "CPUs",
    "memory": "memory",
    "gpus": "GPUs",
    "load": "load",
    "jobs": "jobs",
    "since": "since",
}
Condition = Literal["up", "draining", "drained", "down", "aside", "unknown"]


class NodesAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Of which cluster; all where it is not given.")] = ""
    view: Annotated[Literal["map", "table"], Meta(description="A map, or a table.")] = "map"
    group: Annotated[Group, Meta(description="By what the map is divided.")] = "partition"
    state: Annotated[
        tuple[Condition, ...],
        Meta(description="In which condition; aside is maintenance, reboots and power. May be given several times."),
    ] = ()
    partition: Annotated[str, Meta(description="In which partition.")] = ""
    gpu: Annotated[str, Meta(description="With GPUs of which type.")] = ""
    feature: Annotated[str, Meta(description="With which feature.")] = ""
    name: Annotated[str, Meta(description="What their names hold, large letters or small.")] = ""
    sort: Annotated[Sort, Meta(description="By what the table is sorted.")] = "name"
    descending: Annotated[bool, Meta(description="The most first.")] = False
    page: Annotated[int, Meta(description="Which page of the table.", ge=1, le=_MOST_PAGES)] = 1


class Part(msgspec.Struct, frozen=True):
    """What a map has under one heading."""

    title: str
    told: str
    blocks: list[map.Block]


class Area(msgspec.Struct, frozen=True):
    """The map of one cluster."""

    cluster: str
    told: str  # "" where all is as it should be
    parts: list[Part]


def nodes(visit: Visit, asked: NodesAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    found = [seen(visit, one) for one in ([asked.cluster] if asked.cluster else visit.site.clusters())]
    rows = [row for one in found for row in _rows(one, asked)]
    may = openable(visit, [one.cluster for one in found])
    here = addresses.within(asked.cluster, "nodes")
    given = msgspec.structs.asdict(asked) | {"cluster": None}
    headline, lead = _sentence(visit, asked, found, rows)
    shown = _ordered(rows, asked)
    first = (asked.page - 1) * ROWS
    document = Document(
        kind="nodes",
        title=visit.t("Nodes"),
        subtitle=asked.cluster,
        made=visit.now,
        verdict=Verdict("", headline, lead),
        sections=_sections(visit, asked, rows, shown[first : first + ROWS], may),
        data={"shown": f"{headline}. {lead}", "nodes": rows},
        sheet=lambda: sheet(shown),
    )
    return Page(
        document=document,
        template="nodes.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(visit.t("nodes"), here))),
        cluster=asked.cluster,
        live=True,
        shown={
            "asked": asked,
            "here": here,
            "question": address_of("", _changed(given)),
            "areas": _areas(visit, asked, found, rows, may) if asked.view == "map" and visit.form == HTML else [],
            "fills": map.FILLS,
            "swatch": map.swatch,
            "chips": _chips(visit, asked, here, given),
            "other": address_of(here, _changed(given, view="table" if asked.view == "map" else "map")),
            "sorts": _sorts(asked, here, given),
            "conditions": CONDITIONS,
            "choices": _choices(found),
            "earlier": address_of(here, _changed(given, page=asked.page - 1)) if asked.page > 1 else "",
            "later": address_of(here, _changed(given, page=asked.page + 1)) if len(rows) > first + ROWS else "",
            "numbers": f"{min(first + 1, len(rows)):,}–{min(first + ROWS, len(rows)):,}",
            "count": f"{len(rows):,}",
        },
    )


# --- which, and in what order -----------------------------------------------------------------------------------------


def _rows(found: Seen, asked: NodesAsked) -> list[Row]:
    """Those that the filters leave."""
    name = asked.name.casefold()
    jobs = found.jobs
    rows = []
    for node in found.nodes:
        condition = map.condition(node)
        if (
            (not asked.state or condition in asked.state)
            and (not asked.partition or asked.partition in node.partitions)
            and (not asked.gpu or asked.gpu in node.gpus)
            and (not asked.feature or asked.feature in node.features)
            and name in node.name.casefold()
        ):
            rows.append(Row(found.cluster, node, condition, None if jobs is None else jobs.get(node.name, 0)))
    return rows


@lru_cache(maxsize=20_000)
def natural(name: str) -> tuple[Any, ...]:
    """cn2 comes before cn10."""
    return tuple(int(one) if at % 2 else one for at, one in enumerate(_DIGITS.split(name)))


_KEYS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: None,
    "state": lambda row: CONDITIONS.index(row.condition),
    "cpus": lambda row: map.share(row.node),
    "memory": lambda row: row.node.memory_allocated / row.node.memory if row.node.memory else None,
    "gpus": lambda row: sum(row.node.gpus_allocated.values()) if row.node.gpus else None,
    "load": lambda row: row.node.load,
    "jobs": lambda row: row.jobs,
    "since": lambda row: row.node.reason_time,
}


def _ordered(rows: Sequence[Row], asked: NodesAsked) -> list[Row]:
    """What is not known comes last, always; those that are alike by name."""
    by_name = sorted(rows, key=lambda row: (row.cluster, natural(row.node.name)))
    if asked.sort == "name":
        return by_name[::-1] if asked.descending else by_name
    keyed = [(_KEYS[asked.sort](row), row) for row in by_name]
    known = [one for one in keyed if one[0] is not None]
    known.sort(key=lambda one: one[0], reverse=asked.descending)
    return [row for _, row in known] + [row for key, row in keyed if key is None]


# --- what is shown ----------------------------------------------------------------------------------------------------


def _sections(
    visit: Visit, asked: NodesAsked, rows: Sequence[Row], shown: Sequence[Row], may: Openable
) -> tuple[Section, ...]:
    away = Section("Why nodes are away", (reasons(rows, may, visit.t),))
    if asked.view == "map":
        return (away,)
    several = len({row.cluster for row in rows}) > 1
    names = [one for one in COLUMNS if one != "cluster" or several]
    empty = visit.t("There are none. Remove a filter, or look at all clusters.")
    return (Section("", (table(names, shown, may, visit.t, empty),)), away)


def _sentence(visit: Visit, asked: NodesAsked, found: Sequence[Seen], rows: Sequence[Row]) -> tuple[str, str]:
    """As a person would say it, of those that are shown."""
    t = visit.t
    if not any(one.nodes for one in found):
        return t("No node has been read yet"), t("Health says what is being tried, and what went wrong.")
    if not rows:
        return t("No node is like that"), t("Remove a filter, or look at all clusters.")
    usable = sum(one.node.usable for one in rows)
    every = sum(len(one.nodes) for one in found) == len(rows)
    values = {"usable": f"{usable:,}", "count": f"{len(rows):,}"}
    headline = (
        t("{usable} of {count} nodes can take work", **values)
        if every
        else t("{usable} of these {count} nodes can take work", **values)
    )
    cpus = sum(one.node.cpus for one in rows)
    used = sum(one.node.cpus_allocated for one in rows)
    lead = [t("{share} of all CPUs there are allocated.", share=percent(used / cpus))] if cpus else []
    away = _away(visit, rows)
    return headline, " ".join([*lead, *away])


def _away(visit: Visit, rows: Sequence[Row]) -> list[str]:
    t = visit.t
    counts = Counter(one.condition for one in rows)
    words = {
        "down": t("down"),
        "draining": t("draining"),
        "drained": t("drained"),
        "aside": t("set aside"),
        "unknown": t("in no known state"),
    }
    told = [f"{counts[name]:,} {word}" for name, word in words.items() if counts[name]]
    if not told:
        return []
    why = Counter(printable(one.node.reason) for one in rows if not one.node.usable and one.node.reason)
    if not why:
        return [t("Away: {list}.", list=", ".join(told))]
    if len(why) == sum(not one.node.usable for one in rows) > _MOST_REASONS:
        return [t("Away: {list}, each for another reason.", list=", ".join(told))]
    most = ", ".join(f"{reason[:_LONG]} ({count:,})" for reason, count in why.most_common(_MOST_REASONS))
    return [t("Away: {list}; mostly: {reasons}.", list=", ".join(told), reasons=most)]


def _areas(visit: Visit, asked: NodesAsked, found: Sequence[Seen], rows: Sequence[Row], may: Openable) -> list[Area]:
    areas = []
    for one in found:
        mine = [row for row in rows if row.cluster == one.cluster]
        drawn = _drawn(visit, asked.group, one, mine, may)
        parts = [Part(title, _part_words(visit, usable, count), blocks) for title, usable, count, blocks in drawn]
        areas.append(Area(one.cluster, _age_words(visit, one), parts))
    return areas


_Drawn = list[tuple[str, int, int, list[map.Block]]]
"""A title, how many can take work, of how many, and their tiles."""


def _drawn(visit: Visit, group: Group, found: Seen, rows: Sequence[Row], may: Openable) -> _Drawn:
    """All nodes for the staff are drawn once a poll: there are thousands."""
    t = visit.t

    def draw() -> _Drawn:
        ordered = sorted(rows, key=lambda row: natural(row.node.name))
        linked = _linked(found.cluster, may)
        return [
            (title, sum(row.node.usable for row in some), len(some), map.blocks([row.node for row in some], linked, t))
            for title, some in _grouped(ordered, group)
        ]

    if visit.viewer.staff and len(rows) == len(found.nodes):
        return visit.site.remembered(("map", found.cluster, group, t.language), (found.time, found.live), draw)
    return draw()


def _linked(cluster: str, may: Openable) -> Callable[[Node], str]:
    beginning = addresses.within(cluster, "nodes") + "/"
    return lambda node: beginning + addresses.part(node.name) if may(cluster, node.name) else ""


def _grouped(rows: Sequence[Row], group: Group) -> Iterable[tuple[str, list[Row]]]:
    """Each node once: nodes of the same partitions are together."""
    if group == "none":
        return [("", list(rows))] if rows else []
    found: dict[str, list[Row]] = {}
    for row in rows:
        names = row.node.partitions if group == "partition" else sorted(row.node.gpus)
        found.setdefault(", ".join(printable(one) or "GPU" for one in names), []).append(row)
    return sorted(found.items(), key=lambda one: (not one[0], -len(one[1]), one[0]))


def _part_words(visit: Visit, usable: int, count: int) -> str:
    return visit.t("{usable} of {count} can take work", usable=f"{usable:,}", count=f"{count:,}")


def _age_words(visit: Visit, found: Seen) -> str:
    t = visit.t
    if found.time is None:
        return t("Its nodes have not been read yet.")
    when = t.minute(found.time, visit.now, zone=visit.taste.zone)
    if not found.live:
        return t("It is not being read now: this is how its nodes were last seen, {when}.", when=when)
    if found.error:
        return t("Its nodes could not be read just now: this is how they were {when}.", when=when)
    return ""


# --- around it --------------------------------------------------------------------------------------------------------


def _choices(found: Sequence[Seen]) -> dict[str, list[tuple[str, str]]]:
    """What the filters may be set to, and how that is shown: what nodes have."""
    every = [node for one in found for node in one.nodes]
    there = {
        "partition": {name for names in {node.partitions for node in every} for name in names},
        "gpu": {kind for node in every for kind in node.gpus if kind},
        "feature": {name for names in {node.features for node in every} for name in names},
    }
    return {name: [(one, printable(one)) for one in sorted(values)] for name, values in there.items()}


_CHIPS = ("state", "partition", "gpu", "feature", "name")


def _chips(visit: Visit, asked: NodesAsked, here: str, given: dict[str, Any]) -> list[tuple[str, str]]:
    """(what is filtered by, the address without it)."""
    found = []
    if asked.cluster and len(visit.site.clusters()) > 1:
        every = address_of(addresses.within("", "nodes"), _changed(given))
        found.append((f"{visit.t('cluster')} {printable(asked.cluster)}", every))
    for name in _CHIPS:
        value = getattr(asked, name)
        if value:
            told = ", ".join(visit.t(one) for one in value) if isinstance(value, tuple) else printable(value)
            found.append((f"{visit.t(name)} {told}", address_of(here, _changed(given, **{name: None}))))
    return found


def _sorts(asked: NodesAsked, here: str, given: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(title, address, how it is sorted by it now: "", ascending, descending): another click turns it round."""
    found = []
    for name, title in SORTS.items():
        now = name == asked.sort
        # of figures the most is what is looked for
        turned = not asked.descending if now else name not in ("name", "state")
        order = ("descending" if asked.descending else "ascending") if now else ""
        found.append((title, address_of(here, _changed(given, sort=name, descending=turned)), order))
    return found


def _changed(given: dict[str, Any], **news: Any) -> dict[str, Any]:
    """What stands in an address, with something else in it, from its first page on; defaults are left out."""
    found = {**given, "page": None, **news}
    defaults = {"view": "map", "group": "partition", "sort": "name", "descending": False, "page": 1}
    kept = {name: value for name, value in found.items() if value not in (None, "", ()) and value != defaults.get(name)}
    return {name: "true" if value is True else value for name, value in kept.items()}
