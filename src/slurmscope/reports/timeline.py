# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What happened to a job, in the order of time."""

from __future__ import annotations

from itertools import pairwise

from slurmscope.findings.efficiency import ran
from slurmscope.life import Life, Transition
from slurmscope.model import HOLDING_STATES, WAITING_STATES
from slurmscope.reports.document import Event, Timeline
from slurmscope.words import Say, amount, english, listed, moment, span

_MOST_REASONS = 4
_GOOD = ("COMPLETED",)
_WORDS = {
    "COMPLETED": "Completed",
    "FAILED": "Failed",
    "TIMEOUT": "Ran out of time",
    "OUT_OF_MEMORY": "Ran out of memory",
    "CANCELLED": "Cancelled",
    "NODE_FAIL": "Its node failed",
    "PREEMPTED": "Preempted",
    "REQUEUED": "Requeued",
    "VANISHED": "Not seen any more",
    "BOOT_FAIL": "Its node did not boot",
    "DEADLINE": "Past its deadline",
    "RESIZING": "Resized",
    "SUSPENDED": "Suspended",
}


def timeline(life: Life, now: int, attempt: int, attempts: int, say: Say = english) -> Timeline:
    """Details are said by `say`; titles are those of headings, and are translated with them."""
    by = say("by {user} to {partition}", user=life.user, partition=life.partition)
    events = [Event(life.submit_time, "Submitted", by)]
    events += _waited(life, now, say)
    if life.started:
        where = say("on {nodes}", nodes=life.node_list or say("unknown nodes"))
        which = say(", attempt {attempt} of {attempts}", attempt=attempt, attempts=attempts) if attempts > 1 else ""
        events.append(Event(life.start_time, "Started", f"{where}{which}"))
        events += _interrupted(life.transitions, say)
    events.append(_last(life, now, say))
    return Timeline(tuple(events))


def _waited(life: Life, now: int, say: Say) -> list[Event]:
    since = life.eligible
    until = life.start_time if life.started else life.end_time if life.ended else now
    if not since or until is None or until <= since:
        return []
    waits = [one for one in life.transitions if one.state in WAITING_STATES and one.reason not in (None, "None")]
    reasons = list(dict.fromkeys(one.reason for one in waits if one.reason))
    told = f", {say('then')} ".join(reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        told = say("{reasons} and others", reasons=told)
    held = "" if since == life.submit_time else say("eligible from {when}", when=moment(since))
    if not life.started and not life.ended:
        return []  # what it does now is told at the end
    return [Event(None, f"Waited {span(until - since)}", ", ".join(filter(None, (told, held))))]


def _interrupted(transitions: tuple[Transition, ...], say: Say) -> list[Event]:
    """Times in which it held its nodes and did not run."""
    return [
        Event(
            one.time,
            _WORDS.get(one.state, one.state.capitalize()),
            say("for {span}", span=span(after.time - one.time, say)),
            bad=True,
        )
        for one, after in pairwise(transitions)
        if one.state in HOLDING_STATES and one.state in ("SUSPENDED", "STOPPED") and after.time > one.time
    ]


def _last(life: Life, now: int, say: Say) -> Event:
    if not life.ended:
        if not life.started:
            return Event(None, f"Waits for {span(life.waited(now) or 0)}", life.reason or "")
        limit = say("has no limit")
        if life.start_time and life.time_limit:
            when = moment(life.start_time + life.time_limit)
            limit = say("ends by {when} at the latest", when=when)
        return Event(None, f"Runs for {span(ran(life, now))}", limit)
    details = []
    if life.started:
        details.append(say("after {span}", span=span(ran(life, now), say)))
    if life.exit_code not in (None, "0:0"):
        details.append(say("exit code {code}", code=life.exit_code))
    if life.cancelled_by:
        details.append(say("by {user}", user=life.cancelled_by))
    if life.reason:
        details.append(life.reason)
    return Event(
        life.end_time, _WORDS.get(life.state, life.state.capitalize()), ", ".join(details), life.state not in _GOOD
    )


def other_attempts(lives: list[Life], this: Life, now: int) -> str:
    """The other lives of the same job, in words; empty where there are none."""
    others = [one for one in lives if one.key != this.key]
    if not others:
        return ""
    ends = listed([f"{_WORDS.get(one.state, one.state).lower()} {moment(one.end_time)}" for one in others[:3]])
    return f"{amount(len(others), 'other attempt')}: {ends}"
