# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes, reservations, other jobs, licences, times and arrays that a job waits for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import job
from waiting.snapshots import NOW, account, licence, node, reservation, snapshot

from slurmscope.model import Job, Snapshot
from slurmscope.waiting.case import Fact, licenses_of, most, some
from slurmscope.waiting.explanation import explain


def told(one: Job, known: Snapshot) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in explain(one, known, None, NOW).facts:
        found.setdefault(fact.name, []).append(fact)
    return found


# --- nodes and reservations -------------------------------------------------------------------------------------------

DRAINED = node("n1", flags=frozenset({"DRAIN"}), reason="bad dimm", reason_time=int(NOW) - 60)


def test_the_nodes_that_slurm_names_are_told_with_their_state() -> None:
    known = snapshot(nodes=(DRAINED, node("n2", state="DOWN", reason="dead")))
    found = told(job(1, reason="ReqNodeNotAvail, UnavailableNodes:n1"), known)["nodes"]
    assert [fact.values for fact in found] == [{"nodes": ["n1"], "state": "IDLE+DRAIN", "reason": "bad dimm"}]
    assert found[0].text.startswith("n1: IDLE+DRAIN, bad dimm, since 2023-")


def test_where_none_are_named_those_that_take_no_job_are_told() -> None:
    found = told(job(1, reason="NodeDown"), snapshot(nodes=(DRAINED, node("n2"))))
    assert found["nodes"][0].values["nodes"] == ["n1"]
    assert found["away"][0].text == "1 of 2 nodes of main take no job now"


def test_a_list_of_nodes_that_cannot_be_read_is_shown() -> None:
    found = told(job(1, reason="ReqNodeNotAvail, UnavailableNodes:n[1-"), snapshot())
    assert found["nodes"][0].text == "Slurm names n[1-"


def test_a_maintenance_ahead_says_how_short_a_job_would_go_before_it() -> None:
    found = told(job(1, reason="ReqNodeNotAvail", time_limit=7200), snapshot(reservations=(reservation(),)))
    assert found["reserved"][0].text.startswith("maintenance maint, from ")
    assert found["shorter"][0].values == {"seconds": 3600, "reservation": "maint"}
    short = told(job(1, reason="ReqNodeNotAvail", time_limit=60), snapshot(reservations=(reservation(),)))
    assert "reserved" not in short


def test_a_maintenance_that_holds_says_when_nodes_come_back() -> None:
    now = reservation(start_time=int(NOW) - 60, end_time=int(NOW) + 3600)
    found = told(job(1, reason="ReqNodeNotAvail, Reserved for maintenance"), snapshot(reservations=(now,)))
    assert "(in 1 h 0 min): n1" in found["reserved"][0].text
    assert found["reserved"][0].values["end"] == NOW + 3600


def test_its_own_reservation() -> None:
    own = reservation("course", flags=())
    found = told(job(1, reason="Reservation", reservation="course"), snapshot(reservations=(own,)))
    assert found["reservation"][0].text.startswith("reservation course, from ")
    active = reservation("course", flags=(), start_time=int(NOW) - 1)
    inside = (job(2, "RUNNING", user="bob", reservation="course"),)
    found = told(job(1, reason="Reservation", reservation="course"), snapshot(reservations=(active,), jobs=inside))
    assert found["held by"][0].values == {"users": {"bob": 1}}
    gone = told(job(1, reason="ReservationDeleted", reservation="course"), snapshot())
    assert gone["reservation"][0].text == "there is no reservation course now"


# --- other jobs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dependency", "texts"),
    [
        ("afterok:2(unfulfilled)", ["afterok 2 (train, of bob): RUNNING"]),
        ("afterok:77(failed)", ["afterok 77: failed, and not in the queue any more"]),
        ("afterany:2:77", ["afterany 2 (train, of bob): RUNNING", "afterany 77: not in the queue any more"]),
        ("afterok:8_*(unfulfilled)", ["afterok 8_* (train, of bob): 1 RUNNING, 4 PENDING"]),
        ("aftercorr:8_3", ["aftercorr 8_3 (train, of bob): RUNNING"]),
        ("after:2+30(unfulfilled)", ["after 2 (train, of bob): RUNNING"]),
        ("afterok:2?afterok:77", [
            "afterok 2 (train, of bob): RUNNING",
            "afterok 77: not in the queue any more",
            "one of them is enough",
        ]),
        (None, ["what it depends on is not told"]),
    ],
)  # fmt: skip
def test_what_it_depends_on(dependency: str | None, texts: list[str]) -> None:
    queue = (
        job(2, "RUNNING", user="bob"),
        job(8, "RUNNING", user="bob", array_id=8, array_tasks="3"),
        job(9, user="bob", array_id=8, array_tasks="4-7", tasks=4),
    )
    found = told(job(1, reason="Dependency", dependency=dependency), snapshot(jobs=queue))
    assert [fact.text for fact in found["dependency"]] == texts


def test_a_singleton_waits_for_those_of_its_name() -> None:
    own = job(5, reason="Dependency", dependency="singleton(unfulfilled)")
    queue = (own, job(2, "RUNNING"), job(3, name="other"), job(4, user="bob"), job(6))
    found = told(own, snapshot(jobs=queue))["dependency"]
    assert found[0].text == "singleton: 1 earlier job of alice with the name train"


# --- licences, times, arrays ------------------------------------------------------------------------------------------


def test_licences() -> None:
    queue = (job(2, "RUNNING", user="bob", licenses="matlab:3"), job(3, "RUNNING", licenses="matlab"))
    known = snapshot(licenses=(licence("matlab", 10, 4), licence("few", 1, 0)), jobs=queue)
    found = told(job(1, reason="Licenses", licenses="matlab:9,gone:1,few:2"), known)
    assert found["licence"][0].text == "matlab: 10 in all, 4 used, 6 free; this job needs 9, 3 too many"
    assert found["licence"][1].text == "gone: there is none of that name"
    assert found["licence"][2].text.endswith("which is more than there are: it can never start")
    assert found["held by"][0].values["users"] == {"bob": 3, "alice": 1}


@given(st.text(max_size=60))
def test_any_text_is_some_licences(text: str) -> None:
    assert all(name and count >= 0 for name, count in licenses_of(text).items())


def test_when_it_may_begin() -> None:
    later = told(job(1, reason="BeginTime", eligible_time=int(NOW) + 60), snapshot())
    assert later["begins"][0].values == {"time": NOW + 60}
    unknown = told(job(1, reason="BeginTime", eligible_time=None), snapshot())
    assert unknown["begins"][0].text == "when it may begin is not told"


def test_an_array_that_holds_itself_back() -> None:
    queue = (
        job(9, reason="JobArrayTaskLimit", array_id=8, array_tasks="3-9%2", tasks=7),
        job(8, "RUNNING", array_id=8, array_tasks="1"),
        job(7, "RUNNING", array_id=8, array_tasks="2"),
    )
    found = told(queue[0], snapshot(jobs=queue))
    assert found["array"][0].values == {"running": 2, "limit": 2, "waiting": 7}


def test_what_slurm_says_of_a_job_that_it_held_is_shown() -> None:
    found = told(job(1, reason="launch failed requeued held", restarts=3), snapshot())
    assert found["says"][0].text == "launch failed requeued held"
    assert found["restarts"][0].values == {"restarts": 3}


def test_a_share_below_what_the_qos_asks_for() -> None:
    shares = (account("physics", "root", fair_share=0.25), account("physics", user="alice", fair_share=0.01))
    found = told(job(1, reason="QOSUsageThreshold"), snapshot(shares=shares))
    assert [fact.values["share"] for fact in found["fair share"]] == [0.25, 0.01]


def test_of_many_the_first_are_named() -> None:
    assert most({"a": 1, "b": 5, "c": 2, "d": 2, "e": 1}) == "b 5, c 2, d 2 and 2 others"
    assert some(["n1", "n2", "n3", "n4"]) == "n1, n2, n3 and 1 more"
