# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the simulated slurmctld and slurmdbd count: jobs, cycles, and who asked them what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from slurmscope.demo.cluster import DAY, HOUR
from slurmscope.demo.queue import Look
from slurmscope.demo.work import rhythm

EVENTS = ("submitted", "started", "completed", "canceled", "failed")

# Of each type of RPC its number and the mean time that it takes, in seconds.
RPCS = {
    "REQUEST_JOB_INFO": (2003, 0.0041),
    "REQUEST_JOB_USER_INFO": (2039, 0.0006),
    "REQUEST_JOB_INFO_SINGLE": (2021, 0.0003),
    "REQUEST_NODE_INFO": (2007, 0.0011),
    "REQUEST_PARTITION_INFO": (2009, 0.0002),
    "REQUEST_SUBMIT_BATCH_JOB": (4003, 0.0135),
    "REQUEST_KILL_JOB": (5032, 0.0052),
    "REQUEST_COMPLETE_BATCH_SCRIPT": (5018, 0.0029),
    "REQUEST_COMPLETE_PROLOG": (6018, 0.0008),
    "REQUEST_STEP_COMPLETE": (5016, 0.0012),
    "MESSAGE_EPILOG_COMPLETE": (6012, 0.0007),
    "MESSAGE_NODE_REGISTRATION_STATUS": (1002, 0.0004),
    "REQUEST_PING": (1008, 0.0001),
    "REQUEST_STATS_INFO": (2035, 0.0004),
    "REQUEST_SHARE_INFO": (2022, 0.0019),
    "REQUEST_RESERVATION_INFO": (2024, 0.0002),
    "REQUEST_LICENSE_INFO": (1017, 0.0002),
    "REQUEST_ASSOC_MGR_INFO": (1025, 0.0024),
    "REQUEST_BUILD_INFO": (2001, 0.0005),
    "REQUEST_UPDATE_NODE": (3002, 0.0013),
}
DBD_RPCS = {
    "DBD_JOB_START": (1425, 0.0016),
    "DBD_JOB_COMPLETE": (1424, 0.0014),
    "DBD_STEP_START": (1442, 0.0009),
    "DBD_STEP_COMPLETE": (1441, 0.0008),
    "DBD_NODE_STATE": (1432, 0.0006),
    "DBD_GET_JOBS_COND": (1444, 0.21),
    "DBD_GET_ACCOUNTS": (1409, 0.0021),
    "DBD_GET_ASSOCS": (1410, 0.0087),
    "DBD_GET_STATS": (1489, 0.0001),
}
# Not root, as most clusters have it: whoever runs the demo as root would be told that its calls are theirs.
SLURMD = "slurm"
# Calls a second around the clock, and in the busiest hour of the working day on top.
_POLLERS = {
    ("REQUEST_JOB_INFO", "icinga"): (1 / 60, 0.0),
    ("REQUEST_NODE_INFO", "icinga"): (1 / 60, 0.0),
    ("REQUEST_JOB_INFO", "jupyterhub"): (1 / 30, 0.1),
    ("MESSAGE_NODE_REGISTRATION_STATUS", SLURMD): (200 / 300, 0.0),
    ("REQUEST_PING", "slurm"): (1 / 100, 0.0),
    ("REQUEST_PARTITION_INFO", "root"): (1 / 120, 0.0),
}
_DBD_POLLERS = {
    ("DBD_GET_JOBS_COND", "xdmod"): (1 / 900, 0.0),
    ("DBD_GET_ASSOCS", "xdmod"): (1 / HOUR, 0.0),
    ("DBD_GET_STATS", "icinga"): (1 / 60, 0.0),
    ("DBD_GET_JOBS_COND", "root"): (1 / HOUR, 1 / 120),
}
_HABIT = 1 / 240  # squeue --me of an ordinary user, a second, in the busiest hour
_HAMMER = 1.9  # of the one who put it into `watch`

Asked = tuple[str, str]  # a type of RPC and a user


class Calls:
    """Questions by type and user. Those of pollers grow with the time, between ticks as well."""

    def __init__(self, pollers: dict[Asked, tuple[float, float]], now: int) -> None:
        self._pollers = pollers
        self._since = now
        self._counts: dict[Asked, float] = defaultdict(float)

    def add(self, kind: str, user: str, times: int = 1) -> None:
        self._counts[kind, user] += times

    def tick(self, now: int) -> None:
        for asked, grown in self._growth(now).items():
            self._counts[asked] += grown
        self._since = now

    def _growth(self, now: int) -> dict[Asked, float]:
        # as busy as it was at the last tick, so that what is told between two agrees with the second
        busy, passed = rhythm(self._since), now - self._since
        return {asked: (always + more * busy) * passed for asked, (always, more) in self._pollers.items()}

    def at(self, now: int) -> dict[Asked, int]:
        growth = self._growth(now)
        found = {
            asked: int(self._counts.get(asked, 0.0) + growth.get(asked, 0.0))
            for asked in (*self._pollers, *self._counts)
        }
        return {asked: count for asked, count in found.items() if count}


@dataclass(slots=True)
class CycleCount:
    """The cycles of one scheduler since midnight."""

    total: int = 0
    micros: int = 0
    longest: int = 0
    last: int = 0
    depth: int = 0
    tried: int = 0
    lengths: int = 0
    slots: int = 0
    last_look: Look = field(default_factory=lambda: Look(0))
    last_slots: int = 0
    last_when: int | None = None

    def reset(self) -> CycleCount:
        """Counted anew; what the last cycle was is still known."""
        return CycleCount(
            last=self.last, last_look=self.last_look, last_slots=self.last_slots, last_when=self.last_when
        )

    def add(self, look: Look, micros: int, now: int, slots: int = 0) -> None:
        self.total += 1
        self.micros += micros
        self.longest = max(self.longest, micros)
        self.last = micros
        self.depth += look.depth
        self.tried += look.tried
        self.lengths += look.length
        self.slots += slots
        self.last_look, self.last_slots, self.last_when = look, slots, now


class Ledger:
    def __init__(self, begin: int, habits: dict[str, float], hammer: str) -> None:
        """`habits` says of each user how often they look, by comparison; the `hammer` always does."""
        self.begin = begin
        looks = {("REQUEST_JOB_USER_INFO", user): (0.0, _HABIT * often) for user, often in habits.items()}
        watch = {
            ("REQUEST_JOB_INFO", hammer): (0.02, _HAMMER),
            ("REQUEST_PARTITION_INFO", hammer): (0.02, _HAMMER),
        }
        self.calls = Calls(_POLLERS | looks | watch, begin)
        self.dbd_calls = Calls(_DBD_POLLERS, begin)
        self.backfilled = 0  # since slurmctld started
        self.counted: dict[str, int] = {}  # jobs by state, when they were last counted
        self.counted_at = begin
        self.main, self.backfill = CycleCount(), CycleCount()
        self.midnight(begin)

    def midnight(self, now: int) -> None:
        """slurmctld clears most of its statistics."""
        self.since = now
        self.jobs = dict.fromkeys(EVENTS, 0)
        self.main, self.backfill = self.main.reset(), self.backfill.reset()
        self.backfilled_today = 0

    def see_main(self, look: Look, now: int) -> None:
        micros = 240 + 9 * look.depth + 160 * look.tried + 900 * look.started + now * 7919 % 181
        self.main.add(look, micros, now)

    def see_backfill(self, look: Look, now: int) -> None:
        micros = 5200 + 870 * look.tried + 1500 * look.started + now * 7919 % 3571
        self.backfill.add(look, micros, now, slots=12 + look.tried // 4)
        self.backfilled += look.started
        self.backfilled_today += look.started

    def count(self, pending: int, running: int, now: int) -> None:
        self.counted, self.counted_at = {"pending": pending, "running": running}, now

    def tick(self, now: int) -> None:
        self.calls.tick(now)
        self.dbd_calls.tick(now)


def next_midnight(now: int) -> int:
    return (now // DAY + 1) * DAY
