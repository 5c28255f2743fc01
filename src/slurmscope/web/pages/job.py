# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One job, or one array: its report, and what only a page has room for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slurmscope.findings.efficiency import efficiency, ran
from slurmscope.life import Life, document
from slurmscope.reports import cells
from slurmscope.reports.courses import node_chart
from slurmscope.reports.document import Block, Cell, Column, Facts, Heat, Paragraph, Section, Table, Timeline
from slurmscope.reports.job import NODES, asked_for, job_document, job_link, number_of
from slurmscope.reports.kept import NoSuchJobError
from slurmscope.store.protocol import Lives
from slurmscope.summary import NodeLines
from slurmscope.web import addresses, states
from slurmscope.web.errors import NotFound
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.route import HTML
from slurmscope.web.visit import Visit
from slurmscope.words import moment, offset_words, printable

_MOST_RUNS = 10
_RAW = "All that is kept of it"
_SHELL = "interactive"  # as salloc calls its jobs
_LONG = 2000  # characters of a raw fact that are shown


class JobAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="The cluster.")]
    job: Annotated[
        str,
        Meta(
            description="A number; 123_4 for the task of an array; 123.1767225600, with the time of its submission, "
            "for one of several that had that number.",
            pattern=r"^\d{1,10}(_\d{1,10}|\.\d{1,11})?$",
        ),
    ]


class JobPageAsked(JobAsked, frozen=True, kw_only=True):
    node: Annotated[str, Meta(description="One of its nodes, of which a chart is shown.", max_length=300)] = ""


def job(visit: Visit, asked: JobPageAsked) -> Page:
    seen = seen_lives(visit, asked)
    here = addresses.within(asked.cluster, "jobs", asked.job)
    if len(seen) == 1:
        facts = visit.reports.job_facts(seen[0])
        made = job_document(facts, visit.t)
        sections = [_of_nodes(one, facts.by_node, asked, here) for one in made.sections]
        document = replace(made, sections=(*sections, *_runs(visit, seen[0]), _raw(seen[0])))
    else:
        document = visit.reports.lives(seen)
        document = replace(document, subtitle=_each(visit, seen[0]))
    document = replace(document, sections=tuple(_zoned(visit, one) for one in document.sections))
    number = number_of(seen[0]) if len(seen) == 1 else str(seen[0].array_id)
    jobs = Crumb(visit.t("jobs"), addresses.within(asked.cluster, "jobs"))
    return Page(
        document=document,
        template="job.html",
        crumbs=tuple(visit.crumbs(asked.cluster, jobs, Crumb(number, here))),
        cluster=asked.cluster,
        live=not all(one.ended for one in seen),
        shown={
            "here": here,
            "question": "",
            "scripted": _scripted(visit, seen[-1]),
            "share_days": visit.site.settings.portal.share_days if len(seen) == 1 else 0,
        },
    )


def _each(visit: Visit, life: Life) -> str:
    """Whose an array is, and what each of its tasks asks for."""
    values = {"user": life.user, "account": life.account, "cluster": life.cluster, "asked": asked_for(life, visit.t)}
    return visit.t("of {user} ({account}) on {cluster}, each with {asked}", **values)


def _scripted(visit: Visit, life: Life) -> bool:
    """Whether Slurm may have a script of it: what salloc or srun has started was none, and somebody must be there to be
    asked."""
    program = (life.submit_line or "").partition(" ")[0].rpartition("/")[2]
    by_hand = program in ("salloc", "srun") or (not program and life.name == _SHELL)
    without = bool(life.steps) and life.ended and all(one.id != "batch" for one in life.steps)
    return visit.site.edition(life.cluster) is not None and not by_hand and not without


def _of_nodes(section: Section, lines: NodeLines | None, asked: JobPageAsked, here: str) -> Section:
    """The map of its nodes, whose names lead to a chart of each; with that of the one that is asked for."""
    if lines is None or section.title != NODES:
        return section
    blocks = [_linked(one, here) if isinstance(one, Heat) else one for one in section.blocks]
    if asked.node:
        chart = node_chart(lines, asked.node)
        if chart is None:
            raise NotFound(
                "Nothing was measured of this job on a node {node}.", "All of the job", here, node=repr(asked.node)
            )
        blocks.append(chart)
    return replace(section, blocks=tuple(blocks))


_TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


def _zoned(visit: Visit, section: Section) -> Section:
    """Times that stand in sentences are for the reader's clock, as all others; raw facts stay as they are."""
    zone = visit.taste.zone
    if visit.form != HTML or visit.taste.zone_name == "UTC" or section.title == _RAW:
        return section

    def here(found: re.Match[str]) -> str:
        when = datetime.strptime(found[0], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()
        return f"{visit.t.minute(when, visit.now, zone=zone)} {offset_words(when, zone)}"

    def told(block: Block) -> Block:
        if isinstance(block, Paragraph):
            return replace(block, text=_TIMES.sub(here, block.text))
        if isinstance(block, Facts):
            return Facts(tuple((name, replace(cell, text=_TIMES.sub(here, cell.text))) for name, cell in block.rows))
        if isinstance(block, Timeline):
            return Timeline(tuple(replace(one, detail=_TIMES.sub(here, one.detail)) for one in block.events))
        return block

    return replace(section, blocks=tuple(map(told, section.blocks)))


def _linked(heat: Heat, here: str) -> Heat:
    return replace(heat, rows=tuple(replace(one, link=address_of(here, {"node": one.name})) for one in heat.rows))


def seen_lives(visit: Visit, asked: JobAsked) -> Sequence[Life]:
    """Those that are meant, and that the viewer may see. Raises NotFound."""
    visit.site.must_know(asked.cluster)
    lives = _meant(visit, asked)
    seen = [one for one in lives if visit.viewer.sees_job(one.cluster, one.user, one.account)]
    if not seen:
        raise _none(asked)
    return seen


def _none(asked: JobAsked) -> NotFound:
    return NotFound(
        "No job {job} of {cluster} is kept, or none that you may see.",
        "Your jobs",
        addresses.within(asked.cluster, "jobs"),
        job=asked.job,
        cluster=asked.cluster,
    )


def _meant(visit: Visit, asked: JobAsked) -> Sequence[Life]:
    """Raises NotFound."""
    number, _, submitted = asked.job.partition(".")
    if submitted:
        found = visit.store.life(asked.cluster, int(number), int(submitted))
        if found is None:
            raise _none(asked)
        return [found]
    try:
        return visit.reports.meant(asked.job, asked.cluster, visit.viewer.sight)
    except NoSuchJobError:
        raise _none(asked) from None


def _runs(visit: Visit, life: Life) -> list[Section]:
    """Other runs of the same work: by the same name, of the same person."""
    wanted = Lives(cluster=life.cluster, user=life.user, name=life.name, limit=_MOST_RUNS + 1, sight=visit.viewer.sight)
    others = [one for one in visit.store.lives(wanted) if one.key != life.key][:_MOST_RUNS]
    if not others:
        return []
    summaries = visit.store.summaries(life.cluster, [one.key for one in others])
    columns = (
        Column("job", "job"),
        Column("submitted", "submitted"),
        Column("state", "state"),
        Column("ran", "ran", True),
        Column("cpu", "CPU"),
        Column("memory", "memory"),
        Column("gpu", "GPU"),
    )
    rows = []
    for one in others:
        used = efficiency(one, summaries.get(one.key), visit.now)
        cpu, memory, gpu = (use.share if one.started else None for use in (used.cpu, used.memory, used.gpu))
        rows.append(
            (
                Cell(number_of(one), one.id, link=job_link(one)),
                cells.moment(one.submit_time),
                Cell(states.words(one, visit.t), one.state, level=states.shape(one)),
                cells.seconds(ran(one, visit.now) if one.started else None),
                cells.meter(cpu),
                cells.memory(memory, one.state),
                cells.meter(gpu),
            )
        )
    return [Section("Other runs of the same work", (Table("runs", columns, tuple(rows)),))]


def _plainly(value: object) -> str:
    """As people write it, and not as a program does."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plainly(one)}" for name, one in value.items())
    return ", ".join(map(_plainly, value)) if isinstance(value, list) else str(value)


def _raw(life: Life) -> Section:
    """All that is kept of it, as it is kept; only times are such as people read, to the second."""
    left_out = ("transitions", "steps")
    rows = [
        (name, Cell(moment(value) if name.endswith("_time") else printable(_plainly(value))[:_LONG], None))
        for name, value in document(life).items()
        if name not in left_out and value not in (None, "", [], {})
    ]
    blocks: tuple[Block, ...] = (Facts(tuple(rows)),)
    return Section(_RAW, blocks)
