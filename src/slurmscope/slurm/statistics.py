# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The reports that slurmctld and slurmdbd give of themselves: `sdiag` and `sacctmgr show stats`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from slurmscope.model import Accounting, Backfill, Cycles, Rpc, Scheduler
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode
from slurmscope.slurm.values import ABSENT

# The user's name may hold dots, spaces and brackets: it ends where the number in brackets before `count:` begins.
_RPC = re.compile(r"\s*(.*?)\s*\(\s*(\d+)\)\s+count:(\d+)(?:\s+ave_time:\d+\s+total_time:(\d+))?\s*$")
_STAMPED = re.compile(r"(.*?)\s+(?:\S+ \S+ +\S+ \S+ \S+|\S+) \((\d+)\)$")
_HEADINGS = {
    "Main schedule statistics": "main",
    "Main scheduler exit": "main exit",
    "Backfilling stats": "backfill",
    "Backfill exit": "backfill exit",
    "Remote Procedure Call statistics by message type": "rpcs by type",
    "Remote Procedure Call statistics by user": "rpcs by user",
    "Pending RPC statistics": "rpcs pending",
    "Pending RPCs": "rpcs pending by host",
    "Internal DBD rollup": "rollup",
}
_MICROS = 1e6


class _Report:
    """The lines of a report by the heading that they stand under: `key: value` pairs and RPCs."""

    def __init__(self, data: bytes) -> None:
        self._pairs: dict[tuple[str, str], str] = {}
        self._rpcs: dict[str, list[Rpc]] = {}
        self._stamps: dict[str, int] = {}
        section = ""
        for line in decode(data).split("\n"):
            if not line.strip() or line.startswith("*"):
                continue
            if line[0] not in "\t ":
                section = next((name for start, name in _HEADINGS.items() if line.startswith(start)), "")
            elif rpc := _RPC.match(line):
                name, id_, calls, micros = rpc.groups()
                found = Rpc(name, int(id_), int(calls), int(micros or 0) / _MICROS)
                self._rpcs.setdefault(section, []).append(found)
                continue
            if stamped := _STAMPED.match(line):
                self._stamps[stamped[1].strip().rstrip(":")] = int(stamped[2])
                continue
            key, colon, value = line.partition(":")
            if colon and value.strip():
                self._pairs.setdefault((section, key.strip()), value.strip())

    def stamp(self, key: str) -> int | None:
        return self._stamps.get(key)

    def number(self, section: str, key: str) -> int | None:
        value = self._pairs.get((section, key))
        return None if value is None or value in ABSENT else int(value.split()[0])

    def count(self, section: str, key: str) -> int:
        found = self.number(section, key)
        if found is None:
            raise Malformed(f"no {key!r} in the {section or 'first'} section")
        return found

    def seconds(self, section: str, key: str) -> float | None:
        micros = self.number(section, key)
        return None if micros is None else micros / _MICROS

    def exits(self, section: str) -> dict[str, int]:
        return {key: int(value) for (where, key), value in self._pairs.items() if where == section}

    def rpcs(self, section: str) -> tuple[Rpc, ...]:
        return merged(self._rpcs.get(section, ()))


def merged(rpcs: Iterable[Rpc]) -> tuple[Rpc, ...]:
    """One for each name: where users cannot be looked up, 22.05 calls every one of them `nobody`."""
    found: dict[str, Rpc] = {}
    for rpc in rpcs:
        if same := found.get(rpc.name):
            rpc = Rpc(rpc.name, same.id, same.calls + rpc.calls, same.seconds + rpc.seconds)  # noqa: PLW2901
        found[rpc.name] = rpc
    return tuple(found.values())


def _cycles(report: _Report, section: str, mean_depth: str) -> Cycles:
    per_minute = report.number(section, "Cycles per minute")
    return Cycles(
        total=report.count(section, "Total cycles"),
        last_seconds=report.count(section, "Last cycle") / _MICROS,
        max_seconds=report.count(section, "Max cycle") / _MICROS,
        mean_seconds=report.seconds(section, "Mean cycle"),
        mean_depth=report.number(section, mean_depth),
        last_queue_length=report.count(section, "Last queue length"),
        per_minute=per_minute,
        exits=report.exits(f"{section} exit"),
    )


_JOB_EVENTS = ("submitted", "started", "completed", "canceled", "failed")


def parse_scheduler(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Scheduler]:
    """`sdiag`, whose main and backfill sections have lines of the same name."""
    report = _Report(data)
    time, since = report.stamp("sdiag output at"), report.stamp("Data since")
    if time is None or since is None:
        raise Malformed("no times at the head of sdiag's output")
    backfill = "backfill"
    return Parsed(
        Scheduler(
            time=time,
            since=since,
            threads=report.count("", "Server thread count"),
            agent_queue=report.count("", "Agent queue size"),
            agents=report.number("", "Agent count") or 0,
            agent_threads=report.number("", "Agent thread count") or 0,
            dbd_queue=report.count("", "DBD Agent queue size"),
            jobs={event: report.count("", f"Jobs {event}") for event in _JOB_EVENTS},
            job_states={
                state: found
                for state in ("pending", "running")
                if (found := report.number("", f"Jobs {state}")) is not None
            },
            job_states_time=report.stamp("Job states ts"),
            main=_cycles(report, "main", "Mean depth cycle"),
            backfill=_cycles(report, backfill, "Depth Mean"),
            backfill_more=Backfill(
                jobs_since_start=report.count(backfill, "Total backfilled jobs (since last slurm start)"),
                jobs_since_cycle=report.count(backfill, "Total backfilled jobs (since last stats cycle start)"),
                het_components=report.number(backfill, "Total backfilled heterogeneous job components") or 0,
                last_when=report.stamp("Last cycle when"),
                last_depth=report.count(backfill, "Last depth cycle"),
                last_depth_tried=report.count(backfill, "Last depth cycle (try sched)"),
                mean_depth_tried=report.number(backfill, "Depth Mean (try depth)"),
                mean_queue_length=report.number(backfill, "Queue length mean"),
                last_table_size=report.number(backfill, "Last table size"),
                mean_table_size=report.number(backfill, "Mean table size"),
            ),
            latency_seconds=report.seconds("", "Latency for 1000 calls to gettimeofday()"),
            rpcs=report.rpcs("rpcs by type"),
            rpc_users=report.rpcs("rpcs by user"),
            rpcs_pending={rpc.name: rpc.calls for rpc in report.rpcs("rpcs pending")},
        )
    )


def parse_accounting(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Accounting]:
    report = _Report(data)
    time, since = report.stamp("sacctmgr show stats output at"), report.stamp("Data since")
    if time is None or since is None:
        raise Malformed("no times at the head of slurmdbd's statistics")
    return Parsed(
        Accounting(
            time=time,
            since=since,
            rollup_last=report.stamp("Internal DBD rollup last ran"),
            rollup_cycles=report.number("rollup", "Total cycles"),
            rollup_seconds=report.seconds("rollup", "Total time"),
            rollup_last_seconds=report.seconds("rollup", "Last cycle"),
            rollup_max_seconds=report.seconds("rollup", "Max cycle"),
            rpcs=report.rpcs("rpcs by type"),
            rpc_users=report.rpcs("rpcs by user"),
        )
    )
