# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What people may have at a time, and what they have: limits of accounts and QOSs, licences, throttled arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slurmscope.demo.cluster import LICENCES
from slurmscope.demo.jobs import Job
from slurmscope.demo.people import User

CPU, GPU, JOBS = "cpu", "gres/gpu", "jobs"


@dataclass(frozen=True, slots=True)
class Rule:
    """One limit, under the name that `scontrol show assoc_mgr` has for it."""

    kind: str
    name: str
    tres: str
    limit: int
    reason: str  # what Slurm says of a job that it stops
    account: str | None = None
    qos: str | None = None
    each_user: bool = False


RULES = (
    Rule("qos", "MaxTRESPU", CPU, 1536, "QOSMaxCpuPerUserLimit", qos="normal", each_user=True),
    Rule("qos", "MaxTRESPU", GPU, 40, "QOSMaxGRESPerUser", qos="normal", each_user=True),
    Rule("qos", "GrpTRES", CPU, 1024, "QOSGrpCpuLimit", qos="high"),
    Rule("qos", "MaxJobsPU", JOBS, 6, "QOSMaxJobsPerUserLimit", qos="high", each_user=True),
    Rule("qos", "MaxJobsPU", JOBS, 2, "QOSMaxJobsPerUserLimit", qos="debug", each_user=True),
    Rule("association", "GrpTRES", GPU, 96, "AssocGrpGRES", account="nlp"),
    Rule("association", "GrpTRES", GPU, 72, "AssocGrpGRES", account="vision"),
    Rule("association", "GrpTRES", GPU, 32, "AssocGrpGRES", account="robotics"),
    Rule("association", "GrpTRES", CPU, 2048, "AssocGrpCpuLimit", account="matsci"),
    Rule("association", "GrpTRES", CPU, 4608, "AssocGrpCpuLimit", account="medicine"),
    Rule("association", "MaxJobs", JOBS, 4, "AssocMaxJobsLimit", account="hpc101", each_user=True),
)
DEBUG_WALL = 3600  # of a debug job, in seconds; Slurm keeps no tally for a limit on each single job


class Meter:
    """How much of something limited is taken."""

    __slots__ = ("limit", "reason", "used")

    def __init__(self, limit: int, reason: str) -> None:
        self.limit = limit
        self.reason = reason
        self.used = 0


Claim = tuple[Meter, int]  # what one task of a job takes


class Limits:
    def __init__(self) -> None:
        self._meters: dict[tuple[Rule, str], Meter] = {}
        self._licences = {one.name: Meter(one.total, "Licenses") for one in LICENCES}

    def _meter(self, rule: Rule, user: str) -> Meter:
        key = rule, user if rule.each_user else ""
        if key not in self._meters:
            self._meters[key] = Meter(rule.limit, rule.reason)
        return self._meters[key]

    def claims(self, job: Job) -> tuple[Claim, ...]:
        """All that a task of the job counts against."""
        amounts = {CPU: job.cpus, GPU: job.gpus, JOBS: 1}
        found = [
            (self._meter(rule, job.user.name), amounts[rule.tres])
            for rule in RULES
            if rule.qos in (None, job.qos) and rule.account in (None, *job.user.accounts) and amounts[rule.tres]
        ]
        if job.throttle:
            found.append((Meter(job.throttle, "JobArrayTaskLimit"), 1))
        if job.ask.licence is not None:
            name, count = job.ask.licence
            found.append((self._licences[name], count))
        return tuple(found)

    @staticmethod
    def full(job: Job) -> str | None:
        """The reason that keeps one more task of the job from starting, if there is one."""
        for meter, amount in job.claims:
            if meter.used + amount > meter.limit:
                return meter.reason
        return None

    @staticmethod
    def take(job: Job) -> None:
        for meter, amount in job.claims:
            meter.used += amount

    @staticmethod
    def give(job: Job) -> None:
        for meter, amount in job.claims:
            meter.used -= amount

    def licences(self) -> dict[str, int]:
        """The seats that are taken."""
        return {name: meter.used for name, meter in self._licences.items()}

    def tally(self, users: list[User]) -> Iterator[tuple[Rule, str | None, int | None]]:
        """Each limit with the user that it is for and what is used; a QOS's own row has no tally where it holds
        for each user."""
        for rule in RULES:
            if not rule.each_user:
                yield rule, None, self._meter(rule, "").used
                continue
            if rule.kind == "qos":
                yield rule, None, None
            for user in users:
                used = self._meter(rule, user.name).used
                # an association is there whether it is used or not; of a QOS, Slurm lists who uses it
                if rule.account == user.account or (rule.kind == "qos" and used):
                    yield rule, user.name, used
