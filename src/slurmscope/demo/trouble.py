# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with nodes: how often, with what reason, and for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

from slurmscope.demo.cluster import DAY, HOUR, Fault, Node

KILL_TASK_FAILED = "Kill task failed"
KILL_TASK_TIME = 180  # how long a step is tried to be killed (UnkillableStepTimeout)
UNKILLABLE = 0.007  # how often that fails, of jobs that did not end by themselves


@dataclass(frozen=True, slots=True)
class Trouble:
    state: str
    reason: str
    user: str
    every: float  # mean time between two, over the whole cluster
    lasts: float  # mean
    gpu: bool = False  # of nodes with GPUs only


TROUBLES = (
    Trouble(Fault.DRAIN, "NHC: check_fs_mount:  /scratch not mounted", "root", 11 * HOUR, 2 * HOUR),
    Trouble(Fault.DRAIN, "NHC: check_hw_ib:  No IB port is ACTIVE (LinkUp 200 Gb/sec).", "root", 26 * HOUR, 7 * HOUR),
    Trouble(Fault.DRAIN, "NHC: check_fs_used:  /tmp is 97% full", "root", 20 * HOUR, 3 * HOUR),
    Trouble(Fault.DRAIN, "ECC errors on DIMM_B2", "ops.weber", 2.5 * DAY, 2 * DAY),
    Trouble(Fault.DRAIN, "Xid 79: GPU has fallen off the bus", "root", 1.2 * DAY, 14 * HOUR, gpu=True),
    Trouble(Fault.DRAIN, "RMA: power supply", "ops.lang", 7 * DAY, 3 * DAY),
    Trouble(Fault.DOWN, "Not responding", "slurm", 10 * HOUR, 2.5 * HOUR),
    Trouble(Fault.DOWN, "Node unexpectedly rebooted", "slurm", 1.5 * DAY, HOUR),
    Trouble(Fault.REBOOT_REQUESTED, "Reboot ASAP : kernel update", "ops.lang", 9 * HOUR, 420),
)
# Two nodes have been away for some time when the story begins.
EARLIER = (TROUBLES[3], TROUBLES[5])


def gap(trouble: Trouble, rng: random.Random) -> int:
    return 1 + int(rng.expovariate(1 / trouble.every))


def duration(trouble: Trouble, rng: random.Random) -> int:
    """Mostly around the mean, seldom a multiple of it."""
    return 60 + int(trouble.lasts * rng.lognormvariate(-0.2, 0.65))


def victim(trouble: Trouble, nodes: list[Node], rng: random.Random) -> Node | None:
    """A healthy node that it may befall; None in the rare case that there is none."""
    found = [node for node in nodes if node.open and (node.kind.gpus or not trouble.gpu)]
    return rng.choice(found) if found else None
