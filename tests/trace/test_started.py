# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""When a process began, as its sender tells it."""

from __future__ import annotations

import json

import pytest

from slurmscope.trace import body

NOW = 1_800_000_000.0
GOOD = {"job_id": 1, "pid": 2, "cpus": 0, "threads": 1, "mem": 1, "hostname": "n1"}


def read(**more: float | None) -> body.Body:
    (found,) = body.read(json.dumps({**GOOD, **more}).encode(), NOW)
    return found


def test_it_may_be_long_ago_or_left_out() -> None:
    assert read(time=NOW, started=NOW - 1e7).started == NOW - 1e7
    assert read(time=NOW, started=NOW).started == NOW
    assert read(started=NOW).started == NOW
    assert read().started is None and read(started=None).started is None


@pytest.mark.parametrize("more", [{"time": NOW, "started": NOW + 1}, {"started": NOW + 61}, {"started": -1.0}])
def test_it_is_not_later_than_the_sample(more: dict[str, float]) -> None:
    with pytest.raises(body.WrongBody, match="started: "):
        read(**more)
