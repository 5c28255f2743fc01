#!/usr/bin/env python3
# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a Slurm cluster what slurmscope wants to know, and prints the answers as one JSON document.

One file, the standard library, Python 3.6 or newer: it can be copied to a cluster and run there by itself.

    python3 probe.py > cluster.json                     all parts, by Slurm's commands
    python3 probe.py --ways pyslurm --parts jobs,nodes  some parts, by PySlurm

`slurmscope … --from cluster.json` reads the document wherever slurmscope is. Over ssh, slurmscope runs this file on
the cluster itself. The tables below are the only place where the commands are written down; nothing else is run.
"""

import os
import sys

if __name__ == "__main__":
    # beside this file lie modules of slurmscope's that have names of the standard library's, and PySlurm's
    sys.path[:] = [one for one in sys.path if os.path.abspath(one) != os.path.dirname(os.path.abspath(sys.argv[0]))]

import argparse
import base64
import enum
import importlib
import json
import math
import multiprocessing
import pwd
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

FORMAT = "slurmscope bundle"
VERSION = 1

# The same for all commands. %s makes every time an epoch second, so that the cluster's time zone never matters;
# 0 makes squeue print the task ids of an array whole.
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}
# Variables that begin so hold defaults for options, and are kept from the commands.
DEFAULTS = ("SQUEUE_", "SINFO_", "SCONTROL_", "SSHARE_", "SACCTMGR_", "SACCT_", "SLURM_CLUSTERS", "SLURM_JSON")

# squeue: fields whose words are Slurm's or an administrator's. They come first and end in a bar: what stands behind
# them cannot move them, and a row is half as long as with marks throughout.
PLAIN_FIELDS = (
    "JobID JobArrayID UserName Account Partition QOS State Reason PriorityLong NumNodes NumCPUs tres-alloc "
    "SubmitTime EligibleTime StartTime EndTime TimeLimit NodeList Reservation AllocNodes RestartCnt exit_code"
).split()
# … and fields that hold what a user wrote.
FREE_FIELDS = ("Dependency", "Feature", "Licenses", "Name")
SHARE_FIELDS = ("Account User Partition RawShares NormShares RawUsage NormUsage EffectvUsage FairShare LevelFS").split()
COORDINATOR_FIELDS = ("Account", "Coordinators")
# sacct, where every field ends in a mark.
HISTORY_FIELDS = (
    "JobIDRaw JobID User Account Partition QOS State Reason Priority ReqTRES AllocTRES Submit Eligible Start "
    "End Suspended TimelimitRaw NodeList Reservation Constraints ExitCode DerivedExitCode TotalCPU NTasks "
    "TRESUsageInMax TRESUsageInTot TRESUsageOutTot ConsumedEnergyRaw JobName WorkDir SubmitLine"
).split()
WINDOW = ("now-1hours", "now")  # the time that sacct is asked for where nobody says otherwise

_SQUEUE_FORMAT = ",".join(
    [field + ":|" for field in PLAIN_FIELDS]
    + [field + ":{field}" for field in FREE_FIELDS[:-1]]
    + [FREE_FIELDS[-1] + ":{end}"]
)

_SACCT_FORMAT = "--format=" + ",".join(HISTORY_FIELDS)

TEXT, JSON, PYSLURM = "text", "json", "pyslurm"
INSTALLED = "installed"  # no way to read a part: which Slurm a program is of, for `slurmscope doctor`
PROGRAMS = ("squeue", "scontrol", "sdiag", "sshare", "sacctmgr", "sacct", "sinfo")


class Row(NamedTuple):
    """A question: the part of the picture that it fills, and the command."""

    way: str
    part: str
    argv: Tuple[str, ...]  # {field} and {end} stand for the marks of the run
    good: Tuple[int, ...] = (0,)  # exit statuses that come with an answer
    most_bytes: int = 64 << 20  # an answer that is longer is none
    old: Tuple[str, ...] = ()  # what is run where the command does not know the option
    least_seconds: float = 0  # it is given this long, even where slurm.timeout is shorter


def _row(way: str, part: str, command: str, **more: Any) -> Row:
    return Row(way, part, tuple(command.split()), **more)


# By their states, for without them sacct leaves out who was cancelled before they could ever run. Units as they are:
# else sacct rounds.
_SACCT = (
    "sacct --allusers --duplicates --noconvert --starttime={since} --endtime={until} "
    "--state=BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO "
)
_OF_A_DATABASE = {"least_seconds": 120}
_LONG, _LONGER, _LONGEST = 256 << 20, 512 << 20, 2 << 30
ROWS = (
    _row(TEXT, "jobs", "squeue --local --noheader --all --states=all --Format " + _SQUEUE_FORMAT, most_bytes=_LONG),
    _row(TEXT, "nodes", "scontrol show nodes --all --future --details --oneliner"),
    _row(TEXT, "scheduler", "sdiag"),
    _row(TEXT, "controllers", "scontrol ping", good=(0, 1)),
    _row(TEXT, "partitions", "scontrol show partitions --all --oneliner"),
    _row(TEXT, "reservations", "scontrol show reservations --oneliner"),
    _row(TEXT, "licenses", "scontrol show licenses --oneliner"),
    _row(TEXT, "limits", "scontrol show assoc_mgr --oneliner"),
    _row(TEXT, "shares", "sshare --all --noheader --parsable2 --format " + ",".join(SHARE_FIELDS)),
    _row(TEXT, "accounting", "sacctmgr show stats"),
    _row(
        TEXT,
        "coordinators",
        "sacctmgr --noheader --parsable2 show account withcoord format=" + ",".join(COORDINATOR_FIELDS),
    ),
    _row(TEXT, "config", "scontrol show config"),
    _row(
        TEXT,
        "history",
        _SACCT + "--noheader --parsable --delimiter={field} " + _SACCT_FORMAT,
        most_bytes=_LONG,
        **_OF_A_DATABASE,
    ),
    _row(JSON, "jobs", "squeue --local --all --states=all --json", most_bytes=_LONGEST),
    _row(
        JSON,
        "nodes",
        "scontrol show nodes --all --future --details --json",
        most_bytes=_LONGER,
        old=("sinfo", "--all", "--json"),  # up to 22.05, where it has one record a node; later ones group them
    ),
    _row(JSON, "scheduler", "sdiag --json"),
    _row(JSON, "controllers", "scontrol ping --json", good=(0, 1)),
    _row(JSON, "partitions", "scontrol show partitions --all --json"),
    _row(JSON, "reservations", "scontrol show reservations --json"),
    _row(JSON, "licenses", "scontrol show licenses --json"),
    _row(JSON, "shares", "sshare --all --json"),
    _row(JSON, "accounting", "sacctmgr show stats --json"),
    _row(JSON, "coordinators", "sacctmgr show account withcoord --json"),
    _row(JSON, "history", _SACCT + "--json", most_bytes=_LONGEST, **_OF_A_DATABASE),
) + tuple(_row(INSTALLED, name, name + " --version", most_bytes=1 << 16) for name in PROGRAMS)
# Of one job, for which {job} stands. They are asked when somebody wants to read its script, and by no capture.
_SCRIPT = 1 << 20
_SACCT_JOB = "sacct --allusers --allocations --whole-hetjob=no --jobs={job} "
JOB_ROWS = (
    _row(
        TEXT,
        "queued",
        "squeue --local --noheader --all --states=all --jobs={job} --Format JobID:|,SubmitTime:|,HetJobID:|",
    ),
    _row(TEXT, "script", "scontrol write batch_script {job} -", most_bytes=_SCRIPT),
    _row(TEXT, "accounted", _SACCT_JOB + "--noheader --parsable2 --format=JobIDRaw,JobID,Submit,Start"),
    _row(TEXT, "kept_script", _SACCT_JOB + "--batch-script", most_bytes=_SCRIPT),
)
OLD_API, NEW_API = "old", "new"
# What is called, in this order. The old API tells more, such as all of a job's GPUs, but is wrong on partitions.
PYSLURM_PARTS = {
    "jobs": ((OLD_API, "job().get()"), (NEW_API, "Jobs.load()")),
    "nodes": ((OLD_API, "node().get()"), (NEW_API, "Nodes.load()")),
    "scheduler": ((OLD_API, "statistics().get()"), (NEW_API, "slurmctld.Statistics.load()")),
    "partitions": ((NEW_API, "Partitions.load()"), (OLD_API, "partition().get()")),
    "reservations": ((OLD_API, "reservation().get()"), (NEW_API, "Reservations.load()")),
    "config": ((OLD_API, "config().get()"), (NEW_API, "slurmctld.Config.load()")),
}

UNKNOWN_OPTION = "unrecognized option"  # what getopt says, and so every command of Slurm

# Why there is no answer. A reader can tell by these whether another way may do better.
NOT_FOUND, TIMED_OUT, FAILED, TOO_LONG = "not found", "timed out", "failed", "too long"
_MOST_WORDS = 1 << 16  # of complaints
_CHUNK = 1 << 20
_PATIENCE = 2.0
_READER = 1  # stdout, whose other end may close while a command runs


class NoAnswer(Exception):
    def __init__(self, kind: str, message: str) -> None:
        Exception.__init__(self, message)
        self.kind = kind


class Finished(NamedTuple):
    status: int
    data: bytes
    complaints: bytes


def marks() -> Tuple[str, str]:
    """What stands behind the fields that hold users' own words, and at the end of a row, of one run of squeue.

    A job's name may hold any character but NUL, newlines included, so that no fixed mark is safe. These are random
    for each run: a name cannot hold what was not yet known when the job was submitted. The end mark, which is what
    a forged row would need, has 83 bits of chance; a guessed field mark would only spoil the guesser's own row.
    """
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    # a digit or a dot at the start would be taken for a width
    return (
        "@" + "".join(secrets.choice(alphabet) for _ in range(6)),
        "@" + "".join(secrets.choice(alphabet) for _ in range(14)),
    )


def arguments(
    argv: Tuple[str, ...], field: str, end: str, cluster: str = "", window: Tuple[str, str] = WINDOW, job: str = ""
) -> List[str]:
    found = [arg.replace("{field}", field).replace("{end}", end).replace("{job}", job) for arg in argv]
    found = [arg.replace("{since}", window[0]).replace("{until}", window[1]) for arg in found]
    # these do not heed SLURM_CLUSTERS, and would tell of the wrong cluster
    return found + ["-M", cluster] if cluster and found[0] in ("sshare", "sacct") else found


def environment(conf: str = "", cluster: str = "", way: str = TEXT) -> Dict[str, str]:
    """A user's or a site's defaults would change what the commands answer; `cluster` is what -M would name."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DEFAULTS)}
    kept.update(ENVIRONMENT)
    if way == JSON:
        # it has epoch seconds anyway, and sacct of 22.05 cannot read its own --starttime by that format
        del kept["SLURM_TIME_FORMAT"]
    if conf:
        kept["SLURM_CONF"] = conf
    if cluster:
        kept["SLURM_CLUSTERS"] = cluster
    return kept


def bin_path(bin_dir: str = "") -> str:
    """Where the commands are; empty for the PATH."""
    home = os.environ.get("SLURM_HOME", "")
    return bin_dir or (os.path.join(home, "bin") if home else "")


def program(name: str, path: str) -> str:
    found = shutil.which(name, path=path or None)
    if found is None:
        raise NoAnswer(
            NOT_FOUND,
            "%s not found in %s, or not executable: set slurm.bin_dir (or SLURM_HOME) to where Slurm is installed"
            % (name, path or "PATH"),
        )
    return found


def _collect(process: "subprocess.Popen[bytes]", end: float, most: int) -> Tuple[bytes, bytes]:
    """All that it prints, for as long as it may, and for as long as somebody waits for it."""
    assert process.stdout is not None and process.stderr is not None
    out, complaints = bytearray(), bytearray()
    pipes = {process.stdout.fileno(): out, process.stderr.fileno(): complaints}
    poll = select.poll()
    for descriptor in pipes:
        poll.register(descriptor, select.POLLIN)
    poll.register(_READER, 0)  # tells only when the other side has gone
    while pipes:
        rest = end - time.monotonic()
        ready = dict(poll.poll(rest * 1000)) if rest > 0 else {}
        if not ready:
            raise subprocess.TimeoutExpired(process.args, rest)
        if ready.pop(_READER, 0):
            raise SystemExit(1)  # an ssh that was cut: nobody will read the answer
        for descriptor in ready:
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                del pipes[descriptor]
                poll.unregister(descriptor)
            elif pipes[descriptor] is complaints:
                complaints += chunk[: _MOST_WORDS - len(complaints)]
            else:
                out += chunk
        if len(out) > most:
            raise NoAnswer(TOO_LONG, "more than %d MiB of output, which no cluster has to say" % (most >> 20))
    return bytes(out), bytes(complaints)


def run(argv: List[str], env: Dict[str, str], timeout: float, most: int) -> Finished:
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,  # so that its children can be killed with it
        )
    except OSError as error:
        raise NoAnswer(FAILED, "%s cannot be run: %s" % (argv[0], error)) from error
    end = time.monotonic() + timeout
    try:
        data, complaints = _collect(process, end, most)
        return Finished(process.wait(max(0.0, end - time.monotonic())), data, complaints)
    except subprocess.TimeoutExpired:
        name = os.path.basename(argv[0])
        raise NoAnswer(
            TIMED_OUT, "%s was killed after %g s (slurm.timeout); is slurmctld slow?" % (name, timeout)
        ) from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass  # it waits for a dead file system, and is not waited for


def _words(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace").strip()[:1000]


def _payload(data: bytes) -> Dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _ask(row: Row, argv: List[str], path: str, env: Dict[str, str], timeout: float) -> Finished:
    done = run([program(argv[0], path)] + argv[1:], env, timeout, row.most_bytes)
    if done.status not in row.good:
        said = _words(done.complaints) or "no message"
        raise NoAnswer(FAILED, "%s exited with %d: %s" % (argv[0], done.status, said))
    return done


def answer(
    row: Row,
    path: str,
    conf: str,
    cluster: str,
    timeout: float,
    window: Tuple[str, str] = WINDOW,
    job: str = "",
) -> Dict[str, Any]:
    """What a command says, as it stands in the document."""
    env = environment(conf, cluster, row.way)
    timeout = max(timeout, row.least_seconds)
    field, end = marks()
    started = time.time()
    found = {"way": row.way, "part": row.part, "time": started, "marks": [field, end]}  # type: Dict[str, Any]
    try:
        found["argv"] = arguments(row.argv, field, end, cluster, window, job)
        try:
            done = _ask(row, found["argv"], path, env, timeout)
        except NoAnswer as error:
            if not row.old or UNKNOWN_OPTION not in str(error):
                raise
            found["argv"] = arguments(row.old, field, end, cluster)
            done = _ask(row, found["argv"], path, env, timeout)
        found["warnings"] = _words(done.complaints)
        found.update(_payload(done.data))
    except NoAnswer as error:
        found["error"] = str(error)
        found["kind"] = error.kind
    found["seconds"] = round(time.time() - started, 6)
    return found


# --- PySlurm ---------------------------------------------------------------------------------------------------

_ANOTHER = "docs/pyslurm.md says how (against this Slurm); slurm.python names the Python that has it"


def slurm_version(path: str, env: Dict[str, str], timeout: float) -> str:
    """As scontrol says it; empty where there is none."""
    try:
        return _words(run([program("scontrol", path), "--version"], env, timeout, _MOST_WORDS).data).split()[-1]
    except (NoAnswer, IndexError):
        return ""


def _import_pyslurm(slurm: str) -> Tuple[Any, str]:
    """PySlurm and its version, if it is there and is for this Slurm: 22.5.3 is for 22.05.8."""
    try:
        pyslurm = importlib.import_module("pyslurm")
    except Exception as error:  # not there, or Slurm's library is not, or slurm.conf
        message = "PySlurm cannot be loaded by %s: %s. Install the one for Slurm %s: %s"
        raise NoAnswer(NOT_FOUND, message % (sys.executable, error, slurm or "here", _ANOTHER)) from error
    version = str(getattr(pyslurm, "__version__", "") or pyslurm.version())
    own, wanted = ([int(one) for one in (re.findall(r"(\d+)\.(\d+)", it) or [()])[0]] for it in (version, slurm))
    if own and wanted and own != wanted:
        message = (
            "PySlurm %s is for Slurm %d.%02d and this is Slurm %s: calls will not succeed. Install PySlurm %d.%d: %s"
        )
        raise NoAnswer(NOT_FOUND, message % tuple([version] + own + [slurm] + wanted + [_ANOTHER]))
    return pyslurm, version


def _called(found: Any, call: str) -> Any:
    for name in call.split("."):
        found = getattr(found, name.replace("()", ""))
        if name.endswith("()"):
            found = found()
    return found


def _plain(value: Any) -> Any:
    """What JSON can hold of a value."""
    if isinstance(value, enum.Enum):
        return [one.name for one in type(value) if one in value] if isinstance(value, enum.Flag) else value.name
    if isinstance(value, (str, bytes)):
        # a byte that is not UTF-8 becomes \xNN, as it does in the answers of commands
        raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        return raw.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, (int, float)):
        return value if value is not None and math.isfinite(value) else None
    return _record(value, {})


def _record(item: Any, trouble: Dict[str, str]) -> Any:
    """All that an object of PySlurm's tells. A field that raises costs itself; by to_dict() it would cost the part."""
    if isinstance(item, dict):
        return _plain(item)
    found = {}
    for name in [name for name in dir(item) if not name.startswith("_")]:
        try:
            value = getattr(item, name)
            if name == "get_resource_layout_per_node":  # where alone the new API has all GPUs that a job holds
                found[name] = _plain(value())
            elif not callable(value):
                found[name] = _plain(value)
        except Exception as error:
            trouble[name] = "%s: %s" % (type(error).__name__, error)
    return found


def _records(found: Any, part: str, trouble: Dict[str, str]) -> Any:
    if part in ("scheduler", "config"):  # which are one record each
        return _record(found, trouble)
    if isinstance(found, dict):
        return {str(_plain(key)): _record(item, trouble) for key, item in found.items()}
    # the new API has maps of its own, by cluster and then by name
    items = [_record(item, trouble) for item in (found.values() if hasattr(found, "values") else found)]
    return {str(item.get("id", item.get("name"))): item for item in items}


def _users(records: Dict[str, Any]) -> Dict[str, str]:
    """The old API knows users by number only; one that nobody knows stays a number."""
    ids = {one.get(key) for one in records.values() if isinstance(one, dict) for key in ("user_id", "reason_uid")}
    names = {}
    for number in ids - {None}:
        try:
            names[str(number)] = pwd.getpwuid(int(str(number))).pw_name
        except (KeyError, ValueError, OverflowError):
            pass
    return names


def _ask_pyslurm(part: str, slurm: str) -> Dict[str, Any]:
    """The answer of the first API that has one."""
    if "SLURM_CLUSTERS" in os.environ:
        raise NoAnswer(NOT_FOUND, "PySlurm asks the cluster of slurm.conf and no other (slurm.multi_cluster)")
    pyslurm, version = _import_pyslurm(slurm)
    tried = []
    for api, call in PYSLURM_PARTS[part]:
        trouble = {}  # type: Dict[str, str]
        try:
            records = _records(_called(pyslurm, call), part, trouble)
        except (Exception, SystemExit) as error:
            tried.append("%s raised %s: %s" % (call, type(error).__name__, error))
            continue
        tried += ["%s has no %s: %s" % (call, name, said) for name, said in sorted(trouble.items())]
        text = {"api": api, "pyslurm": version, "slurm": slurm, "time": time.time(), "users": _users(records)}
        text.update({"tried": "; ".join(tried), "records": records})
        return {"argv": [call], "text": json.dumps(text), "warnings": "; ".join(tried)[:1000]}
    raise NoAnswer(FAILED, "PySlurm %s: %s" % (version, "; ".join(tried)))


def _in_child(part: str, slurm: str, env: Dict[str, str], pipe: Any) -> None:
    os.dup2(2, 1)  # whatever PySlurm prints is no part of the document
    os.environ.clear()
    os.environ.update(env)
    try:
        said = _ask_pyslurm(part, slurm)
    except NoAnswer as error:
        said = {"error": str(error), "kind": error.kind}
    pipe.send_bytes(json.dumps(said).encode("ascii"))


def answer_pyslurm(part: str, slurm: str, env: Dict[str, str], timeout: float) -> Dict[str, Any]:
    """What PySlurm tells, as it stands in the document. It may crash or hang, and so has a process of its own."""
    found = {"way": PYSLURM, "part": part, "time": time.time()}  # type: Dict[str, Any]
    found["argv"] = [call for _, call in PYSLURM_PARTS[part]]
    forks = multiprocessing.get_context("fork")
    ours, its = forks.Pipe(False)
    child = forks.Process(target=_in_child, args=(part, slurm, env, its))
    child.start()
    its.close()
    try:
        if ours.poll(timeout):
            found.update(json.loads(ours.recv_bytes().decode("ascii")))
        else:
            message = "PySlurm was killed after %g s (slurm.timeout); is slurmctld slow?"
            found.update({"error": message % timeout, "kind": TIMED_OUT})
        os.kill(int(str(child.pid)), signal.SIGKILL)
        child.join(_PATIENCE)  # one that waits for a dead file system is not waited for
    except EOFError:
        child.join(_PATIENCE)
        message = "PySlurm crashed (status %s; a negative one is a signal): was it built against this Slurm, %s? %s"
        found.update({"error": message % (child.exitcode, slurm, _ANOTHER), "kind": FAILED})
    found["seconds"] = round(time.time() - found["time"], 6)
    return found


def document(answers: List[Dict[str, Any]]) -> Dict[str, Any]:
    return {
        "format": FORMAT,  # stays the first key: readers look for it behind words of welcome
        "version": VERSION,
        "time": time.time(),
        "host": socket.gethostname(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "answers": answers,
    }


_EXAMPLES = """\
examples:
  python3 probe.py > cluster.json           all parts, by Slurm's commands
  python3 probe.py --ways text,json | gzip > cluster.json.gz
  python3 probe.py --parts controllers      is slurmctld there?

`slurmscope metrics --from cluster.json` reads the document, wherever slurmscope is. A command that fails is written
down with its error; the exit status is 1 if all have failed. Nothing is changed on the cluster."""


def _options(argv: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="probe.py",
        description="Asks a Slurm cluster what slurmscope wants to know, and prints the answers as one JSON document.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ways", default=TEXT, help="comma list of text, json, pyslurm, installed (%(default)s)")
    parser.add_argument("--parts", default="", help="comma list of parts, such as jobs,nodes (default: all)")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds before a command is killed")
    parser.add_argument("--bin-dir", default="", help="folder of squeue and so on (default: $SLURM_HOME/bin, PATH)")
    parser.add_argument("--conf", default="", help="the slurm.conf to use")
    parser.add_argument("--cluster", default="", help="ask for another cluster of the same slurmdbd, as -M does")
    parser.add_argument("--since", default=WINDOW[0], help="what the accounting is asked for begins here (%(default)s)")
    parser.add_argument("--until", default=WINDOW[1], help="… and ends here, as sacct takes times (%(default)s)")
    parser.add_argument("--job", default="", help="ask for the script of this job: 31, or 31_4; with --parts")
    options = parser.parse_args(argv)
    options.ways = options.ways.split(",")
    options.parts = [part for part in options.parts.split(",") if part]
    known = {row.part for row in (JOB_ROWS if options.job else ROWS)}
    for word in options.ways:
        if word not in (TEXT, JSON, PYSLURM, INSTALLED):
            parser.error("--ways: %r is none of text, json, pyslurm, installed" % word)
    for word in options.parts:
        if word not in known:
            parser.error("--parts: %r is none of %s" % (word, ", ".join(sorted(known))))
    if options.job and not (options.parts and re.match(r"[0-9]+(_[0-9]+)?$", options.job)):
        parser.error("--job: a number such as 31 or 31_4, with the --parts that are asked for it")
    return options


def main(argv: Optional[List[str]] = None) -> int:
    options = _options(argv)
    path = bin_path(options.bin_dir)
    env = environment(options.conf, options.cluster)
    answers = []
    for row in JOB_ROWS if options.job else ROWS:
        if row.way in options.ways and (not options.parts or row.part in options.parts):
            window = (options.since, options.until)
            answers.append(answer(row, path, options.conf, options.cluster, options.timeout, window, options.job))
    if PYSLURM in options.ways:
        parts = [part for part in PYSLURM_PARTS if not options.parts or part in options.parts]
        slurm = slurm_version(path, env, options.timeout)
        answers += [answer_pyslurm(part, slurm, env, options.timeout) for part in parts]
    json.dump(document(answers), sys.stdout)
    sys.stdout.write("\n")
    return 0 if any("error" not in one for one in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
