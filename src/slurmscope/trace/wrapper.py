#!/usr/bin/env python3
# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a command within a Slurm job, and tells `slurmscope serve` what it uses.

One file, the standard library, Python 3.6 or newer: it can be copied to a cluster and run there by itself.

    python3 wrapper.py COMMAND…        the same as `slurmscope run COMMAND…`

The command is not to notice: it has the same input, output, environment, process group and signals, and whoever
started the wrapper sees the command's own end. Whatever becomes of the server, the command goes on.
"""

import os
import sys

if __name__ == "__main__":
    # beside this file lie modules of slurmscope's, which are not meant
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != os.path.dirname(os.path.abspath(sys.argv[0]))]

import argparse
import collections
import errno
import hashlib
import json
import math
import random
import re
import resource
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

SIGNED = "slurmscope-trace:"  # what munge signs is this and the SHA-256 of the body, in hex

HELP = "Run COMMAND within a Slurm job and tell `slurmscope serve` what it uses, while it runs."
TEACHING = """\
In a batch script:

  #SBATCH --ntasks=4
  export SLURM_EXPORTER=http://slurmscope.example.org:9092/trace
  srun slurmscope run ./simulate input.dat

Nothing else changes: the exit status, signals, input and output are the command's own, and it runs on when
the server is away. Where slurmscope is not installed, `python3 wrapper.py` does the same; it is one file.

Environment:
  SLURM_EXPORTER                where to send to (--url)
  SAMPLE_RATE                   seconds between samples (--rate), 5 if it is not set
  SLURMSCOPE_TRACE_TOKEN        the token that the server wants, or
  SLURMSCOPE_TRACE_TOKEN_FILE   a file that holds it

`slurmscope run --validate` says whether all of this is right, without a command."""


class Option(NamedTuple):
    flag: str
    metavar: str  # "": it takes no value
    help: str


OPTIONS = (
    Option("--url", "URL", "Where to send to. Default: $SLURM_EXPORTER."),
    Option("--rate", "SECONDS", "Seconds between samples. Default: $SAMPLE_RATE, or 5."),
    Option("--munge", "", "Prove by munge who sends, in place of a token."),
    Option("--dry-run", "", "Run the command, and print what would be sent to stderr."),
    Option("--validate", "", "Only look whether the server is there and lets us in; needs no command."),
)

_RATE, _LEAST_RATE, _MOST_RATE = 5.0, 0.1, 3600.0
_FIRST = 1.0  # seconds until the first sample: short commands are to be seen too
_RING = 720  # samples that wait while the server is away
_BATCH = 80  # samples in one body, which stays below the 64 KiB that are taken
_OLDEST = 3500.0  # seconds; what is older is not taken any more
_TIMEOUT = 5.0  # of each step of a talk with the server
_LAST_WORDS = 2.0  # seconds spent on sending what is left, when the command has ended
_LEAST_PAUSE, _MOST_PAUSE, _MOST_RETRY = 1.0, 60.0, 300.0
_MOST_ANSWER = 1 << 16
_PATIENCE = 5  # times that a refusal is met which may pass, such as that of a clock that is being set
_MOST_SHARE = 0.01  # of one core, for looking; where a look costs more there are fewer of them
_LOOKS = 3  # at one moment, when processes vanish while they are looked at
_STACK = 512 << 10  # bytes, of the thread that sends; the usual 8 MiB may be more than a job's limits leave
_STOPS_WITHIN = 5.0  # seconds from a SIGTSTP that was passed on to the stop that it asked for
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127  # as a shell says it
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

# prctl's, which Python has no names for
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36
# siginfo's: who sent a signal
_BY_KERNEL = 0x80


def say(text: str, head: str = "slurmscope: ") -> None:
    """To the job's stderr, if it has one; what nobody reads is no reason to fail."""
    if sys.stderr is not None:  # else another file may have its number by now
        try:
            os.write(2, ("%s%s\n" % (head, text)).encode("utf-8", "backslashreplace"))
        except (OSError, MemoryError):
            pass


def prctl(option: int, value: int) -> None:
    try:
        import ctypes  # noqa: PLC0415 - not in every Python, and only needed here

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError, MemoryError):
        pass


# --- what is used -----------------------------------------------------------------------------------------------


class Stat(NamedTuple):
    """Of /proc/PID/stat."""

    parent: int
    seconds: float  # of processor time, its reaped children's too
    threads: int
    rss: int


# What is said of a process that has ended, or that is not ours to look at. Any other error is a fault of our own, and
# must not be taken for that: a command without processes would be told of.
_NOT_SEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


def _stat(pid: int) -> Optional[Stat]:
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may hold anything, brackets too
        seconds = sum(map(int, fields[11:15])) / _TICKS
        return Stat(int(fields[1]), seconds, int(fields[17]), int(fields[21]) * _PAGE)
    except (ValueError, IndexError) + _NOT_SEEN:
        return None


def _io(pid: int) -> Optional[Tuple[int, int]]:
    """What a process, and the children that it reaped, read from and wrote to storage."""
    try:
        with open("/proc/%d/io" % pid) as file:
            found = dict(line.split(":") for line in file.read().splitlines())
        return int(found["read_bytes"]), int(found["write_bytes"])
    except (ValueError, KeyError) + _NOT_SEEN:
        return None


def _children(pid: int, threads: int) -> List[int]:
    """As the kernel has them, for each thread of its own."""
    try:
        tasks = [str(pid)] if threads == 1 else os.listdir("/proc/%d/task" % pid)
    except _NOT_SEEN:
        return []
    found = []  # type: List[int]
    for task in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, task), "rb") as file:
                found += map(int, file.read().split())
        except _NOT_SEEN:
            continue  # the thread has ended meanwhile
    return found


def _scanned() -> Dict[int, List[int]]:
    """The children of every process of the host, for kernels that do not tell those of one."""
    children = {}  # type: Dict[int, List[int]]
    for name in os.listdir("/proc"):
        stat = _stat(int(name)) if name.isdigit() else None
        if stat is not None:
            children.setdefault(stat.parent, []).append(int(name))
    return children


def _tells_children() -> bool:
    """Whether the kernel was built to (CONFIG_PROC_CHILDREN)."""
    return os.path.exists("/proc/%d/task/%d/children" % (os.getpid(), os.getpid()))


def processes(root: int) -> Tuple[Dict[int, Stat], bool]:
    """All that run below one, and whether one of them vanished meanwhile.

    A parent is always read before its children: a child that it reaps after that is missed at worst. The other way
    round the child's time would be counted twice, as its own and as its parent's.
    """
    scanned = None if _tells_children() else _scanned()
    found = {}  # type: Dict[int, Stat]
    whole = True
    left = [root]
    while left:
        pid = left.pop()
        stat = _stat(pid)
        if stat is None:
            whole = False
        elif pid not in found:
            found[pid] = stat
            left += _children(pid, stat.threads) if scanned is None else scanned.get(pid, [])
    found.pop(root, None)
    return found, whole


class Meter:
    """Samples of the command and its descendants, those that were left by their parents included."""

    def __init__(self, pid: int, started: float, fixed: Dict[str, Any]) -> None:
        self._pid = pid
        self._started = started  # by the clock, in epoch seconds
        self._fixed = fixed
        self._began = time.monotonic() - max(0.0, time.time() - started)
        self._last, self._since = self._began, 0.0  # the moment that percents are counted from
        self._percent = None  # type: Optional[float]
        self._told = 0.0  # the last sample's time
        self._seconds = 0.0  # the most that was seen; a counter must not fall when a process is lost sight of
        self._read = None  # type: Optional[int]
        self._written = None  # type: Optional[int]
        # of those that we had to reap ourselves
        self._reaped_seconds = 0.0
        self._reaped_io = (0, 0)

    def reaping(self, pid: int) -> None:
        """Before its figures are gone: nobody else adds them to its own."""
        try:
            io = _io(pid)
        except OSError:
            return  # no descriptor is left; it is to be reaped all the same
        if io is not None:
            self._reaped_io = (self._reaped_io[0] + io[0], self._reaped_io[1] + io[1])

    def reaped(self, usage: Any) -> None:
        self._reaped_seconds += usage.ru_utime + usage.ru_stime

    def _seen(self, others: Set[int]) -> Dict[int, Stat]:
        for _ in range(_LOOKS):
            found, whole = processes(os.getpid())
            if whole:
                break
        for pid in others:
            found.pop(pid, None)
        return found

    def _time(self) -> float:
        """Now, and later than the last sample's: one that is not newer would be passed over."""
        now = time.time()
        if now > self._told - 1.0:  # else the clock was set back, and is right now
            now = max(now, self._told + 0.001)
        self._told = round(now, 3)
        return self._told

    def sample(self, others: Set[int]) -> Dict[str, Any]:
        """`others` are children of ours that are not the command's."""
        found = self._seen(others)
        now = time.monotonic()
        cores = os.cpu_count() or 1
        # whatever a kernel says, no more than all cores can have worked
        most = cores * (now - self._began)
        seconds = max(self._seconds, min(most, self._reaped_seconds + sum(stat.seconds for stat in found.values())))
        told = [io for io in map(_io, found) if io is not None]
        if told or any(self._reaped_io):
            self._read = max(self._read or 0, self._reaped_io[0] + sum(io[0] for io in told))
            self._written = max(self._written or 0, self._reaped_io[1] + sum(io[1] for io in told))
        if self._percent is None or now - self._last >= _LEAST_RATE:  # else it would be mostly noise
            percent = 100 * (seconds - self._since) / max(now - self._last, 0.001)
            self._percent = min(percent, 100.0 * cores)
            self._last, self._since = now, seconds
        self._seconds = seconds
        at = self._time()
        sample = dict(self._fixed)
        sample.update(
            time=at,
            started=min(round(self._started, 3), at),  # the clock may have been set back since
            pid=self._pid,
            cpus=round(self._percent, 1),
            cpu_seconds=round(seconds, 2),
            threads=sum(stat.threads for stat in found.values()),
            mem=sum(stat.rss for stat in found.values()),
            read_bytes=self._read,
            write_bytes=self._written,
        )
        return sample


def about_us() -> Dict[str, Any]:
    """What is the same in all samples. Nobody is asked for it here: a directory service may hang."""
    job = os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID") or ""
    user = os.environ.get("SLURM_JOB_USER") or os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    fixed = {
        "job_id": int(job) if job.isdigit() else None,
        "hostname": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "username": user,
    }  # type: Dict[str, Any]
    if os.environ.get("SLURM_CLUSTER_NAME"):
        fixed["cluster"] = os.environ["SLURM_CLUSTER_NAME"]
    return fixed


def account() -> str:
    """The name of our user, where the environment does not tell it."""
    import pwd  # noqa: PLC0415 - seldom needed

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return ""


# --- the server -------------------------------------------------------------------------------------------------


class Trouble(Exception):
    """The server did not take it; `retry` is None if it never will, else seconds (0: as usual).

    `passing`: it refuses, and may take it later. It is asked a few times more.
    """

    def __init__(self, text: str, retry: Optional[float] = 0.0, passing: bool = False) -> None:
        Exception.__init__(self, text)
        self.retry = retry
        self.passing = passing


# what to do about an answer that is final
_CURES = {
    403: "trace jobs as the user whose they are",
    404: "no traces are taken there: is trace.enabled set, and is the path right?",
    405: "no traces are taken there: is trace.enabled set, and is the path right?",
    413: "it takes less than 64 KiB: raise the limit of the proxy before it",
    415: "it takes no JSON: is it slurmscope's?",
}
_OF_CLOCK = re.compile(r"(\[\d+\]\.)?time:")
_OF_CREDENTIAL = re.compile(r"\b(expired|rewound|replayed) credential", re.IGNORECASE)


class Endpoint:
    """Where samples go. Raises Trouble, and nothing else."""

    def __init__(self, url: str, munge: bool) -> None:
        self.url = url
        # A password is not for the job's output. It may hold anything, so all before the last @ may be of it.
        self.shown = re.sub(r"^([^/@]*//)?.*@", r"\1", url, flags=re.DOTALL)
        self._munge = munge
        self.signing = set()  # type: Set[int]  # processes of munge

    def _authorization(self, body: bytes) -> Dict[str, str]:
        if self._munge:
            return {"Authorization": "Munge " + self._credential(body)}
        token = os.environ.get("SLURMSCOPE_TRACE_TOKEN", "")
        path = os.environ.get("SLURMSCOPE_TRACE_TOKEN_FILE", "")
        if not token and path:
            try:
                with open(path) as file:
                    token = file.read(4096)
            except (OSError, ValueError) as error:
                raise Trouble("SLURMSCOPE_TRACE_TOKEN_FILE: %s" % error, None) from None
        return {"Authorization": "Bearer " + token.strip()} if token.strip() else {}

    def _credential(self, body: bytes) -> str:
        text = (SIGNED + hashlib.sha256(body).hexdigest()).encode()
        try:
            process = subprocess.Popen(["munge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise Trouble("munge cannot be run (%s); a token does without it" % error, None) from None
        self.signing.add(process.pid)
        try:
            out, complaints = process.communicate(text, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Trouble("munge does not answer; is munged well?") from None
        finally:
            self.signing.discard(process.pid)
        # by its words, for its status may be taken by the loop that waits for the command
        credential = out.decode("ascii", "replace").strip()
        if not credential.startswith("MUNGE:"):
            raise Trouble("munge: %s" % complaints.decode("utf-8", "replace").strip()[:200])
        return credential

    def ask(self, method: str, body: bytes = b"") -> Tuple[int, Dict[str, str], bytes]:
        """Status, headers and the beginning of an answer."""
        import http.client  # noqa: PLC0415 - it takes a while, and only the thread that sends needs it
        import urllib.parse  # noqa: PLC0415

        if "@" in self.url:
            words = "%s: no user and password are taken in an address; give a token, or --munge"
            raise Trouble(words % self.shown, None)
        try:
            parts = urllib.parse.urlsplit(self.url)
            port = parts.port
        except ValueError as error:
            raise Trouble("%s: %s" % (self.url, error), None) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Trouble("%s: expected http://HOST:PORT/trace (--url, SLURM_EXPORTER)" % self.url, None)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if method == "POST":
            headers.update(self._authorization(body))
        # by itself, and not by a proxy that the environment names: those are for the world outside
        if parts.scheme == "https":
            connection = _secure(parts.hostname, port)
        else:
            connection = http.client.HTTPConnection(parts.hostname, port, timeout=_TIMEOUT)
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        try:
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read(_MOST_ANSWER)
        except http.client.HTTPException as error:
            words = str(error) or type(error).__name__
            raise Trouble("%s does not answer in HTTP (%.100r)" % (self.url, words)) from None
        except (OSError, ValueError) as error:  # ValueError: what is in a header must not be
            raise Trouble("%s cannot be reached: %s" % (self.url, error)) from None
        finally:
            connection.close()

    def send(self, samples: List[Dict[str, Any]]) -> None:
        # one by itself as rivosinc's wrapper sends it, so that its exporter takes it too
        body = json.dumps(samples[0] if len(samples) == 1 else samples).encode()
        status, headers, answer = self.ask("POST", body)
        if status // 100 == 2:
            return
        raise self._refusal(status, headers, _words(answer))

    def _refusal(self, status: int, headers: Dict[str, str], words: str) -> Trouble:
        text = "%s answered %d%s" % (self.url, status, ": " + words if words else "")
        if status in (408, 429) or status >= 500:
            return Trouble(text, _retry_after(headers.get("retry-after", "")))
        if status == 400 and _OF_CLOCK.match(words):
            return Trouble(text, passing=True)
        if status == 401 and self._munge and _OF_CREDENTIAL.search(words):
            return Trouble(text, passing=True)  # each try is signed anew
        cure = _CURES.get(status)
        return Trouble("%s (%s)" % (text, cure) if cure else text, None)


def _secure(host: str, port: Optional[int]) -> Any:
    import http.client  # noqa: PLC0415
    import ssl  # noqa: PLC0415 - it takes long to load

    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=ssl.create_default_context())


def _words(answer: bytes) -> str:
    text = answer.decode("utf-8", "replace").strip()[:200]
    return "".join(char if char.isprintable() else " " for char in text)


def _retry_after(value: str) -> float:
    return min(float(value), _MOST_RETRY) if value.isdigit() and len(value) < 10 else 0.0


class Sender(threading.Thread):
    """Sends what is given to it, when it can. Nobody waits for it but `finish`, and that not for long."""

    def __init__(self, endpoint: Endpoint) -> None:
        threading.Thread.__init__(self, name="send", daemon=True)
        self.given_up = False  # the server will never take them
        self._endpoint = endpoint
        self._news = threading.Condition()
        self._ring = collections.deque(maxlen=_RING)  # type: Deque[Dict[str, Any]]
        self._ended = False
        self._complained = False
        self._refusals = 0  # one after another, that may pass
        self._account = None  # type: Optional[str]

    def give(self, sample: Dict[str, Any]) -> None:
        with self._news:
            self._ring.append(sample)
            self._news.notify()

    def finish(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify()
        self.join(_LAST_WORDS)

    def run(self) -> None:
        pause = 0.0
        while self._wait(pause):
            last = self._ended
            try:
                self._send()
                pause = 0.0
                self._refusals = 0
            except Trouble as trouble:
                self._refusals += 1 if trouble.passing else 0
                if trouble.retry is None or self._refusals > _PATIENCE:
                    say("%s; nothing more is sent, the command goes on" % trouble)
                    self.given_up = True
                    return
                if not self._complained:
                    say("%s; the command goes on, and samples are sent later" % trouble)
                    self._complained = True
                if last:
                    return
                doubled = min(max(2 * pause, _LEAST_PAUSE), _MOST_PAUSE) * random.uniform(0.8, 1.2)
                pause = trouble.retry or doubled
            except Exception as error:
                # a thread that dies would print a traceback into the job's output
                say("tracing has failed (%r); the command goes on" % error)
                self.given_up = True
                return

    def _wait(self, pause: float) -> bool:
        """Until there is something to send, and for as long as the server is to be left alone."""
        end = time.monotonic() + pause
        with self._news:
            while not self._ended and (not self._ring or time.monotonic() < end):
                self._news.wait(max(0.0, end - time.monotonic()) if self._ring else None)
            return bool(self._ring)

    def _send(self) -> None:
        with self._news:
            self._drop_hopeless()
            batch = list(self._ring)[:_BATCH]
        if not batch:
            return
        self._endpoint.send([self._named(sample) for sample in batch])
        with self._news:
            for sample in batch:
                # those that are gone already were pushed out by newer ones
                if self._ring and self._ring[0] is sample:
                    self._ring.popleft()

    def _drop_hopeless(self) -> None:
        """What is too old to be taken, and what is of a clock that was ahead and has been set back since."""
        now = time.time()
        good = [sample for sample in self._ring if now - _OLDEST <= sample["time"] <= now + 1.0]
        if len(good) < len(self._ring):
            self._ring.clear()
            self._ring.extend(good)

    def _named(self, sample: Dict[str, Any]) -> Dict[str, Any]:
        if sample["username"]:
            return sample
        if self._account is None:
            self._account = account()
        return dict(sample, username=self._account)


# --- the command ------------------------------------------------------------------------------------------------

# Left alone: what cannot be caught, what a fault of our own would raise, what Python itself needs, and what stops
# whoever uses a terminal from the background.
_OWN = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGTTIN,
    signal.SIGTTOU,
}
_WATCHED = {
    number for number in list(range(1, 32)) + list(range(signal.SIGRTMIN, signal.SIGRTMAX + 1)) if number not in _OWN
}
# The kernel sends these to all of a terminal's foreground process group, and so to the command itself.
_OF_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGCONT, signal.SIGHUP}


def as_it_was() -> None:
    """Takes back what Python does to the process at its start, and what a command would inherit."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        with open("/proc/self/environ", "rb") as file:
            given = {one.partition(b"=")[0] for one in file.read().split(b"\0")}
        if b"LC_CTYPE" not in given:
            os.environ.pop("LC_CTYPE", None)  # Python sets it in the C locale (PEP 538)
    except OSError:
        pass


def _exec(command: List[str]) -> None:
    """Becomes the command, or raises OSError."""
    if not command[0]:  # of which Python would say something else
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    os.execvp(command[0], command)


def replaced(command: List[str]) -> int:
    """Becomes the command; if that cannot be, the status that a shell would give."""
    as_it_was()
    try:
        _exec(command)
    except OSError as error:
        return failed(command, error)
    return _NOT_EXECUTABLE  # never reached: there is another program by now


def failed(command: List[str], error: OSError) -> int:
    say("%s: %s" % (command[0] or "''", error.strerror))
    return _NOT_EXECUTABLE if _is_there(command[0]) else _NOT_FOUND


def _is_there(name: str) -> bool:
    """Whether a shell would find it. A script that is there, and whose interpreter is not, gives the same error."""
    if "/" in name:
        return os.path.exists(name)
    return any(os.path.isfile(os.path.join(folder, name)) for folder in os.get_exec_path())


def _sent_to_all(info: Any, command: int) -> bool:
    """Whether the command has got the signal as well."""
    if info.si_code == _BY_KERNEL and info.si_signo in _OF_TERMINAL:
        # of a terminal that hangs up, only the leader of the session is told
        return info.si_signo != signal.SIGHUP or os.getsid(0) != os.getpid()
    try:
        with open("/proc/%d/comm" % info.si_pid) as file:
            sender = file.read().strip()
        if sender == "timeout":
            return _sent_to_group(info.si_pid, command)
    except OSError:
        return False
    # Slurm signals every process of a step; of a batch job, where it is told to, the script alone, which may be us
    told = "SLURM_STEP_ID" in os.environ or os.environ.get("SLURM_TASK_PID") != str(os.getpid())
    return sender == "slurmstepd" and told


def _sent_to_group(sender: int, command: int) -> bool:
    """Whether that `timeout` signals all of its process group, the command among it.

    That of coreutils does, unless it is told to stay in the foreground; it makes itself the leader of the group. Of
    no other sender can it be known: a script signals one process, or all of its group, and looks the same.
    """
    if sender != os.getppid() or not sender == os.getpgrp() == os.getpgid(command):
        return False
    if os.path.basename(os.readlink("/proc/%d/exe" % sender)) not in ("timeout", "coreutils"):
        return False  # another program of that name
    with open("/proc/%d/cmdline" % sender, "rb") as file:
        return not _stays_in_foreground(file.read().split(b"\0")[1:])


def _stays_in_foreground(words: List[bytes]) -> bool:
    """Of the words that `timeout` was started with. In doubt it does: rather a signal twice than lost."""
    value = False
    for word in words:
        if value:
            value = False
        elif not word.startswith(b"-"):
            return False  # the duration, and behind it the command
        elif b"f" in word:
            return True
        elif word.startswith(b"--"):
            value = word[:3] in (b"--s", b"--k") and b"=" not in word
        else:
            value = word[-1:] in (b"s", b"k")
    return False


def _in_foreground() -> bool:
    """Whether there is a terminal, and it is ours: whoever reads from it may press Ctrl-Z."""
    try:
        with open("/proc/self/stat", "rb") as file:
            group, _, terminal, foreground = map(int, file.read().rpartition(b")")[2].split()[2:6])
    except (OSError, ValueError):
        return False
    return terminal != 0 and group == foreground


class Unstarted(Exception):
    """No process could be made for the command, which has not been run."""


def _forked(argv: List[str], prepare: Callable[[], None]) -> int:
    """The process of the command. OSError if that cannot be run, Unstarted if there can be no process."""
    try:
        told, tell = os.pipe()
    except OSError as error:
        raise Unstarted(error.strerror) from None
    try:
        pid = os.fork()
    except (OSError, MemoryError) as error:
        os.close(told)
        os.close(tell)
        raise Unstarted(os.strerror(getattr(error, "errno", errno.ENOMEM))) from None
    if pid == 0:
        _become(argv, prepare, tell)
    os.close(tell)
    words = os.read(told, 16)  # nothing, once the command is there and the pipe is closed by that
    os.close(told)
    if not words:
        return pid
    os.waitpid(pid, 0)
    if words == b"0":
        raise Unstarted("its process could not be made ready")
    raise OSError(int(words), os.strerror(int(words)))


def _become(argv: List[str], prepare: Callable[[], None], tell: int) -> None:
    """In the new process: never returns."""
    number = 0  # such as no memory: the caller can do without this process
    try:
        prepare()
        _exec(argv)
    except OSError as error:
        number = error.errno or errno.ENOEXEC
    finally:
        os.write(tell, b"%d" % number)
        os._exit(_NOT_EXECUTABLE)


class Command:
    """The command, as a child of ours. OSError if it cannot be run, Unstarted if it can only be run in our place."""

    def __init__(self, argv: List[str]) -> None:
        # Signals are blocked, and taken one by one where they can be looked at; nothing is handled, so that the
        # command inherits what we did. One that comes while the command is being started is not lost.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # were they ignored, the kernel would not tell how the command ended
        ignored = signal.signal(signal.SIGCHLD, signal.SIG_DFL) == signal.SIG_IGN
        prctl(_SET_CHILD_SUBREAPER, 1)

        def prepare() -> None:
            if ignored:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            as_it_was()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        self.started = time.time()
        try:
            self.pid = _forked(argv, prepare)  # no thread runs yet, so that `prepare` is safe
        except Unstarted:
            # it is preserved when another program takes our place
            prctl(_SET_CHILD_SUBREAPER, 0)
            prepare()
            raise
        self._stops_until = 0.0

    def forward(self, info: Any) -> None:
        if info.si_signo == signal.SIGCHLD or _sent_to_all(info, self.pid):
            return
        if info.si_signo == signal.SIGTSTP:
            self._stops_until = time.monotonic() + _STOPS_WITHIN
        try:
            os.kill(self.pid, info.si_signo)
        except OSError:
            pass  # it has ended, or has become another user's

    def _stop_too(self) -> bool:
        """Whether somebody stopped us with the command, and will continue us.

        That is a shell after Ctrl-Z, or whoever sent us the signal that we passed on. A command that stops by itself
        is continued by those that know of it, and they do not know of us.
        """
        until, self._stops_until = self._stops_until, 0.0
        return time.monotonic() < until or _in_foreground()

    def status(self, meter: Meter) -> Optional[int]:
        """How it ended, as wait() tells it; None while it runs."""
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            try:
                stopped = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
            except ChildProcessError:
                return None  # it ended this moment, and is not stopped
            if stopped is not None and stopped.si_status == signal.SIGTSTP and self._stop_too():
                os.kill(os.getpid(), signal.SIGSTOP)  # so that whoever waits for us sees it
            return None
        meter.reaping(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        meter.reaped(usage)
        return status

    def orphans(self, meter: Meter, others: Set[int]) -> None:
        """Reaps those that were left to us."""
        for pid in _ended():
            if pid == self.pid or pid in others:
                return
            meter.reaping(pid)
            try:
                _, _, usage = os.wait4(pid, 0)
            except OSError:
                return
            meter.reaped(usage)


def _ended() -> Iterator[int]:
    """Children that have ended, as long as each is reaped before the next is asked for."""
    while True:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            return  # there are none
        if info is None:
            return
        yield info.si_pid


def end(status: int) -> None:
    """Ends as the command did, so that whoever waits for us sees the same."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # the command may have left a core; a second one, of ours, would be of no use
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        prctl(_SET_DUMPABLE, 0)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # the first process of a container does not die of its own signals
    # at once: a thread that still talks to a server must not be waited for
    os._exit(os.WEXITSTATUS(status))


class Tracing:
    """Looks at the command now and then. Whatever goes wrong here ends the tracing, and never the command."""

    def __init__(self, meter: Meter, rate: float, endpoint: Optional[Endpoint]) -> None:
        self.others = endpoint.signing if endpoint is not None else set()  # type: Set[int]
        self._meter = meter
        self._rate = rate
        self._sender = None  # type: Optional[Sender]
        self._over = False
        self._first = True
        self._due = time.monotonic() + min(_FIRST, rate)
        if endpoint is not None:
            self._start(endpoint)

    def _start(self, endpoint: Endpoint) -> None:
        try:
            threading.stack_size(_STACK)
            sender = Sender(endpoint)
            sender.start()
            self._sender = sender
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        if not self._over:
            self._over = True
            say("tracing has failed (%s); the command goes on" % (error or type(error).__name__))

    @property
    def _wanted(self) -> bool:
        return not self._over and (self._sender is None or not self._sender.given_up)

    def _tell(self) -> None:
        try:
            sample = self._meter.sample(self.others)
            if self._sender is not None:
                self._sender.give(sample)
            else:
                say(json.dumps(dict(sample, username=sample["username"] or account())), head="")
        except Exception as error:
            self.fail(error)

    def look(self) -> float:
        """If it is time to; how many seconds there are until the next look."""
        now = time.monotonic()
        if now >= self._due:
            before = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
            if self._wanted:
                self._tell()
            cost = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) - before
            # not all tasks of a job at the same moment
            pause = self._rate * (random.uniform(0.5, 1.0) if self._first else 1.0)
            self._due = time.monotonic() + max(pause, cost / _MOST_SHARE)
            self._first = False
        return max(0.0, self._due - time.monotonic())

    def finish(self) -> None:
        """One more look, at what the command has come to, and the sending of what is left."""
        if self._wanted:
            self._tell()
        try:
            if self._sender is not None:
                self._sender.finish()
        except Exception as error:
            self.fail(error)


def _waited(command: Command, meter: Meter, tracing: Tracing) -> int:
    """How the command ended; until then it is looked at, and signals are passed on."""
    while True:
        status = command.status(meter)
        if status is not None:
            return status
        command.orphans(meter, tracing.others)
        info = signal.sigtimedwait(_WATCHED, tracing.look())
        if info is not None:
            command.forward(info)


def traced(argv: List[str], fixed: Dict[str, Any], rate: float, endpoint: Optional[Endpoint]) -> int:
    """Runs the command and samples it; how it ended, as wait() tells it. Without an endpoint samples are printed."""
    try:
        command = Command(argv)
    except Unstarted as error:
        say("no process can be made for it (%s): the command is run untraced" % error)
        return replaced(argv) << 8
    except OSError as error:
        return failed(argv, error) << 8
    meter = Meter(command.pid, command.started, fixed)
    tracing = Tracing(meter, rate, endpoint)
    while True:
        try:
            status = _waited(command, meter, tracing)
            break
        except Exception as error:
            # such as no memory: there is nothing to do but to wait on, and not so fast that it costs much
            tracing.fail(error)
            time.sleep(_LEAST_RATE)
    tracing.finish()
    return status


# --- the program ------------------------------------------------------------------------------------------------


def validate(endpoint: Endpoint) -> int:
    """Whether the server is there, speaks our language and lets us in. Nothing is said of any job."""
    if not endpoint.url:
        say("no address: set SLURM_EXPORTER (or --url) to http://HOST:PORT/trace of `slurmscope serve`")
        return 1
    try:
        status, headers, answer = endpoint.ask("GET")
        if status == 404:
            raise Trouble("%s answered 404: set trace.enabled there, and give the path of trace.path" % endpoint.url)
        if status != 200 or not headers.get("content-type", "").startswith("application/schema+json"):
            raise Trouble("%s answered %d and no schema: is it slurmscope's?" % (endpoint.url, status))
        try:
            known = set(json.loads(answer.decode())["$defs"]["Body"]["properties"])
        except (ValueError, KeyError, TypeError, RecursionError):
            known = set()
        ours = {"job_id", "pid", "cpus", "threads", "mem", "hostname", "time"}
        if not ours <= known:
            raise Trouble("%s takes other things than we send; is its slurmscope of another version?" % endpoint.url)
        endpoint.send([])
    except Trouble as trouble:
        say(str(trouble))
        return 1
    say("%s is there, takes what we send, and lets us in" % endpoint.url)
    if about_us()["job_id"] is None:
        say("this is no job (no SLURM_JOB_ID): here a command would be run untraced")
    return 0


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not _LEAST_RATE <= rate <= _MOST_RATE:
        raise argparse.ArgumentTypeError("expected seconds from %g to %g, found %r" % (_LEAST_RATE, _MOST_RATE, text))
    return rate


def _parsed(argv: List[str]) -> Tuple[argparse.Namespace, List[str]]:
    """The options and the command, which begins where the options end: its own are not ours."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s [OPTIONS] [--] COMMAND...",  # ASCII, which every locale can print
        description=HELP,
        epilog=TEACHING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    valued = set()
    for option in OPTIONS:
        if option.metavar:
            valued.add(option.flag)
            parser.add_argument(
                option.flag, metavar=option.metavar, help=option.help, type=_rate if option.flag == "--rate" else str
            )
        else:
            parser.add_argument(option.flag, action="store_true", help=option.help)
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "--":
        at += 2 if argv[at] in valued else 1
    options = parser.parse_args(argv[:at])
    command = argv[at + 1 :] if argv[at : at + 1] == ["--"] else argv[at:]
    if not command and not options.validate:
        parser.error("no command is given: --help shows how")
    return options, command


def _rate_of(given: Optional[float]) -> float:
    if given is None and os.environ.get("SAMPLE_RATE"):
        try:
            given = _rate(os.environ["SAMPLE_RATE"])
        except argparse.ArgumentTypeError as error:
            say("SAMPLE_RATE: %s; it is %g then" % (error, _RATE))
    return _RATE if given is None else given


def main(argv: Optional[List[str]] = None) -> int:
    options, command = _parsed(sys.argv[1:] if argv is None else argv)
    endpoint = Endpoint(options.url or os.environ.get("SLURM_EXPORTER", ""), options.munge)
    if options.validate:
        return validate(endpoint)
    fixed = about_us()
    if not options.dry_run:
        why = "" if endpoint.url else "SLURM_EXPORTER is not set"
        if not why and fixed["job_id"] is None:
            why = "this is no job (no SLURM_JOB_ID)"
        if why:
            say("%s: the command is run untraced" % why)
            return replaced(command)
    end(traced(command, fixed, _rate_of(options.rate), None if options.dry_run else endpoint))
    return 1  # never reached: `end` does not return


if __name__ == "__main__":
    sys.exit(main())
