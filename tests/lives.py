# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs to make lives of."""

from __future__ import annotations

from typing import Any

from slurmscope.life import Accounted, Step
from slurmscope.model import Job

SUBMIT = 1_700_000_000


def job(id_: int = 1, state: str = "PENDING", **fields: Any) -> Job:
    """A job of alice's that was submitted at SUBMIT; one that runs has started 100 s later."""
    holds = state not in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
    given: dict[str, Any] = {
        "array_id": None,
        "array_tasks": None,
        "tasks": 1,
        "name": "train",
        "user": "alice",
        "account": "physics",
        "partition": "main",
        "qos": "normal",
        "reason": None if holds else "Priority",
        "priority": 100,
        "submit_time": SUBMIT,
        "eligible_time": SUBMIT,
        "start_time": SUBMIT + 100 if holds else None,
        "end_time": None,
        "time_limit": 3600,
        "cpus": 4,
        "memory": 8 << 30,
        "gpus": {},
        "nodes": 1,
        "node_list": "n1" if holds else "",
        "reservation": None,
        "dependency": None,
        "features": None,
        "licenses": None,
        "login_node": None,
        "restarts": 0,
        "exit_code": "0:0",
    }
    return Job(id=id_, state=state, **(given | fields))


def step(id_: str = "batch", **fields: Any) -> Step:
    given: dict[str, Any] = {
        "name": id_,
        "state": "COMPLETED",
        "exit_code": "0:0",
        "start_time": SUBMIT + 100,
        "end_time": SUBMIT + 1100,
        "nodes": 1,
        "tasks": 1,
        "cpus": 4,
        "cpu_seconds": 1234.5,
        "max_rss": 1 << 30,
        "memory_used": 2 << 30,
        "energy": None,
        "read_bytes": None,
        "written_bytes": None,
    }
    return Step(id=id_, **(given | fields))


def accounted(found: Job, **fields: Any) -> Accounted:
    given: dict[str, Any] = {
        "steps": (step(),) if found.node_list else (),
        "suspended_seconds": 0,
        "cpu_seconds": 1234.5 if found.end_time else None,
        "energy": None,
        "derived_exit_code": "0:0",
        "cancelled_by": None,
    }
    return Accounted(job=found, **(given | fields))
