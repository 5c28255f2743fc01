# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmscope itself: what it reads and what that costs, what it keeps and sends, who tells it, and its settings.

Who is not of the staff sees how old everything is and whether it is well; errors, which may name hosts and paths, costs
and settings are for the staff.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slurmscope import __version__, config
from slurmscope.fields import FIELDS
from slurmscope.metrics.process import Process
from slurmscope.notation import toml
from slurmscope.reports import cells
from slurmscope.reports.document import (
    FAIL,
    OFF,
    OK,
    Bars,
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Section,
    Series,
    Table,
)
from slurmscope.web.addresses import within
from slurmscope.web.page import Crumb, Page
from slurmscope.web.visit import Visit
from slurmscope.web.wellness import verdict
from slurmscope.web.workings import (
    SHAPES,
    CommandCost,
    Heard,
    Kept,
    Mailed,
    PartState,
    Sent,
    Workings,
    fallbacks,
    workings,
)
from slurmscope.words import size

_STATS_SECONDS = 60  # for which the store is not counted again


class HealthAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Which cluster; all where it is not given.")] = ""


def health(visit: Visit, asked: HealthAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    views = [visit.site.view(asked.cluster)] if asked.cluster else visit.site.views()
    stats = visit.site.for_a_while("stats", _STATS_SECONDS, visit.store.stats)
    found = workings(tuple(views), stats, visit.site.clock())
    sections = _sections(visit, found)
    document = Document(
        kind="health",
        title=visit.t("Health"),
        subtitle=f"slurmscope {__version__}",
        made=visit.now,
        verdict=verdict(found, visit.t, staff=visit.viewer.staff),
        sections=tuple(sections),
        data=_data(visit, found),
    )
    here = within(asked.cluster, "health")
    return Page(
        document=document,
        template="health.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(visit.t("health"), here))),
        cluster=asked.cluster,
        live=True,
        shown={"here": here, "question": "", "folded": 1 if visit.viewer.staff else 0},
    )


def _sections(visit: Visit, found: Workings) -> list[Section]:
    staff = visit.viewer.staff
    sections = [Section("What is read", (_parts_table(visit, found.parts),))]
    if staff:
        sections += _profiles(found)
        sections.append(Section("What asking has cost", (_commands_table(visit, found.commands),)))
    sections += _kept_sections(visit, found)
    if found.sent:
        sections.append(Section("Sinks", (_sinks_table(visit, found.sent),)))
    if found.heard is not None:
        sections.append(Section("Agents", (_heard_facts(visit, found, found.heard),), half=True))
    if found.mailed is not None:
        sections.append(Section("Mail", (_mail_facts(visit, found.mailed),), half=True))
    if visit.site.served:
        sections.append(Section("Served to programs", (_served_table(visit),)))
    if staff:
        sections.append(Section("This process", (_process_facts(visit, found),), half=True))
        sections.append(Section("Settings in force", (_settings_table(visit),)))
    return sections


def _served_table(visit: Visit) -> Table:
    columns = (Column("address", "address"), Column("about", "what it has"))
    pages = {"/metrics": visit.t("what Prometheus scrapes"), **visit.site.served}
    return Table(
        "served",
        columns,
        tuple((Cell(path, path, link=f"served:{path}"), cells.words(visit.t(told))) for path, told in pages.items()),
    )


def _well(visit: Visit, well: bool | None) -> Cell:
    """A word, and the shape that goes with it."""
    if well is None:
        return Cell(visit.t("not tried yet"), "unknown", level=OFF)
    return Cell(visit.t("well"), "well", level=OK) if well else Cell(visit.t("in trouble"), "trouble", level=FAIL)


# --- what is read -----------------------------------------------------------------------------------------------------


def _parts_table(visit: Visit, found: list[PartState]) -> Table:
    t, staff = visit.t, visit.viewer.staff
    several = len({one.cluster for one in found}) > 1
    columns = [Column("cluster", "cluster")] if several else []
    columns += [Column("part", "part"), Column("state", "state"), Column("age_seconds", "age", True)]
    if staff:
        columns += [
            Column("source", "read by"),
            Column("seconds", "took", True),
            Column("rows_skipped", "rows skipped", True),
            Column("failures", "failures in a row", True),
            Column("error", "trouble"),
        ]
    rows = []
    for one in found:
        row = [cells.words(one.cluster, f"cluster:{one.cluster}")] if several else []
        row += [cells.words(one.part), Cell(t(one.state), one.state, level=SHAPES[one.state]), cells.seconds(one.age)]
        if staff:
            row += [
                cells.words(one.source),
                _took(one.seconds),
                cells.count(one.rows_skipped),
                cells.count(one.failures),
                cells.words(one.error),
            ]
        rows.append(tuple(row))
    return Table("parts", tuple(columns), tuple(rows), empty=t("No cluster has been asked yet."))


def _took(seconds: float) -> Cell:
    """Of what takes parts of a second."""
    return Cell(f"{seconds:.2f} s" if seconds < 60 else cells.seconds(seconds).text, seconds)


def _profiles(found: Workings) -> list[Section]:
    """What took how long when it was last asked for, cluster by cluster."""
    blocks: list[Block] = []
    for view in found.clusters:
        timed = [
            one for one in found.parts if one.cluster == view.snapshot.cluster and (one.seconds or one.age is not None)
        ]
        timed.sort(key=lambda one: -one.seconds)
        title = view.snapshot.cluster if len(found.clusters) > 1 else ""
        values = tuple(one.seconds for one in timed)
        if timed:
            labels = tuple(one.part for one in timed)
            blocks.append(Bars(f"profile_{len(blocks)}", title, "s", labels, (Series("seconds", values),)))
    return [Section("What the last polls took", tuple(blocks))] if blocks else []


def _commands_table(visit: Visit, found: list[CommandCost]) -> Table:
    several = len({one.cluster for one in found}) > 1
    columns = [Column("cluster", "cluster")] if several else []
    columns += [
        Column("command", "command"),
        Column("part", "part"),
        Column("runs", "runs", True),
        Column("failures", "failures", True),
        Column("seconds", "time in all", True),
        Column("mean_seconds", "on average", True),
        Column("last_seconds", "the last", True),
        Column("bytes", "output", True),
        Column("rows_skipped", "rows skipped", True),
    ]
    rows = []
    for one in found:
        row = [cells.words(one.cluster)] if several else []
        row += [
            cells.words(one.command),
            cells.words(one.part),
            cells.count(one.runs),
            cells.count(one.failures),
            _took(one.seconds),
            _took(one.seconds / one.runs),
            _took(one.last_seconds),
            cells.bytes_(one.bytes),
            cells.count(one.rows_skipped),
        ]
        rows.append(tuple(row))
    return Table("commands", tuple(columns), tuple(rows), empty=visit.t("Nothing has been asked yet."))


# --- what is kept and sent --------------------------------------------------------------------------------------------


def _kept_sections(visit: Visit, found: Workings) -> list[Section]:
    staff, kept = visit.viewer.staff, found.kept
    rows = [] if kept is None else _kept_rows(visit, kept)
    if not staff:
        return [Section("The store", (Facts(tuple(rows)),), half=True)] if rows else []
    stats = found.stats
    rows += [
        ("where", cells.words(stats.where)),
        ("size", cells.bytes_(stats.bytes)),
        ("schema", cells.count(stats.schema)),
        ("first job", cells.moment(stats.oldest)),
        ("last job", cells.moment(stats.newest)),
    ]
    columns = (Column("kind", "kind"), Column("count", "kept", True))
    counts = tuple(
        (cells.words(visit.t(kind.replace("_", " "))), cells.count(count)) for kind, count in stats.counts.items()
    )
    return [
        Section("The store", (Facts(tuple(rows)),), half=True),
        Section("What is kept", (Table("kept", columns, counts),), half=True),
    ]


def _kept_rows(visit: Visit, kept: Kept) -> list[tuple[str, Cell]]:
    rows = [("state", _well(visit, kept.up)), ("last worked", cells.moment(kept.last_success))]
    if not visit.viewer.staff:
        return rows
    if kept.error:
        rows.append(("trouble", Cell(kept.error)))
    return [
        *rows,
        ("used", cells.count(kept.calls, visit.t("times"))),
        ("failures", cells.count(kept.failures)),
        ("time in all", _took(kept.seconds)),
        ("the last", _took(kept.last_seconds)),
        ("jobs written", cells.count(kept.jobs_written)),
        ("waits to be written", cells.count(kept.waiting)),
        ("lost", cells.count(kept.dropped)),
    ]


def _sinks_table(visit: Visit, found: list[Sent]) -> Table:
    columns = [Column("sink", "sink"), Column("state", "state"), Column("last_success", "last took something")]
    if visit.viewer.staff:
        columns += [
            Column("queued", "wait on disk", True),
            Column("queued_bytes", "size", True),
            Column("sent", "sent", True),
            Column("dropped", "lost", True),
            Column("rejected", "refused", True),
            Column("failures", "failures", True),
            Column("error", "trouble"),
        ]
    rows = []
    for one in found:
        row = [cells.words(one.sink), _well(visit, one.up), cells.moment(one.last_success)]
        if visit.viewer.staff:
            numbers = (one.sent, one.dropped, one.rejected, one.failures)
            row += [cells.count(one.queued), cells.bytes_(one.queued_bytes), *map(cells.count, numbers)]
            row.append(cells.words(one.error))
        rows.append(tuple(row))
    return Table("sinks", tuple(columns), tuple(rows))


def _heard_facts(visit: Visit, found: Workings, heard: Heard) -> Facts:
    t = visit.t
    rows = [("state", _well(visit, not heard.failing))]
    for view in found.clusters:
        name = view.snapshot.cluster
        told = t("{count} of {all} nodes", count=f"{heard.nodes.get(name, 0):,}", all=f"{len(view.nodes):,}")
        rows.append((t("heard from, of {cluster}", cluster=name), Cell(told, heard.nodes.get(name, 0))))
    rows.append(("the oldest report", cells.seconds(heard.oldest)))
    if not visit.viewer.staff:
        return Facts(tuple(rows))
    refused = ", ".join(f"{reason} {count:,}" for reason, count in heard.refused.items() if count)
    rows += [
        ("reports taken", cells.count(heard.reports)),
        ("reports refused", cells.words(refused)),
        ("jobs measured now", cells.count(heard.jobs)),
        ("courses written", cells.count(heard.written)),
        ("lost", cells.count(heard.dropped)),
    ]
    if heard.prometheus_up is not None:
        rows.append(("Prometheus", _well(visit, heard.prometheus_up)))
    return Facts(tuple(rows))


def _mail_facts(visit: Visit, mailed: Mailed) -> Facts:
    settings = visit.site.settings.mail
    rounds = None if mailed.last_success is None and not mailed.error else not mailed.error
    rows = [("state", _well(visit, rounds)), ("last round", cells.moment(mailed.last_success))]
    if visit.viewer.staff:
        rows += [
            ("sends", Cell(visit.t("yes") if settings.enabled else visit.t("no: only what it would send is noted"))),
            ("wait to be sent", cells.count(mailed.waiting)),
            ("rounds", cells.count(mailed.rounds)),
            ("failures", cells.count(mailed.failures)),
        ]
        if mailed.error:
            rows.append(("trouble", Cell(mailed.error)))
    return Facts(tuple(rows))


# --- this process -----------------------------------------------------------------------------------------------------


def _process_facts(visit: Visit, found: Workings) -> Facts:
    one = Process()
    answers = found.clusters[0].requests.total if found.clusters else {}
    served = ", ".join(f"{count:,} × {code}" for code, count in sorted(answers.copy().items()))
    return Facts(
        (
            ("version", cells.words(__version__)),
            ("started", cells.moment(one.started)),
            ("memory", Cell(size(one.resident), one.resident)),
            ("CPU time", cells.seconds(one.cpu)),
            ("open files", cells.count(one.files)),
            ("answers to scrapes", cells.words(served)),
        )
    )


def _settings_table(visit: Visit) -> Table:
    """As `slurmscope config` shows them: secrets are masked."""
    columns = (Column("setting", "setting"), Column("value", "value"), Column("default", "default"))
    rows = []
    for key, value in config.shown(visit.site.settings):
        default = toml(FIELDS[key].default) if key in FIELDS else ""
        own = value != default
        rows.append((cells.words(key), Cell(value), Cell(default if own and default else cells.DASH)))
    note = visit.t("The default is shown where it is another. What is secret is not shown.")
    return Table("settings", columns, tuple(rows), note)


# --- for scripts ------------------------------------------------------------------------------------------------------


def _data(visit: Visit, found: Workings) -> dict[str, Any]:
    staff = visit.viewer.staff
    parts = [
        msgspec.to_builtins(one)
        if staff
        else {name: getattr(one, name) for name in ("cluster", "part", "state", "age")}
        for one in found.parts
    ]
    data: dict[str, Any] = {
        "version": __version__,
        "clusters": [{"cluster": one.snapshot.cluster, "up": one.up} for one in found.clusters],
        "parts": parts,
        "store": _only(found.kept, staff, "up", "last_success"),
        "sinks": [_only(one, staff, "sink", "up", "last_success") for one in found.sent],
        "agents": _only(found.heard, staff, "nodes", "oldest", "failing"),
        "mail": _only(found.mailed, staff, "last_success"),
    }
    if staff:
        data["commands"] = found.commands
        data["fallbacks"] = [{"cluster": v.snapshot.cluster, **one} for v in found.clusters for one in fallbacks(v)]
        data["kept"] = found.stats
        data["settings"] = dict(config.shown(visit.site.settings))
    return data


def _only(found: msgspec.Struct | None, staff: bool, *names: str) -> dict[str, Any] | None:
    """What others than the staff are told of it is what is named."""
    if found is None:
        return None
    whole: dict[str, Any] = msgspec.to_builtins(found)
    return whole if staff else {name: whole[name] for name in names}
