# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a row of the table of reasons is."""

from __future__ import annotations

import msgspec

# who or what lets a job go on
QUEUE = "the queue"
ACCOUNT = "a limit of the account"
QOS = "a limit of the QOS"
ADMINISTRATOR = "the administrator"
USER = "the user"
JOBS = "other jobs"
DEPENDED = "the jobs that it depends on"
TIME = "time"
CLUSTER = "the state of the cluster"
SLURM = "Slurm itself"

ASSOCIATION_LIMIT, QOS_LIMIT = "association", "qos"
"""As `model.Limit.kind` has them."""


class LimitOf(msgspec.Struct, frozen=True):
    """Where the limit of a reason is found among `Snapshot.limits`."""

    kind: str
    name: str  # as Slurm spells it: GrpTRES, MaxTRESPU, MaxJobs, …
    tres: str | None = None  # the resource, or how those begin that it may be: "gres/"

    def fits(self, kind: str, name: str, tres: str | None) -> bool:
        if kind != self.kind or name != self.name:
            return False
        if self.tres is None:
            return tres is None
        return tres is not None and (tres == self.tres or (self.tres[-1:] in ("", "/") and tres.startswith(self.tres)))


class Reason(msgspec.Struct, frozen=True):
    """`{job}`, `{user}`, `{account}` and `{qos}` in an action stand for those of the job."""

    name: str
    words: str
    decides: str
    actions: tuple[str, ...]
    facts: tuple[str, ...] = ()  # which are worth looking for (facts of explanation.py)
    limit: LimitOf | None = None
    never: bool = False  # as it is, the job can never start
