# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who may use how much, what they have used, and who sees to it: `sshare`, `scontrol show assoc_mgr`, `sacctmgr`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

import msgspec

from slurmscope.model import Coordinator, Limit, Share
from slurmscope.slurm.text import Malformed, Marks, Parsed, decode, lines, pairs_of, read_rows
from slurmscope.slurm.values import MINUTE, decimal, number, size


def _share(row: str) -> Share:
    account, user, partition, raw, norm, usage, norm_usage, effective, fair, level = row.split("|")
    name = account.lstrip(" ")
    return Share(
        account=intern(name),
        user=intern(user) if user else None,
        partition=partition or None,
        parent=None,
        depth=len(account) - len(name),
        raw_shares=None if raw == "parent" else number(raw),
        norm_shares=decimal(norm),
        raw_usage=decimal(usage),
        norm_usage=decimal(norm_usage),
        effective_usage=decimal(effective),
        fair_share=decimal(fair),
        level_fs=decimal(level),
    )


def parse_shares(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Share, ...]]:
    """`sshare --parsable2`: the tree is in the indentation, a user's row one deeper than its account's."""
    rows = [line for line in lines(data) if not line.startswith(b"CLUSTER: ")]  # which -M puts at the head
    parsed = read_rows(rows, _share, memo)
    path: list[str] = []
    found = []
    for share in parsed.value:
        del path[share.depth :]
        parent = path[-1] if path else None
        found.append(share if parent is None else msgspec.structs.replace(share, parent=parent))
        if share.user is None:
            path.append(share.account)
    parsed.value = tuple(found)
    return parsed


def _coordinators(row: str) -> tuple[Coordinator, ...]:
    account, bar, users = row.rpartition("|")
    if not bar or not account:
        raise ValueError("not an account and its coordinators")
    return tuple(Coordinator(intern(account), intern(user)) for user in users.split(",") if user)


def parse_coordinators(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Coordinator, ...]]:
    """`sacctmgr --parsable2 show account withcoord`: each account, and its coordinators by comma.

    There is always an account, `root`: who is told of none may not see them.
    """
    rows = lines(data)
    if not rows:
        raise Malformed("no account in it")
    parsed = read_rows(rows, _coordinators, memo)
    found = tuple(one for some in parsed.value for one in some)
    return Parsed(found, parsed.skipped, parsed.samples, parsed.memo)


# A limit and its tally: 50(12), N(0), or, where Slurm keeps no tally, 50
_AMOUNT = re.compile(r"(?:(N)|([0-9.]+))(?:\(([-0-9.]+)\))?$")
_BRACED = re.compile(r"(\S+)=\{([^{}]*)\}")
_NAMED = re.compile(r"(.*)\((\d+)\)$")
_LIMITS = re.compile(r"(Grp|Max)")


def _in_base_units(limit: Limit) -> Limit:
    """Slurm counts megabytes and minutes here."""
    scale = (size("1M") if "bytes" in limit.unit else 1) * (MINUTE if "seconds" in limit.unit else 1)
    used = None if limit.used is None else limit.used * scale
    return msgspec.structs.replace(limit, limit=limit.limit * scale, used=used)


def _amounts(name: str, value: str) -> Iterator[tuple[str | None, float, float | None]]:
    """(TRES, limit, used) of each limit of a field that is set."""
    for item in value.split(",") if "TRES" in name else [value]:
        tres, _, amount = item.rpartition("=")
        match = _AMOUNT.match(amount)
        if match is None:
            raise ValueError(f"{name}: not a limit: {item!r}")
        unlimited, limit, used = match.groups()
        if not unlimited:
            yield tres or None, float(limit), None if used is None else float(used)


def _limits_of(
    fields: Mapping[str, str],
    *,
    kind: str,
    account: str | None = None,
    user: str | None = None,
    partition: str | None = None,
    qos: str | None = None,
) -> Iterator[Limit]:
    for name, value in fields.items():
        if value and _LIMITS.match(name):
            for tres, limit, used in _amounts(name, value):
                yield _in_base_units(Limit(kind, account, user, partition, qos, name, tres, limit, used))


def parse_limits(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Limit, ...]]:
    """`scontrol show assoc_mgr --oneliner`: the limits that are set, with their tallies.

    A QOS's limits for each user and account stand in braces at the end of its record; 22.05 gives the users there
    by number, which the user records at the head resolve.
    """
    rows = lines(data)
    if not rows or not rows[0].startswith(b"Current Association Manager state"):
        raise Malformed(f"not the association manager's state: {decode(data[:200])!r}")
    users: dict[str, str] = {}

    def user_of(value: str) -> str | None:
        named = _NAMED.match(value)
        return named[1] if named else users.get(value, value) or None

    def record(row: str) -> tuple[Limit, ...]:
        if row.startswith("UserName="):
            named = _NAMED.match(pairs_of(row)[0]["UserName"])
            if named:
                users[named[2]] = named[1]
            return ()
        if row.startswith("QOS="):
            return tuple(_of_qos(row))
        if row.startswith("ClusterName="):
            fields, _ = pairs_of(row, "Comment")
            return tuple(
                _limits_of(
                    fields,
                    kind="association",
                    account=fields["Account"],
                    user=user_of(fields["UserName"]),
                    partition=fields.get("Partition") or None,
                )
            )
        return ()

    def _of_qos(row: str) -> Iterator[Limit]:
        head, _, rest = row.partition(" Account Limits=")
        by_account, _, by_user = rest.partition(" User Limits=")
        fields, _ = pairs_of(head)
        qos = fields["QOS"].rpartition("(")[0]
        yield from _limits_of(fields, kind="qos", qos=qos)
        for account, inside in _BRACED.findall(by_account):
            yield from _limits_of(pairs_of(inside)[0], kind="qos", qos=qos, account=account)
        for user, inside in _BRACED.findall(by_user):
            yield from _limits_of(pairs_of(inside)[0], kind="qos", qos=qos, user=user_of(user))

    parsed = read_rows(rows, record, {})
    return Parsed(tuple(limit for some in parsed.value for limit in some), parsed.skipped, parsed.samples)
