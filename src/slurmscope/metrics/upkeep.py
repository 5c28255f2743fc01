# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what this process keeps and sends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View

if TYPE_CHECKING:  # what is counted, and not who counts it
    from slurmscope.keeper import Archive
    from slurmscope.sinks.sink import Tally


def _store(value: Callable[[Archive], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        archive = view.requests.upkeep.archive if view.requests.upkeep is not None else None
        return [] if archive is None else [((), value(archive))]

    return samples


def _keepers(view: View, count: str) -> Iterable[Sample]:
    upkeep = view.requests.upkeep
    if upkeep is not None and upkeep.archive is not None:
        yield (), sum(getattr(keeper.recorder, count) for keeper in upkeep.keepers)


def _sinks(value: Callable[[Tally], float | None]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        upkeep = view.requests.upkeep
        return [] if upkeep is None else [((sink.name,), value(sink.tally)) for sink in upkeep.sinks]

    return samples


_SINK = ("sink",)

TOPIC: Topic[View] = Topic(
    "upkeep",
    None,
    frozenset(),
    (
        Family("slurm_store_up", GAUGE, "1 if the store took what was last given to it.", (), _store(lambda one: int(one.error is None))),
        Family("slurm_store_calls_total", COUNTER, "Times that the store was written to, or asked.", (), _store(lambda one: one.tally.calls)),
        Family("slurm_store_failures_total", COUNTER, "Times that the store could not be used.", (), _store(lambda one: one.tally.failures)),
        Family("slurm_store_seconds_total", COUNTER, "Time that the store took.", (), _store(lambda one: one.tally.seconds)),
        Family("slurm_store_jobs_written_total", COUNTER, "Jobs written to the store, new ones and changed ones.", (), _store(lambda one: one.tally.lives)),
        Family("slurm_store_timestamp_seconds", GAUGE, "When the store last worked.", (), _store(lambda one: one.tally.last_success)),
        Family("slurm_store_waiting", GAUGE, "What polls saw and the store has yet to take.", (), lambda view: _keepers(view, "waiting")),
        Family("slurm_store_dropped_total", COUNTER, "What polls saw and was lost, for the store was away for too long; the accounting makes up for most of it.", (), lambda view: _keepers(view, "dropped")),
        Family("slurm_sink_up", GAUGE, "1 if the sink's server took what it was last sent. Absent until something was sent.", _SINK, _sinks(lambda one: None if one.up is None else int(one.up))),
        Family("slurm_sink_queued", GAUGE, "What waits on disk to be sent.", _SINK, _sinks(lambda one: one.queued)),
        Family("slurm_sink_queued_bytes", GAUGE, "Size of what waits on disk to be sent.", _SINK, _sinks(lambda one: one.queued_bytes)),
        Family("slurm_sink_sent_total", COUNTER, "What the server has taken.", _SINK, _sinks(lambda one: one.sent)),
        Family("slurm_sink_dropped_total", COUNTER, "What was lost, oldest first, for more waited than may (spool_megabytes).", _SINK, _sinks(lambda one: one.dropped)),
        Family("slurm_sink_rejected_total", COUNTER, "What the server will never take, as it says.", _SINK, _sinks(lambda one: one.rejected)),
        Family("slurm_sink_failures_total", COUNTER, "Tries to send that came to nothing.", _SINK, _sinks(lambda one: one.failures)),
        Family("slurm_sink_timestamp_seconds", GAUGE, "When the server last took something.", _SINK, _sinks(lambda one: one.last_success)),
    ),
    common=True,
)  # fmt: skip
