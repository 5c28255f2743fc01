# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages are made of is remembered from one reader to the next: nobody is told what they would not be told else,
and nothing is older than the last poll."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from lives import accounted
from msgspec.structs import replace
from web import sites, town
from web.client import Client, Got
from web.test_access import HERS, HIS, LOOKS, filled

from slurmscope.life import told
from slurmscope.metrics.pages import Edition
from slurmscope.model import Job, Part
from slurmscope.web.portal import Portal
from slurmscope.web.site import Site

_KEY = re.compile(r'name="key" value="[0-9a-f]+"')
PEOPLE = (town.SAM, town.ALICE, town.CAROL, town.BOB)
QUERIES = ("", "?user=*&time=all", "?span=7d", "?days=90", "?view=table")
ADDRESSES = sorted(
    {
        filled(path, things, form) + query
        for route, path, form in LOOKS
        for things in (HERS, HIS)
        for query in (QUERIES if form in route.forms[:2] else QUERIES[:1])
        # drawn by what has its own idea of the time; and each /shared, /sign-in has a key in it
        if form != "pdf" and route.name not in ("pdf", "plot", "pie", "health", "openapi", "api")
    }
)


def shown(got: Got) -> tuple[int, str]:
    return got.status, _KEY.sub("", got.text)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, str]]:
    """What each is told by a portal that nobody else has asked."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for name in PEOPLE:
        with town.opened(tmp_path_factory.mktemp(name)) as portal:
            client = town.as_(portal, name)
            found |= {(name, one): shown(client.get(one)) for one in ADDRESSES}
    return found


@pytest.mark.parametrize("order", [PEOPLE, PEOPLE[::-1]], ids=["staff first", "staff last"])
def test_who_asked_before_changes_nothing(
    tmp_path: Path, alone: dict[tuple[str, str], tuple[int, str]], order: Sequence[str]
) -> None:
    with town.opened(tmp_path) as portal:
        clients = {name: town.as_(portal, name) for name in order}
        for address in ADDRESSES:
            for name in order:
                assert shown(clients[name].get(address)) == alone[name, address], (name, address)


def test_the_language_of_who_asked_before_changes_nothing(
    tmp_path: Path, alone: dict[tuple[str, str], tuple[int, str]]
) -> None:
    with town.opened(tmp_path) as portal:
        for name in (town.SAM, town.ALICE):
            client = town.as_(portal, name)
            other = Client(portal, headers={"x-remote-user": name, "cookie": "language=fr; zone=Asia/Kolkata"})
            for address in ADDRESSES:
                other.get(address)
                assert shown(client.get(address)) == alone[name, address], (name, address)


# --- polls ------------------------------------------------------------------------------------------------------------


class Town:
    """A portal whose cluster can be polled again."""

    def __init__(self, folder: Path) -> None:
        self._snapshot = town.snapshot()
        self._time = town.NOW
        settled = town.settled(folder)
        self.up = True
        edition = lambda: [Edition(self._snapshot, self.up, lambda: self._time)]  # noqa: E731
        self.site = Site(settled.settings, settled.url, edition, lambda: self._time)
        settled.close()
        self.portal: Portal = sites.portal_of(self.site)

    def poll(self, **parts: object) -> None:
        """A second later."""
        self._time += 1
        known = {name: Part(value, float(self._time), "text") for name, value in parts.items()}
        self._snapshot = self._snapshot.replaced(**known)

    def later(self, seconds: int) -> None:
        self._time += seconds

    def keep(self, job: Job) -> None:
        sites.keep(self.site, [told(None, town.CLUSTER, accounted(job), self._time)])


def again(id_: int) -> Job:
    """The same as one that is over, by another number."""
    done = next(one for one in town.lives() if one.id == id_)
    return Job(*[getattr(replace(done, id=77), name) for name in Job.__struct_fields__])


@pytest.fixture
def polled(tmp_path: Path) -> Iterator[Town]:
    found = Town(tmp_path)
    yield found
    found.portal.close()


def staff(polled: Town) -> Client:
    return town.as_(polled.portal, town.SAM)


def test_the_first_page_is_of_the_last_poll(polled: Town) -> None:
    client, here = staff(polled), f"/clusters/{town.CLUSTER}.json"
    assert client.get(here).json["queue"]["waiting"]["tasks"] == 2
    polled.poll(jobs=town.QUEUE[:1])
    found = client.get(here).json
    assert (found["queue"]["waiting"]["tasks"], found["queue"]["running"]) == (0, 1)
    polled.poll(nodes=())
    assert client.get(here).json["nodes"] == {}


@pytest.mark.parametrize(
    "address",
    [f"/users/{town.ALICE}.json", f"/clusters/{town.CLUSTER}/accounts/{town.PHYSICS}.json"],
    ids=["user", "account"],
)
def test_what_was_used_is_of_the_last_poll(polled: Town, address: str) -> None:
    client = staff(polled)
    before = client.get(address).json
    polled.keep(again(town.HER_JOB))
    polled.poll(jobs=town.QUEUE[:1])
    after = client.get(address).json
    assert after["used"]["ended"] == before["used"]["ended"] + 1
    assert (before["now"]["waiting"], after["now"]["waiting"]) == (1, 0)


def test_what_others_have_kept_is_shown_without_a_poll(polled: Town) -> None:
    """`import`, for one, and what the accounting told."""
    client, here = staff(polled), f"/users/{town.ALICE}.json"
    before = client.get(here).json["used"]["ended"]
    polled.keep(again(town.HER_JOB))
    assert client.get(here).json["used"]["ended"] == before + 1


def test_the_report_of_a_cluster_is_of_the_last_poll(polled: Town) -> None:
    client, here = staff(polled), f"/clusters/{town.CLUSTER}/report.json?days=7"
    before = client.get(here).json["used"]["ended"]
    polled.keep(again(town.HER_JOB))
    polled.later(60)
    polled.poll(jobs=town.QUEUE)
    assert client.get(here).json["used"]["ended"] == before + 1


def test_the_report_of_a_cluster_goes_on_while_its_queue_cannot_be_read(polled: Town) -> None:
    """slurmctld may be away while the accounting tells of what ended."""
    client, here = staff(polled), f"/clusters/{town.CLUSTER}/report.json?days=7"
    polled.up = False
    before = client.get(here).json["used"]["ended"]
    polled.keep(again(town.HER_JOB))
    polled.later(60)
    polled.poll(nodes=())
    assert client.get(here).json["used"]["ended"] == before + 1


def test_what_is_imported_has_a_report_at_once(polled: Town) -> None:
    client, here = staff(polled), f"/clusters/{town.CLUSTER}/report?month=2025-11"
    assert client.get(here).status == 404
    start = 1_762_300_000  # in November
    polled.keep(
        replace(again(town.HER_JOB), submit_time=start, eligible_time=start, start_time=start, end_time=start + 9)
    )
    assert client.get(here).status == 200


def test_who_coordinates_no_more_sees_no_more(polled: Town) -> None:
    carol, address = town.as_(polled.portal, town.CAROL), f"/clusters/{town.CLUSTER}/accounts/{town.PHYSICS}"
    assert carol.get(address).status == 200
    polled.poll(coordinators=())
    assert carol.get(address).status == 404


# --- time -------------------------------------------------------------------------------------------------------------


def test_nothing_is_kept_longer_than_it_may_and_not_all_ends_at_once(polled: Town) -> None:
    keys, ends = range(50), set()
    made: list[int] = []
    for second in range(61):
        for key in keys:
            before = len(made)
            polled.site.for_a_while(("a", key), 60, partial(made.append, key))
            if second and len(made) > before:
                ends.add(second)
        polled.poll()
    assert sorted(made) == sorted([*keys, *keys]), "each was made once, and once more within the minute"
    assert len(ends) > 1


def test_what_the_store_tells_is_read_again_though_nothing_was_polled(polled: Town) -> None:
    client, here = staff(polled), f"/clusters/{town.CLUSTER}.json"
    before = client.get(here).json["started"]
    polled.keep(replace(again(town.HER_JOB), start_time=town.NOW - 60, end_time=town.NOW - 1))
    polled.later(16)
    assert client.get(here).json["started"] != before
