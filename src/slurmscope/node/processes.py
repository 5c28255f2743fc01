# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Processes as /proc has them. Any of them may end at any moment, and most of /proc may be closed to us."""

from __future__ import annotations

import fnmatch
import os
import re
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from slurmscope.node.groups import Missed, parse_number, read
from slurmscope.node.handles import Handles

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = resource.getpagesize()
# A process may tell the kernel that its environment, or its command line, is any of its memory.
_MOST_ENVIRON = 1 << 20
_MOST_TITLE = 1 << 12
# Descriptors are looked at one by one when their number has changed, and else at every so many looks.
_LOOK_AGAIN = 8
_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/dmabuf:")

# write_bytes counts what is truncated before it is written as well; less that, it would be no counter.
_IO = re.compile(
    rb"syscr: ([0-9]{1,20})\nsyscw: ([0-9]{1,20})\nread_bytes: ([0-9]{1,20})\nwrite_bytes: ([0-9]{1,20})(?![0-9])"
)
_MOST_NETWORKS = 64  # of a job
_MOST_LINKS = 4096  # descriptors of a process that are looked at one by one
_IGNORES_CHILDREN = 1 << (signal.SIGCHLD - 1)

Used = tuple[float, float, int, int, int, int]
"""User and system seconds, bytes read and written, reads and writes: each with those of the children that it reaped."""


class Process(msgspec.Struct, frozen=True, gc=False):
    pid: int
    name: str
    state: str
    parent: int
    threads: int
    started: int  # ticks since boot: with the pid, its identity
    rss: int
    used: Used
    knows_io: bool
    reaps: bool = True  # its children: what they used becomes its own. False: it ignores them, and that is lost

    @property
    def zombie(self) -> bool:
        return self.state in "ZX"


class Files(msgspec.Struct, gc=False):
    """The descriptors of a process, as they were last looked at."""

    descriptors: int
    files: int
    scratch: bool
    looks: int = 0


def parse_stat(text: bytes) -> tuple[str, list[bytes]] | None:
    """The name, which may hold anything, and what follows it."""
    start, end = text.find(b"("), text.rfind(b")")
    rest = text[end + 2 :].split()
    if start < 0 or end < start or len(rest) < 22:
        return None
    # a surrogate could be in no document that we send
    return text[start + 1 : end].decode("utf-8", "backslashreplace"), rest


def parse_io(text: bytes) -> tuple[int, int, int, int] | None:
    """Bytes read and written, calls of read and of write."""
    found = _IO.search(text)
    if found is None:
        return None
    reads, writes, read_bytes, written = map(int, found.groups())
    return read_bytes, written, reads, writes


class Reader:
    """Reads processes, and remembers of each what it need not read again."""

    def __init__(self, scratch: Sequence[str], proc: str = "/proc") -> None:
        self._proc = proc
        self._scratch = re.compile("|".join(fnmatch.translate(pattern) for pattern in scratch)) if scratch else None
        self._files: dict[tuple[int, int], Files] = {}
        self._seen: set[tuple[int, int]] = set()
        self._handles = Handles()

    def begin(self) -> None:
        self._seen = set()

    def end(self) -> None:
        """Forgets processes that were not looked at since the beginning."""
        if len(self._files) > len(self._seen):
            self._files = {key: files for key, files in self._files.items() if key in self._seen}
        self._handles.end()

    def close(self) -> None:
        self._handles.close()

    def exists(self, pid: int) -> bool:
        return os.path.exists(f"{self._proc}/{pid}/stat")  # noqa: PTH110 - this is asked often

    def lives(self, process: Process) -> bool:
        """Whether it is there, wherever; as long as we cannot tell, it is."""
        missed = Missed()
        text = read(f"{self._proc}/{process.pid}/stat", missed)
        parsed = parse_stat(text) if text else None
        return missed.now > 0 if parsed is None else int(parsed[1][19]) == process.started

    def process(self, pid: int, missed: Missed) -> Process | None:
        """None: it has ended."""
        text = self._handles.read(f"{self._proc}/{pid}/stat", missed)
        parsed = parse_stat(text) if text else None
        if parsed is None:
            return None
        name, rest = parsed
        user, system, reaped_user, reaped_system = (int(one) for one in rest[11:15])
        text = self._handles.read(f"{self._proc}/{pid}/io", missed)
        io = parse_io(text) if text else None
        return Process(
            pid,
            name,
            rest[0].decode("ascii", "replace"),
            int(rest[1]),
            int(rest[17]),
            int(rest[19]),
            int(rest[21]) * _PAGE,
            ((user + reaped_user) / _TICKS, (system + reaped_system) / _TICKS, *(io or (0, 0, 0, 0))),
            io is not None,
            not (len(rest) > 30 and rest[30].isdigit() and int(rest[30]) & _IGNORES_CHILDREN),
        )

    def files(self, process: Process, missed: Missed) -> Files | None:
        """None: they are not for us to see."""
        key = process.pid, process.started
        folder = f"{self._proc}/{process.pid}/fd"
        before = self._files.get(key)
        if before is not None and before.looks < _LOOK_AGAIN:
            # from Linux 6.2 on a folder of descriptors has their number as its size
            try:
                count = os.stat(folder).st_size  # noqa: PTH116 - this is done for every process
            except OSError:
                return None
            if count and count == before.descriptors:
                before.looks += 1
                self._seen.add(key)
                return before
        found = self._look(process.pid, missed)
        if found is not None:
            # so that they do not all come due at the same look
            found.looks = process.pid % _LOOK_AGAIN if before is None else 0
            self._files[key] = found
            self._seen.add(key)
        return found

    def _look(self, pid: int, missed: Missed) -> Files | None:
        folder = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(folder)  # noqa: PTH208 - no need for paths
            root = os.readlink(f"{self._proc}/{pid}/root").rstrip("/")  # noqa: PTH115
        except PermissionError:
            missed.add("permission")
            return None
        except OSError:
            return None
        files, scratch = 0, False
        for name in names[:_MOST_LINKS]:
            try:
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - no need for paths
            except OSError:
                continue  # closed meanwhile
            if root and target.startswith(f"{root}/"):
                target = target[len(root) :]  # in a chroot, as its processes see it
            if target.startswith("/") and not target.startswith(_NO_FILES):
                files += 1
                if not scratch and self._scratch is not None:
                    scratch = self._scratch.match(target) is not None
        # of a process with more the rest is taken to be like those
        return Files(len(names), files * len(names) // max(1, min(len(names), _MOST_LINKS)), scratch)

    def environ(self, pid: int, missed: Missed) -> dict[str, str] | None:
        """None: it is not for us to see, or there is none."""
        text = read(f"{self._proc}/{pid}/environ", missed, _MOST_ENVIRON)
        if not text:
            return None
        pairs = (one.partition(b"=") for one in text[:_MOST_ENVIRON].split(b"\0"))
        return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs if name}

    def title(self, pid: int, missed: Missed) -> str:
        """Its command line: what a daemon calls itself."""
        text = (read(f"{self._proc}/{pid}/cmdline", missed, _MOST_TITLE) or b"")[:_MOST_TITLE]
        return text.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")

    def owner(self, pid: int, missed: Missed) -> int | None:
        """Its real user. The owner of its folder would be root for a process that may not be traced."""
        text = read(f"{self._proc}/{pid}/status", missed) or b""
        found = re.search(rb"^Uid:\s+([0-9]+)", text, re.MULTILINE)
        return int(found[1]) if found else None

    def networks(self, pids: Sequence[int], missed: Missed) -> dict[str, tuple[int, int]]:
        """Received and sent, by network; without this host's own, which all share."""
        own = self._namespace("self")
        found: dict[str, tuple[int, int]] = {}
        for pid in pids:
            name = self._namespace(str(pid))
            if own is not None and name is not None and name != own and name not in found:
                text = read(f"{self._proc}/{pid}/net/dev", missed)
                if text:
                    told = parse_network(text)
                    found[name] = sum(one for one, _ in told), sum(one for _, one in told)
        return found

    def _namespace(self, pid: str) -> str | None:
        try:
            return os.readlink(f"{self._proc}/{pid}/ns/net")  # noqa: PTH115
        except OSError:
            return None


def parse_network(text: bytes) -> list[tuple[int, int]]:
    """Of each interface but loopback: bytes received and sent."""
    found = []
    for line in text.split(b"\n"):
        name, colon, rest = line.partition(b":")
        fields = rest.split()
        if not colon or name.strip() == b"lo" or len(fields) < 9:
            continue
        received, sent = parse_number(fields[0]), parse_number(fields[8])
        if received is not None and sent is not None:
            found.append((received, sent))
    return found


def has_pids_hidden(proc: Path = Path("/proc")) -> bool:
    """Whether /proc shows us only our own processes (hidepid)."""
    try:
        (proc / "1/stat").read_bytes()
    except PermissionError:
        return True
    except OSError:
        return not (proc / "1").exists()
    return False


class Networks:
    """What was received and sent in the networks of a job, those that are gone among them."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._past = 0, 0

    def total(self, now: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
        """None as long as it never had one of its own. One that is not seen may be seen again, and stays as it was."""
        for name, told in now.items():
            before = self._last.pop(name, (0, 0))
            if told[0] < before[0] or told[1] < before[1]:
                self._put_by(before)  # another one under the same number
            self._last[name] = told
        while len(self._last) > _MOST_NETWORKS:
            self._put_by(self._last.pop(next(iter(self._last))))
        if not self._last:
            return None
        sums = [sum(one[at] for one in self._last.values()) for at in (0, 1)]
        return self._past[0] + sums[0], self._past[1] + sums[1]

    def _put_by(self, told: tuple[int, int]) -> None:
        self._past = self._past[0] + told[0], self._past[1] + told[1]


class Inheritance:
    """What the processes of a job have used, those that have ended among them.

    When a process ends and its parent reaps it, the parent's figures take in its own, so that a sum over those that
    live stays whole. Lost is what nobody reaps who is one of them: then the last that was seen of it is kept here.
    """

    def __init__(self) -> None:
        self._past: list[float] = [0] * 6
        self._last: dict[int, Process] = {}
        self._own: dict[int, Process] = {}  # the scheduler's, which reap the first process of each task
        self._most: list[float] = [0] * 6

    def unseen(self, processes: Mapping[int, Process]) -> list[Process]:
        """Those that were there at the last look, and are not among these."""
        return [one for pid, one in self._last.items() if pid not in processes]

    def total(self, processes: Mapping[int, Process], own: Mapping[int, Process]) -> list[float]:
        by_reaper: dict[int, list[float]] = {}
        for pid, process in self._last.items():
            if pid in processes and processes[pid].started == process.started:
                continue
            reaper = self._reaper(process, processes, own)
            if reaper is None:
                self._past = [one + other for one, other in zip(self._past, process.used, strict=True)]
            elif reaper in own:
                lost = by_reaper.setdefault(reaper, [0] * 6)
                by_reaper[reaper] = [one + other for one, other in zip(lost, process.used, strict=True)]
        for reaper, lost in by_reaper.items():
            # what the scheduler's process took in is what they had used in the end, and not when last seen
            before = self._own[reaper].used if reaper in self._own else own[reaper].used
            taken = (now - then for now, then in zip(own[reaper].used, before, strict=True))
            gained = [max(one, other) for one, other in zip(lost, taken, strict=True)]
            self._past = [one + other for one, other in zip(self._past, gained, strict=True)]
        self._last = dict(processes)
        self._own = dict(own)
        sums = list(self._past)
        for process in processes.values():
            for at, value in enumerate(process.used):
                sums[at] += value
        # a counter is never taken back, whatever was missed
        self._most = [max(one, other) for one, other in zip(sums, self._most, strict=True)]
        return self._most

    def _reaper(self, process: Process, processes: Mapping[int, Process], own: Mapping[int, Process]) -> int | None:
        """The nearest of those above it that lives, if that is one of the job."""
        parent, seen = process.parent, 0
        while seen < 1000:
            if parent in own:
                return parent
            above = self._last.get(parent)
            if above is None:
                return None
            if parent in processes and processes[parent].started == above.started:
                return parent if processes[parent].reaps else None
            parent, seen = above.parent, seen + 1
        return None
