# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A month of jobs that nobody ran, as the rows that slurmdbd would have of them.

The nodes are cut into lanes, in each of which one job follows another, so that no more is allocated than there is: of
more than that, slurmdbd would take some away. The rows are like those that real jobs leave.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

MINUTE, HOUR, DAY = 60, 3600, 86400
NO_ENERGY = 18446744073709551614  # how Slurm writes that it was not measured
NO_TASK = NO_OFFSET = 4294967294
FIRST_ID = 5_000_000
CANCELLED, REQUEUED = 4, 1024
# by which they end, and how often: COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL, PREEMPTED, OUT_OF_MEMORY
STATES, WEIGHTS = (3, CANCELLED, 5, 6, 7, 8, 11), (70, 6, 10, 6, 2, 3, 3)

Record = dict[str, int | str]


class Holder(NamedTuple):
    """Who may run jobs: a user within an account."""

    assoc: int
    uid: int
    user: str
    account: str


class Lane(NamedTuple):
    nodes: str
    nodes_count: int
    partition: str
    cpus: int
    memory: int  # MB
    gpus: int = 0


class Tres(NamedTuple):
    """The numbers of what is no part of every Slurm."""

    gpu: int
    typed: int


class Job(NamedTuple):
    record: Record
    pauses: tuple[tuple[int, int], ...] = ()


LANES = (
    *(Lane(f"n{node}", 1, "main", cpus, 14000) for node in range(1, 5) for cpus in (4, 4, 2, 1)),
    Lane("n[1-2]", 2, "main", 8, 8000),
    *(Lane(f"g{node}", 1, "gpu", 8, 20000, gpus) for node in (1, 2) for gpus in (4, 2, 1, 0)),
    Lane("g[1-2]", 2, "all", 6, 40000, 2),
)


def job(
    holder: Holder, lane: Lane, tres: Tres, id_: int, times: tuple[int, int, int], state: int, **more: int | str
) -> Record:
    """One that held all of a lane, from its submission over its start to its end."""
    submit, start, end = times
    held = {1: lane.cpus, 2: lane.memory, 3: NO_ENERGY, 4: lane.nodes_count, 5: lane.cpus}
    if lane.gpus:
        held |= {tres.gpu: lane.gpus, tres.typed: lane.gpus}
    wanted = {number: count for number, count in held.items() if number not in (3, tres.typed)}
    record: Record = {
        "account": holder.account,
        "id_assoc": holder.assoc,
        "id_user": holder.uid,
        "id_group": 1000,
        "id_job": id_,
        "id_array_job": 0,
        "id_array_task": NO_TASK,
        "id_qos": 1,
        "id_resv": 0,
        "id_wckey": 0,
        "het_job_id": 0,
        "het_job_offset": NO_OFFSET,
        "job_name": f"job{id_}",
        "partition": lane.partition,
        "nodelist": lane.nodes,
        "nodes_alloc": lane.nodes_count,
        "cpus_req": lane.cpus,
        "mem_req": lane.memory // lane.nodes_count,
        "state": state,
        "state_reason_prev": 0,
        "priority": 100,
        "timelimit": 5 * DAY // MINUTE,
        "time_submit": submit,
        "time_eligible": submit,
        "time_start": start,
        "time_end": end,
        "time_suspended": 0,
        "tres_alloc": _written(held),
        "tres_req": _written(wanted),
    }
    return record | more


def _written(amounts: dict[int, int]) -> str:
    return ",".join(f"{number}={count}" for number, count in sorted(amounts.items()))


def paused(record: Record, *pauses: tuple[int, int]) -> Job:
    """A job that was suspended from … until …"""
    return Job(record | {"time_suspended": sum(end - start for start, end in pauses)}, pauses)


class Month:
    """From one time until another, of which the first and last jobs reach beyond."""

    def __init__(self, holders: list[Holder], tres: Tres, since: int, until: int, seed: int) -> None:
        self._holders = holders
        self._tres = tres
        self._since, self._until = since, until
        self._random = random.Random(seed)
        self._id = FIRST_ID

    def jobs(self) -> Iterator[Job]:
        for lane in LANES:
            yield from self._lane(lane)
        for _ in range(150):
            yield Job(self._never_started())

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _lane(self, lane: Lane) -> Iterator[Job]:
        some = self._random
        at = self._since - some.randrange(2 * DAY)
        while at < self._until:
            holder = some.choice(self._holders)
            tasks = some.randint(2, 6) if some.random() < 0.08 else 1
            array, submit = self._next(), at - some.randrange(HOUR)
            for task in range(1, tasks + 1):
                of = {"id_array_job": array, "id_array_task": task} if tasks > 1 else {}
                id_ = array if task == tasks else self._next()
                for one in self._attempts(holder, lane, id_, submit, at, of):
                    at = int(one.record["time_end"])
                    yield one
                at += int(some.expovariate(1 / 900))

    def _attempts(
        self, holder: Holder, whole: Lane, id_: int, submit: int, start: int, more: dict[str, int]
    ) -> Iterator[Job]:
        """A job, and the same again where it was requeued."""
        some = self._random
        lane = whole._replace(
            cpus=some.randint(whole.nodes_count, whole.cpus),
            memory=some.randint(whole.nodes_count, whole.memory),
            gpus=some.randint(0, whole.gpus),
        )
        length = self._length()
        end = start + length
        if some.random() < 0.04 and length:
            yield Job(job(holder, lane, self._tres, id_, (submit, start, end), REQUEUED, **more))
            submit, start = end, end + 121 + some.randrange(HOUR)
            end = start + self._length()
        state = some.choices(STATES, WEIGHTS)[0]
        found = job(holder, lane, self._tres, id_, (submit, start, end), state, id_qos=some.choice((1, 2)), **more)
        if end - start > 10 and start // DAY == (end - 1) // DAY and some.random() < 0.1:
            cuts = sorted(some.sample(range(start, end + 1), some.choice((2, 4))))
            yield paused(found, *zip(cuts[::2], cuts[1::2], strict=True))
        else:
            yield Job(found)

    def _length(self) -> int:
        longest = self._random.choices((3, HOUR, 12 * HOUR, 3 * DAY), (5, 50, 35, 10))[0]
        return self._random.randrange(longest)

    def _never_started(self) -> Record:
        """Cancelled while it waited, or while it was held; of some Slurm has their end as the start too."""
        some = self._random
        submit = some.randrange(self._since, self._until - DAY)
        end = submit + some.randrange(DAY)
        lane = some.choice(LANES)
        held = some.random() < 0.5
        none: Record = {"tres_alloc": "", "nodelist": "None assigned", "nodes_alloc": 0}
        none |= {"time_eligible": 0 if held else submit}
        times = submit, end if some.random() < 0.3 else 0, end
        return job(some.choice(self._holders), lane, self._tres, self._next(), times, CANCELLED) | none
