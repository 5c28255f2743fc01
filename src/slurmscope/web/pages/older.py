# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Addresses of an older web app, for the scripts and mails that know them. Who sees what is as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slurmscope.life import Life
from slurmscope.mail.rendering import WARNING
from slurmscope.reports import courses
from slurmscope.reports.data import encoded
from slurmscope.reports.document import BAD, NOTE, Bars, Chart, Document
from slurmscope.reports.rendering import TYPES, rendered
from slurmscope.store.protocol import Lives
from slurmscope.web.errors import NotFound, Wrong
from slurmscope.web.page import Raw
from slurmscope.web.pages.job import JobAsked, seen_lives
from slurmscope.web.used import used_of
from slurmscope.web.visit import Visit
from slurmscope.words import listed

PNG = "image/png"
_WIDTH = 76  # characters of a line, as in mails
# fmt: off
Metric = Literal[
    "cpu", "memory", "gpu", "gpu_memory", "gpu_power", "read", "written",
    "write", "jobs_cpu_percent", "jobs_rss", "jobs_read_mb", "jobs_write_mb",
]
# fmt: on
_CHARTS: dict[str, tuple[str, str]] = {
    "cpu": ("CPU, cores busy", "cores"),
    "memory": ("Memory", "GiB"),
    "gpu": ("GPU", "%"),
    "gpu_memory": ("GPU memory", "GiB"),
    "gpu_power": ("GPU power", "W"),
    "read": ("Read", "MiB/s"),
    "written": ("Written", "MiB/s"),
}
_NAMES = {
    "write": "written",
    "jobs_cpu_percent": "cpu",
    "jobs_rss": "memory",
    "jobs_read_mb": "read",
    "jobs_write_mb": "written",
}


class NumberAsked(msgspec.Struct, frozen=True, kw_only=True):
    job: Annotated[
        str,
        Meta(description="A job's number; 123_4 for the task of an array.", pattern=r"^\d{1,10}(_\d{1,10})?$"),
    ]
    cluster: Annotated[str, Meta(description="Of which cluster, where several have a job of that number.")] = ""


class PlotAsked(NumberAsked, frozen=True, kw_only=True):
    metric: Annotated[Metric, Meta(description="What is drawn; names that begin with jobs_ are the older ones.")]


def usage(visit: Visit, asked: NumberAsked) -> Raw:
    life = _one(visit, asked)
    summary = visit.store.summary(life.cluster, *life.key)
    return Raw(encoded(used_of(life, summary, visit.now)), TYPES["json"])


def mail(visit: Visit, asked: NumberAsked) -> Raw:
    document = visit.reports.lives(_lives(visit, asked))
    told = rendered(document, "text", width=_WIDTH).decode()
    warning = "true" if _warns(document) else "false"
    return Raw(f"{told}\n{WARNING}={warning}\n".encode(), TYPES["text"])


def pdf(visit: Visit, asked: NumberAsked) -> Raw:
    return Raw(rendered(visit.reports.lives(_lives(visit, asked)), "pdf"), TYPES["pdf"])


def plot(visit: Visit, asked: PlotAsked) -> Raw:
    case = visit.reports.job_facts(_one(visit, asked)).case
    name = _NAMES.get(asked.metric, asked.metric)
    found = next((one for one in courses.charts(case) if one.name == name), None)
    # a picture says itself that there is nothing to be seen: who asks shows it beside others
    return _picture(visit, found or Chart(name, *_CHARTS[name], times=(), step=0, series=()))


def pie(visit: Visit, asked: NumberAsked) -> Raw:
    """It was a pie once."""
    case = visit.reports.job_facts(_one(visit, asked)).case
    found = next((one for one in courses.bars(case) if one.name == "modes"), None)
    return _picture(visit, found or Bars("modes", "User and system time", "CPU-hours", labels=(), series=()))


def _picture(visit: Visit, chart: Chart | Bars) -> Raw:
    # only here: what draws pictures takes memory
    from slurmscope.reports.picture import png  # noqa: PLC0415

    return Raw(png(chart, made=visit.now), PNG)


def _warns(document: Document) -> bool:
    """As mails say it: something was found in a job, or an array's verdict is not good."""
    if document.kind == "job":
        return bool(document.data["findings"])
    return document.verdict.level in (BAD, NOTE)


def _lives(visit: Visit, asked: NumberAsked) -> Sequence[Life]:
    """Of one job, or of all tasks of an array. Raises NotFound and Wrong."""
    return seen_lives(visit, JobAsked(cluster=_cluster(visit, asked), job=asked.job))


def _one(visit: Visit, asked: NumberAsked) -> Life:
    """Raises NotFound and Wrong."""
    lives = _lives(visit, asked)
    if len(lives) == 1:
        return lives[0]
    # the last task of an array has the array's number
    found = next((one for one in lives if str(one.id) == asked.job), None)
    if found is None:
        task = f"{asked.job}_{lives[0].array_tasks}"
        raise Wrong("{job} is an array.", "Choose one of its tasks: {task}.", job=asked.job, task=task)
    return found


def _cluster(visit: Visit, asked: NumberAsked) -> str:
    """The one that has it, among what the viewer may see. Raises NotFound and Wrong."""
    if asked.cluster:
        return asked.cluster
    number = int(asked.job.partition("_")[0])
    sight = visit.viewer.sight
    there = [
        one for one in visit.site.clusters() if visit.store.lives(Lives(cluster=one, id=number, sight=sight, limit=1))
    ]
    if not there:
        raise NotFound("No job {job} is kept, or none that you may see.", "Your jobs", "/jobs", job=asked.job)
    if len(there) > 1:
        raise Wrong("{job} is a job of {there}.", "?cluster= says which is meant.", job=asked.job, there=listed(there))
    return there[0]
