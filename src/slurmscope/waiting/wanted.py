# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which jobs of the queue somebody means by 123, 123_4, or an array's number."""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurmscope.model import Job

_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?")


def parsed_id(text: str) -> tuple[int, int | None] | None:
    """Number and task of `123` or `123_4`; None: it is neither."""
    found = _ID.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)


def wanted(jobs: Iterable[Job], number: int, task: int | None) -> list[Job]:
    """The records that are meant: of a task, the one that it is in while the array waits."""
    if task is None:
        return [job for job in jobs if number in (job.id, job.array_id)]
    return [job for job in jobs if job.array_id == number and has_task(job.array_tasks or "", task)]


def has_task(spec: str, task: int) -> bool:
    """`4` is in `2-6%2`, in `1,3-5` and in `0-100:2`. A list that was cut short may have any task behind its end."""
    spec = spec.strip("[]").partition("%")[0]
    for item in spec.split(","):
        span, _, step = item.partition(":")
        first, dash, last = span.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            if "..." in item:
                return True
            continue
        low, high, stride = int(first), int(last) if dash else int(first), int(step) if step.isdecimal() else 1
        if low <= task <= high and (task - low) % max(1, stride) == 0:
            return True
    return False
