# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What of somebody's is in the queue now: what runs, with its use, and what waits, with why."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmscope.findings.efficiency import efficiency, ran
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Section, Table
from slurmscope.reports.job import asked_for, number_of
from slurmscope.store.protocol import Fold, JobKey, Lives
from slurmscope.summary import Summary
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.web import states
from slurmscope.web.visit import Visit

_MOST = 25  # jobs or arrays of each kind; the list of jobs has all
_FEW = 5  # where they are not what the page is about


def sections(visit: Visit, asked: Lives) -> list[Section]:
    """Of the lives that are asked for; nothing where none is in the queue."""
    return _sections(visit, asked, ("Running now", "Waiting now"), _MOST)


def own(visit: Visit, cluster: str | None) -> list[Section]:
    """What whoever looks has in the queue: that is what many come for."""
    name = visit.viewer.name
    titles = ("Your jobs that run", "Your jobs that wait")
    return _sections(visit, Lives(cluster=cluster, user=name), titles, _FEW) if name else []


def _sections(visit: Visit, asked: Lives, titles: tuple[str, str], most: int) -> list[Section]:
    found = []
    for title, group, table in zip(titles, ("running", "waiting"), (_running, _waiting), strict=True):
        wanted = replace(asked, open=True, states=states.GROUPS[group], sight=visit.viewer.sight, limit=most + 1)
        folds = visit.store.folded(wanted)
        if folds:
            made = table(visit, folds[:most])
            more = visit.t("These are the latest; the list of jobs has all.") if len(folds) > most else ""
            found.append(Section(title, (replace(made, note=" ".join(filter(None, (made.note, more)))),)))
    return found


def _running(visit: Visit, folds: Sequence[Fold]) -> Table:
    summaries: dict[tuple[str, JobKey], Summary] = {}
    for cluster in {one.life.cluster for one in folds}:
        keys = [one.life.key for one in folds if one.life.cluster == cluster]
        summaries |= {(cluster, key): one for key, one in visit.store.summaries(cluster, keys).items()}
    columns = (
        Column("job", "job"),
        Column("name", "name"),
        Column("tasks", "tasks", True),
        Column("asked", "asked for"),
        Column("ran", "ran", True),
        Column("cpu", "CPU"),
        Column("memory", "memory"),
        Column("gpu", "GPU"),
        Column("time", "time"),
    )
    rows = []
    for one in folds:
        life = one.life
        used = efficiency(life, summaries.get((life.cluster, life.key)), visit.now)
        rows.append(
            (
                *_beginning(one),
                cells.words(asked_for(life, visit.t)),
                cells.seconds(ran(life, visit.now)),
                *(_meter(use.share) for use in (used.cpu, used.memory)),
                _meter(used.gpu.share) if life.gpus else Cell(""),
                # a limit that is not used up takes nothing from anybody
                cells.meter(used.time.share, judged=False),
            )
        )
    unknown = any(row[at].text == cells.DASH for row in rows for at in (5, 6, 7))
    return Table("running", columns, tuple(rows), visit.t("A dash: it is not measured.") if unknown else "")


def _meter(share: float | None) -> Cell:
    """Without a word where nothing is known: that is so of most that have just begun."""
    return Cell(cells.DASH) if share is None else cells.meter(share)


def _waiting(visit: Visit, folds: Sequence[Fold]) -> Table:
    columns = (
        Column("job", "job"),
        Column("name", "name"),
        Column("tasks", "tasks", True),
        Column("asked", "asked for"),
        Column("waited", "waited", True),
        Column("reason", "reason"),
        Column("means", "which means"),
    )
    rows = []
    for one in folds:
        life = one.life
        rows.append(
            (
                *_beginning(one),
                cells.words(asked_for(life, visit.t)),
                cells.seconds(life.waited(visit.now)),
                cells.words(life.reason),
                cells.words(reason_of(parse(life.reason)).words),
            )
        )
    return Table("waiting", columns, tuple(rows))


def _beginning(one: Fold) -> tuple[Cell, Cell, Cell]:
    life = one.life
    many = one.tasks > 1 and life.array_id is not None
    place = life.array_id if many else f"{life.id}.{life.submit_time or 0}"
    return (
        Cell(
            f"{life.array_id}_[…]" if many else number_of(life),
            life.array_id if many else life.id,
            link=f"job:{life.cluster}/{place}",
        ),
        cells.words(life.name),
        cells.count(one.tasks),
    )
