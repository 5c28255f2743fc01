# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One node: how it is, what it went through and why, whose jobs it has and had, and how it fares beside its peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slurmscope.findings.efficiency import ran
from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.reports import availability, cells
from slurmscope.reports.document import (
    BAD,
    FAIL,
    FINE,
    NOTE,
    OFF,
    OK,
    UNKNOWN,
    WAIT,
    Block,
    Cell,
    Column,
    Document,
    Event,
    Facts,
    Paragraph,
    Section,
    Table,
    Timeline,
    Verdict,
)
from slurmscope.reports.job import job_link, number_of
from slurmscope.store.protocol import Lives, NodeChange
from slurmscope.usage import DAY
from slurmscope.web import addresses, failures, map, node_table, states
from slurmscope.web.errors import NotFound
from slurmscope.web.failures import DAYS, Compared
from slurmscope.web.inventory import may_open, seen
from slurmscope.web.node_table import Row
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.translation import Translation
from slurmscope.web.visit import Visit
from slurmscope.words import number, percent, printable, size

_MOST_NOW, _MOST_BEFORE = 100, 25  # jobs
_MOST_CHANGES, _MOST_EVENTS = 200, 8


class NodeAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="The cluster.")]
    node: Annotated[str, Meta(description="The node's name.")]


class _Told(msgspec.Struct, frozen=True):
    """All that is known of it. `node` is None where it is not there any more."""

    cluster: str
    name: str
    node: Node | None
    condition: str
    jobs: int | None  # that hold it now, whoever may see them
    now: Sequence[Life]  # of those that the viewer sees
    before: Sequence[Life]
    changes: Sequence[NodeChange]
    compared: Compared | None
    available: float | None


def node(visit: Visit, asked: NodeAsked) -> Page:
    visit.site.must_know(asked.cluster)
    told = _told(visit, asked)
    start = visit.now - DAYS * DAY
    document = Document(
        kind="node",
        title=told.name,
        subtitle=told.cluster,
        made=visit.now,
        verdict=_verdict(visit, told),
        sections=tuple(_sections(visit, told)),
        data=_data(told),
        table="changes",
    )
    here = addresses.within(told.cluster, "nodes", told.name)
    nodes = addresses.within(told.cluster, "nodes")
    stretches = failures.stretches(told.changes, start, visit.now)
    label = visit.t("The last {days} days of {node}", days=DAYS, node=printable(told.name))
    return Page(
        document=document,
        template="node.html",
        crumbs=tuple(visit.crumbs(told.cluster, Crumb(visit.t("nodes"), nodes), Crumb(printable(told.name), here))),
        cluster=told.cluster,
        live=told.node is not None,
        shown={
            "here": here,
            "question": "",
            "swatch": map.strip_swatch,
            "strip": map.strip(stretches, start, visit.now, label) if stretches else "",
            "label": label,
            "kinds": {one.kind for one in stretches},
            "unknown": bool(stretches) and stretches[0].since > start,
            "start": start,
            "all_jobs": address_of(
                addresses.within(told.cluster, "jobs"), {"node": told.name, "user": "*", "time": "all"}
            ),
        },
    )


def _told(visit: Visit, asked: NodeAsked) -> _Told:
    """Raises NotFound: where there is none, and where the viewer has nothing to do with it."""
    cluster, name = asked.cluster, asked.node
    found = seen(visit, cluster)
    one = next((one for one in found.nodes if one.name == name), None)
    # bytes of an address that are no text are no name that could be kept
    text = name.encode("utf-8", "replace").decode() == name
    since = availability.look_back(visit.now - DAYS * DAY)
    changes = _changes(visit, visit.store.node_changes(cluster, since, visit.now + 1, name)) if text else []
    if not text or (one is None and not changes) or not may_open(visit, cluster, name):
        raise NotFound(
            "There is no node {node} of {cluster}, or none on which you had a job.",
            "The nodes that there are",
            addresses.within(cluster, "nodes"),
            node=repr(name),
            cluster=cluster,
        )
    on_it = Lives(cluster=cluster, node=name, sight=visit.viewer.sight)
    ask = msgspec.structs.replace
    return _Told(
        cluster=cluster,
        name=name,
        node=one,
        condition=states.UNKNOWN if one is None else map.condition(one),
        jobs=None if found.jobs is None else found.jobs.get(name, 0),
        now=[life for life in visit.store.lives(ask(on_it, open=True, limit=_MOST_NOW)) if life.holding],
        before=visit.store.lives(ask(on_it, open=False, limit=_MOST_BEFORE)),
        changes=changes,
        compared=None if one is None else failures.compared(one, found.nodes, failures.records(visit.site, cluster)),
        available=_available(visit, cluster, name, changes),
    )


def _changes(visit: Visit, changes: Sequence[NodeChange]) -> list[NodeChange]:
    """Without the names of those whom the viewer does not see."""
    see = visit.viewer.sees_user
    return [
        msgspec.structs.replace(one, reason_user=None) if one.reason_user and not see(one.reason_user) else one
        for one in changes
    ]


def _available(visit: Visit, cluster: str, name: str, changes: Sequence[NodeChange]) -> float | None:
    """The share of the time in which work could be given to it, as far as that is known."""
    start = visit.now - DAYS * DAY
    known = bool(changes) and changes[0].time <= start
    # all are read only where its own changes do not tell
    kept = [] if known else [one for one in visit.store.nodes(cluster) if one.node.name == name]
    return availability.availability(kept, changes, start, visit.now).share


# --- in sentences -----------------------------------------------------------------------------------------------------


def _verdict(visit: Visit, told: _Told) -> Verdict:
    t, one = visit.t, told.node
    if one is None:
        return Verdict(UNKNOWN, t("{node} is not there any more", node=told.name), t("This is what is kept of it."))
    out = told.compared is not None and told.compared.stands_out
    levels = {states.UP: NOTE if out else FINE, states.DOWN: BAD, states.UNKNOWN: UNKNOWN}
    lead = [_since(visit, told, one), _held(visit, told, one), _fared(visit, told)]
    return Verdict(levels.get(told.condition, NOTE), _headline(visit, told, one), " ".join(filter(None, lead)))


def _headline(visit: Visit, told: _Told, one: Node) -> str:
    t = visit.t
    if told.condition == states.UP:
        if not one.cpus_allocated:
            return t("{node} is free", node=told.name)
        used = map.share(one)
        if used is not None and used >= 1:
            return t("{node} is full", node=told.name)
        return t("{node} is {share} allocated", node=told.name, share=percent(used))
    words = {
        states.DOWN: t("{node} is down", node=told.name),
        states.DRAINING: t("{node} is draining", node=told.name),
        states.DRAINED: t("{node} is drained", node=told.name),
        map.ASIDE: t("{node} is set aside", node=told.name),
    }
    said = words.get(told.condition, t("The state of {node} is not known", node=told.name))
    return f"{said}: {one.reason}" if one.reason else said


def _since(visit: Visit, told: _Told, one: Node) -> str:
    t = visit.t
    when = one.reason_time if one.reason else told.changes[-1].time if told.changes else None
    if told.condition == states.UP or when is None:
        return ""
    values = {"when": t.minute(when, visit.now, zone=visit.taste.zone), "span": t.span(max(0, visit.now - when))}
    if one.reason and one.reason_user:
        return t("Since {when}, for {span}, as {user} said.", user=one.reason_user, **values)
    return t("Since {when}, for {span}.", **values)


def _held(visit: Visit, told: _Told, one: Node) -> str:
    t = visit.t
    if not told.jobs:
        return t("No job holds it.") if told.jobs == 0 else ""
    values = {"used": f"{one.cpus_allocated:,}", "cpus": f"{one.cpus_effective:,}"}
    if told.jobs == 1:
        return t("One job holds it, with {used} of its {cpus} CPUs allocated.", **values)
    return t("{jobs} jobs hold it, with {used} of its {cpus} CPUs allocated.", jobs=f"{told.jobs:,}", **values)


def _fared(visit: Visit, told: _Told) -> str:
    """Of what stands out, beside its peers; of what does not, that it does not."""
    t, of = visit.t, told.compared
    if of is None or of.downs is None or of.died is None:
        return ""
    values = {"days": DAYS, "peers": f"{of.peers:,}"}
    if not of.stands_out:
        if of.own.downs or of.own.died:
            return ""
        return t("It did not fail in the last {days} days.", **values) if told.changes else ""
    if of.own.downs >= of.own.died:
        return t(
            "It failed {own} times in {days} days; its {peers} peers {mean} times on average.",
            own=of.own.downs,
            mean=number(of.downs),
            **values,
        )
    return t(
        "{own} jobs died with it in {days} days; with its {peers} peers {mean} on average.",
        own=of.own.died,
        mean=number(of.died),
        **values,
    )


# --- in figures -------------------------------------------------------------------------------------------------------


def _sections(visit: Visit, told: _Told) -> list[Section]:
    found = []
    if told.node is not None and told.compared is not None:
        found.append(Section("Now", (_facts(visit, told, told.node),), half=True))
        found.append(Section("How it fared", _record(visit, told, told.compared), half=True))
    now: list[Block] = [_jobs("jobs", visit, told.now, visit.t("No job that you may see holds it."))]
    others = (told.jobs or 0) - len(told.now)
    if others > 0 and told.now:
        now.append(Paragraph(visit.t("And {count} more.", count=f"{others:,}"), soft=True))
    found.append(Section("Jobs on it now", tuple(now)))
    found.append(
        Section("Jobs before", (_jobs("jobs_before", visit, told.before, visit.t("None that you may see is kept.")),))
    )
    found.append(Section("What it went through", _history(visit, told)))
    if told.node is not None:
        found.append(Section("What it is", (_hardware(told.node, visit.t),)))
    return found


def _facts(visit: Visit, told: _Told, one: Node) -> Facts:
    row = Row(told.cluster, one, told.condition, told.jobs)
    rows = [
        ("state", node_table.state(row, visit.t)),
        ("reason", node_table.reason(one)),
        ("CPUs", node_table.cpus(one, visit.t)),
        ("memory", _memory(one, visit.t)),
        *([("GPUs", node_table.gpus(one, visit.t))] if one.gpus else []),
        ("load", node_table.load(one)),
        ("memory free, as its kernel has it", cells.bytes_(one.memory_free)),
        ("jobs", cells.count(told.jobs)),
    ]
    return Facts(tuple(rows))


def _memory(one: Node, t: Translation) -> Cell:
    found = node_table.memory(one)
    told = t("{used} of {all}", used=size(one.memory_allocated), all=size(one.memory))
    return msgspec.structs.replace(found, text=told)


def _record(visit: Visit, told: _Told, of: Compared) -> tuple[Block, ...]:
    columns = (Column("what", ""), Column("own", "this node", True), Column("peers", "a peer, on average", True))
    rows = (
        (Cell(visit.t("went down")), cells.count(of.own.downs), cells.count(of.downs)),
        (Cell(visit.t("was drained")), cells.count(of.own.drains), cells.count(of.drains)),
        (Cell(visit.t("jobs that died with it")), cells.count(of.own.died), cells.count(of.died)),
        (Cell(visit.t("time that it could be used")), cells.share(told.available), cells.share(None)),
    )
    note = (
        visit.t(
            "In {days} days; peers are {peers} nodes of the same {alike}.",
            days=DAYS,
            peers=of.peers,
            alike=visit.t(of.alike),
        )
        if of.downs is not None
        else visit.t("In {days} days; there are no others like it to compare with.", days=DAYS)
    )
    return (Table("record", columns, rows, note),)


def _jobs(name: str, visit: Visit, lives: Sequence[Life], empty: str) -> Table:
    columns = (
        Column("job", "job"),
        Column("name", "name"),
        Column("user", "user"),
        Column("state", "state"),
        Column("cpus", "CPUs", True),
        Column("gpus", "GPUs", True),
        Column("nodes", "nodes", True),
        Column("started", "started"),
        Column("ran", "ran", True),
    )
    rows = tuple(
        (
            Cell(number_of(one), one.id, link=job_link(one)),
            cells.words(one.name),
            cells.words(one.user, f"user:{one.user}" if visit.viewer.sees_user(one.user) else ""),
            Cell(states.words(one, visit.t), one.state, level=states.shape(one)),
            cells.count(one.cpus),
            cells.count(sum(one.gpus.values()) or None),
            cells.count(one.nodes),
            cells.moment(one.start_time if one.started else None),
            cells.seconds(ran(one, visit.now) if one.started else None),
        )
        for one in lives
    )
    return Table(name, columns, rows, empty=empty)


# --- over time --------------------------------------------------------------------------------------------------------

_TITLES = {
    failures.FINE: "In service",
    failures.DOWN: "Down",
    failures.DRAINED: "Drained",
    failures.PLANNED: "Set aside",
    failures.GONE: "Not there any more",
}
_SHAPES = {failures.FINE: OK, failures.DOWN: FAIL, failures.DRAINED: WAIT, failures.PLANNED: WAIT}


def _history(visit: Visit, told: _Told) -> tuple[Block, ...]:
    ends = [*(one.time for one in told.changes[1:]), visit.now]
    pairs = list(zip(told.changes, ends, strict=False))
    columns = (
        Column("time", "from"),
        Column("condition", "condition"),
        Column("state", "state"),
        Column("reason", "reason"),
        Column("by", "by"),
        Column("seconds", "for", True),
    )
    rows = tuple(
        (
            cells.moment(one.time),
            Cell(
                visit.t(_TITLES[failures.kind(one)]),
                failures.kind(one) or "fine",
                level=_SHAPES.get(failures.kind(one), "off"),
            ),
            cells.words(states.said(_state(one), visit.t)),
            cells.words(one.reason or ""),
            cells.words(one.reason_user or ""),
            cells.seconds(max(0, end - one.time)),
        )
        for one, end in reversed(pairs[-_MOST_CHANGES:])
    )
    empty = visit.t("Nothing has changed since its history is kept.")
    table = Table("changes", columns, rows, empty=empty)
    return (Timeline(_events(pairs, visit.t)), table) if pairs else (table,)


def _events(pairs: Sequence[tuple[NodeChange, int]], t: Translation) -> tuple[Event, ...]:
    """The last ones, where those that brought nothing new are one."""
    turns: list[tuple[NodeChange, int]] = []
    for one, end in pairs:
        if turns and (failures.kind(turns[-1][0]), turns[-1][0].reason) == (failures.kind(one), one.reason):
            turns[-1] = turns[-1][0], end
        else:
            turns.append((one, end))
    return tuple(
        Event(one.time, _TITLES[failures.kind(one)], _detail(one, end, t), failures.kind(one) == failures.DOWN)
        for one, end in turns[-_MOST_EVENTS:]
    )


def _kind(visit: Visit, kind: str) -> Cell:
    return Cell(visit.t(_TITLES[kind]), kind or "fine", level=_SHAPES.get(kind, OFF))


def _detail(one: NodeChange, end: int, t: Translation) -> str:
    lasted = t("for {span}", span=t.span(max(0, end - one.time)))
    told = [lasted, one.reason or "", t("by {user}", user=one.reason_user) if one.reason_user else ""]
    return ", ".join(filter(None, told))


def _state(one: NodeChange) -> str:
    """As Slurm had it: `idle, drain`."""
    return ", ".join(name.lower().replace("_", " ") for name in (one.state, *one.flags) if name)


def _hardware(one: Node, t: Translation) -> Facts:
    threads, aside = one.threads_per_core, one.cpus - one.cpus_effective
    told = [f"{one.cpus:,}"]
    if threads is not None:
        told.append(t("1 thread a core") if threads == 1 else t("{count} threads a core", count=f"{threads:,}"))
    if aside > 0:
        told.append(t("{count} of them kept for the system", count=aside))
    types = ", ".join(f"{count} {kind}".rstrip() for kind, count in sorted(one.gpus.items()))
    rows = (
        ("partitions", cells.words(", ".join(one.partitions))),
        ("CPUs", Cell(", ".join(told), one.cpus)),
        ("memory", Cell(size(one.memory), one.memory)),
        ("GPUs", cells.words(types)),
        ("features", cells.words(", ".join(one.features))),
        ("weight", cells.count(one.weight)),
        ("Slurm", cells.words(one.version)),
        ("booted", cells.moment(one.boot_time)),
    )
    return Facts(rows)


_JOB = (
    *("id", "array_id", "array_tasks", "name", "user", "account", "partition", "state", "submit_time"),
    *("start_time", "end_time", "cpus", "memory", "gpus", "nodes", "node_list"),
)


def _data(told: _Told) -> dict[str, Any]:
    """For scripts: base units, nothing rounded."""
    return {
        "cluster": told.cluster,
        "name": told.name,
        "node": told.node,
        "condition": told.condition if told.node is not None else "gone",
        "holding_jobs": told.jobs,
        "available_share": told.available,
        "record": told.compared,
        "record_days": DAYS,
        "changes": told.changes,
        "jobs": [{name: getattr(one, name) for name in _JOB} for one in told.now],
        "jobs_before": [{name: getattr(one, name) for name in _JOB} for one in told.before],
    }
