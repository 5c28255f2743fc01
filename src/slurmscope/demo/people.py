# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who uses the simulated cluster: accounts, and people with invented names and habits."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

from slurmscope.demo.cluster import HOUR
from slurmscope.demo.work import DEMAND, MEAN_RHYTHM, WORKS, Work

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    parent: str
    shares: int
    users: int = 0  # of its own


# In the order of a tree: each account behind its parent.
ACCOUNTS = (
    Account("science", ROOT, 40),
    Account("astro", "science", 10, 5),
    Account("climate", "science", 15, 6),
    Account("matsci", "science", 10, 6),
    Account("qchem", "science", 10, 5),
    Account("medicine", ROOT, 25),
    Account("genomics", "medicine", 20, 7),
    Account("imaging", "medicine", 10, 5),
    Account("cryoem", "medicine", 10, 4),
    Account("engineering", ROOT, 20),
    Account("cfd", "engineering", 10, 4),
    Account("robotics", "engineering", 10, 4),
    Account("informatics", ROOT, 25),
    Account("nlp", "informatics", 20, 5),
    Account("vision", "informatics", 15, 4),
    Account("social", ROOT, 5),
    Account("economics", "social", 5, 3),
    Account("hpc101", "social", 1, 6),
)

_FIRST = (
    *("anna", "bram", "chiara", "daniel", "elif", "farid", "greta", "hiro", "ines", "jonas", "katya", "liam"),
    *("mei", "nadia", "oskar", "priya", "quentin", "rosa", "sven", "tomas", "uma", "viktor", "wen", "yusuf", "zoe"),
)
_LAST = (
    *("adeyemi", "baumann", "castelli", "dubrov", "eriksen", "fontaine", "grabner", "halloran", "ishida"),
    *("jansen", "kovac", "lindqvist", "moreau", "nakagawa", "okafor", "petrov", "quast", "rahimi", "santos"),
    *("tanaka", "urbach", "vogel", "wieland", "xavier", "yilmaz", "zeller", "brandt", "chowdhury", "delgado"),
    *("farkas", "gruber", "hofer", "keller", "larsson", "meyer", "novak", "olsen", "pavic", "reuter", "sato"),
)


@dataclass(frozen=True, slots=True)
class User:
    name: str
    account: str
    accounts: tuple[str, ...]  # with those above it
    login: str  # the host that they submit from


@dataclass(frozen=True, slots=True, eq=False)  # each is one of its kind, and is counted by
class Stream:
    """One user's submissions of one kind of work."""

    user: User
    work: Work
    rate: float  # submissions a second, in the busiest hour


def _login_name(rng: random.Random, taken: set[str]) -> str:
    while True:
        first, last = rng.choice(_FIRST), rng.choice(_LAST)
        name = rng.choice((f"{first[0]}{last}", f"{first}.{last}", f"{first[0]}.{last}", f"{last}{first[0]}"))
        if name not in taken:
            taken.add(name)
            return name


def users(rng: random.Random) -> list[User]:
    parents = {account.name: account.parent for account in ACCOUNTS}
    taken: set[str] = set()
    found = []
    for account in ACCOUNTS:
        path = [account.name]
        while path[-1] != ROOT:
            path.append(parents[path[-1]])
        for _ in range(account.users):
            login = f"login{rng.randint(1, 3)}"
            found.append(User(_login_name(rng, taken), account.name, tuple(path), login))
    return found


def coordinators(people: list[User]) -> list[tuple[str, str]]:
    """Each account and who coordinates it: who leads the group, and who leads the department above it."""
    leads: dict[str, str] = {}
    for user in people:
        for name in user.accounts:
            leads.setdefault(name, user.name)
    found = []
    for account in ACCOUNTS:
        above = leads.get(account.parent) if account.parent != ROOT else None
        found += [(account.name, one) for one in dict.fromkeys((leads[account.name], above)) if one is not None]
    return found


def streams(people: list[User], rng: random.Random) -> list[Stream]:
    """Who submits what how often, so that all together want what the table of demands says."""
    found = []
    totals: dict[str, float] = defaultdict(float)
    for work in WORKS:
        totals[work.pool] += work.share
    for work in WORKS:
        group = [user for user in people if user.account == work.account]
        rng.shuffle(group)
        # a few do most of the work
        doers = group[: max(1, round(len(group) * 0.7))]
        weights = [1 / (place + 1) for place in range(len(doers))]
        each_hour = DEMAND[work.pool] * work.share / totals[work.pool] / work.cost
        busiest = each_hour / HOUR / (1.0 if work.steady else MEAN_RHYTHM)
        found += [Stream(user, work, busiest * one / sum(weights)) for user, one in zip(doers, weights, strict=True)]
    return found


@dataclass(frozen=True, slots=True)
class Cast:
    """All that the seed alone decides."""

    rng: random.Random  # for the story that follows
    users: list[User]
    looks: dict[str, float]  # how often each asks for their jobs, by comparison
    hammer: str  # who always does
    streams: list[Stream]


def cast(seed: int) -> Cast:
    rng = random.Random(f"slurmscope demo {seed}")  # noqa: S311 - a story, no secret
    found = users(rng)
    looks = {user.name: rng.lognormvariate(0, 0.8) for user in found}
    hammer = rng.choice(list(looks))
    return Cast(rng, found, looks, hammer, streams(found, rng))
