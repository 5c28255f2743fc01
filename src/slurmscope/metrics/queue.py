# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of jobs: the queue by state, partition, account, QOS and user, and how long it makes people wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.exposition import GAUGE, HISTOGRAM, Family, Histogram, Sample, Topic
from slurmscope.metrics.tally import WAIT_BOUNDS
from slurmscope.metrics.view import Amount, Amounts, View, gpu_type, reason_label
from slurmscope.model import JOB_STATES, PENDING, RUNNING, WAITING_STATES

# Every state is told at 0 where jobs are counted; of what they hold, the two that everybody draws.
_ALWAYS_HOLDING = (PENDING, RUNNING)


def _everything(view: View) -> Amounts:
    found = view.queue.by(lambda group: [(group.state,)])
    return found or {(RUNNING,): Amount(gpus={})}  # an empty queue is told with zeros


def _partitions(view: View) -> Amounts:
    found = view.queue.by(lambda group: [(partition, group.state) for partition in group.partition.split(",")])
    for partition in view.partitions:  # an empty one is told with zeros
        found.setdefault((partition, RUNNING), Amount(gpus={}))
    return found


def _qos(view: View) -> Amounts:
    return view.queue.by(lambda group: [(group.qos, group.state)])


def _capped(family: str, field: str) -> Callable[[View], Amounts]:
    def amounts(view: View) -> Amounts:
        found, left_out = view.queue.capped(field, view.top)
        view.dropped[family] = left_out
        return found

    return amounts


def _jobs(amounts: Callable[[View], Amounts]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found = amounts(view)
        seen: dict[tuple[str, ...], dict[str, None]] = {}
        for *place, state in found:
            seen.setdefault(tuple(place), dict.fromkeys(JOB_STATES))[state] = None
        for where, states in seen.items():
            for state in states:
                amount = found.get((*where, state))
                yield (*where, state.lower()), amount.jobs if amount else 0

    return samples


def _held(amounts: Callable[[View], Amounts], value: Callable[[Amount], int]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found = amounts(view)
        for key, amount in found.items():
            yield (*key[:-1], key[-1].lower()), value(amount)
        for place in dict.fromkeys(key[:-1] for key in found):
            for state in _ALWAYS_HOLDING:
                if (*place, state) not in found:
                    yield (*place, state.lower()), 0

    return samples


def _gpus(amounts: Callable[[View], Amounts]) -> Callable[[View], Iterable[Sample]]:
    def samples(view: View) -> Iterable[Sample]:
        found: dict[tuple[str, ...], int] = {}
        places: dict[tuple[str, ...], None] = {}
        for *place, state in (amounts_here := amounts(view)):
            held = amounts_here[*place, state].gpus
            if held or not place:
                places[tuple(place)] = None
            for kind, count in held.items():
                found[*place, gpu_type(kind), state.lower()] = count
        # who has to do with GPUs at all is told with zeros for the types that there are
        for where in places:
            for kind in view.gpu_types:
                for state in _ALWAYS_HOLDING:
                    found.setdefault((*where, kind, state.lower()), 0)
        return found.items()

    return samples


def _families(
    prefix: str, label: tuple[str, ...], whose: str, amounts: Callable[[View], Amounts]
) -> tuple[Family[View], ...]:
    """The five quantities of one way to divide the queue."""
    states = (*label, "state")
    held = "held by jobs that run, asked for by jobs that wait, and once held by those that ended"
    return (
        Family(
            f"{prefix}_jobs",
            GAUGE,
            f"Jobs{whose} by state; an array counts as its tasks. Finished ones are seen for MinJobAge.",
            states,
            _jobs(amounts),
        ),
        Family(
            f"{prefix}_cpus",
            GAUGE,
            f"CPUs{whose} by state of the job: {held}.",
            states,
            _held(amounts, lambda one: one.cpus),
        ),
        Family(
            f"{prefix}_memory_bytes",
            GAUGE,
            f"Memory{whose} by state of the job: {held}.",
            states,
            _held(amounts, lambda one: one.memory),
        ),
        Family(
            f"{prefix}_nodes",
            GAUGE,
            f"Nodes{whose} by state of the job: {held}. A node that two jobs share counts twice.",
            states,
            _held(amounts, lambda one: one.nodes),
        ),
        Family(
            f"{prefix}_gpus",
            GAUGE,
            f"GPUs{whose} by type and state of the job: {held}.",
            (*label, "type", "state"),
            _gpus(amounts),
        ),
    )


def _pending(view: View) -> Iterable[Sample]:
    found = view.queue.by(
        lambda group: (
            [(partition, reason_label(group.reason)) for partition in group.partition.split(",")]
            if group.state in WAITING_STATES
            else []
        )
    )
    return ((key, amount.jobs) for key, amount in found.items())


def _oldest(view: View) -> Iterable[Sample]:
    for partition in dict.fromkeys((*view.partitions, *view.queue.oldest)):
        yield (partition,), float(view.queue.oldest.get(partition, 0))


def _ages(view: View) -> Iterable[Sample]:
    for partition in dict.fromkeys((*view.partitions, *view.queue.ages)):
        yield (partition,), view.queue.ages.get(partition) or Histogram.empty(WAIT_BOUNDS)


def _waits(view: View) -> Iterable[Sample]:
    """Those in which nobody was seen to start yet are told empty, so that rate() sees the first one that does."""
    found = {
        (partition, group.qos): Histogram.empty(WAIT_BOUNDS)
        for group, _ in view.queue.groups
        for partition in group.partition.split(",")
    }
    return (found | view.tally.waits).items()


_COUNTED_TWICE = " A job that waits in two partitions is counted in both."

TOPIC: Topic[View] = Topic(
    "queue",
    "jobs",
    frozenset({"partitions", "nodes"}),
    (
        *_families("slurm_queue", (), "", _everything),
        *_families("slurm_partition_queue", ("partition",), " of a partition", _partitions),
        *_families("slurm_qos_queue", ("qos",), " of a QOS", _qos),
        *_families("slurm_account_queue", ("account",), " of an account", _capped("slurm_account_queue_*", "account")),
        *_families("slurm_user_queue", ("user",), " of a user", _capped("slurm_user_queue_*", "user")),
        Family("slurm_queue_pending_jobs", GAUGE, "Waiting jobs by partition and the reason that Slurm gives." + _COUNTED_TWICE, ("partition", "reason"), _pending),
        Family("slurm_partition_pending_oldest_seconds", GAUGE, "How long ago the job that waits longest became eligible; 0 when none waits. Held, dependent and later ones do not count.", ("partition",), _oldest),
        Family("slurm_partition_pending_age_seconds", HISTOGRAM, "How long ago the jobs that wait now became eligible. It is of this moment: use it without rate()." + _COUNTED_TWICE, ("partition",), _ages),
        Family("slurm_job_wait_seconds", HISTOGRAM, "How long jobs waited from eligible to start, of jobs seen to start since slurmscope did.", ("partition", "qos"), _waits),
    ),
)  # fmt: skip
