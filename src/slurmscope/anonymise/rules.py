# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a value, by the kind of thing that it is.

A rule takes the names and a value. What does not look like what the rule is for is taken for somebody's own words,
of which only the shape stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from slurmscope.anonymise.pseudonyms import STANDING, Seen

Rule = Callable[[Seen, str], str]

_NONE = frozenset({"", "(null)"})
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "INVALID", "Partition_Limit", "NONE", "parent", "inf", "nan", "N"})
_NUMBER = re.compile(r"[-+0-9.:,/%_\[\]KMGTPE]*")
_BITS = re.compile(r"0x[0-9A-Fa-f]+(%[0-9]+)?")
_PRINTABLE = re.compile(r"(?!/)[ -~]*")
_SERVER = re.compile(r"@([^:,=()&|\s]+)")
_NAMED = re.compile(r"(.*)\((\d+)\)", re.DOTALL)

# Sentences of slurmctld's own, between which hosts and numbers may stand.
_JOB_SENTENCES = re.compile(
    r"ReqNodeNotAvail, (?:May be reserved for other job|Reserved for maintenance)"
    r"|Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    r"|(?:job |launch failed )?requeued(?: in)? held(?: state)?"
    r"|[A-Za-z_]+"
)
_UNAVAILABLE = "ReqNodeNotAvail, UnavailableNodes:"
_NODE_SENTENCES = re.compile(
    r"Not responding|Node unexpectedly rebooted|Kill task failed|batch job complete failure|Prolog error|Epilog error"
    r"|Duplicate jobid|Scheduled reboot|reboot (?:requested|timed out|complete)|ResumeTimeout reached"
    r"|Low (?:RealMemory|TmpDisk|CPUs|socket\*core\*thread count)(?: \([a-z]+:\d+ < [\d.]+% of [a-z]+:\d+\))?"
    r"|gres/[a-z]+ count (?:reported lower than configured|too low) \(\d+ < \d+\)"
)
_DEPENDENCIES = re.compile(
    r"(?:after(?:any|ok|notok|corr|burstbuffer)?|expand|singleton|unfulfilled|fulfilled|failed|null|[\W\d_])*", re.ASCII
)
_STANDING_FOLDERS = frozenset({"", "home", "tmp", "dev", "null"})
# What Slurm's errors say that tells nothing but the error. The first also tells our reader that slurmctld is away.
_PHRASES = (
    "Unable to contact slurm controller",
    "unrecognized option",
    "Access/permission denied",
    "Invalid user id",
    "Connection refused",
    "Protocol authentication error",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Slurm accounting storage is disabled",
    "as place holder for Infinity",
)


def name(names: Seen, value: str) -> str:
    """Of a user, an account, a group, a cluster, …; a user that has no name is known by the number."""
    if value in STANDING:
        return value
    if value.isascii() and value.isdigit() and str(int(value)) == value:
        return str(names.id(int(value)))
    return names.name(value)


def reservation(names: Seen, value: str) -> str:
    """One, or a comma list."""
    return value if value in STANDING else ",".join(map(names.name, value.split(",")))


def name_list(names: Seen, value: str) -> str:
    """A comma list, where a minus is in front of those that are kept out."""
    if value in STANDING:
        return value
    return ",".join(one[:1] + name(names, one[1:]) if one[:1] == "-" else name(names, one) for one in value.split(","))


def named_id(names: Seen, value: str) -> str:
    """alice(1001)"""
    found = _NAMED.fullmatch(value)
    return f"{name(names, found[1])}({names.id(int(found[2]))})" if found else name(names, value)


def parent(names: Seen, value: str) -> str:
    """physics(3), where the number is an association's."""
    found = _NAMED.fullmatch(value)
    return f"{name(names, found[1])}({found[2]})" if found else name(names, value)


def job_name(names: Seen, value: str) -> str:
    return value if value in _NONE else names.job(value)


def free(names: Seen, value: str) -> str:
    return value if value in _NONE else names.text(value)


def host(names: Seen, value: str) -> str:
    return value if value in STANDING else names.host(value)


def path(names: Seen, value: str) -> str:
    if value in _NONE:
        return value
    return "/".join(part if part in _STANDING_FOLDERS else names.text(part) for part in value.split("/"))


def mail(names: Seen, value: str) -> str:
    user, at, domain = value.partition("@")
    return name(names, user) + at + (names.host(domain) if domain else "")


def word(names: Seen, value: str) -> str:
    """What the administrators named and everybody's work depends on: it stays, but for the host of a licence."""
    if not _PRINTABLE.fullmatch(value):
        return free(names, value)
    return names.word(_SERVER.sub(lambda found: f"@{names.host(found[1])}", value))


def plain(names: Seen, value: str) -> str:
    """What tells nothing of anybody, such as a version."""
    return value if _PRINTABLE.fullmatch(value) else free(names, value)


def number(names: Seen, value: str) -> str:
    return value if value in STANDING or value in _UNLIMITED or _NUMBER.fullmatch(value) else free(names, value)


def step(names: Seen, value: str) -> str:
    """The id of a job or of a step of it: 31, 31.0, 31_4.batch, 9+0.extern, or batch alone."""
    job, _, kind = value.rpartition(".")
    if kind in ("batch", "extern", "interactive"):
        return number(names, job) + value[len(job) :]
    return number(names, value)


def tasks(names: Seen, value: str) -> str:
    """Of an array: `1-2,4-6`, or as slurmdbd has them, a bit for each: `0x76`."""
    return value if _BITS.fullmatch(value) else number(names, value)


def reason(names: Seen, value: str) -> str:
    """Why a job waits: a word of Slurm's own, a sentence, or what a plugin has to say."""
    if value.startswith(_UNAVAILABLE):
        return _UNAVAILABLE + host(names, value.removeprefix(_UNAVAILABLE))
    if value in STANDING or _JOB_SENTENCES.fullmatch(value):
        return names.word(value)
    return free(names, value)


def node_reason(names: Seen, value: str) -> str:
    return names.word(value) if _NODE_SENTENCES.fullmatch(value) else free(names, value)


def dependency(names: Seen, value: str) -> str:
    return names.word(value) if value.isascii() and _DEPENDENCIES.fullmatch(value) else free(names, value)


def error(names: Seen, value: str) -> str:
    """What is known to be harmless of an error."""
    status = re.search(r"exited with \d{1,3}\b", value)
    return ": ".join([*([status[0]] if status else []), *(phrase for phrase in _PHRASES if phrase in value)])


def drop(names: Seen, value: str) -> str:
    return ""
