# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The script of a job, where Slurm gives it."""

from __future__ import annotations

from slurmscope.reports.document import Document, Verdict
from slurmscope.web import addresses
from slurmscope.web.errors import NotFound
from slurmscope.web.page import Crumb, Page
from slurmscope.web.pages.job import JobAsked, seen_lives
from slurmscope.web.visit import Visit


def script(visit: Visit, asked: JobAsked) -> Page:
    life = seen_lives(visit, asked)[-1]
    here = addresses.within(asked.cluster, "jobs", asked.job)
    found = visit.site.script(life)
    if found is None:
        cure = "It is given while slurmctld knows the job, and afterwards where AccountingStoreFlags has job_script."
        raise NotFound("Slurm gives no script of job {job}.", cure, here, job=asked.job)
    lines = found.splitlines()
    title = visit.t("Script of {job}", job=asked.job)
    jobs = Crumb(visit.t("jobs"), addresses.within(asked.cluster, "jobs"))
    return Page(
        document=Document(
            kind="script",
            title=title,
            subtitle="",
            made=visit.now,
            verdict=Verdict("", title, ""),
            sections=(),
            data={"cluster": life.cluster, "id": life.id, "script": found},
        ),
        template="script.html",
        crumbs=tuple(visit.crumbs(asked.cluster, jobs, Crumb(asked.job, here), Crumb(visit.t("script")))),
        cluster=asked.cluster,
        shown={"lines": lines, "job": here},
    )
