# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The table of all families: which topics there are, and which pages show them."""

from __future__ import annotations

from slurmscope.metrics import health, measured, nodes, partitions, policy, queue, scheduler, traces, upkeep
from slurmscope.metrics.compat import rivosinc, sinfo, vpenso
from slurmscope.metrics.exposition import Topic
from slurmscope.metrics.view import View

OWN: tuple[Topic[View], ...] = (
    nodes.TOPIC,
    partitions.TOPIC,
    queue.TOPIC,
    scheduler.TOPIC,
    scheduler.ACCOUNTING,
    policy.SHARES,
    policy.LIMITS,
    policy.LICENSES,
    policy.RESERVATIONS,
    health.TOPIC,
    health.SERVICE,
    upkeep.TOPIC,
    measured.TOPIC,
    traces.TOPIC,
    traces.ENDPOINT,
    health.PROCESS,
)

# Older exporters' names clash with one another, so that each has a page of its own.
PROFILES: dict[str, tuple[Topic[View], ...]] = {
    "slurmscope": OWN,
    "rivosinc": (*rivosinc.TOPICS, traces.TOPIC, health.PROCESS),
    "vpenso": vpenso.TOPICS,
    "sinfo": sinfo.TOPICS,
}
DEFAULT = "default"


def topics(profile: str, *, compat: bool = True) -> tuple[Topic[View], ...]:
    """The topics of a page. The default one has our own names and, unless switched off, rivosinc's."""
    if profile != DEFAULT:
        return PROFILES[profile]
    # by name, for what is on both pages is shown once
    return tuple({topic.name: topic for topic in (*OWN, *PROFILES["rivosinc"])}.values()) if compat else OWN


NAMES = (DEFAULT, *PROFILES)
