# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What somebody may see: the own jobs, those of accounts that the person coordinates, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from slurmscope.model import Snapshot
from slurmscope.settings import Portal
from slurmscope.store.protocol import Sight


class Viewer(msgspec.Struct, frozen=True):
    name: str
    staff: bool = False
    leads: frozenset[tuple[str, str]] = frozenset()
    """Clusters and accounts that this person coordinates, with all accounts below them."""

    def sees_user(self, name: str) -> bool:
        """All that somebody did, in whatever account: of others, only for the staff."""
        return self.staff or (name == self.name and name != "")

    def sees_account(self, cluster: str, account: str) -> bool:
        """What all members of an account did; to be one of them is not enough."""
        return self.staff or (cluster, account) in self.leads

    def sees_job(self, cluster: str, user: str, account: str) -> bool:
        return self.sees_user(user) or self.sees_account(cluster, account)

    @property
    def sight(self) -> Sight | None:
        """The same, as a store is asked; None: all."""
        return None if self.staff else Sight(self.name, self.leads)


NOBODY = Viewer(name="", staff=True)
"""Whoever comes where nobody signs in, which is only on loopback."""


Below = Mapping[str, Sequence[str]]
"""Of each account, those just below it."""


def below(snapshot: Snapshot) -> Below:
    found: dict[str, list[str]] = {}
    for share in snapshot.shares.value or ():
        if share.user is None and share.parent is not None:
            found.setdefault(share.parent, []).append(share.account)
    return found


def viewer_of(
    name: str, portal: Portal, snapshots: Iterable[Snapshot], below: Callable[[Snapshot], Below] = below
) -> Viewer:
    """Somebody who has signed in. What is not known of a cluster's coordinators gives no right there."""
    leads = frozenset((one.cluster, account) for one in snapshots for account in _led(one, name, below))
    return Viewer(name=name, staff=name in portal.staff, leads=leads)


def _led(snapshot: Snapshot, name: str, below: Callable[[Snapshot], Below]) -> set[str]:
    """As Slurm has it: who coordinates an account does so for all below it."""
    found = {one.account for one in snapshot.coordinators.value or () if one.user == name}
    if not found:
        return found
    accounts, todo = below(snapshot), list(found)
    while todo:
        new = [one for one in accounts.get(todo.pop(), ()) if one not in found]
        found.update(new)
        todo += new
    return found
