# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Families of what people may use: fair shares, limits, licences, reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import View
from slurmscope.model import License, Limit, Reservation, Share


def _shares_shown(view: View) -> list[Share]:
    """Accounts all, users as many as the cap lets through, by use."""
    found = view.snapshot.shares.value or ()
    users = sorted(
        (share for share in found if share.user is not None),
        key=lambda share: (-(share.raw_usage or 0), share.account, share.user or ""),
    )
    view.dropped["slurm_share_*"] = max(0, len(users) - view.top)
    return [share for share in found if share.user is None] + users[: view.top]


def _share(value: Callable[[Share], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (
        ((share.account, share.user or "", share.partition or "", share.parent or ""), value(share))
        for share in _shares_shown(view)
    )


_SHARE = ("account", "user", "partition", "parent")

SHARES: Topic[View] = Topic(
    "shares",
    "shares",
    frozenset(),
    (
        Family("slurm_share_raw_shares", GAUGE, "Shares assigned to an account or, where user is set, to a user in it.", _SHARE, _share(lambda one: one.raw_shares)),
        Family("slurm_share_norm_shares", GAUGE, "Shares as a part of those of the same parent.", _SHARE, _share(lambda one: one.norm_shares)),
        Family("slurm_share_raw_usage", GAUGE, "Decayed use in billing-seconds (CPU-seconds unless TRESBillingWeights says otherwise).", _SHARE, _share(lambda one: one.raw_usage)),
        Family("slurm_share_norm_usage", GAUGE, "Use as a part of the whole cluster's.", _SHARE, _share(lambda one: one.norm_usage)),
        Family("slurm_share_effective_usage", GAUGE, "Use as it counts for the fair-share factor.", _SHARE, _share(lambda one: one.effective_usage)),
        Family("slurm_share_factor", GAUGE, "The fair-share factor of a user, from 0 (used most) to 1.", _SHARE, _share(lambda one: one.fair_share)),
        Family("slurm_share_level", GAUGE, "Shares divided by use at one level of the tree (Level FS); +Inf where nothing was used.", _SHARE, _share(lambda one: one.level_fs)),
    ),
)  # fmt: skip


def _fullness(limit: Limit) -> float:
    return (limit.used or 0) / limit.limit if limit.limit else float("inf")


def _limits_shown(view: View) -> list[Limit]:
    """Limits of accounts and QOSs all, those of a user in as far as the cap lets through, the fullest first."""
    found = view.snapshot.limits.value or ()
    users = sorted((limit for limit in found if limit.user is not None), key=lambda limit: -_fullness(limit))
    view.dropped["slurm_limit*"] = max(0, len(users) - view.top)
    return [limit for limit in found if limit.user is None] + users[: view.top]


def _limit(value: Callable[[Limit], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (
        (
            (
                limit.kind,
                limit.account or "",
                limit.user or "",
                limit.partition or "",
                limit.qos or "",
                limit.name,
                limit.tres or "",
                limit.unit,
            ),
            value(limit),
        )
        for limit in _limits_shown(view)
    )


def _headroom(limit: Limit) -> float | None:
    return None if limit.used is None else limit.limit - limit.used


_LIMIT = ("kind", "account", "user", "partition", "qos", "name", "tres", "unit")
_UNITS = "in the base unit that the label names"

LIMITS: Topic[View] = Topic(
    "limits",
    "limits",
    frozenset(),
    (
        Family("slurm_limit", GAUGE, f"A limit that is set on an association or a QOS, {_UNITS}. The name is sacctmgr's.", _LIMIT, _limit(lambda one: one.limit)),
        Family("slurm_limit_used", GAUGE, f"What counts against it now, {_UNITS}; absent for limits on each single job.", _LIMIT, _limit(lambda one: one.used)),
        Family("slurm_limit_headroom", GAUGE, f"What is left of it, {_UNITS}; below 0 when it was lowered under what is used.", _LIMIT, _limit(_headroom)),
    ),
)  # fmt: skip


def _licenses(view: View) -> tuple[License, ...]:
    return view.snapshot.licenses.value or ()


def _seats(view: View) -> Iterable[Sample]:
    for one in _licenses(view):
        for use, count in (("used", one.used), ("free", one.free), ("reserved", one.reserved)):
            yield (one.name, one.nodes or "", use), count


LICENSES: Topic[View] = Topic(
    "licenses",
    "licenses",
    frozenset(),
    (
        Family("slurm_license_seats", GAUGE, "Licences by use: used, free, reserved.", ("license", "nodes", "use"), _seats),
        Family("slurm_license_capacity", GAUGE, "Licences that there are.", ("license", "nodes"), lambda view: (((one.name, one.nodes or ""), one.total) for one in _licenses(view))),
    ),
)  # fmt: skip


def _reservation(value: Callable[[Reservation, float], float | None]) -> Callable[[View], Iterable[Sample]]:
    return lambda view: (((one.name,), value(one, view.now)) for one in view.snapshot.reservations.value or ())


def _reservation_info(view: View) -> Iterable[Sample]:
    for one in view.snapshot.reservations.value or ():
        yield (
            (
                one.name,
                ",".join(one.flags),
                ",".join(one.users),
                ",".join(one.accounts),
                one.partition or "",
                one.node_list,
            ),
            1,
        )


RESERVATIONS: Topic[View] = Topic(
    "reservations",
    "reservations",
    frozenset({"nodes"}),  # so that a window that opens is seen with the next fast poll
    (
        Family("slurm_reservation_active", GAUGE, "1 while the reservation's window is open.", ("reservation",), _reservation(lambda one, now: int(one.active(now)))),
        Family("slurm_reservation_start_timestamp_seconds", GAUGE, "When the reservation begins.", ("reservation",), _reservation(lambda one, now: one.start_time)),
        Family("slurm_reservation_end_timestamp_seconds", GAUGE, "When the reservation ends.", ("reservation",), _reservation(lambda one, now: one.end_time)),
        Family("slurm_reservation_nodes", GAUGE, "Nodes in the reservation.", ("reservation",), _reservation(lambda one, now: one.nodes)),
        Family("slurm_reservation_cores", GAUGE, "Cores in the reservation.", ("reservation",), _reservation(lambda one, now: one.cores)),
        Family("slurm_reservation_info", GAUGE, "Always 1: flags, users, accounts, partition and nodes of the reservation.", ("reservation", "flags", "users", "accounts", "partition", "nodes"), _reservation_info),
    ),
)  # fmt: skip
