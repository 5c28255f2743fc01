# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The newest reports, and bodies that are small until they are unpacked."""

from __future__ import annotations

import gzip

import msgspec
import pytest
from measured.agents import measure, report

from slurmscope.measured import bodies, reports
from slurmscope.measured.reports import NoRoom, Reports

NOW = 1_700_000_000.0


def test_a_node_that_told_of_nothing_first_is_bounded_like_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MOST_JOBS", 10)
    found = Reports(clock=lambda: NOW)
    jobs = [measure(id_, 1) for id_ in range(1, 9)]
    for node in ("n1", "n2"):
        found.take(report(node, NOW - 10))
    found.take(report("n1", NOW, *jobs))
    with pytest.raises(NoRoom, match="2 nodes with 8 jobs"):
        found.take(report("n2", NOW, *jobs))
    found.take(report("n1", NOW + 1, *jobs))
    found.take(report("n2", NOW, *jobs[:2]))


def test_who_was_heard_from_is_told_without_changing_anything() -> None:
    clock = [NOW]
    found = Reports(clock=lambda: clock[0])
    found.take(report("n1", NOW - 10, measure(1, 1)))
    found.take(report("n2", NOW))
    assert [(node, when) for _, node, when in found.heard()] == [("n1", NOW - 10), ("n2", NOW)]
    version = found.version
    clock[0] += 295
    assert [node for _, node, _ in found.heard()] == ["n2"]
    assert found.version == version


def test_a_node_that_is_known_may_report_though_there_is_room_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_MOST_NODES", 1)
    found = Reports(clock=lambda: NOW)
    found.take(report("n1", NOW - 1))
    found.take(report("n1", NOW, measure(1, 1)))
    with pytest.raises(NoRoom):
        found.take(report("n2", NOW))


def test_what_is_small_until_it_is_unpacked_is_not_read_at_once() -> None:
    raw = msgspec.json.encode(report("n1", NOW, measure(1, 1)))
    for body, encoding in ((raw, ""), (gzip.compress(raw), "gzip"), (gzip.compress(raw), " GZIP")):
        told = bodies.quick(body, encoding, NOW)
        assert told is not None and told[0].jobs[0].job == 1
    bomb = gzip.compress(raw[:-1] + b" " * 10_000_000 + b"}")
    assert len(bomb) < 16 << 10
    assert bodies.quick(bomb, "gzip", NOW) is None
    assert bodies.quick(b"no gzip", "gzip", NOW) is None, "the words for it are elsewhere"
    assert len(bodies.reports(bomb, "gzip", NOW)) == 1
