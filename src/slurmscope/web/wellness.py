# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether slurmscope is well, in a sentence that anybody may read: it names no host, no path and no error."""

from __future__ import annotations

from slurmscope.metrics.view import View
from slurmscope.reports.document import BAD, FINE, NOTE, Verdict
from slurmscope.web.translation import Translation
from slurmscope.web.workings import FAILING, NEVER, Workings
from slurmscope.words import listed, size

_OLD = 120  # seconds: beyond that what is shown is no picture of now


def verdict(found: Workings, t: Translation, *, staff: bool) -> Verdict:
    grave, slight = _grave(found, t), _slight(found, t)
    troubles = [*grave, *slight]
    level = BAD if grave else NOTE if slight else FINE
    if not troubles:
        return Verdict(level, t("All is well"), " ".join([_read(found, t), *([_kept(found, t)] if staff else [])]))
    headline = (
        t("One thing needs a look") if len(troubles) == 1 else t("{count} things need a look", count=len(troubles))
    )
    return Verdict(level, headline, " ".join(troubles))


def _grave(found: Workings, t: Translation) -> list[str]:
    """What makes pages wrong or loses something."""
    said = []
    if not found.clusters:
        said.append(t("No cluster has answered yet."))
    for view in found.clusters:
        name = view.snapshot.cluster or t("a cluster without a name yet")
        age = view.age("jobs")
        if not view.up and age is None:
            said.append(t("{cluster} has not answered yet.", cluster=name))
        elif not view.up:
            said.append(t("{cluster} does not answer; what is shown is {span} old.", cluster=name, span=t.span(age)))
        elif age is not None and age >= _OLD:
            said.append(t("What is shown of {cluster} is {span} old.", cluster=name, span=t.span(age)))
    if found.kept is not None and not found.kept.up:
        said.append(t("The store cannot be used; what is seen waits in memory."))
    if found.kept is not None and found.kept.dropped:
        said.append(t("Some of what was seen is lost, for the store was away for too long."))
    return said


def _slight(found: Workings, t: Translation) -> list[str]:
    said = []
    for view in found.clusters:
        failing = _failing(found, view)
        if view.up and failing:
            said.append(t("Not all of {cluster} can be read: {parts}.", cluster=view.snapshot.cluster, parts=failing))
    said += [t("{sink} does not take what it is sent.", sink=one.sink) for one in found.sent if one.up is False]
    if found.heard is not None and found.heard.failing:
        said.append(t("What jobs used could not all be written."))
    if found.mailed is not None and found.mailed.error:
        said.append(t("The last round of mail came to nothing."))
    return said


def _failing(found: Workings, view: View) -> str:
    here = [one for one in found.parts if one.cluster == view.snapshot.cluster]
    names = [one.part for one in here if one.state in (FAILING, NEVER)]
    return listed(names) if names else ""


def _read(found: Workings, t: Translation) -> str:
    oldest = max((view.age("jobs") or 0.0 for view in found.clusters), default=0.0)
    if len(found.clusters) == 1:
        return t("{cluster} was read {span} ago.", cluster=found.clusters[0].snapshot.cluster, span=t.span(oldest))
    return t("{count} clusters are read, each {span} ago or less.", count=len(found.clusters), span=t.span(oldest))


def _kept(found: Workings, t: Translation) -> str:
    jobs = found.stats.counts.get("jobs", 0)
    if found.stats.bytes is None:
        return t("The store has {jobs} jobs.", jobs=f"{jobs:,}")
    return t("The store has {jobs} jobs in {size}.", jobs=f"{jobs:,}", size=size(found.stats.bytes))
