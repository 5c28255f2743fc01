# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The limit behind a reason: how much it is, how much of it is used and by whom, and how much the job lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from slurmscope.model import Job, Limit
from slurmscope.waiting.case import Case, Fact, gpus, licenses_of
from slurmscope.waiting.reason import ASSOCIATION_LIMIT, QOS_LIMIT, LimitOf
from slurmscope.words import Say, english, number, size, span

_UNITS = {"cpu": "CPU", "node": "node", "billing": "billing unit", "energy": "joule"}
_SHOWN = 3  # holders that are named


def limit_facts(case: Case) -> Iterator[Fact]:
    """Of the one limit that the reason names."""
    wanted = case.reason.limit
    if wanted is None or case.snapshot.limits.value is None:
        return
    if wanted.name.startswith("Min"):
        yield Fact(
            "limit", f"what a job must ask for at least is not read: `sacctmgr show qos {case.job.qos}` tells it"
        )
        return
    fitting = [one for one in case.limits if wanted.fits(one.kind, one.name, one.tres)]
    own = behind(case, wanted, fitting, case.job)
    if not own and wanted.kind == QOS_LIMIT and (other := _of_others(case, fitting)) is not None:
        yield Fact("limit", f"{told(other)}; nothing of this job's counts against it yet", _values(other, None, None))
        return
    if not own:
        which = f"{wanted.name} of {wanted.tres.rstrip('/')}" if wanted.tres else wanted.name
        yield Fact("limit", f"no limit {which} for this job is among those that were read: it may be new, or hidden")
        return
    for one in own:
        yield from _facts(case, one)


def behind(case: Case, wanted: LimitOf, fitting: Iterable[Limit], job: Job) -> list[Limit]:
    """Of the limits that a reason may mean, those that hold for the job, and of these those that leave it no room."""
    own = [one for one in fitting if holds_for(case, one, job)]
    if not wanted.name.startswith("Grp"):
        own = [one for one in own if one.user is not None] or own  # each user has an account's limits for itself
    return [one for one in own if (_missing(one, job) or 0) > 0] or own


def all_limit_facts(case: Case) -> Iterator[Fact]:
    """Of all limits that hold for the job and leave no room for it, where the reason does not say which it is."""
    for one in case.limits:
        if holds_for(case, one, case.job) and (_missing(one, case.job) or 0) > 0:
            yield from _facts(case, one)


def _of_others(case: Case, fitting: list[Limit]) -> Limit | None:
    """A QOS's limit for each user or account is told with those that have used it; it is the same for all."""
    ours = {case.job.qos, *(case.partition_qos.get(name) for name in case.job.partitions)}
    found = next((one for one in fitting if one.qos in ours and (one.user or one.account)), None)
    if found is None or not case.discreet:
        return found
    return msgspec.structs.replace(found, user=None, account=None, used=None)


def holds_for(case: Case, limit: Limit, job: Job) -> bool:
    """The limit holds for this job; a running one then counts against it."""
    if limit.user is not None and limit.user != job.user:
        return False
    if limit.kind == ASSOCIATION_LIMIT:
        if limit.partition is not None and limit.partition not in job.partitions:
            return False
        if limit.user is not None or not limit.name.startswith("Grp"):
            return limit.account == job.account
        return limit.account in case.above(job.account)
    if limit.account is not None and limit.account != job.account:
        return False
    return limit.qos == job.qos or any(case.partition_qos.get(name) == limit.qos for name in job.partitions)


def _facts(case: Case, limit: Limit) -> Iterator[Fact]:
    needs, missing = need(limit, case.job), _missing(limit, case.job)
    parts = [told(limit)]
    if limit.used is not None:
        parts.append(f"{shown(limit, limit.used)} used")
    parts.append(
        "how much this job needs of it is not told" if needs is None else f"this job needs {shown(limit, needs)}"
    )
    if missing is not None and missing > 0:
        parts.append(f"{shown(limit, missing)} too much")
    elif missing is not None:
        parts.append("so that there would be room now: it was otherwise when the scheduler last looked")
    yield Fact("limit", ", ".join(parts), _values(limit, needs, missing))
    # past use decays: one that is held back by it may start, however much it asks for
    past = limit.name in ("GrpTRESMins", "GrpWall")
    if needs is not None and needs > limit.limit and not past:
        yield Fact("never", "as it is, it can never start: it alone asks for more than the limit", {"name": limit.name})
    if limit.used is not None and not past:
        yield from _held_by(case, limit)


def _held_by(case: Case, limit: Limit) -> Iterator[Fact]:
    """Whose jobs count against it."""
    submitted = "Submit" in limit.name
    counts: dict[str, float] = {}
    jobs = 0
    for job in case.jobs if submitted else case.holding:
        if holds_for(case, limit, job):
            jobs += job.tasks
            taken = (need(limit, job, case.now) or 0) * (job.tasks if submitted else 1)
            user = case.called(job.user)
            counts[user] = counts.get(user, 0) + taken
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    held = {user: count for user, count in ranked if count > 0}
    if held:
        named = ", ".join(f"{user} {shown(limit, count)}" for user, count in list(held.items())[:_SHOWN])
        rest = f" and {len(held) - _SHOWN:,} more" if len(held) > _SHOWN else ""
        what = "in the queue" if submitted else "running"
        yield Fact("held by", f"{named}{rest} ({jobs:,} {'job' if jobs == 1 else 'jobs'} {what})", {"users": held})


def _values(limit: Limit, needs: float | None, missing: float | None) -> dict[str, Any]:
    return {
        "kind": limit.kind,
        "name": limit.name,
        "tres": limit.tres,
        "account": limit.account,
        "user": limit.user,
        "qos": limit.qos,
        "unit": limit.unit,
        "limit": limit.limit,
        "used": limit.used,
        "needs": needs,
        "missing": missing,
    }


def _missing(limit: Limit, job: Job) -> float | None:
    needs = need(limit, job)
    return None if needs is None else (limit.used or 0) + needs - limit.limit


def need(limit: Limit, job: Job, now: float | None = None) -> float | None:
    """How much of the limit one task of the job takes, or, with `now`, still takes; None where that is not known."""
    timed = "Mins" in limit.name or "Wall" in limit.name
    left = job.time_limit
    if now is not None and timed:
        left = None if job.end_time is None else max(0, job.end_time - int(now))
    if limit.tres is None:
        return left if timed else 1
    asked = _asked(limit.tres, job)
    if asked is None:
        return None
    if limit.name == "MaxTRESPN":
        asked = -(-asked // max(1, job.nodes))
    if not timed:
        return asked
    return None if left is None else asked * left


def _asked(tres: str, job: Job) -> int | None:
    if tres.startswith("gres/gpu:"):
        return None if job.gpus.get("") else job.gpus.get(tres.removeprefix("gres/gpu:"), 0)
    if tres.startswith("license/"):
        return licenses_of(job.licenses).get(tres.removeprefix("license/"), 0)
    known = {"cpu": job.cpus, "node": job.nodes, "mem": job.memory, "gres/gpu": gpus(job)}
    return known.get(tres)


def told(limit: Limit, say: Say = english) -> str:
    """`GrpTRES cpu of the account physics: 64 CPUs`"""
    return say("{limit}: {amount}", limit=named(limit, say), amount=shown(limit, limit.limit, say))


def named(limit: Limit, say: Say = english) -> str:
    """Which it is, and whose."""
    what = f"{limit.name} {limit.tres}" if limit.tres else limit.name
    if limit.kind != QOS_LIMIT:
        values = {"limit": what, "account": limit.account, "whom": limit.user}
        each = "{limit} of the account {account} for {whom}"
        return say(each if limit.user else "{limit} of the account {account}", **values)
    whom = limit.user or limit.account
    each = "{limit} of the QOS {qos} for {whom}"
    return say(each if whom else "{limit} of the QOS {qos}", limit=what, qos=limit.qos, whom=whom)


def shown(limit: Limit, value: float, say: Say = english) -> str:
    unit = limit.unit
    if unit == "seconds":
        return span(value, say)
    if unit == "bytes":
        return size(value)
    if unit == "bytes-seconds":
        return f"{size(value / 3600)}-hours"
    thing = _thing(limit)
    if unit == "count-seconds":
        return f"{number(value / 3600)} {say(f'{thing}-hours')}"
    return f"{number(value)} {say(thing if value == 1 else f'{thing}s')}"


def _thing(limit: Limit) -> str:
    if limit.tres is None:
        return "job"
    if limit.tres.startswith("gres/gpu"):
        return "GPU"
    if limit.tres.startswith("license/"):
        return "licence"
    return _UNITS.get(limit.tres, "unit")
