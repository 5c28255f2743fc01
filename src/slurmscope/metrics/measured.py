# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of how it goes with what was measured: who tells, what is taken, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slurmscope.measured.tally import IGNORED, REASONS, PrometheusTally
from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View

if TYPE_CHECKING:  # what is counted, and not who counts it
    from slurmscope.measured.service import Measuring


def _measuring(view: View) -> Measuring | None:
    return view.requests.upkeep.measuring if view.requests.upkeep is not None else None


def _agents(value: Callable[[Measuring], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        measuring = _measuring(view)
        return [] if measuring is None or not measuring.enabled else [((), value(measuring))]

    return samples


def _refused(view: View) -> Iterable[Sample]:
    measuring = _measuring(view)
    if measuring is not None and measuring.enabled:
        for reason in REASONS:
            yield (reason,), measuring.tally.refused.get(reason, 0)


def _ignored(view: View) -> Iterable[Sample]:
    measuring = _measuring(view)
    if measuring is not None and measuring.courses:
        for reason in IGNORED:
            yield (reason,), measuring.tally.ignored.get(reason, 0)


def _kept(value: Callable[[Measuring], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        measuring = _measuring(view)
        return [] if measuring is None or not measuring.courses else [((), value(measuring))]

    return samples


def _prometheus(value: Callable[[PrometheusTally], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        measuring = _measuring(view)
        backfill = measuring.backfill if measuring is not None else None
        return [] if backfill is None else [((), value(backfill.tally))]

    return samples


TOPIC: Topic[View] = Topic(
    "measured",
    None,
    frozenset(),
    (
        Family("slurm_agents", GAUGE, "Nodes whose agents reported in the last 5 minutes.", (), _agents(lambda one: len(one.reports.recent()))),
        Family("slurm_agent_oldest_seconds", GAUGE, "Age of the oldest of these nodes' last reports.", (), _agents(lambda one: one.reports.oldest_seconds)),
        Family("slurm_agent_reports_total", COUNTER, "Reports of agents that were taken.", (), _agents(lambda one: one.tally.reports)),
        Family("slurm_agent_refused_total", COUNTER, "What was sent as reports and refused, by reason: token, body, cluster, time, room.", ("reason",), _refused),
        Family("slurm_measured_jobs", GAUGE, "Jobs of which something is measured now.", (), _kept(lambda one: sum(map(len, one.courses.values())))),
        Family("slurm_measured_written_total", COUNTER, "Times that what a job used was written to the store.", (), _kept(lambda one: one.tally.written)),
        Family("slurm_measured_dropped_total", COUNTER, "Jobs of which something measured was lost: the store was away for too long, or nobody knew the job.", (), _kept(lambda one: one.tally.dropped)),
        Family("slurm_measured_ignored_total", COUNTER, "What was told of jobs and is not counted, by reason: host (none of the job's nodes), number (that cannot be).", ("reason",), _ignored),
        Family("slurm_measured_failing", GAUGE, "1 if the store did not take all of what jobs used when that was last written.", (), _kept(lambda one: int(one.failing))),
        Family("slurm_prometheus_up", GAUGE, "1 if Prometheus answered when it was last asked what a job used. Absent until then.", (), _prometheus(lambda one: None if one.up is None else int(one.up))),
        Family("slurm_prometheus_asked_total", COUNTER, "Jobs of which Prometheus was asked.", (), _prometheus(lambda one: one.asked)),
        Family("slurm_prometheus_failures_total", COUNTER, "Times that Prometheus did not answer, or not as it should.", (), _prometheus(lambda one: one.failures)),
        Family("slurm_prometheus_jobs_total", COUNTER, "Jobs of which Prometheus told what they used, where no agent had.", (), _prometheus(lambda one: one.found)),
    ),
    common=True,
)  # fmt: skip
