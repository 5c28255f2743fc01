# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of slurmctld's and slurmscope's own health, made anew for each request."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable

from slurmscope import __version__
from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.process import Process
from slurmscope.metrics.view import View
from slurmscope.model import PARTS, Cost


def _parts(value: Callable[[View, str], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (((part,), value(view, part)) for part in PARTS)


def _costs(value: Callable[[Cost], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: ((asked, value(cost)) for asked, cost in view.source.costs.items() if cost.runs)


def _controllers(view: View) -> Iterable[Sample]:
    answered = view.snapshot.controllers.good
    for one in view.snapshot.controllers.value or ():
        yield (one.host, one.role), int(one.up and answered)


def _dbd(view: View) -> Iterable[Sample]:
    part = view.snapshot.accounting
    # whoever may not ask does not know
    refused = any(word in (part.error or "") for word in ("privilege", "permission", "denied"))
    asked = view.spent("accounting", lambda cost: cost.runs)
    return [((), int(part.good))] if asked and not refused else []


def _version(view: View) -> Iterable[Sample]:
    config = view.snapshot.config.value
    return [] if config is None else [((config.version,), 1)]


def _boot(view: View) -> Iterable[Sample]:
    config = view.snapshot.config.value
    return [] if config is None else [((), config.boot_time)]


def _sources(view: View) -> Iterable[Sample]:
    return (((part, source), 1) for part in PARTS if (source := view.snapshot.part(part).source))


_COMMAND = ("part", "command")

TOPIC: Topic[View] = Topic(
    "health",
    None,
    frozenset(),
    (
        Family("slurm_up", GAUGE, "1 if slurmctld told its jobs, nodes and scheduler statistics when last asked.", (), lambda view: [((), int(view.up))]),
        Family("slurm_controller_up", GAUGE, "1 if the controller answers.", ("host", "role"), _controllers),
        Family("slurm_dbd_up", GAUGE, "1 if slurmdbd gave its statistics when last asked.", (), _dbd),
        Family("slurm_version_info", GAUGE, "Always 1: Slurm's version.", ("version",), _version),
        Family("slurm_boot_timestamp_seconds", GAUGE, "When slurmctld started, as last asked (hourly).", (), _boot),
        Family("slurm_part_up", GAUGE, "1 if the part of the picture was read when last asked for.", ("part",), _parts(lambda view, part: int(view.snapshot.part(part).good))),
        Family("slurm_part_age_seconds", GAUGE, "How old what is shown of a part is. Absent until it was read once.", ("part",), _parts(lambda view, part: view.age(part))),
        Family("slurm_part_timestamp_seconds", GAUGE, "When what is shown of a part was read.", ("part",), _parts(lambda view, part: view.snapshot.part(part).time)),
        Family("slurm_source_info", GAUGE, "Always 1: how a part is read.", ("part", "source"), _sources),
        Family("slurm_source_fallbacks_total", COUNTER, "Times that a part had to be read another way, for this one failed.", ("part", "source"), lambda view: view.source.fallbacks.items()),
        Family("slurm_part_rows_skipped", GAUGE, "Rows of what is shown that could not be read and were left out.", ("part",), _parts(lambda view, part: view.snapshot.part(part).rows_skipped)),
        Family("slurm_rows_skipped_total", COUNTER, "Rows that could not be read, since the start.", ("part",), _parts(lambda view, part: view.spent(part, lambda cost: cost.rows_skipped))),
        Family("slurm_series_dropped", GAUGE, "Users, accounts or limits that the cap (metrics.top) left out of the families of this name.", ("family",), lambda view: (((family,), count) for family, count in list(view.dropped.items()))),
        Family("slurm_render_failures_total", COUNTER, "Times that a group of families could not be made; the one before is shown.", ("topic",), lambda view: (((topic,), count) for topic, count in list(view.failures.items()))),
        Family("slurm_command_runs_total", COUNTER, "Commands run.", _COMMAND, _costs(lambda cost: cost.runs)),
        Family("slurm_command_failures_total", COUNTER, "Commands that failed, were killed, or answered something else.", _COMMAND, _costs(lambda cost: cost.failures)),
        Family("slurm_command_seconds_total", COUNTER, "Time that commands took, reading their answer included.", _COMMAND, _costs(lambda cost: cost.seconds)),
        Family("slurm_command_last_seconds", GAUGE, "Time that the last run took, reading its answer included.", _COMMAND, _costs(lambda cost: cost.last_seconds)),
        Family("slurm_command_read_bytes_total", COUNTER, "Output that was read.", _COMMAND, _costs(lambda cost: cost.bytes)),
    ),
)  # fmt: skip


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


SERVICE: Topic[View] = Topic(
    "service",
    None,
    frozenset(),
    (
        Family("slurm_scrapes_total", COUNTER, "Answers given to requests for a page of metrics, by status.", ("code",), lambda view: (((str(code),), count) for code, count in sorted(view.requests.total.items()))),
        Family("slurm_children_cpu_seconds_total", COUNTER, "CPU time of the commands that were run.", (), lambda view: [((), _children_cpu())]),
        Family("slurmscope_info", GAUGE, "Always 1: slurmscope's version.", ("version",), lambda view: [((__version__,), 1)]),
    ),
    common=True,
)  # fmt: skip


def _process(value: Callable[[Process], float]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: [((), value(view.process))]


PROCESS: Topic[View] = Topic(
    "process",
    None,
    frozenset(),
    (
        Family("process_cpu_seconds_total", COUNTER, "Total user and system CPU time spent in seconds.", (), _process(lambda one: one.cpu)),
        Family("process_max_fds", GAUGE, "Maximum number of open file descriptors.", (), _process(lambda one: one.most_files)),
        Family("process_open_fds", GAUGE, "Number of open file descriptors.", (), _process(lambda one: one.files)),
        Family("process_resident_memory_bytes", GAUGE, "Resident memory size in bytes.", (), _process(lambda one: one.resident)),
        Family("process_start_time_seconds", GAUGE, "Start time of the process since unix epoch in seconds.", (), _process(lambda one: one.started)),
        Family("process_virtual_memory_bytes", GAUGE, "Virtual memory size in bytes.", (), _process(lambda one: one.virtual)),
        Family("process_virtual_memory_max_bytes", GAUGE, "Maximum amount of virtual memory available in bytes.", (), _process(lambda one: one.most_virtual)),
    ),
    common=True,
)  # fmt: skip
