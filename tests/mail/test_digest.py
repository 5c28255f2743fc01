# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A person's week: who gets one, and what it says."""

from __future__ import annotations

import pytest
from findings import cases
from mail.kept import life

from slurmscope.findings.cost import Prices
from slurmscope.findings.rule import Finding, Waste
from slurmscope.mail.digest import Judged, digest, felt, ratios, spared
from slurmscope.reports.mail import parts
from slurmscope.settings import Cost, Mail

END = cases.START + 10 * cases.RAN


def job(number: int, share: float, hours: int = 2) -> Judged:
    """With one GPU for so many hours, of which this share was wasted."""
    found = life(number, END, ran=hours * 3600)
    waste = Waste(gpu_seconds=share * hours * 3600)
    finding = Finding("its GPU was hardly used", "", "Ask for none.", waste=waste, rule="low_gpu", severity="bad")
    return Judged(found, (finding,) if share else ())


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([job(at, 0.9) for at in range(10)], None),
        ([job(at, 0.9) for at in range(5)], "too little was wasted"),
        ([job(at, 0.0) for at in range(50)], "too little was wasted"),
        # one large bad job among many good ones: the median says no
        ([job(0, 1.0, 100), *(job(at, 0.0) for at in range(1, 10))], "too small a share was wasted"),
        # many small bad jobs beside a large good one: the sum says no
        ([job(0, 0.0, 400), *(job(at, 0.9) for at in range(1, 20))], "too small a share was wasted"),
        # half of the jobs, and more than half of the hours
        ([*(job(at, 0.9) for at in range(10)), *(job(at, 0.0) for at in range(10, 19))], None),
        ([], "too little was wasted"),
    ],
)
def test_three_ratios_before_anybody_is_told(jobs: list[Judged], why: str | None) -> None:
    found = spared(ratios(jobs, END), Mail())
    assert found is None if why is None else found is not None and found.startswith(why)


def test_wastes_of_one_job_are_not_added_up() -> None:
    one = job(1, 0.9)
    twice = Judged(one.life, (one.findings[0], one.findings[0]))
    assert twice.waste == one.waste
    assert ratios([twice], END)["GPU"].overall == pytest.approx(0.9)


def test_what_a_node_lost_is_not_counted() -> None:
    lost = Finding(
        "a node failed under it", "", "", lost=Waste(gpu_seconds=720_000), rule="node_failure", severity="bad"
    )
    jobs = [Judged(job(at, 0.0).life, (lost,)) for at in range(10)]
    assert (spared(ratios(jobs, END), Mail()) or "").startswith("too little was wasted")
    made = digest("alice", [*jobs, job(11, 0.5)], Prices(), {}, since=END - 7 * 86400, until=END)
    assert "Of 11 jobs 1 could have asked for less." in made.verdict.lead
    assert [row[0].value for row in made.tables()[0].rows] == ["low_gpu"]


def test_what_it_says() -> None:
    jobs = [job(at, at / 16) for at in range(16)]
    prices = Prices(Cost(currency="EUR", gpu_hour={"default": 2.0}))
    made = digest("alice", jobs, prices, {"low_gpu": "GPUs hardly used"}, since=END - 7 * 86400, until=END)
    assert made.verdict.headline == "15 GPU-hours held and not used"
    assert "as much as 15 GPUs for an hour" in made.verdict.lead
    assert "Of 16 jobs 15 could have asked for less." in made.verdict.lead
    assert "In money: 30 EUR." in made.verdict.lead
    rules, worst = made.tables()
    assert [cell.text for cell in rules.rows[0]] == ["GPUs hardly used", "15", "–", "15", "30 EUR"]
    assert [row[0].value for row in worst.rows] == list(range(15, 5, -1))
    text = parts(made).text
    assert "Ask for none." in text and "alice" in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3 * 7 * 86400, "as much as 3 nodes for a week"),
        (1.26 * 7 * 86400, "as much as 1.3 nodes for a week"),
        (86400, "as much as 1 node for a day"),
        (5.4 * 3600, "as much as 5 nodes for an hour"),
        (600, "less than one node for an hour"),
    ],
)
def test_amounts_that_people_feel(seconds: float, words: str) -> None:
    assert felt(seconds, "node") == words
