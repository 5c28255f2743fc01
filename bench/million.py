# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs by the million, of some years or days, as the accounting tells them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from slurmscope.life import Accounted, Step
from slurmscope.model import Job

CLUSTER = "bench"
DAY = 86400
END = 1_790_000_000
YEARS = 3
USERS, ACCOUNTS = 800, 120
PARTITIONS = ("main", "long", "gpu", "debug")
STATES = ("COMPLETED",) * 15 + ("FAILED",) * 2 + ("CANCELLED", "TIMEOUT", "OUT_OF_MEMORY")


def jobs(count: int, days: int = YEARS * 365) -> Iterator[Job]:
    """Jobs of so many days, in the order of their submission."""
    chance = random.Random(7)
    begin = END - days * DAY
    for at in range(count):
        submit = begin + (END - begin) * at // count
        user = min(int(chance.expovariate(1) * USERS / 6), USERS - 1)
        partition = chance.choice(PARTITIONS)
        start = submit + int(chance.expovariate(1 / 1800))
        end = start + int(chance.expovariate(1 / 7200))
        cpus = chance.choice((1, 2, 4, 8, 16, 32))
        yield Job(
            id=at + 1,
            array_id=None,
            array_tasks=None,
            tasks=1,
            name=f"run-{at % 997}",
            user=f"user{user}",
            account=f"account{user % ACCOUNTS}",
            partition=partition,
            qos="normal",
            state=chance.choice(STATES),
            reason=None,
            priority=1000,
            submit_time=submit,
            eligible_time=submit,
            start_time=start,
            end_time=end,
            time_limit=4 * 3600,
            cpus=cpus,
            memory=cpus << 32,
            gpus={"a100": 2} if partition == "gpu" else {},
            nodes=1,
            node_list=f"node{chance.randrange(2000)}",
            reservation=None,
            dependency=None,
            features=None,
            licenses=None,
            login_node=None,
            restarts=None,
            exit_code="0:0",
        )


def accounted(job: Job) -> Accounted:
    used = (job.end_time or 0) - (job.start_time or 0)
    steps = tuple(
        Step(
            name,
            name,
            job.state,
            "0:0",
            job.start_time,
            job.end_time,
            1,
            1,
            job.cpus,
            used * 0.7,
            1 << 30,
            1 << 30,
            None,
            5,
            7,
        )
        for name in ("batch", "extern")
    )
    return Accounted(job, steps, 0, used * 1.4, None, "0:0", None)
