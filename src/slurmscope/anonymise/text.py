# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Answers in text.

Of a line only what is known is kept. A row that cannot be read is kept by its shape alone, and stays unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from slurmscope.anonymise import rules
from slurmscope.anonymise.pseudonyms import Seen
from slurmscope.anonymise.rules import Rule
from slurmscope.slurm import probe
from slurmscope.slurm.text import (
    ACCOUNTING_HOST,
    ACCOUNTING_TYPE,
    GATHER_TYPE,
    PRIVATE_DATA,
    SLURM_USER,
    STORE_FLAGS,
    TRACK_TYPE,
    Malformed,
    pairs_of,
)


def _keys(rule: Rule, keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys.split(), rule)


# --- squeue ---------------------------------------------------------------------------------------------------

_JOB = {
    **_keys(rules.number, "JobID JobArrayID PriorityLong NumNodes NumCPUs RestartCnt exit_code"),
    **_keys(rules.number, "SubmitTime EligibleTime StartTime EndTime TimeLimit"),
    **_keys(rules.word, "Partition QOS State tres-alloc Feature Licenses"),
    **_keys(rules.name, "UserName Account"),
    **_keys(rules.host, "NodeList AllocNodes"),
    "Reservation": rules.reservation,
    "Reason": rules.reason,
    "Dependency": rules.dependency,
    "Name": rules.job_name,
}


def jobs(names: Seen, data: str, marks: tuple[str, str]) -> str:
    field, end = marks
    if not field or not end:
        raise Malformed("squeue's answer without its marks")
    rows = data.split(end + "\n")
    if rows.pop():
        raise Malformed("squeue's answer does not end with a whole row")
    if rows:  # lines that somebody printed before it
        rows[0] = rows[0][rows[0].rfind("\n", 0, rows[0].find("|") + 1) + 1 :]
    good = 0
    found = []
    for row in rows:
        *plain, rest = row.split("|", len(probe.PLAIN_FIELDS))
        free = rest.split(field)
        if (len(plain), len(free)) == (len(probe.PLAIN_FIELDS), len(probe.FREE_FIELDS)):
            good += 1
            front = [_JOB[key](names, value) + "|" for key, value in zip(probe.PLAIN_FIELDS, plain, strict=True)]
            back = [_JOB[key](names, value) for key, value in zip(probe.FREE_FIELDS, free, strict=True)]
            found.append("".join(front) + field.join(back))
        else:
            found.append(field.join(rules.free(names, part) for part in row.split(field)))
    if rows and not good:
        raise Malformed("no row of squeue's")
    return "".join(row + end + "\n" for row in found)


_HISTORY = {
    **_keys(rules.step, "JobIDRaw JobID"),
    **_keys(rules.number, "Priority Submit Eligible Start End Suspended TimelimitRaw ExitCode"),
    **_keys(rules.number, "DerivedExitCode TotalCPU NTasks ConsumedEnergyRaw"),
    **_keys(rules.word, "Partition QOS ReqTRES AllocTRES Constraints TRESUsageInMax TRESUsageInTot TRESUsageOutTot"),
    **_keys(rules.name, "User Account"),
    "State": lambda names, value: names.word(value.partition(" ")[0]),  # CANCELLED by whom
    "Reason": rules.reason,
    "NodeList": rules.host,
    "Reservation": rules.reservation,
    "JobName": rules.job_name,
    "WorkDir": rules.path,
    "SubmitLine": rules.free,
}


def history(names: Seen, data: str, marks: tuple[str, str]) -> str:
    field, width = marks[0], len(probe.HISTORY_FIELDS)
    fields = data.split(field) if field else [data]
    if fields.pop().strip() or len(fields) % width:
        raise Malformed("sacct's answer is none of whole rows")
    rows = [fields[at : at + width] for at in range(0, len(fields), width)]
    found = []
    for first, *rest in rows:
        named = zip(probe.HISTORY_FIELDS, [first.removeprefix("\n"), *rest], strict=True)
        found.append("".join(_HISTORY[key](names, value) + field for key, value in named))
    return "".join(f"{row}\n" for row in found)


# --- scontrol show … --oneliner -------------------------------------------------------------------------------

_NODE = {
    **_keys(rules.number, "CoresPerSocket CPUAlloc CPUEfctv CPUTot CPULoad Port RealMemory AllocMem FreeMem Sockets"),
    **_keys(rules.number, "Boards ThreadsPerCore TmpDisk Weight BootTime SlurmdStartTime LastBusyTime"),
    **_keys(rules.number, "ResumeAfterTime SuspendTime MemSpecLimit CoreSpecCount CPUSpecList"),
    **_keys(rules.number, "CapWatts CurrentWatts AveWatts ExtSensorsJoules ExtSensorsWatts ExtSensorsTemp"),
    **_keys(rules.word, "AvailableFeatures ActiveFeatures Gres GresDrain GresUsed State NextState Partitions"),
    **_keys(rules.word, "CfgTRES AllocTRES"),
    "Arch": rules.word,
    "Version": rules.plain,
    **_keys(rules.host, "NodeName NodeAddr NodeHostName"),
    "Owner": rules.named_id,
    "MCS_label": rules.name,
    "ReservationName": rules.reservation,
}
_PARTITION = {
    **_keys(rules.number, "DefaultTime GraceTime MaxNodes MaxTime MinNodes MaxCPUsPerNode MaxCPUsPerSocket TotalCPUs"),
    **_keys(rules.number, "PriorityJobFactor PriorityTier OverTimeLimit TotalNodes SuspendTime SuspendTimeout"),
    **_keys(rules.number, "ResumeTimeout DefMemPerNode DefMemPerCPU MaxMemPerNode MaxMemPerCPU"),
    **_keys(rules.word, "PartitionName AllowQos DenyQos QoS State Alternate TRES TRESBillingWeights JobDefaults"),
    **_keys(rules.word, "Default DisableRootJobs ExclusiveUser ExclusiveTopo Exclusive Hidden LLN RootOnly ReqResv"),
    **_keys(rules.word, "OverSubscribe PreemptMode SelectTypeParameters CpuBind PowerDownOnIdle"),
    **_keys(rules.name_list, "AllowGroups AllowAccounts DenyAccounts"),
    **_keys(rules.host, "AllocNodes Nodes"),
}
_RESERVATION = {
    **_keys(rules.number, "StartTime EndTime Duration NodeCnt CoreCnt Watts MaxStartDelay CoreIDs"),
    **_keys(rules.word, "Features PartitionName AllowedPartitions QOS Flags TRES Licenses State"),
    **_keys(rules.name_list, "Users Groups Accounts"),
    **_keys(rules.host, "Nodes NodeName"),
    "ReservationName": rules.reservation,
}
_LICENSE = {
    **_keys(rules.number, "Total Used Free Reserved LastConsumed LastDeficit LastUpdate"),
    "LicenseName": rules.word,
    "Remote": rules.word,
    "Nodes": rules.host,
}
_TAIL = re.compile(r" (Comment|Extra)=(.*?)(?= Comment=| Extra=|$)", re.DOTALL)
_REASON = re.compile(r" Reason=(.*) \[([^\[\]@]*)@(\w+)\](?: {2,}(.*?))?(?= Comment=| Extra=|$)", re.DOTALL)
_BARE_REASON = re.compile(r" Reason=(.*?)(?= Comment=| Extra=|$)", re.DOTALL)


def _pairs(names: Seen, pairs: Mapping[str, str], table: Mapping[str, Rule]) -> str:
    return " ".join(f"{names.word(key)}={table[key](names, value)}" for key, value in pairs.items() if key in table)


def _lines(data: str, first: str, none: str) -> list[str]:
    """The records, which begin with `first=`; `none` begins the line that says that there are none."""
    found = [line for line in data.split("\n") if line.strip()]
    if found and not found[0].startswith((first + "=", none)):
        raise Malformed(f"no record begins with {first}=")
    return [line for line in found if line.startswith(first + "=")] or ([none] if found else [])


def _tail_of_node(names: Seen, tail: str) -> str:
    """Why it is drained, by whom and since when, and comments."""
    found, said = "", _REASON.match(tail)
    if said:
        why, who, when, more = said.groups()
        when = when if when.isdigit() else "Unknown"
        found = f" Reason={rules.node_reason(names, why)} [{rules.name(names, who)}@{when}]"
        found += f"   {rules.free(names, more)}" if more else ""
    elif bare := _BARE_REASON.match(tail):
        found = f" Reason={rules.node_reason(names, bare[1])}"
    return found + "".join(f" {key}={rules.free(names, value)}" for key, value in _TAIL.findall(tail))


def nodes(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found = []
    for line in _lines(data, "NodeName", "No nodes"):
        pairs, tail = pairs_of(line, "Reason", "Comment", "Extra", after="AllocTRES")
        found.append((_pairs(names, pairs, _NODE) or line) + _tail_of_node(names, tail) + "\n")
    return "".join(found)


def _records(first: str, none: str, table: Mapping[str, Rule]) -> Callable[[Seen, str, tuple[str, str]], str]:
    def changed(names: Seen, data: str, marks: tuple[str, str]) -> str:
        found = []
        for line in _lines(data, first, none):
            pairs, comment = pairs_of(line, "Comment")
            said = f" Comment={rules.free(names, comment.removeprefix(' Comment='))}" if comment else ""
            found.append((_pairs(names, pairs, table) or line) + said + "\n")
        return "".join(found)

    return changed


# --- scontrol show assoc_mgr ----------------------------------------------------------------------------------

_ASSOCIATION = {
    **_keys(rules.number, "Priority ID Lft UsageRaw SharesRaw/Norm/Level/Factor UsageRaw/Norm/Efctv"),
    **_keys(rules.word, "AdminLevel DefAssoc PreemptMode"),
    **_keys(rules.name, "ClusterName Account DefAccount DefWckey"),
    "UserName": rules.named_id,
    "ParentAccount": rules.parent,
    "Partition": rules.word,
    "QOS": rules.word,
}
_LIMIT = re.compile(r"(?:Grp|Max|Min)[A-Za-z]+")
_BRACED = re.compile(r"(\S+)=\{([^{}]*)\}")
_HEADINGS = frozenset({"User Records", "Association Records", "QOS Records"})


def _association(names: Seen, line: str) -> str:
    pairs, _ = pairs_of(line, "Comment")
    table = {key: _ASSOCIATION.get(key) or rules.word for key in pairs if key in _ASSOCIATION or _LIMIT.fullmatch(key)}
    return _pairs(names, pairs, table)


def _qos(names: Seen, line: str) -> str:
    head, accounts, rest = line.partition(" Account Limits=")
    by_account, users, by_user = rest.partition(" User Limits=")

    def braced(value: str, rule: Rule) -> str:
        some = _BRACED.findall(value)
        return "".join(f" {rule(names, who)}={{{_association(names, inside)}}}" for who, inside in some)

    # 22.05 gives the users here by number alone
    back = names.word(accounts) + braced(by_account, rules.name) + names.word(users) + braced(by_user, rules.named_id)
    return _association(names, head) + back


def limits(names: Seen, data: str, marks: tuple[str, str]) -> str:
    first, *rest = [line for line in data.split("\n") if line.strip()] or [""]
    if not first.startswith("Current Association Manager state"):
        raise Malformed("not the association manager's state")
    found = [names.word("Current Association Manager state")]
    for line in rest:
        if line in _HEADINGS:
            found.append(names.word(line))
        elif line.startswith(("UserName=", "ClusterName=")):
            found.append(_association(names, line))
        elif line.startswith("QOS="):
            found.append(_qos(names, line))
    return "\n".join(found) + "\n"


# --- sshare ---------------------------------------------------------------------------------------------------


def shares(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found, good = [], 0
    for line in data.split("\n"):
        if not line.strip():
            continue
        cells = line.split("|")
        if len(cells) == len(probe.SHARE_FIELDS):
            good += 1
            account = cells[0].lstrip(" ")
            depth = len(cells[0]) - len(account)
            row = [" " * depth + rules.name(names, account), rules.name(names, cells[1]), rules.word(names, cells[2])]
            found.append("|".join([*row, *(rules.number(names, cell) for cell in cells[3:])]))
        else:
            found.append(rules.free(names, line))
    if found and not good:
        raise Malformed("no row of sshare's")
    return "".join(line + "\n" for line in found)


# --- sacctmgr show account ------------------------------------------------------------------------------------


def coordinators(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found, good = [], 0
    for line in data.split("\n"):
        account, bar, users = line.rpartition("|")
        if account:
            good += 1
            found.append(
                rules.name(names, account) + bar + ",".join(rules.name(names, user) for user in users.split(","))
            )
        elif line.strip():
            found.append(rules.free(names, line))
    if not good:
        raise Malformed("no row of sacctmgr's")
    return "".join(line + "\n" for line in found)


# --- scontrol ping and config ---------------------------------------------------------------------------------

_PING = re.compile(r"(Slurmctld)\(([a-z0-9/]*)\) at (\S+) (is|are) ([A-Z/]+)", re.IGNORECASE)


def controllers(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found, good = [], 0
    for line in data.split("\n"):
        if ping := _PING.fullmatch(line.strip()):
            good += 1
            hosts = "/".join(rules.host(names, host) for host in ping[3].split("/"))
            role, verb, state = (names.word(ping[at]) for at in (2, 4, 5))
            found.append(f"{names.word(ping[1])}({role}) at {hosts} {verb} {state}")
        elif line.strip() and not line.startswith("*"):
            found.append(rules.free(names, line))
    if found and not good:
        raise Malformed("no line of scontrol ping's")
    return "".join(line + "\n" for line in found)


# What changes a meaning and tells nothing of anybody.
_SETTINGS = {
    **_keys(rules.plain, "SLURM_VERSION BOOT_TIME"),
    **_keys(rules.word, f"{ACCOUNTING_TYPE} {STORE_FLAGS} {PRIVATE_DATA} {GATHER_TYPE} {TRACK_TYPE}"),
    **_keys(rules.word, "AccountingStorageEnforce AccountingStorageTRES EnforcePartLimits GresTypes MinJobAge"),
    **_keys(rules.word, "MaxArraySize MaxJobCount PreemptMode PreemptType PriorityType"),
    **_keys(rules.word, "PriorityWeightAge PriorityWeightAssoc PriorityWeightFairShare PriorityWeightJobSize"),
    **_keys(rules.word, "PriorityWeightPartition PriorityWeightQOS PriorityFlags SchedulerType SelectType"),
    **_keys(rules.word, "SelectTypeParameters"),
    "ClusterName": rules.name,
    ACCOUNTING_HOST: rules.host,
    SLURM_USER: rules.named_id,
}


def config(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found: dict[str, str] = {}
    for line in data.split("\n"):
        key, equals, value = (part.strip() for part in line.partition("="))
        if equals and key in _SETTINGS and key not in found:
            found[names.word(key)] = _SETTINGS[key](names, value)
    if not {"ClusterName", "SLURM_VERSION"} <= set(found):
        raise Malformed("no ClusterName or SLURM_VERSION in the configuration")
    return "".join(f"{key:<23} = {value}\n" for key, value in found.items())


# --- sdiag and sacctmgr show stats ----------------------------------------------------------------------------

_RPC = re.compile(r"(\s+)(.*?)(\s*)\((\s*)(\d+)\)(\s+count:\d+(?:\s+ave_time:\d+\s+total_time:\d+)?\s*)")
_TYPE = re.compile(r"\s+[A-Z0-9_]+\s*\(\s*\d+\)\s+count:\d+(?:\s+ave_time:\d+\s+total_time:\d+)?\s*")
_STAMPED = re.compile(
    r"\s*[A-Za-z ]+:?\s+(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]+ \d{4}|[\dT:-]+|Unknown|N/A) \(\d+\)"
)
_COUNTED = re.compile(r"\s*[A-Za-z][\w /(),.-]*:\s*-?\d+(?: microseconds)?\s*")
_HEADING = re.compile(
    r"(?:Main schedule|Backfill|Remote Procedure Call statistics by|Pending RPC|Internal DBD rollup)[\w ():.]*"
)
_NOTES = frozenset({"\tNo pending RPCs", "All statistics are in microseconds"})


def _user(names: Seen, rpc: re.Match[str]) -> str:
    indent, user, gap, pad, id_, rest = rpc.groups()
    other, number = rules.name(names, user), str(names.id(int(id_)))
    width = len(user + gap)
    return f"{indent}{other:<{width}}({number:>{len(pad + id_)}}){rest}"


def report(names: Seen, data: str, marks: tuple[str, str]) -> str:
    found, stamps, section = [], 0, ""
    for line in data.split("\n"):
        if line[:1] not in ("", "\t", " "):
            section = line
        if rpc := _RPC.fullmatch(line) if section.startswith("Remote Procedure Call statistics by user") else None:
            found.append(_user(names, rpc))
        elif _STAMPED.fullmatch(line):
            stamps += 1
            found.append(names.word(line))
        elif not line.strip("*") or line in _NOTES or any(one.fullmatch(line) for one in (_TYPE, _COUNTED, _HEADING)):
            found.append(names.word(line))
    if stamps < 2:
        raise Malformed("no times at the head of the statistics")
    return "\n".join(found)


PARTS: Mapping[str, Callable[[Seen, str, tuple[str, str]], str]] = {
    "jobs": jobs,
    "nodes": nodes,
    "scheduler": report,
    "controllers": controllers,
    "partitions": _records("PartitionName", "No partitions", _PARTITION),
    "reservations": _records("ReservationName", "No reservations", _RESERVATION),
    "licenses": _records("LicenseName", "No licenses", _LICENSE),
    "limits": limits,
    "shares": shares,
    "accounting": report,
    "coordinators": coordinators,
    "config": config,
    "history": history,
}
