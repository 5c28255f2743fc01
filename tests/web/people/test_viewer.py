# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who sees what: one's own, the accounts that one coordinates with those below them, or everything."""

from __future__ import annotations

import pytest

from slurmscope.model import Coordinator, Part, Share, Snapshot
from slurmscope.settings import Portal
from slurmscope.store.protocol import Sight
from slurmscope.web.people.viewer import NOBODY, Viewer, viewer_of

TREE = {"physics": "root", "optics": "physics", "lasers": "optics", "chemistry": "root"}


def share(account: str, parent: str | None, user: str | None = None) -> Share:
    return Share(account, user, None, parent, 0, None, None, None, None, None, None, None)


def cluster(name: str, *coordinators: Coordinator, known: bool = True) -> Snapshot:
    rows = [share("root", None), *(share(account, parent) for account, parent in TREE.items())]
    rows += [share("lasers", "optics", "dora"), share("chemistry", "root", "carol")]
    return Snapshot(
        cluster=name,
        shares=Part(value=tuple(rows)),
        coordinators=Part(value=coordinators if known else None),
    )


CLUSTERS = [
    cluster("alpha", Coordinator("physics", "bob"), Coordinator("chemistry", "carol"), Coordinator("lasers", "carol")),
    cluster("beta", Coordinator("lasers", "bob")),
    cluster("gamma", known=False),
]


def viewer(name: str) -> Viewer:
    return viewer_of(name, Portal(staff=["root", "eve"]), CLUSTERS)


def test_who_coordinates_an_account_does_so_for_those_below_it() -> None:
    assert viewer("bob").leads == {("alpha", "physics"), ("alpha", "optics"), ("alpha", "lasers"), ("beta", "lasers")}
    assert viewer("carol").leads == {("alpha", "chemistry"), ("alpha", "lasers")}
    assert viewer("dora").leads == frozenset()


@pytest.mark.parametrize(
    ("name", "job", "seen"),
    [
        ("dora", ("alpha", "dora", "lasers"), True),
        ("dora", ("gamma", "dora", "whatever"), True),
        ("dora", ("alpha", "carol", "lasers"), False),
        ("dora", ("alpha", "", ""), False),
        ("bob", ("alpha", "dora", "lasers"), True),
        ("bob", ("beta", "dora", "lasers"), True),
        ("bob", ("beta", "dora", "optics"), False),
        ("bob", ("alpha", "dora", "chemistry"), False),
        ("bob", ("gamma", "dora", "lasers"), False),
        ("eve", ("gamma", "dora", "lasers"), True),
        ("", ("alpha", "", "lasers"), False),
        ("Dora", ("alpha", "dora", "lasers"), False),
    ],
)
def test_jobs(name: str, job: tuple[str, str, str], seen: bool) -> None:
    assert viewer(name).sees_job(*job) is seen


def test_an_account_is_for_who_leads_it_and_a_person_for_oneself() -> None:
    assert viewer("bob").sees_account("alpha", "optics")
    assert not viewer("dora").sees_account("alpha", "lasers"), "a member sees only the own figures"
    assert viewer("dora").sees_user("dora") and not viewer("bob").sees_user("dora")
    for staff in (viewer("eve"), NOBODY):
        assert staff.sees_user("dora") and staff.sees_account("gamma", "x") and staff.sees_user("")
    assert not viewer("").sees_user("")


def test_a_store_is_asked_for_the_same() -> None:
    assert viewer("bob").sight == Sight("bob", viewer("bob").leads)
    assert viewer("dora").sight == Sight("dora")
    assert viewer("eve").sight is None and NOBODY.sight is None


def test_a_tree_that_turns_in_a_circle_ends() -> None:
    rows = (share("a", "b"), share("b", "a"))
    there = Snapshot(cluster="x", shares=Part(value=rows), coordinators=Part(value=(Coordinator("a", "bob"),)))
    assert viewer_of("bob", Portal(), [there]).leads == {("x", "a"), ("x", "b")}
    unknown = Snapshot(cluster="x", coordinators=Part(value=(Coordinator("a", "bob"),)))
    assert viewer_of("bob", Portal(), [unknown]).leads == {("x", "a")}
