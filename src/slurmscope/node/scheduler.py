# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent must know of a scheduler. slurm.py knows it of Slurm; nothing else here does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from slurmscope.node.mounts import Mounts


class Found(msgspec.Struct, frozen=True, gc=False):
    """The cgroups of a job."""

    key: str  # the same as long as they are there
    job: int | None  # None: their names do not tell
    folders: dict[str, str]  # by controller, or the one of version 2
    node: str = ""  # where their names tell: a host may have several
    uid: int | None = None


class Told(msgspec.Struct, frozen=True, gc=False):
    """What the environment of a job's process says of the job. Its owner can change it: nothing is decided by it."""

    job: int | None = None
    others: frozenset[int] = frozenset()  # jobs of which this may be one as well: all are told the number of the first
    user: str = ""
    account: str = ""
    start_time: int | None = None
    cpus: int | None = None  # of this node
    gpus: dict[str, str] = {}  # the variables that tell of them
    whole: bool = False  # cpus and gpus are the job's on this node, and not only a step's


class Scheduler(Protocol):
    name: str

    def find(self, mounts: Mounts) -> list[Found]:
        """The jobs of this host, from the folders that there are; called often, and so cheap."""
        ...

    def own(self, inside: str, title: Callable[[], str]) -> bool:
        """Whether a process is the scheduler's and not the job's: by its folder within the job's, or its title."""
        ...

    def titled(self, title: str) -> int | None:
        """The job that the scheduler's own process says it is for."""
        ...

    def told(self, environ: Mapping[str, str], step: str) -> Told:
        """What it told a process of the job; `step` is the first of the folders within the job's that it is in."""
        ...

    async def ask(self, keys: Sequence[str]) -> dict[str, int]:
        """The last resort: the jobs of folders of which nothing on this host tells whose they are."""
        ...
