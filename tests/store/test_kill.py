# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of the writer, at any moment: the file opens, nothing that was acknowledged is lost, usage is right."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from pathlib import Path

from lives import SUBMIT, accounted, job
from store.made import measured

from slurmscope.life import Accounted
from slurmscope.store.recorder import tell, wrong_usage
from slurmscope.store.sqlite import SqliteStore

CLUSTER = "alpha"
KILLS = 100
BATCH = 30


def batch(number: int) -> list[Accounted]:
    """New jobs that run, and those of the batch before, which have ended: some spanning midnights."""
    found = []
    for at in range(BATCH):
        id_ = number * BATCH + at
        found.append(accounted(job(id_, "RUNNING", submit_time=SUBMIT + number, start_time=SUBMIT + number + at)))
    if number:
        found += [ended(number - 1, at) for at in range(BATCH)]
    return found


def ended(number: int, at: int) -> Accounted:
    id_, start = number * BATCH + at, SUBMIT + number + at
    state = ("COMPLETED", "FAILED", "TIMEOUT")[at % 3]
    return accounted(job(id_, state, submit_time=SUBMIT + number, start_time=start, end_time=start + at * 5000))


def write(path: Path, first: int, pipe: int) -> None:
    """Writes one batch after the other, and says so each time."""
    store = SqliteStore(path)
    for number in range(first, 1 << 30):
        tell(store, CLUSTER, batch(number), SUBMIT + 10_000_000)
        with store.writing(CLUSTER) as writer:
            writer.put_measured([measured(number * BATCH, SUBMIT + number, seconds=30)])
        os.write(pipe, struct.pack("q", number))


def killed_writer(path: Path, first: int, seconds: float) -> int:
    """The last batch that was acknowledged, or -1."""
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(path, first, its)
        finally:
            os._exit(1)
    os.close(its)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = b""
    while data := os.read(ours, 1 << 16):
        said += data
    os.close(ours)
    return -1 if not said else int(struct.unpack_from("q", said, len(said) - 8)[0])


def test_the_writer_is_killed_a_hundred_times(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    chance = random.Random(9)
    first = acknowledged = 0
    for kill in range(KILLS):
        last = killed_writer(path, first, chance.uniform(0.005, 0.35))
        acknowledged = max(acknowledged, last)
        store = SqliteStore(path)
        assert store.check() == [], kill
        for number in {last, last // 2} if last >= 0 else set():
            for at in range(BATCH):
                life = store.life(CLUSTER, number * BATCH + at, SUBMIT + number)
                assert life is not None, (kill, number, at)
            used = measured(number * BATCH, SUBMIT + number, seconds=30)
            assert store.summary(CLUSTER, *used.key) == used.summary, (kill, number)
            assert store.course(CLUSTER, *used.key) == used.course, (kill, number)
            if number:
                before = store.life(CLUSTER, (number - 1) * BATCH, SUBMIT + number - 1)
                assert before is not None
                assert before.ended
        if kill % 10 == 9:
            assert wrong_usage(store, CLUSTER) == [], kill
        store.close()
        first = acknowledged  # the one after it may be there as well, or not: it is written again
    assert acknowledged > KILLS, "there was nothing to kill"
