# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a look at something came to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from slurmscope.words import amount

HOST = "host"  # the subject of what is not a cluster's
_MASK = "********"
_LONGEST = 600  # of a message: what a command said may be pages


class Status(StrEnum):
    """From the best to the worst."""

    OK = "ok"
    SKIPPED = "skipped"  # left out: not set up, or not to be had
    WARNING = "warning"  # works, but with less than there could be, or not for long
    FAILED = "failed"  # is set up, or is needed, and does not work


class Check(StrEnum):
    """What is looked at. docs/doctor.md has a row for each."""

    SLURMSCOPE = "slurmscope"
    SETTINGS = "settings"
    LISTEN = "listen"
    TLS = "tls"
    DISK = "disk"
    MEMORY = "memory"
    CGROUP = "cgroup"
    PROMETHEUS = "prometheus"
    SSH = "ssh"
    SLURM_CONF = "slurm-conf"
    COMMANDS = "commands"
    VERSIONS = "versions"
    SLURMCTLD = "slurmctld"
    TEXT = "text"
    JSON = "json"
    PYSLURM = "pyslurm"
    REST = "rest"
    TOKEN = "token"  # noqa: S105 - no password
    SLURMDBD = "slurmdbd"
    PRIVATE_DATA = "private-data"
    JOB_ACCOUNTING = "job-accounting"
    CLOCK = "clock"
    SAME_CLUSTER = "same-cluster"
    STORE = "store"
    ACCOUNTING = "accounting"
    SPOOL = "spool"
    ELASTICSEARCH = "elasticsearch"
    CLOUDWATCH = "cloudwatch"
    PUSHGATEWAY = "pushgateway"
    # of `slurmscope agent --check`
    AGENT_JOBS = "agent-jobs"
    AGENT_CLUSTER = "agent-cluster"
    AGENT_SLURM = "agent-slurm-conf"
    AGENT_PROCESSES = "agent-processes"
    AGENT_GPUS = "agent-gpus"
    AGENT_LISTEN = "agent-listen"
    AGENT_SERVE = "agent-serve"


class Finding(msgspec.Struct, frozen=True):
    subject: str  # HOST, or the cluster's name
    check: Check
    status: Status
    message: str
    next_step: str = ""  # what to type or to set; empty where there is nothing to do


Made = Callable[[Finding], None]


class Wrong(Exception):
    """Raised by a look that ends here: what is wrong, and what to do."""

    def __init__(self, words: str, next_step: str, status: Status = Status.FAILED) -> None:
        super().__init__(words)
        self.next_step = next_step
        self.status = status


def exit_status(findings: Iterable[Finding]) -> int:
    """0 when all is well, 1 when there are warnings, 2 when something does not work."""
    found = {finding.status for finding in findings}
    return 2 if Status.FAILED in found else int(Status.WARNING in found)


class Chart:
    """The findings on one subject, told as they are made."""

    def __init__(self, subject: str, made: Made, secrets: Iterable[str] = ()) -> None:
        self.subject = subject
        self.findings: list[Finding] = []
        self.secrets = set(secrets)
        self._made = made

    def ok(self, check: Check, message: str) -> None:
        self.add(check, Status.OK, message, "")

    def skipped(self, check: Check, message: str, next_step: str = "") -> None:
        self.add(check, Status.SKIPPED, message, next_step)

    def warning(self, check: Check, message: str, next_step: str) -> None:
        self.add(check, Status.WARNING, message, next_step)

    def failed(self, check: Check, message: str, next_step: str) -> None:
        self.add(check, Status.FAILED, message, next_step)

    def add(self, check: Check, status: Status, message: str, next_step: str) -> None:
        finding = Finding(self.subject, check, status, self._clean(message)[:_LONGEST], self._clean(next_step))
        self.findings.append(finding)
        self._made(finding)

    def wrong(self, check: Check, wrong: Wrong) -> None:
        self.add(check, wrong.status, str(wrong), wrong.next_step)

    def _clean(self, words: str) -> str:
        """One line that a terminal can be given. Others' words are in it, which may be anything, even our token."""
        for secret in filter(None, self.secrets):
            words = words.replace(secret, _MASK)
        return " ".join("".join(char if char.isprintable() else " " for char in words).split())


def span(seconds: float) -> str:
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return amount(int(seconds // size), word)
    return amount(int(seconds), "second")


def mebibytes(size: float) -> str:
    return f"{size / (1 << 20):,.{0 if size >= 10 << 20 else 1}f} MiB"
