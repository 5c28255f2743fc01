# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Processes as /proc has them: parsers, real children of the tests, and who takes in what those that ended had used."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processes import until

from slurmscope.node.groups import Missed
from slurmscope.node.processes import (
    Files,
    Inheritance,
    Networks,
    Process,
    Reader,
    has_pids_hidden,
    parse_io,
    parse_network,
    parse_stat,
)

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
COUNTERS = st.integers(0, 2**64 - 1)

# --- parsers ----------------------------------------------------------------------------------------------------------

STAT = (
    b"S 1 4242 4242 0 -1 4194560 30 40 0 0 1200 340 56 7 20 0 3 0 987654 1048576 256 18446744073709551615 1 1 0 0 0 "
    b"0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0"
)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"sleep", "sleep"),
        (b"a) S 1 (b", "a) S 1 (b"),
        (b") (", ") ("),
        (b"((sd-pam))", "((sd-pam))"),
        (b"two\nlines", "two\nlines"),
        (b"", ""),
        (b"b\xff\xfed", r"b\xff\xfed"),
        ("größe".encode(), "größe"),
        (b" 1 2 3 ", " 1 2 3 "),
    ],
)
def test_a_name_may_hold_anything(written: bytes, name: str) -> None:
    found = parse_stat(b"4242 (" + written + b") " + STAT + b"\n")
    assert found is not None
    assert found[0] == name
    assert found[1][:2] == [b"S", b"1"]
    found[0].encode()  # it can be sent


@given(st.binary(max_size=64))
def test_any_name_is_apart_from_what_follows(name: bytes) -> None:
    found = parse_stat(b"4242 (" + name + b") " + STAT)
    assert found is not None
    assert found == (name.decode("utf-8", "backslashreplace"), STAT.split())


@pytest.mark.parametrize("text", [b"", b"4242 (sleep) S 1 2", b"4242 sleep " + STAT, b")" + STAT + b"(", b"()"])
def test_what_is_no_process(text: bytes) -> None:
    assert parse_stat(text) is None


@given(st.binary())
@example(b"syscr: " + b"9" * 5000 + b"\nsyscw: 1\nread_bytes: 1\nwrite_bytes: 1\ncancelled_write_bytes: 1\n")
@example(b"eth0: " + b"9" * 5000 + b" 0" * 15)
def test_no_parser_fails_over_anything(text: bytes) -> None:
    parse_stat(text)
    parse_stat(b"1 (" + text)
    parse_io(text)
    parse_network(text)


@given(COUNTERS, COUNTERS, COUNTERS, COUNTERS, COUNTERS)
def test_input_and_output(reads: int, writes: int, read: int, written: int, cancelled: int) -> None:
    text = (
        f"rchar: 5\nwchar: 6\nsyscr: {reads}\nsyscw: {writes}\nread_bytes: {read}\nwrite_bytes: {written}\n"
        f"cancelled_write_bytes: {cancelled}\n"
    )
    # what was truncated before it reached the disk stays counted: a counter never falls
    assert parse_io(text.encode()) == (read, written, reads, writes)
    assert parse_io(text.encode()[: text.index("write_bytes")]) is None


NETWORK = b"""\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compr
    lo:  9999      10    0    0    0     0          0         0     9999      10    0    0    0     0       0       0
  eth0: 1000000   500    0    0    0     0          0         0   200000     300    0    0    0     0       0       0
  ib0:4000000000  500    0    0    0     0          0         0 70000000000   300    0    0    0     0       0       0
"""


def test_interfaces_but_loopback() -> None:
    assert parse_network(NETWORK) == [(1_000_000, 200_000), (4_000_000_000, 70_000_000_000)]
    assert parse_network(b"eth0: 1 2 3\nx\n") == []


# --- real processes ---------------------------------------------------------------------------------------------------


class Child:
    """A process of the tests' own, that has done what it was told when it is there, and then waits."""

    def __init__(self, code: str, *argv: str, **options: Any) -> None:
        text = f"import os, sys, time\n{code}\nprint('READY', flush=True)\n"
        text += "for line in sys.stdin:\n    exec(line)\n    print('READY', flush=True)\n"
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", text, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
        )
        self.pid = self._process.pid
        self._ready()

    def _ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"READY\n"

    def do(self, code: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(code.encode() + b"\n")
        self._process.stdin.flush()
        self._ready()

    def end(self) -> None:
        """It goes, and is reaped by the tests."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def child(code: str, *argv: str, **options: Any) -> Iterator[Child]:
    found = Child(code, *argv, **options)
    try:
        yield found
    finally:
        found.end()


def seen(pid: int, reader: Reader | None = None) -> Process:
    missed = Missed()
    found = (reader or Reader([])).process(pid, missed)
    assert found is not None
    assert missed.counts == {}
    return found


def opened(reader: Reader, pid: int) -> Files:
    """At one look."""
    reader.begin()
    found = reader.files(seen(pid, reader), Missed())
    reader.end()
    assert found is not None
    return found


def test_a_real_process() -> None:
    code = """
import threading
for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
while time.process_time() < 0.2: pass
kept = bytearray(b"x" * (64 << 20))
"""
    with child(code) as one:
        found = seen(one.pid)
        assert (found.pid, found.parent, found.threads, found.zombie) == (one.pid, os.getpid(), 4, False)
        assert found.name.startswith("python")
        assert 64 * MIB <= found.rss < 512 * MIB
        assert 0.15 <= found.used[0] + found.used[1] < 60
        assert found.knows_io
        assert found.used[5] > 0, "it has written that it is ready"
        assert seen(one.pid).started == found.started
        assert Reader([]).exists(one.pid)
        assert Reader([]).owner(one.pid, Missed()) == os.getuid()


def test_a_process_that_has_ended() -> None:
    with child("") as one:
        before = seen(one.pid)
    reader, missed = Reader([]), Missed()
    assert not reader.exists(one.pid)
    assert reader.process(one.pid, missed) is None
    assert reader.files(before, missed) is None
    assert reader.environ(one.pid, missed) is None
    assert reader.title(one.pid, missed) == ""
    assert reader.owner(one.pid, missed) is None
    assert reader.networks([one.pid], missed) == {}
    assert missed.counts == {}, "that is nobody's fault"


def test_one_that_ends_between_looks_is_forgotten() -> None:
    reader = Reader([])
    with child("") as one:
        opened(reader, one.pid)
        last = seen(one.pid)
    reader.begin()
    reader.end()
    assert reader.files(last, Missed()) is None


def test_a_zombie() -> None:
    with child("if os.fork() == 0: os._exit(0)") as one:
        pids = [int(name) for name in Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()]
        assert len(pids) == 1
        assert until(lambda: seen(pids[0]).zombie)
        found, missed = seen(pids[0]), Missed()
        assert (found.parent, found.rss) == (one.pid, 0)
        reader = Reader([])
        assert reader.environ(pids[0], missed) is None
        assert reader.title(pids[0], missed) == ""
        assert reader.owner(pids[0], missed) == os.getuid()
        assert reader.networks([pids[0]], missed) == {}


def test_a_thread_of_the_kernel() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("the kernel's own threads are not shown here")
    reader, missed = Reader([]), Missed()
    found = reader.process(2, missed)
    assert found is not None
    assert (found.name, found.rss, found.parent) == ("kthreadd", 0, 0)
    assert reader.title(2, missed) == ""
    assert reader.environ(2, missed) is None
    assert reader.owner(2, missed) == 0
    if os.geteuid() == 0:
        assert reader.files(found, missed) is not None
        assert missed.counts == {}


def test_odd_names_of_real_processes() -> None:
    """One that calls itself so that a line of its status would tell another owner."""
    for name in (b"a) S 1 (b", b"x\nUid:\t7", b"\xff\xfe", b""):
        with child("import ctypes") as one:
            one.do(f"ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)")
            assert seen(one.pid).name == name.decode("utf-8", "backslashreplace")
            assert Reader([]).owner(one.pid, Missed()) == os.getuid()


# --- descriptors ------------------------------------------------------------------------------------------------------


def test_files_and_other_descriptors(tmp_path: Path) -> None:
    scratch, other = tmp_path / "scratch", tmp_path / "other"
    scratch.mkdir()
    other.mkdir()
    reader = Reader([f"{scratch}/*"])
    with child("kept = []", stderr=subprocess.DEVNULL) as one:
        first = opened(reader, one.pid)
        assert (first.descriptors, first.files, first.scratch) == (3, 0, False)  # two pipes and a device
        one.do(f"kept.append(open('{other}/a', 'w')); kept.append(open('{other}'+'/b', 'w')); os.remove('{other}/b')")
        found = opened(reader, one.pid)
        assert (found.descriptors, found.files, found.scratch) == (5, 2, False), "a removed one is open too"
        one.do("import socket; kept += [socket.socket(), *os.pipe(), open('/dev/null'), open('/proc/self/stat')]")
        found = opened(reader, one.pid)
        assert (found.descriptors, found.files, found.scratch) == (10, 2, False)
        one.do("kept.append(os.memfd_create('mine'))")
        found = opened(reader, one.pid)
        assert (found.descriptors, found.files) == (11, 2), "what is memory only has no path"
        one.do(f"os.mkdir('{scratch}/deep'); kept.append(open('{scratch}/deep/c', 'w')); os.remove('{scratch}/deep/c')")
        found = opened(reader, one.pid)
        assert (found.descriptors, found.files, found.scratch) == (12, 3, True)


@pytest.mark.parametrize(
    ("patterns", "scratch"),
    [(["/nowhere/*"], False), (["/nowhere/*", "{}/*"], True), (["{}"], False), (["*/exact"], True), ([], False)],
)
def test_patterns_of_scratch(patterns: list[str], scratch: bool, tmp_path: Path) -> None:
    with child(f"kept = open('{tmp_path}/exact', 'w')") as one:
        assert opened(Reader([pattern.format(tmp_path) for pattern in patterns]), one.pid).scratch is scratch


def test_one_opened_for_another_is_seen_after_some_looks(tmp_path: Path) -> None:
    """Their number is the same, and so they are not looked at one by one each time."""
    reader = Reader([f"{tmp_path}/*"])
    with child("kept = open('/dev/null')") as one:
        assert not opened(reader, one.pid).scratch
        one.do(f"kept.close(); kept = open('{tmp_path}/a', 'w')")
        assert any(opened(reader, one.pid).scratch for _ in range(9))
        one.do("kept.close(); kept = open('/dev/null')")
        assert not all(opened(reader, one.pid).scratch for _ in range(9))


def test_another_process_with_the_same_number_is_looked_at_anew() -> None:
    reader = Reader([])
    with child("") as one:
        now = seen(one.pid)
        before = Process(now.pid, "old", "S", 1, 1, now.started - 1, 0, (0, 0, 0, 0, 0, 0), True)
        first, second = reader.files(before, Missed()), reader.files(now, Missed())
        assert first is not None
        assert first == second
        assert first is not second


def test_devices_of_a_chroot_are_no_files(tmp_path: Path) -> None:
    """As in containers: their /dev is somewhere else on this host."""
    if os.geteuid() != 0:
        pytest.skip("to change the root needs root")
    (tmp_path / "dev").mkdir()
    (tmp_path / "scratch").mkdir()
    os.mknod(tmp_path / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    code = f"""
import os
os.chroot({str(tmp_path)!r})
os.chdir("/")
kept = [open("/dev/null"), open("/scratch/data", "w")]
"""
    with child(code, stderr=subprocess.DEVNULL) as one:
        process = Reader([]).process(one.pid, Missed())
        assert process is not None
        found = Reader(["/scratch/*"]).files(process, Missed())
        assert found is not None and found.files == 1 and found.scratch


def test_descriptors_that_are_closed_to_us(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("to be another user needs root")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            reader, missed = Reader([]), Missed()
            process = reader.process(os.getppid(), missed)
            assert process is not None
            told = process.knows_io, reader.files(process, missed), reader.environ(os.getppid(), missed), missed.counts
            os.write(writing, repr(told).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        assert stream.read() == "(False, None, None, {'permission': 3})"
    os.waitpid(pid, 0)


# --- what a process says of itself ------------------------------------------------------------------------------------


def test_environments() -> None:
    odd = {b"A": b"1", b"EMPTY": b"", b"EQUALS": b"a=b=c", b"LINES": b"a\nb", b"ODD": b"\xff", b"LONG": b"x" * 100_000}
    with child("", env=odd) as one:
        found = Reader([]).environ(one.pid, Missed())
        assert found == {
            "A": "1",
            "EMPTY": "",
            "EQUALS": "a=b=c",
            "LINES": "a\nb",
            "ODD": "\ufffd",
            "LONG": "x" * 100_000,
        }
    with child("", env={}) as one:
        assert Reader([]).environ(one.pid, Missed()) is None


def test_the_beginning_of_a_huge_environment_is_enough() -> None:
    env = {"SLURM_JOB_ID": "7"} | {f"V{n}": "x" * 100_000 for n in range(15)}
    with child("", env=env) as one:
        found = Reader([]).environ(one.pid, Missed())
        assert found is not None
        assert found["SLURM_JOB_ID"] == "7"
        assert 9 <= len(found) <= 12


def test_titles() -> None:
    line = ["bash", "-c", "exec -a 'slurmstepd: [7.0]' sleep 1000"]
    with subprocess.Popen(line) as process:
        try:
            assert until(lambda: Reader([]).title(process.pid, Missed()) == "slurmstepd: [7.0] 1000")
        finally:
            process.kill()
    with child("", "two words", "x" * 100_000) as one:
        title = Reader([]).title(one.pid, Missed())
        assert " -I -B -c " in title
        assert len(title) == 4096


# prctl(PR_SET_MM, PR_SET_MM_MAP): which needs no privileges, and takes all of the map at once.
GREEDY = """
import ctypes, mmap, struct
size = 64 << 20
block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block[:] = b"A" * size
place = ctypes.addressof(ctypes.c_char.from_buffer(block))
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_ulong
stat = [0, 0, *open("/proc/self/stat").read().rpartition(")")[2].split()]
code, end, stack, data, data_end, brk = (int(stat[at]) for at in (25, 26, 27, 44, 45, 46))
last = place + size - 1
places = code, end, data, data_end, brk, libc.sbrk(0), stack, place, last, place, last
libc.prctl(35, ctypes.c_ulong(14), struct.pack("=12QIi", *places, 0, 0, -1), ctypes.c_ulong(104), ctypes.c_ulong(0))
"""


def test_a_process_that_says_its_environment_is_all_its_memory() -> None:
    """An agent that would read it all could be made to take any amount of memory."""
    with child(GREEDY) as one:
        with Path(f"/proc/{one.pid}/environ").open("rb") as environ:
            believed = environ.read(8) == b"A" * 8
        if not believed:
            pytest.skip("this kernel does not let a process say so")
        tracemalloc.start()
        try:
            found, title = Reader([]).environ(one.pid, Missed()), Reader([]).title(one.pid, Missed())
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found is not None
        assert len(title) == 4096
        assert most < 16 * MIB


def test_a_network_of_its_own() -> None:
    if os.geteuid() != 0:
        pytest.skip("to make a network needs root")
    code = """
import socket, subprocess, ctypes
assert ctypes.CDLL(None).unshare(0x40000000) == 0
"""
    reader, missed = Reader([]), Missed()
    with child(code) as one, child("") as other:
        assert reader.networks([other.pid, os.getpid()], missed) == {}
        assert list(reader.networks([one.pid], missed).values()) == [(0, 0)]
        assert list(reader.networks([other.pid, one.pid, one.pid], missed).values()) == [(0, 0)]
        assert reader.networks([], missed) == {}
        assert missed.counts == {}


def test_what_went_through_networks_that_are_gone_is_kept() -> None:
    networks = Networks()
    assert networks.total({}) is None
    assert networks.total({"net:[1]": (10, 1), "net:[2]": (5, 5)}) == (15, 6)
    assert networks.total({"net:[1]": (12, 1)}) == (17, 6)
    assert networks.total({"net:[1]": (12, 1), "net:[2]": (6, 5)}) == (18, 6)  # which was only not seen
    assert networks.total({"net:[1]": (3, 0)}) == (21, 6)  # another one, of the same number
    assert networks.total({}) == (21, 6)
    assert networks.total({f"net:[{at}]": (1, 1) for at in range(100, 300)}) == (221, 206)


def test_whether_processes_are_hidden(tmp_path: Path) -> None:
    assert has_pids_hidden() is False
    assert has_pids_hidden(tmp_path) is True
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text("")
    assert has_pids_hidden(tmp_path) is False


# --- what those that ended had used -----------------------------------------------------------------------------------

OUTSIDE = 99  # one that is not of the job
STEPD = 9


def made(pid: int, parent: int, used: int, started: int = 0) -> tuple[int, Process]:
    return pid, Process(pid, "x", "S", parent, 1, started, 0, (used, used, used, used, used, used), True)


Looks = list[tuple[list[tuple[int, Process]], list[tuple[int, Process]], int]]


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(
            [([made(1, OUTSIDE, 10), made(2, 1, 5)], [], 15), ([made(1, OUTSIDE, 10 + 6)], [], 16)],
            id="reaped by its parent, which takes in what it used in the end",
        ),
        pytest.param(
            [([made(1, OUTSIDE, 0)], [], 0), ([made(1, OUTSIDE, 700)], [], 700)], id="children that nobody ever saw"
        ),
        pytest.param(
            [([made(2, OUTSIDE, 5)], [], 5), ([], [], 5), ([made(3, OUTSIDE, 1)], [], 6)],
            id="reaped by nobody of the job: the last that was seen stays",
        ),
        pytest.param(
            [([made(2, STEPD, 5)], [made(STEPD, 1, 0)], 5), ([], [made(STEPD, 1, 8)], 8), ([], [made(STEPD, 1, 8)], 8)],
            id="reaped by the scheduler's process, which has what it used in the end",
        ),
        pytest.param(
            [([made(2, STEPD, 5)], [made(STEPD, 1, 0)], 5), ([], [made(STEPD, 1, 0)], 5)],
            id="not reaped yet by the scheduler's process",
        ),
        pytest.param(
            [([made(2, STEPD, 5)], [made(STEPD, 1, 3)], 5), ([], [], 5)], id="it and the scheduler's process have ended"
        ),
        pytest.param(
            [([made(2, STEPD, 5)], [], 5), ([], [made(STEPD, 1, 1000)], 5)],
            id="what the scheduler's process used before it was seen is not the job's",
        ),
        pytest.param(
            [([made(2, OUTSIDE, 5, 100)], [], 5), ([made(2, OUTSIDE, 1, 200)], [], 6)],
            id="the same number, another process",
        ),
        pytest.param(
            [([made(1, OUTSIDE, 10, 1), made(2, 1, 5)], [], 15), ([made(1, OUTSIDE, 0, 2)], [], 15)],
            id="another process with the number of the parent reaped nobody",
        ),
        pytest.param(
            [
                ([made(1, OUTSIDE, 10), made(2, 1, 5), made(3, 2, 3), made(4, 3, 1)], [], 19),
                ([made(1, OUTSIDE, 10 + 12)], [], 22),
            ],
            id="three generations that ended in one look, below one that lives",
        ),
        pytest.param(
            [
                ([made(2, STEPD, 5), made(3, 2, 3)], [made(STEPD, 1, 1)], 8),
                ([], [made(STEPD, 1, 1 + 11)], 11),
            ],
            id="two generations that ended in one look, below the scheduler's process",
        ),
        pytest.param(
            [([made(2, OUTSIDE, 5), made(3, 2, 3)], [], 8), ([], [], 8)], id="two generations, and nobody to reap them"
        ),
        pytest.param(
            [([made(2, OUTSIDE, 5), made(3, 2, 3)], [], 8), ([made(3, 1, 4)], [], 9), ([], [], 9)],
            id="an orphan that lives on",
        ),
        pytest.param(
            [([made(1, OUTSIDE, 10), made(2, 1, 5)], [], 15), ([made(1, OUTSIDE, 11)], [], 15)],
            id="a parent that lets the kernel reap: what it misses is lost, and nothing is taken back",
        ),
        pytest.param([([made(2, 3, 5), made(3, 2, 5)], [], 10), ([], [], 10)], id="each is the other's parent"),
    ],
)
def test_a_table_of_ends(looks: Looks) -> None:
    found = Inheritance()
    for living, own, total in looks:
        assert found.total(dict(living), dict(own)) == [total] * 6


ACTIONS = st.lists(st.tuples(st.sampled_from(["fork", "use", "use", "end", "look"]), st.integers(0, 9)), max_size=40)


class Kernel:
    """Who reaps whom, as Linux has it. A stand-in, for real processes do not do as they are told this exactly."""

    def __init__(self, subreaper: bool) -> None:
        self.parents = {1: STEPD}
        self.used = {STEPD: 0, 1: 0}
        self.truth = 0
        self._next = 100
        self._orphans_to = STEPD if subreaper else OUTSIDE

    def living(self) -> Mapping[int, Process]:
        return dict(made(pid, parent, self.used[pid]) for pid, parent in self.parents.items())

    def own(self) -> Mapping[int, Process]:
        return dict([made(STEPD, OUTSIDE, self.used[STEPD])])

    def act(self, what: str, which: int) -> None:
        pids = list(self.parents)
        pid = pids[which % len(pids)] if pids else 0
        if not pid:
            return
        if what == "fork":
            self._next += 1
            self.parents[self._next] = pid
            self.used[self._next] = 0
        elif what == "use":
            self.used[pid] += which + 1
            self.truth += which + 1
        elif what == "end":
            parent = self.parents.pop(pid)
            if parent in self.used:
                self.used[parent] += self.used[pid]
            del self.used[pid]
            for orphan in [one for one, above in self.parents.items() if above == pid]:
                self.parents[orphan] = self._orphans_to


@given(ACTIONS, st.booleans())
def test_nothing_is_counted_twice_and_nothing_taken_back(actions: list[tuple[str, int]], subreaper: bool) -> None:
    kernel, inheritance = Kernel(subreaper), Inheritance()
    last = 0.0
    for what, which in [*actions, ("look", 0)]:
        kernel.act(what, which)
        if what == "look":
            (total, *_) = inheritance.total(kernel.living(), kernel.own())
            assert last <= total <= kernel.truth
            assert total >= sum(one.used[0] for one in kernel.living().values())
            last = total


@given(ACTIONS, st.booleans())
def test_nothing_is_lost_of_what_was_seen(actions: list[tuple[str, int]], subreaper: bool) -> None:
    """With a look before each end and after it, the total is what was used."""
    kernel, inheritance = Kernel(subreaper), Inheritance()
    for what, which in actions:
        for at in range(2):
            assert inheritance.total(kernel.living(), kernel.own())[0] == kernel.truth
            if at == 0:
                kernel.act(what, which)


WRITE = """
def write(path, size):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    for _ in range(size >> 16):
        os.write(handle, b"x" * (1 << 16))
    os.close(handle)

def forked(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid
"""
EACH = 1 * MIB
CHILDREN = 8


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder that is on a disk: what is written elsewhere counts for nothing."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, check=True).stdout.strip()
    if kind in (b"tmpfs", b"ramfs"):
        pytest.skip(f"{tmp_path} is not on a disk: set TMPDIR")
    return tmp_path


def test_real_children_that_were_never_seen(disk: Path) -> None:
    work = f"""{WRITE}
for at in range({CHILDREN}):
    os.waitpid(forked(lambda: write(f"{disk}/{{at}}", {EACH})), 0)
"""
    with child(work) as one:
        total = Inheritance().total({one.pid: seen(one.pid)}, {})
        assert total[3] == pytest.approx(CHILDREN * EACH, abs=CHILDREN * PAGE)
        assert total[5] >= CHILDREN * EACH >> 16


def test_real_children_whose_parent_has_ended_too(disk: Path) -> None:
    work = f"""{WRITE}
def parent():
    for at in range({CHILDREN}):
        os.waitpid(forked(lambda: write(f"{disk}/{{at}}", {EACH})), 0)
os.waitpid(forked(parent), 0)
"""
    with child(work) as one:
        total = Inheritance().total({one.pid: seen(one.pid)}, {})
        assert total[3] == pytest.approx(CHILDREN * EACH, abs=(CHILDREN + 1) * PAGE)


def test_a_real_process_that_was_reaped_by_nobody_of_the_job(disk: Path) -> None:
    inheritance = Inheritance()
    with child(f"{WRITE}\nos.waitpid(forked(lambda: write('{disk}/a', {EACH})), 0)") as one:
        before = list(inheritance.total({one.pid: seen(one.pid)}, {}))
    assert before[3] == pytest.approx(EACH, abs=PAGE)
    assert inheritance.total({}, {}) == before


def test_a_real_process_that_wrote_on_after_it_was_seen_and_was_reaped_by_the_schedulers(disk: Path) -> None:
    work = f"""{WRITE}
import signal
def task():
    write("{disk}/a", {EACH})
    os.rename("{disk}/a", "{disk}/first")
    while not os.path.exists("{disk}/more"): time.sleep(0.01)
    write("{disk}/b", {2 * EACH})
pid = forked(task)
while not os.path.exists("{disk}/first"): time.sleep(0.01)
"""
    inheritance = Inheritance()
    with child(work) as stepd:
        (pid,) = map(int, Path(f"/proc/{stepd.pid}/task/{stepd.pid}/children").read_text().split())
        total = inheritance.total({pid: seen(pid)}, {stepd.pid: seen(stepd.pid)})
        assert total[3] == pytest.approx(EACH, abs=PAGE)
        (disk / "more").write_text("")
        stepd.do("os.waitpid(pid, 0)")
        total = inheritance.total({}, {stepd.pid: seen(stepd.pid)})
        assert total[3] == pytest.approx(3 * EACH, abs=2 * PAGE)
