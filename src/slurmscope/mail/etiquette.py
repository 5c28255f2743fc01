# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether something may be told to somebody, and when. Pure; each refusal has its reason."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from slurmscope.mail.notice import ASKED, CANCEL, DIGEST, ESCALATION
from slurmscope.settings import Mail

DAY = 86400
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_FARTHEST = 400  # days of quiet after which it is not waited any longer


class Told(msgspec.Struct, frozen=True):
    """What a person was told before."""

    kind: str
    rule: str
    time: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told, and of whom and what."""

    kind: str
    person: str
    rule: str = ""
    work: str = ""  # the job's name
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the person."""

    opted_out: bool = False
    fine: Collection[tuple[str, str]] = ()  # rules and works that the person has said to be fine
    told: tuple[Told, ...] = ()


def refusal(wanted: Wanted, standing: Standing, settings: Mail, now: int) -> str | None:
    """Why it is not told; None: it may be."""
    if wanted.kind == ASKED:
        return None  # the user has asked Slurm for it
    if (why := exemption(wanted, settings)) is not None:
        return why
    if standing.opted_out:
        return "the user has opted out"
    if (wanted.rule, wanted.work) in standing.fine:
        return "the user has said that it is fine for this work"
    if wanted.kind in (CANCEL, ESCALATION):
        return None  # which have steps of their own
    return _too_soon(wanted, standing, settings, now)


def exemption(wanted: Wanted, settings: Mail) -> str | None:
    if not wanted.person:
        return "whose it is, is unknown"
    if wanted.person in settings.exempt_users:
        return "the user is exempt (mail.exempt_users)"
    for names, exempt, key in (
        (wanted.accounts, settings.exempt_accounts, "account"),
        (wanted.partitions, settings.exempt_partitions, "partition"),
    ):
        if found := next((name for name in names if name in exempt), None):
            return f"{key} {found} is exempt (mail.exempt_{key}s)"
    return None


def _too_soon(wanted: Wanted, standing: Standing, settings: Mail, now: int) -> str | None:
    same = [one.time for one in standing.told if (one.kind, one.rule) == (wanted.kind, wanted.rule)]
    # of two digests a week apart the second may be made some minutes earlier in the day
    least = settings.least_days - (wanted.kind == DIGEST)
    if not same or now - max(same) >= least * DAY:
        return None
    days = (now - max(same)) // DAY
    ago = "today" if not days else "yesterday" if days == 1 else f"{days} days ago"
    return f"the user was told {ago}, and {settings.least_days} days must lie between (mail.least_days)"


def zone_of(settings: Mail) -> tzinfo:
    """The site's; UTC where the machine does not say which is its own."""
    if settings.time_zone:
        return ZoneInfo(settings.time_zone)
    return datetime.now().astimezone().tzinfo or UTC


def opening(settings: Mail, now: int) -> int:
    """The first moment from now on that is in no quiet time."""
    if not settings.quiet_days and not settings.quiet_hours:
        return now
    zone = zone_of(settings)
    moment = datetime.fromtimestamp(now, zone)
    for _ in range(_FARTHEST):
        later = _after_quiet(moment, settings)
        if later is None:
            return max(now, int(moment.timestamp()))
        moment = later
    return now  # all days are quiet, which cannot be meant


def _after_quiet(moment: datetime, settings: Mail) -> datetime | None:
    """When the quiet time that this is in may be over; None: it is in none."""
    day = moment.date()
    if quiet_day(day, settings):
        return _at(day + timedelta(days=1), time(), moment.tzinfo)
    hours = quiet_hours(settings.quiet_hours)
    if hours is None:
        return None
    start, end = hours
    clock = moment.time()
    if start <= end:
        return _at(day, end, moment.tzinfo) if start <= clock < end else None
    if clock >= start:
        return _at(day + timedelta(days=1), end, moment.tzinfo)
    return _at(day, end, moment.tzinfo) if clock < end else None


def _at(day: date, clock: time, zone: tzinfo | None) -> datetime:
    """There may be no such moment, when clocks go forward: by way of UTC it becomes the one after the gap."""
    return datetime.combine(day, clock, zone).astimezone(UTC).astimezone(zone)


def quiet_day(day: date, settings: Mail) -> bool:
    return WEEKDAYS[day.weekday()] in settings.quiet_days or day.isoformat() in settings.quiet_days


def quiet_hours(text: str) -> tuple[time, time] | None:
    """From when to when; None where there are none, or where this is no such time."""
    found = _HOURS.fullmatch(text)
    if found is None:
        return None
    start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    return None if start == end else (start, end)
