# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What else a job may wait for: nodes, reservations, other jobs, licences, a time, its own array."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from slurmscope.model import Job, Node, Reservation
from slurmscope.waiting.case import Case, Fact, hosts, licenses_of, most, some
from slurmscope.waiting.room import eligible
from slurmscope.words import amount, listed, moment, span

_UNAVAILABLE = re.compile(r"UnavailableNodes:\s*(\S+)", re.IGNORECASE)
_DEPENDENCY = re.compile(r"(\w+)(?::([\d_*+:]+))?(?:\((\w+)\))?")
_GROUPS = 5  # of nodes, reservations and jobs that are told


# --- nodes ------------------------------------------------------------------------------------------------------------


def node_facts(case: Case) -> Iterator[Fact]:
    """The nodes that Slurm names, or those of its partitions that take no job now, by state and reason."""
    named = _UNAVAILABLE.search(case.told.text)
    wanted = set(hosts(named[1].rstrip(",)"))) if named else set()
    there = eligible(case)
    away = [node for node in there if node.name in wanted] or [node for node in there if not node.usable]
    if named and not wanted:
        yield Fact("nodes", f"Slurm names {named[1][:200]}", {})
    groups: dict[tuple[str, str], list[Node]] = {}
    for node in away:
        groups.setdefault((_state(node), node.reason or ""), []).append(node)
    for (state, why), nodes in sorted(groups.items(), key=lambda item: -len(item[1]))[:_GROUPS]:
        since = min((node.reason_time for node in nodes if node.reason_time is not None), default=None)
        text = f"{some(node.name for node in nodes)}: {state}"
        text += f", {why}" if why else ""
        text += f", since {moment(since)}" if since is not None and why else ""
        yield Fact("nodes", text, {"nodes": [node.name for node in nodes], "state": state, "reason": why or None})
    if away and not wanted:
        text = f"{len(away):,} of {len(there):,} nodes of {listed(case.job.partitions)} take no job now"
        yield Fact("away", text, {"nodes": len(away), "of": len(there)})


def _state(node: Node) -> str:
    return "+".join([node.state, *sorted(node.flags)])


def reserved_facts(case: Case) -> Iterator[Fact]:
    """Reservations of others that hold nodes of its partitions now, or would before it has ended."""
    names = {node.name for node in case.nodes}
    horizon = case.now + (case.job.time_limit if case.job.time_limit is not None else 365 * 86400)
    near = [
        one
        for one in case.reservations
        if one.end_time > case.now
        and one.start_time < horizon
        and one.name != case.job.reservation
        and not names.isdisjoint(hosts(one.node_list))
    ]
    for one in sorted(near, key=lambda one: one.start_time)[:_GROUPS]:
        held = [name for name in hosts(one.node_list) if name in names]
        yield Fact("reserved", f"{_reservation(one, case.now)}: {some(held)}", _known(one, held))
        if one.start_time > case.now and case.job.time_limit is not None:
            left = one.start_time - case.now
            text = f"with a time limit below {span(left)} it could end before {one.name} begins"
            yield Fact("shorter", text, {"seconds": int(left), "reservation": one.name})


def _reservation(one: Reservation, now: float) -> str:
    what = "maintenance" if "MAINT" in one.flags else "reservation"
    if one.active(now):
        return f"{what} {one.name}, until {moment(one.end_time)} (in {span(one.end_time - now)})"
    if one.end_time <= now:
        return f"{what} {one.name}, which ended at {moment(one.end_time)}"
    begins = f"from {moment(one.start_time)} (in {span(one.start_time - now)})"
    return f"{what} {one.name}, {begins} to {moment(one.end_time)}"


def _known(one: Reservation, nodes: list[str]) -> dict[str, Any]:
    return {"reservation": one.name, "start": one.start_time, "end": one.end_time, "nodes": nodes}


def reservation_facts(case: Case) -> Iterator[Fact]:
    """Its own reservation."""
    name = case.job.reservation
    if name is None:
        yield Fact("reservation", "which reservation it asks for is not told")
        return
    wanted = name.split(",")
    found = [one for one in case.reservations if one.name in wanted]
    for one in found:
        yield Fact("reservation", _reservation(one, case.now), _known(one, list(hosts(one.node_list))))
        inside = [job for job in case.holding if job.reservation == one.name]
        if one.active(case.now) and inside:
            users = Counter(case.called(job.user) for job in inside)
            text = f"{amount(len(inside), 'job')} in it: {most(users)}"
            yield Fact("held by", text, {"users": dict(users)})
    if not found and case.snapshot.reservations.value is not None:
        yield Fact("reservation", f"there is no reservation {name} now", {"reservation": name})


# --- other jobs -------------------------------------------------------------------------------------------------------


def dependency_facts(case: Case) -> Iterator[Fact]:
    """The jobs that it waits for, and their states."""
    text = case.job.dependency
    if not text:
        yield Fact("dependency", "what it depends on is not told")
        return
    either = "?" in text
    for kind, ids, state in _DEPENDENCY.findall(text)[:_GROUPS]:
        if kind == "singleton":
            yield _singleton(case)
            continue
        for one in [part.partition("+")[0] for part in ids.split(":") if part]:
            yield _dependency(case, kind, one, state)
    if either:
        yield Fact("dependency", "one of them is enough", {})


def _dependency(case: Case, kind: str, id_: str, state: str) -> Fact:
    number, _, task = id_.partition("_")
    found = [job for job in case.jobs if number in (str(job.id), str(job.array_id)) and _is_task(job, task)]
    states: Counter[str] = Counter()
    # whoever gives a number is not told whose it is
    hidden = any(case.called(job.user) != job.user for job in found)
    for job in found if not hidden else ():
        states[job.state] += job.tasks
    now = ", ".join(f"{count:,} {one}" if len(states) > 1 else one for one, count in states.items())
    if not found:
        now = f"{state}, and not in the queue any more" if state else "not in the queue any more"
    elif hidden:
        now = state or "in the queue"
    who = f" ({found[0].name}, of {found[0].user})" if found and not hidden else ""
    known = {"kind": kind, "job": id_, "states": dict(states), "condition": state or None}
    return Fact("dependency", f"{kind} {id_}{who}: {now}", known)


def _is_task(job: Job, task: str) -> bool:
    return task in ("", "*") or job.array_tasks == task


def _singleton(case: Case) -> Fact:
    own = case.job
    same = [job for job in case.jobs if job.user == own.user and job.name == own.name and job.key != own.key]
    before = [job for job in same if job.holding or (job.submit_time or 0, job.id) < (own.submit_time or 0, own.id)]
    text = (
        f"singleton: {amount(sum(job.tasks for job in before), 'earlier job')} of {own.user} with the name {own.name}"
    )
    return Fact("dependency", text, {"kind": "singleton", "jobs": [job.id for job in before[:50]]})


# --- licences, time, arrays, restarts, share --------------------------------------------------------------------------


def license_facts(case: Case) -> Iterator[Fact]:
    for name, wanted in licenses_of(case.job.licenses).items():
        found = [one for one in case.licenses if one.name == name]
        if not found and case.snapshot.licenses.value is not None:
            yield Fact("licence", f"{name}: there is none of that name", {"name": name, "needs": wanted})
        for one in found:
            missing = wanted - one.free
            text = f"{name}: {one.total:,} in all, {one.used:,} used, {one.free:,} free"
            text += f", {one.reserved:,} reserved" if one.reserved else ""
            text += f"; this job needs {wanted:,}" + (f", {missing:,} too many" if missing > 0 else "")
            never = wanted > one.total
            text += ", which is more than there are: it can never start" if never else ""
            known = {"name": name, "total": one.total, "used": one.used, "free": one.free}
            yield Fact("licence", text, known | {"needs": wanted, "missing": max(0, missing)})
        users: Counter[str] = Counter()
        for job in case.holding:
            if count := licenses_of(job.licenses).get(name):
                users[case.called(job.user)] += count
        if users:
            yield Fact("held by", most(users), {"users": dict(users)})


def begin_facts(case: Case) -> Iterator[Fact]:
    when = max(case.job.eligible_time or 0, case.job.start_time or 0)
    if when > case.now:
        yield Fact("begins", f"not before {moment(when)} (in {span(when - case.now)})", {"time": when})
    elif when:
        yield Fact("begins", f"{moment(when)}, which is past: the scheduler looks again soon", {"time": when})
    else:
        yield Fact("begins", "when it may begin is not told")


def array_facts(case: Case) -> Iterator[Fact]:
    array = case.job.array_id
    if array is None:
        return
    tasks = [job for job in case.jobs if job.array_id == array]
    running = sum(job.tasks for job in tasks if job.holding)
    waiting = sum(job.tasks for job in tasks if job.waiting)
    _, percent, throttle = (case.job.array_tasks or "").rpartition("%")
    limit = int(throttle) if percent and throttle.isascii() and throttle.isdigit() else None
    allowed = f" of {limit:,} that may" if limit is not None else ""
    text = f"{amount(running, 'task')} of the array {'runs' if running == 1 else 'run'}{allowed}, {waiting:,} wait"
    yield Fact("array", text, {"running": running, "limit": limit, "waiting": waiting})


def restart_facts(case: Case) -> Iterator[Fact]:
    if case.told.text:
        yield Fact("says", case.told.text[:200], {})
    if case.job.restarts:
        yield Fact(
            "restarts", f"it was started {amount(case.job.restarts, 'time')} before", {"restarts": case.job.restarts}
        )


def share_facts(case: Case) -> Iterator[Fact]:
    for one in case.shares:
        if one.account == case.job.account and one.user in (None, case.job.user) and one.fair_share is not None:
            whose = one.user or f"the account {one.account}"
            yield Fact("fair share", f"of {whose}: {one.fair_share:.3f}", {"whose": whose, "share": one.fair_share})
