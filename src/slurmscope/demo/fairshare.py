# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who has used how much lately, and what that is worth: Slurm's fair tree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf, log

from slurmscope.demo.cluster import WEEK
from slurmscope.demo.people import ACCOUNTS, ROOT, Stream, User
from slurmscope.demo.work import MEAN_RHYTHM

HALF_LIFE = WEEK


@dataclass(slots=True)
class Branch:
    """An account, or a user in one, with what the last computing made of it."""

    account: str
    user: str | None
    parent: str | None
    depth: int
    shares: int | None
    norm_shares: float = 0.0
    usage: float = 0.0
    norm_usage: float = 0.0
    effective_usage: float = 0.0
    factor: float | None = None
    level: float | None = None


class FairShare:
    """Usage in billing-seconds, which is taken in as jobs come and go and decays from tick to tick."""

    def __init__(self, people: list[User], now: int) -> None:
        self.tree: list[Branch] = [Branch(ROOT, None, None, 0, None)]
        self._children: dict[str, list[Branch]] = defaultdict(list)
        self._factors: dict[str, float] = {}
        self._rates: dict[str, int] = defaultdict(int)
        self._since: dict[str, int] = {}
        self._used: dict[str, float] = defaultdict(float)
        self._decayed = now
        depths = {ROOT: 0}
        for account in ACCOUNTS:
            depth = depths[account.name] = depths[account.parent] + 1
            self._add(Branch(account.name, None, account.parent, depth, account.shares))
            for user in people:
                if user.account == account.name:
                    self._add(Branch(account.name, user.name, account.name, depth + 1, 1))

    def _add(self, branch: Branch) -> None:
        self.tree.append(branch)
        self._children[branch.parent or ""].append(branch)

    def seed(self, streams: list[Stream]) -> None:
        """Usage as if people had always worked as they do."""
        lasting = HALF_LIFE / log(2)
        for stream in streams:
            work = stream.work
            billing = work.cost * (1 if work.gpus == (0,) else 28)  # a GPU comes with a dozen CPUs
            busy = 1.0 if work.steady else MEAN_RHYTHM
            # not all that is asked for is had
            self._used[stream.user.name] += 0.7 * stream.rate * busy * billing * 3600 * lasting

    def charge(self, user: str, billing: int, now: int) -> None:
        """From now on the user takes `billing` more each second, or less."""
        self._used[user] += self._rates[user] * (now - self._since.get(user, now))
        self._since[user] = now
        self._rates[user] += billing

    def factor(self, user: str) -> float:
        return self._factors[user]

    def tick(self, now: int) -> None:
        """Decay, and the tree made anew."""
        decay = 0.5 ** ((now - self._decayed) / HALF_LIFE)
        self._decayed = now
        usage: dict[tuple[str, str | None], float] = defaultdict(float)
        for branch in reversed(self.tree):  # children come behind their parents
            if branch.user is not None:
                self.charge(branch.user, 0, now)
                self._used[branch.user] *= decay
                usage[branch.account, branch.user] = self._used[branch.user]
            branch.usage = usage[branch.account, branch.user]
            if branch.parent is not None:
                usage[branch.parent, None] += branch.usage
        root = self.tree[0]
        root.effective_usage = 1.0
        ranked: list[Branch] = []
        self._rank(root, root.usage or 1.0, ranked)
        for place, branch in enumerate(ranked):
            branch.factor = 1 - place / len(ranked)
            self._factors[branch.user or ""] = branch.factor

    def _rank(self, parent: Branch, total: float, ranked: list[Branch]) -> None:
        """The users below `parent`, the one with the best claim first."""
        children = self._children[parent.account]
        shares = sum(child.shares or 0 for child in children)
        for child in children:
            child.norm_shares = (child.shares or 0) / shares
            child.norm_usage = child.usage / total
            child.effective_usage = child.usage / parent.usage if parent.usage else 0.0
            child.level = child.norm_shares / child.effective_usage if child.effective_usage else inf
        for child in sorted(children, key=lambda one: (-(one.level or 0), one.account, one.user or "")):
            if child.user is not None:
                ranked.append(child)
            else:
                self._rank(child, total, ranked)
