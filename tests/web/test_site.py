# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What threads share of a site, and what they must not; a store that is away."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lives import accounted, job
from web import sites, town

from slurmscope.life import told
from slurmscope.settings import Settings
from slurmscope.store import place
from slurmscope.store.protocol import Store, Unreachable
from slurmscope.web.site import Site

DAY = 86400


def test_each_thread_has_reports_of_its_own(tmp_path: Path) -> None:
    """They learn of the past as they are asked, and one would mix up what another has read."""
    site = town.settled(tmp_path)
    both = threading.Barrier(2)

    def own(discreet: bool) -> list[int]:
        both.wait(60)
        found = [site.reports(discreet=discreet), site.reports(discreet=discreet)]
        both.wait(60)  # while both are there, none has the place of another
        return list(map(id, found))

    with ThreadPoolExecutor(2) as readers:
        (one, again), (other, also) = readers.map(own, (False, False))
    assert one == again and other == also and one != other
    site.close()


def test_readers_at_once_are_told_the_same_as_one_alone(tmp_path: Path) -> None:
    site = town.settled(tmp_path)
    failed = [(20000 + 10 * day + at, town.NOW - day * DAY - at * 60 - 5000) for day in range(100) for at in range(10)]
    mine = {"user": town.ALICE, "account": town.PHYSICS, "name": "w"}
    sites.keep(
        site,
        [
            told(
                None,
                town.CLUSTER,
                accounted(
                    job(id_, "NODE_FAIL", submit_time=t - 200, start_time=t - 100, end_time=t, node_list="n1", **mine)
                ),
                t,
            )
            for id_, t in failed
        ],
    )
    portal = sites.portal_of(site)
    asked = [f"/clusters/{town.CLUSTER}/jobs/{id_}.json" for id_, _ in failed[::40]]
    alone = [town.as_(portal, town.ALICE).get(one).json["findings"] for one in asked]
    assert any(alone)
    with ThreadPoolExecutor(4) as readers:
        for found in readers.map(
            lambda turn: {one: town.as_(portal, town.ALICE).get(one).json["findings"] for one in asked[::turn]},
            (1, -1, 1, -1),
        ):
            assert [found[one] for one in asked] == alone
    portal.close()


def test_a_store_that_is_away_is_tried_by_one_and_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries: list[str] = []
    many = threading.Barrier(6)

    def away(url: str) -> Store:
        tries.append(url)
        raise Unreachable("nobody answers")

    monkeypatch.setattr(place, "open_store", away)
    site = Site(Settings(), "mongodb://127.0.0.1:1/x", list, lambda: 0.0)

    def ask(_: int) -> str:
        many.wait(60)
        with pytest.raises(Unreachable, match="nobody answers"):
            site.store.clusters()
        return "told"

    with ThreadPoolExecutor(6) as readers:
        assert list(readers.map(ask, range(6))) == ["told"] * 6
    assert len(tries) == 1
