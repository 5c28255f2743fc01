# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slurmscope.sinks.spool import Spool, SpoolError

MANY = 1 << 30


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "sink.db", MANY)
    yield spool
    spool.close()


def bodies(spool: Spool) -> list[bytes]:
    return [body for _, body in spool.peek(MANY, MANY)]


def disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_first_in_first_out(spool: Spool) -> None:
    spool.add([b"a", b"b"])
    spool.add([b"c"])
    found = spool.peek(2, MANY)
    assert [body for _, body in found] == [b"a", b"b"]
    spool.done([seq for seq, _ in found])
    assert bodies(spool) == [b"c"]
    assert (spool.length, spool.bytes, spool.dropped) == (1, 1, 0)


def test_a_batch_is_bounded_in_bytes_but_never_empty(spool: Spool) -> None:
    spool.add([b"x" * 10, b"y" * 10, b"z"])
    assert len(spool.peek(10, 20)) == 2
    assert len(spool.peek(10, 3)) == 1


def test_at_the_bound_the_oldest_go_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", 10)
    spool.add([b"aaaa", b"bbbb"])
    spool.add([b"cccc"])
    assert bodies(spool) == [b"bbbb", b"cccc"]
    assert spool.dropped == 1
    spool.add([b"too large for it", b"dd"])
    assert bodies(spool) == [b"bbbb", b"cccc", b"dd"]
    assert spool.dropped == 2
    spool.add([b"eeeeee", b"ffffff"])
    assert bodies(spool) == [b"ffffff"]
    spool.close()
    again = Spool(tmp_path / "sink.db", 10)
    assert (again.length, again.bytes, again.dropped) == (1, 6, 6)
    again.close()


def test_a_smaller_bound_holds_from_the_start(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", 100)
    spool.add([b"x" * 10] * 10)
    spool.close()
    smaller = Spool(tmp_path / "sink.db", 35)
    assert (smaller.length, smaller.dropped) == (3, 7)
    smaller.close()


def test_what_was_dropped_while_it_was_sent_is_done_all_the_same(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", 4)
    spool.add([b"aa", b"bb"])
    seqs = [seq for seq, _ in spool.peek(9, MANY)]
    spool.add([b"cc"])
    spool.done(seqs)
    assert bodies(spool) == [b"cc"]
    assert (spool.length, spool.bytes) == (1, 2)
    spool.close()


def test_a_mark_only_grows(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", MANY)
    spool.add([b"a"], mark=7)
    spool.add([b"b"], mark=3)
    spool.close()
    again = Spool(tmp_path / "sink.db", MANY)
    assert again.mark == 7
    again.close()


def test_nothing_is_left_on_disk_of_what_was_sent(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", MANY)
    spool.add([os.urandom(5000) for _ in range(6000)])
    assert disk(tmp_path) > 25e6
    while found := spool.peek(1000, MANY):
        spool.done([seq for seq, _ in found])
    assert disk(tmp_path) < 4e6
    spool.close()


def test_it_is_nobody_elses_to_read(spool: Spool, tmp_path: Path) -> None:
    spool.add([b"a"])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_one_process_at_a_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "sink.db", MANY)
    with pytest.raises(SpoolError, match=f"is in use by process {os.getpid()}"):
        Spool(tmp_path / "sink.db", MANY)
    spool.close()
    Spool(tmp_path / "sink.db", MANY).close()


_WRITER = """
import sys
from pathlib import Path
from slurmscope.sinks.spool import Spool
spool = Spool(Path(sys.argv[1]), 1 << 30)
for at in range(10**9):
    spool.add([b"%d" % (2 * at), b"%d" % (2 * at + 1)])
    print(2 * at + 1, flush=True)
"""


def test_kill_minus_9(tmp_path: Path) -> None:
    """All that was said to be there is there, in order, and nothing half."""
    path = tmp_path / "sink.db"
    expected = 0
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) > 400:
                break
        writer.send_signal(signal.SIGKILL)
        last = [line, *writer.stdout.read().split()][-1]
        writer.wait()
        spool = Spool(path, MANY)
        found = [int(body) for body in bodies(spool)][expected:]
        assert found == list(range(len(found)))
        assert len(found) % 2 == 0
        assert int(last) < len(found) <= int(last) + 3
        expected = spool.length
        spool.close()


def test_threads(spool: Spool) -> None:
    def add(name: int) -> None:
        for at in range(50):
            spool.add([b"%d %d" % (name, at)])

    threads = [threading.Thread(target=add, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    taken: list[bytes] = []
    while any(thread.is_alive() for thread in threads) or spool.length:
        found = spool.peek(7, MANY)
        spool.done([seq for seq, _ in found])
        taken += [body for _, body in found]
    for name in range(4):
        assert [body for body in taken if body.startswith(b"%d " % name)] == [b"%d %d" % (name, at) for at in range(50)]


# What may be wrong with a disk


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "sink.db").write_bytes(b"not a database, and long enough to tell" * 99)
    with pytest.raises(SpoolError, match=r"sink.db: it is damaged: move it away"):
        Spool(tmp_path / "sink.db", MANY)
    (tmp_path / "sink.db").unlink()
    Spool(tmp_path / "sink.db", MANY).close()  # the lock was given back


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpoolError, match="cannot be written"):
        Spool(tmp_path / "file" / "sink.db", MANY)


def test_a_full_disk(small_disk: Path) -> None:
    spool = Spool(small_disk / "sink.db", MANY)
    spool.add([b"first"])
    with pytest.raises(SpoolError, match=r"sink.db: the disk is full"):
        for _ in range(2000):
            spool.add([os.urandom(20_000)])
    # others may fill it to the last byte
    with pytest.raises(OSError, match="No space"), (small_disk / "others").open("wb") as file:
        while True:
            file.write(b"x" * 10000)
    with pytest.raises(SpoolError, match=r"sink.db: the disk is full"):
        spool.add([b"x"])
    length = spool.length
    assert len(bodies(spool)) == length
    with pytest.raises(SpoolError, match=r"sink.db: the disk is full"):
        spool.done([seq for seq, _ in spool.peek(length, MANY)])
    assert len(bodies(spool)) == spool.length == length
    (small_disk / "others").unlink()
    # what is there can be sent, and then there is room again
    spool.done([seq for seq, _ in spool.peek(length, MANY)])
    spool.add([b"last"])
    assert bodies(spool) == [b"last"]
    spool.close()


def test_a_folder_that_is_read_only(small_disk: Path) -> None:
    spool = Spool(small_disk / "sink.db", MANY)
    spool.close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(SpoolError, match=r"(?i)cannot be written.*read-only"):
        Spool(small_disk / "sink.db", MANY)


# Any order of anything


class Model(RuleBasedStateMachine):
    most = 50

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "sink.db"
        self._spool = Spool(self._path, self.most)
        self._model: deque[bytes] = deque()
        self._dropped = 0

    @rule(items=st.lists(st.binary(max_size=60), max_size=8))
    def add(self, items: list[bytes]) -> None:
        self._spool.add(items)
        for item in items:
            if len(item) > self.most:
                self._dropped += 1
                continue
            self._model.append(item)
            while sum(map(len, self._model)) > self.most:
                self._model.popleft()
                self._dropped += 1

    @rule(most=st.integers(1, 5), size=st.integers(1, 60), which=st.randoms(use_true_random=False))
    def take(self, most: int, size: int, which: st.DataObject) -> None:
        found = self._spool.peek(most, size)
        assert [body for _, body in found] == list(self._model)[: len(found)]
        assert len(found) <= most
        assert len(found) <= 1 or sum(len(body) for _, body in found) <= size
        assert found or not self._model
        done = [at for at in range(len(found)) if which.random() < 0.7]  # type: ignore[attr-defined]
        self._spool.done([found[at][0] for at in done])
        for at in reversed(done):
            del self._model[at]

    @rule()
    def restart(self) -> None:
        self._spool.close()
        self._spool = Spool(self._path, self.most)

    @invariant()
    def same(self) -> None:
        assert bodies(self._spool) == list(self._model)
        assert self._spool.length == len(self._model)
        assert self._spool.bytes == sum(map(len, self._model))
        assert self._spool.dropped == self._dropped

    def teardown(self) -> None:
        self._spool.close()
        self._folder.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
