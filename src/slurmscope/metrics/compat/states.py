# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The one word that sinfo makes of a node's state, which is what the older exporters show."""

from __future__ import annotations

from functools import lru_cache

from slurmscope.model import Node

# Every word that there is, so that a count of each can be told at 0 and no series comes and goes.
WORDS = (
    "allocated",
    "blocked",
    "completing",
    "down",
    "drained",
    "draining",
    "fail",
    "failing",
    "future",
    "idle",
    "inval",
    "maint",
    "mixed",
    "perfctrs",
    "planned",
    "reboot",
    "reserved",
    "unknown",
)
# Those of nodes that have jobs.
BUSY_WORDS = ("allocated", "completing", "draining", "mixed")

_BUSY = frozenset({"ALLOCATED", "MIXED"})
_REBOOTS = frozenset({"REBOOT_REQUESTED", "REBOOT_ISSUED"})
# With one of these sinfo hangs a character on "idle" and says nothing of what would change the word.
_MARKED = frozenset({"NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN"})
_IDLE_FLAGS = ("PERFCTRS", "RESERVED", "PLANNED", "BLOCKED")


@lru_cache(1024)
def long_word(base: str, flags: frozenset[str]) -> str:
    """What `sinfo -o %T` prints of a state, without the characters that it hangs on it.

    The order of the questions is Slurm's own: a reboot hides a drain, a drain hides that the node is down.
    """
    if flag := _flag_word(base, flags):
        return flag
    if "COMPLETING" in flags and base not in ("ALLOCATED", "DOWN"):
        return "completing"
    if base == "IDLE" and flags.isdisjoint(_MARKED):
        return next((flag.lower() for flag in _IDLE_FLAGS if flag in flags), "idle")
    return base.lower()


def _flag_word(base: str, flags: frozenset[str]) -> str | None:
    """The word of a flag that hides the base."""
    busy = base in _BUSY
    if "INVALID_REG" in flags:
        return "inval"
    if "MAINT" in flags and "DRAIN" not in flags and not busy and base != "DOWN":
        return "maint"
    if not flags.isdisjoint(_REBOOTS) and not busy:
        return "reboot"
    if "DRAIN" in flags:
        return "draining" if busy or "COMPLETING" in flags else "drained"
    if "FAIL" in flags:
        return "failing" if base == "ALLOCATED" or "COMPLETING" in flags else "fail"
    return None


def word_of(node: Node) -> str:
    return long_word(node.state, node.flags)
