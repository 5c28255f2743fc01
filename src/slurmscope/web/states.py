# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""States of jobs and nodes as people say them: a word, and which of the few shapes goes with it."""

from __future__ import annotations

from collections.abc import Iterable

from slurmscope.life import ENDED_STATES, VANISHED, Life
from slurmscope.model import HOLDING_STATES, WAITING_STATES, Node
from slurmscope.reports.document import FAIL, OFF, OK, RUN, WAIT
from slurmscope.web.translation import Translation

# What may stand in an address in place of Slurm's own names.
GROUPS: dict[str, tuple[str, ...]] = {
    "waiting": tuple(sorted(WAITING_STATES)),
    "running": tuple(sorted(HOLDING_STATES)),
    "completed": ("COMPLETED",),
    "failed": ("BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"),
    "cancelled": ("CANCELLED", "PREEMPTED"),
}
_WORDS = {
    "OUT_OF_MEMORY": "out of memory",
    "NODE_FAIL": "node failed",
    "BOOT_FAIL": "node did not boot",
    "TIMEOUT": "out of time",
    "DEADLINE": "past its deadline",
    "REQUEUED": "requeued",
    VANISHED: "not seen any more",
}


def states_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Slurm's own, of names and groups; what is neither stays, and matches nothing."""
    return tuple(state for name in names for state in GROUPS.get(name.lower(), (name.upper(),)))


def shape(life: Life) -> str:
    if life.ended:
        return OK if life.state == "COMPLETED" else FAIL if life.state in GROUPS["failed"] else OFF
    return RUN if life.holding else WAIT


def words(life: Life, t: Translation) -> str:
    """`waiting: Priority`, `failed, exit 3`."""
    if life.waiting and not life.ended:
        return t("waiting: {reason}", reason=life.reason) if life.reason else t("waiting")
    told = t(_WORDS.get(life.state, _plain(life.state)))
    status, _, signal = (life.exit_code or "0:0").partition(":")
    if life.state == "FAILED" and status not in ("0", ""):
        return t("{state}, exit {status}", state=told, status=status)
    if life.state == "FAILED" and signal not in ("0", ""):
        return t("{state}, signal {signal}", state=told, signal=signal)
    return told


def counted(counts: Iterable[tuple[str, int]], t: Translation) -> str:
    """Of an array's tasks: `11 pending, 1 running`."""
    return ", ".join(f"{count:,} {t(_plain(state))}" for state, count in counts)


def _plain(state: str) -> str:
    return state.lower().replace("_", " ")


def ended(state: str) -> bool:
    return state in ENDED_STATES or state in ("REQUEUED", VANISHED)


# --- nodes ------------------------------------------------------------------------------------------------------------

DOWN, DRAINED, DRAINING, UP, UNKNOWN = "down", "drained", "draining", "up", "unknown"


def condition(node: Node) -> str:
    """One word for what matters of a node: can work be given to it?"""
    if node.state == "DOWN" or not node.flags.isdisjoint({"FAIL", "NOT_RESPONDING", "INVALID_REG"}):
        return DOWN
    if "DRAIN" in node.flags:
        return DRAINED if not node.cpus_allocated else DRAINING
    if node.state in ("UNKNOWN", "ERROR", "FUTURE"):
        return UNKNOWN
    return UP


def node_words(node: Node) -> str:
    """`mixed`, `idle, planned`: the base and what is flagged."""
    return ", ".join(map(_plain, (node.state, *sorted(node.flags))))


def said(node_words: str, t: Translation) -> str:
    """The same in the reader's language; what Slurm may call a node one day is as Slurm says it."""
    return ", ".join(map(t, node_words.split(", ")))
