# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job's life grows with what polls see and the accounting tells."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from lives import SUBMIT, accounted, job, step

from slurmscope import life as lives
from slurmscope.life import Life, Transition

AT = SUBMIT + 10


def states(life: Life) -> list[tuple[int, str]]:
    return [(one.time - SUBMIT, one.state) for one in life.transitions]


def test_polls_see_a_life_pass() -> None:
    life = lives.seen(None, "alpha", job(), AT)
    life = lives.seen(life, "alpha", job(reason="Resources"), AT + 50)
    life = lives.seen(life, "alpha", job(state="RUNNING"), AT + 100)
    life = lives.seen(life, "alpha", job(state="SUSPENDED"), AT + 200)
    life = lives.seen(life, "alpha", job(state="RUNNING"), AT + 300)
    life = lives.seen(life, "alpha", job(state="COMPLETING", end_time=SUBMIT + 400), AT + 400)
    life = lives.seen(life, "alpha", job(state="COMPLETED", end_time=SUBMIT + 400), AT + 410)
    assert states(life) == [
        (0, "PENDING"),
        (60, "PENDING"),
        (100, "RUNNING"),
        (210, "SUSPENDED"),
        (310, "RUNNING"),
        (400, "COMPLETING"),
        (400, "COMPLETED"),
    ]
    assert [one.reason for one in life.transitions[:2]] == ["Priority", "Resources"]
    assert life.ended
    assert life.document_id == f"alpha.1.{SUBMIT}"


def test_the_accounting_alone_tells_a_life() -> None:
    told = accounted(job(state="FAILED", end_time=SUBMIT + 500, exit_code="3:0", reason="BeginTime"))
    life = lives.told(None, "alpha", told, AT + 1000)
    assert states(life) == [(0, "PENDING"), (100, "RUNNING"), (500, "FAILED")]
    assert life.reason is None, "that it once waited for its time is no reason to end"
    assert (life.cpu_seconds, life.max_rss, life.memory_used) == (1234.5, 1 << 30, 2 << 30)
    assert life.accounted


def test_the_accounting_is_the_last_word() -> None:
    life = lives.seen(None, "alpha", job(state="RUNNING"), AT)
    life = lives.seen(life, "alpha", job(state="CANCELLED", end_time=SUBMIT + 300, reason="None"), AT + 300)
    end = job(state="TIMEOUT", end_time=SUBMIT + 299, reason="TimeLimit", login_node=None)
    life = lives.told(life, "alpha", accounted(end), AT + 400)
    assert states(life) == [(0, "PENDING"), (100, "RUNNING"), (299, "TIMEOUT")]
    assert (life.state, life.end_time, life.reason) == ("TIMEOUT", SUBMIT + 299, "TimeLimit")
    assert lives.seen(life, "alpha", job(state="RUNNING"), AT + 500) is life
    late = accounted(job(state="RUNNING"))
    assert lives.told(life, "alpha", late, AT + 500) is life, "slurmdbd that lags behind undoes nothing"


def test_what_only_polls_know_stays() -> None:
    seen = job(dependency="afterok:7", login_node="login1", reason="Dependency")
    life = lives.seen(None, "alpha", seen, AT)
    told = job(state="COMPLETED", end_time=SUBMIT + 300, dependency=None, login_node=None, restarts=None)
    life = lives.told(life, "alpha", accounted(told), AT + 400)
    assert (life.dependency, life.login_node, life.restarts) == ("afterok:7", "login1", 0)
    assert life.transitions[0] == Transition(SUBMIT, "PENDING", "Dependency")


def test_a_job_that_never_ran_has_no_start() -> None:
    """Slurm gives one that was cancelled while it waited the time of its end as a start."""
    end = job(state="CANCELLED", start_time=SUBMIT + 50, end_time=SUBMIT + 50, node_list="")
    for life in (lives.seen(None, "alpha", end, AT + 60), lives.told(None, "alpha", accounted(end), AT + 60)):
        assert states(life) == [(0, "PENDING"), (50, "CANCELLED")]
        assert life.start_time is None
        assert not life.started
        assert life.counted_time is None


def test_a_requeued_job_is_two_lives() -> None:
    first = lives.seen(None, "alpha", job(state="RUNNING"), AT + 100)
    first = lives.succeeded(first, SUBMIT + 300)
    assert states(first) == [(0, "PENDING"), (100, "RUNNING"), (300, "REQUEUED")]
    again = lives.seen(None, "alpha", job(state="REQUEUED", submit_time=SUBMIT + 300), SUBMIT + 301)
    assert not again.ended, "of a job in the queue REQUEUED says only that it is not the first"
    assert again.key != first.key
    told = accounted(job(state="REQUEUED", start_time=SUBMIT + 100, node_list="n1", end_time=SUBMIT + 300))
    by_accounting = lives.told(None, "alpha", told, AT + 400)
    assert states(by_accounting) == states(first)
    assert by_accounting.ended


def test_a_poll_under_way_when_a_job_started_does_not_disturb_the_order() -> None:
    life = lives.seen(None, "alpha", job(), AT)
    life = lives.seen(life, "alpha", job(reason="Resources"), SUBMIT + 105)
    life = lives.seen(life, "alpha", job(state="RUNNING"), SUBMIT + 115)
    assert states(life) == [(0, "PENDING"), (100, "PENDING"), (100, "RUNNING")]


def test_who_vanished_is_closed_and_may_come_back() -> None:
    life = lives.seen(None, "alpha", job(state="RUNNING"), AT + 100)
    life = lives.unseen(life, AT + 10_000)
    assert not life.ended
    assert lives.unseen(life, AT + 20_000) is life
    closed = lives.given_up(life, AT + 90_000)
    assert (closed.state, closed.end_time) == (lives.VANISHED, SUBMIT + 100 + 3600), "not beyond its limit"
    back = lives.seen(closed, "alpha", job(state="RUNNING"), AT + 91_000)
    assert states(back) == [(0, "PENDING"), (100, "RUNNING")]
    told = lives.told(closed, "alpha", accounted(job(state="COMPLETED", end_time=SUBMIT + 200)), AT + 91_000)
    assert states(told) == [(0, "PENDING"), (100, "RUNNING"), (200, "COMPLETED")]


def test_many_reasons_are_thinned_and_no_state_is_lost() -> None:
    life = lives.seen(None, "alpha", job(), AT)
    for at in range(500):
        life = lives.seen(life, "alpha", job(reason=("Priority", "Resources")[at % 2]), AT + at)
    life = lives.seen(life, "alpha", job(state="RUNNING", start_time=AT + 600), AT + 601)
    end = job(state="COMPLETED", start_time=AT + 600, end_time=AT + 700)
    life = lives.told(life, "alpha", accounted(end), AT + 800)
    assert len(life.transitions) <= 64
    assert [one.state for one in life.transitions[-2:]] == ["RUNNING", "COMPLETED"]
    assert life.transitions[0].time == SUBMIT


def test_how_a_job_was_submitted_is_told_by_the_accounting_and_stays() -> None:
    line = "sbatch --wrap=echo '</script>'\n\x1b[2J \\xff"
    running = accounted(job(state="RUNNING"), submit_line=line, work_dir="/home/alice")
    life = lives.told(None, "alpha", running, AT + 100)
    life = lives.seen(life, "alpha", job(state="RUNNING"), AT + 200)
    life = lives.told(life, "alpha", accounted(job(state="COMPLETED", end_time=SUBMIT + 300)), AT + 400)
    assert (life.submit_line, life.work_dir) == (line, "/home/alice")
    told = lives.document(life)
    assert (told["submit_line"], told["work_dir"]) == (line, "/home/alice")


def test_a_life_that_was_kept_before_it_knew_how_it_was_submitted_is_read() -> None:
    """Lives are kept as arrays: what is new comes last, and is not known of older ones."""
    life = lives.seen(None, "alpha", job(state="RUNNING"), AT)
    kept = msgspec.to_builtins(life)
    assert Life.__struct_fields__[-2:] == ("submit_line", "work_dir")
    older = msgspec.msgpack.encode(kept[:-2])
    assert msgspec.msgpack.decode(older, type=Life) == life


def test_a_document_is_a_life() -> None:
    life = lives.told(None, "alpha", accounted(job(state="COMPLETED", end_time=SUBMIT + 300, gpus={"": 2})), AT)
    named = lives.document(life)
    assert named["steps"][0]["max_rss"] == 1 << 30
    assert lives.of_document(named) == life
    assert lives.of_document(msgspec.json.decode(msgspec.json.encode(named)) | {"_id": "x"}) == life
    packed = msgspec.msgpack.encode(life)
    assert msgspec.msgpack.decode(packed, type=Life) == life


JOBS = (
    job(),
    job(reason="Resources"),
    job(start_time=SUBMIT + 200),
    job(reason="Resources", start_time=SUBMIT + 5000),
    job(state="CONFIGURING"),
    job(state="RUNNING"),
    job(state="SUSPENDED"),
    job(state="COMPLETING", end_time=SUBMIT + 900),
    job(state="COMPLETED", end_time=SUBMIT + 900),
    job(state="CANCELLED", start_time=SUBMIT + 40, end_time=SUBMIT + 40, node_list=""),
)
EVENTS = some.one_of(
    some.tuples(some.just("seen"), some.sampled_from(JOBS)),
    some.tuples(some.just("told"), some.sampled_from(JOBS)),
    some.tuples(some.sampled_from(("unseen", "given up", "succeeded")), some.none()),
)


@given(some.lists(EVENTS, max_size=12))
def test_whatever_comes_in_whatever_order(events: list[tuple[str, object]]) -> None:
    """A life is in order, an end is the last word, and what was told again changes nothing."""
    life: Life | None = None
    at = SUBMIT
    for kind, one in events:
        at += 37
        ended = life is not None and life.accounted
        after = happened(life, kind, one, at)
        if after is not None:
            assert [x.time for x in after.transitions] == sorted(x.time for x in after.transitions)
            assert after.transitions[0] == Transition(SUBMIT, "PENDING", after.transitions[0].reason)
            if after.ended:
                assert (after.transitions[-1].time, after.transitions[-1].state) == (after.end_time, after.state)
            assert happened(after, kind, one, at) == after
            assert life is None or life.guess is None or after.guess == life.guess
            assert after.guess is None or after.guess[0] < after.guess[1]
            if after.ended:
                assert after.counted_time in (None, after.end_time)
        assert not ended or (after is not None and after.accounted), "what the accounting told stays told"
        life = after


def happened(life: Life | None, kind: str, one: object, at: int) -> Life | None:
    if kind == "seen":
        return lives.seen(life, "alpha", one, at)  # type: ignore[arg-type]
    if kind == "told":
        return lives.told(life, "alpha", accounted(one), at)  # type: ignore[arg-type]
    if life is None:
        return None
    if kind == "unseen":
        return lives.unseen(life, at)
    return lives.given_up(life, at) if kind == "given up" else lives.succeeded(life, SUBMIT + 2000)


def test_steps_of_several_kinds() -> None:
    steps = (step("batch", max_rss=5, memory_used=7), step("0", max_rss=9, memory_used=None), step("1", max_rss=None))
    told = accounted(job(state="COMPLETED", end_time=SUBMIT + 300), steps=steps)
    life = lives.told(None, "alpha", told, AT)
    assert (life.max_rss, life.memory_used) == (9, (2 << 30) + 7)


@pytest.mark.parametrize(
    ("what", "steps", "expected"),
    [
        ("one", [(0, 100, 4)], 4),
        ("one after the other", [(0, 100, 4), (100, 200, 5), (200, 300, 3)], 5),
        ("all at once", [(0, 100, 4)] * 8, 32),
        ("two at a time", [(0, 100, 4), (50, 150, 5), (100, 200, 6), (150, 250, 1)], 11),
        ("the script beside each", [(0, 300, 1), (0, 100, 4), (100, 200, 5)], 6),
        ("without a start", [(None, 100, 2), (0, 100, 4), (100, 200, 5)], 6),
        ("without an end", [(0, None, 2), (0, 100, 4), (100, 200, 5)], 7),
        ("without times", [(None, None, 2), (0, 100, 4), (100, 200, 5)], 7),
        ("within a second", [(0, 100, 4), (100, 100, 5), (100, 200, 1)], 6),
        ("times that are out of order", [(100, 50, 4), (0, 200, 1)], 5),
        ("some that tell nothing", [(0, 100, None), (0, 100, 4)], 4),
        ("nothing at all was used", [(0, 100, 0)], 0),
        ("nobody told", [(0, 100, None)], None),
        ("no step", [], None),
    ],
)
def test_memory_of_steps_at_the_same_time_adds_up(
    what: str, steps: list[tuple[int | None, int | None, int | None]], expected: int | None
) -> None:
    made = tuple(
        step(str(at), start_time=start, end_time=end, memory_used=used, max_rss=used)
        for at, (start, end, used) in enumerate(steps)
    )
    life = lives.told(None, "alpha", accounted(job(state="COMPLETED", end_time=SUBMIT + 300), steps=made), AT)
    assert life.memory_used == expected
    assert life.max_rss == max((used for _, _, used in steps if used is not None), default=None)


def test_a_resized_job_goes_on_as_another_life() -> None:
    """slurmdbd closes the record of what it held, and opens one that was submitted then."""
    first = accounted(job(state="RESIZING", end_time=SUBMIT + 300))
    life = lives.told(lives.seen(None, "alpha", job(state="RUNNING"), AT + 100), "alpha", first, AT + 400)
    assert life.ended
    assert states(life) == [(0, "PENDING"), (100, "RUNNING"), (300, "RESIZING")]
    assert lives.seen(life, "alpha", job(state="RUNNING"), AT + 500) is life
    second = job(state="COMPLETED", submit_time=SUBMIT + 300, end_time=SUBMIT + 900, cpus=2)
    after = lives.told(None, "alpha", accounted(second), AT + 1000)
    assert (after.start_time, after.end_time) == (SUBMIT + 300, SUBMIT + 900), "what was before is the other's"


def test_one_that_ran_away_does_not_count_for_ever() -> None:
    """slurmdbd may tell for months that a job runs that nobody has."""
    told = accounted(job(state="RUNNING"))
    life = lives.told(None, "alpha", told, SUBMIT + 30 * 86400)
    assert (life.counted_time or 0) <= SUBMIT + 100 + 2 * 3600
    gone = lives.unseen(lives.seen(None, "alpha", job(state="RUNNING", time_limit=None), SUBMIT + 200), SUBMIT + 300)
    later = lives.told(gone, "alpha", accounted(job(state="RUNNING", time_limit=None)), SUBMIT + 30 * 86400)
    assert later.counted_time == SUBMIT + 200


def test_what_was_taken_from_a_job_is_gone() -> None:
    life = lives.seen(None, "alpha", job(dependency="afterok:5", reservation="maint"), AT)
    life = lives.seen(life, "alpha", job(time_limit=None), AT + 10)
    assert (life.dependency, life.reservation, life.time_limit) == (None, None, None)


def test_the_first_guess_of_a_start_is_kept() -> None:
    life = lives.seen(None, "alpha", job(start_time=AT - 5), AT)
    assert life.guess is None, "a time that has passed is no guess"
    life = lives.seen(life, "alpha", job(start_time=AT + 900), AT + 10)
    assert life.guess == (AT + 10, AT + 900)
    for later in (job(start_time=AT + 400), job(), job(reason="Resources", start_time=AT + 500)):
        life = lives.seen(life, "alpha", later, AT + 20)
    life = lives.seen(life, "alpha", job(state="RUNNING", start_time=AT + 450), AT + 460)
    life = lives.told(
        life, "alpha", accounted(job(state="COMPLETED", start_time=AT + 450, end_time=AT + 600)), AT + 700
    )
    assert (life.guess, life.start_time) == ((AT + 10, AT + 900), AT + 450)
    assert lives.seen(None, "alpha", job(state="RUNNING", start_time=AT + 5), AT).guess is None
    packed = msgspec.json.decode(msgspec.json.encode(lives.document(life)))
    assert lives.of_document(packed) == life


def test_what_was_measured_is_of_the_end() -> None:
    life = lives.seen(None, "alpha", job(state="RUNNING", gpus={"a100": 1}), AT + 100)
    gone = lives.given_up(lives.unseen(life, AT + 200), AT + 300)
    known = lives.measured(gone, 0.25, AT + 310)
    assert (known.gpu_share, known.changed_time) == (0.25, AT + 310)
    assert lives.measured(known, 0.25, AT + 320) is known
    assert lives.measured(gone, 1.02, AT + 310).gpu_share == 1.0, "drivers may tell more than all"
    back = lives.seen(known, "alpha", job(state="RUNNING", gpus={"a100": 1}), AT + 400)
    assert back.gpu_share is None
    told = lives.told(known, "alpha", accounted(job(state="COMPLETED", end_time=AT + 150, gpus={"a100": 1})), AT + 400)
    assert told.gpu_share == 0.25
    cpus = lives.told(None, "alpha", accounted(job(state="COMPLETED", end_time=AT + 150)), AT + 400)
    assert lives.measured(cpus, 0.25, AT + 500) is cpus, "it has no GPU"


def test_a_poll_that_comes_late_changes_nothing() -> None:
    life = lives.told(None, "alpha", accounted(job(state="RUNNING")), AT + 200)
    assert lives.seen(life, "alpha", job(), AT + 50) is life


@pytest.mark.parametrize(
    ("fields", "waited"),
    [
        ({"state": "RUNNING", "start_time": 1060}, 60),
        ({"state": "RUNNING", "start_time": 1060, "eligible_time": 1050}, 10),  # it was to begin later
        ({"state": "RUNNING", "start_time": 1060, "eligible_time": 900}, 60),  # of an earlier life
        ({"state": "RUNNING", "start_time": 1060, "eligible_time": 1070}, 0),
        ({"state": "PENDING", "start_time": None}, 200),
        ({"state": "PENDING", "start_time": None, "eligible_time": 1300}, 0),
        ({"state": "CANCELLED", "start_time": None, "end_time": 1100, "node_list": ""}, None),
        ({"state": "PENDING", "start_time": None, "submit_time": None}, None),
    ],
)
def test_how_long_it_waited(fields: dict[str, Any], waited: int | None) -> None:
    known = {"submit_time": 1000, "eligible_time": None} | fields
    assert lives.told(None, "c", accounted(job(1, **known)), 1200).waited(1200) == waited
