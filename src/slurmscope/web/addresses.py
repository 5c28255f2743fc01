# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where the pages of things are: the one place that knows how an address is made."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from slurmscope.life import Life
from slurmscope.web.route import SUFFIXES


def part(name: str) -> str:
    """A name as a segment of an address, whatever it holds."""
    quoted = quote(name, safe="", errors="surrogateescape")
    stem, dot, form = quoted.rpartition(".")
    # one that ends as if it said a form keeps its dot to itself
    return f"{stem}%2E{form}" if dot and form in SUFFIXES else quoted


def within(cluster: str, *parts: str) -> str:
    """A page of a cluster, or of all where that is not named."""
    beginning = ["clusters", cluster] if cluster else []
    return "/" + "/".join(map(part, [*beginning, *parts]))


def job(life: Life) -> str:
    return within(life.cluster, "jobs", f"{life.id}.{life.submit_time or 0}")


def _month(cluster: str, rest: str) -> str:
    month, _, account = rest.partition("/")
    return f"{within(cluster, 'accounts', account)}?month={part(month)}"


def _report(cluster: str, rest: str) -> str:
    month, _, user = rest.partition("/")
    page = within(cluster, "users", user) if user else within(cluster, "report")
    return f"{page}?month={part(month)}"


# What is of a cluster ("node:narval/n1"), and what is of all of them.
_OF_ONE: dict[str, Callable[[str, str], str]] = {
    "job": lambda cluster, name: within(cluster, "jobs", name),
    "node": lambda cluster, name: within(cluster, "nodes", name),
    "account": lambda cluster, name: within(cluster, "accounts", name),
    "report": _report,
    "month": _month,  # of an account
    # all nodes of a cluster that are in one condition
    "nodes": lambda cluster, condition: f"{within(cluster, 'nodes')}?view=table&state={part(condition)}",
    # all that wait in a partition, as far as one may see them
    "waiting": lambda cluster, name: f"{within(cluster, 'jobs')}?user=*&time=all&state=waiting&partition={part(name)}",
}
_OF_ALL: dict[str, Callable[[str], str]] = {
    "user": lambda name: within("", "users", name),
    "cluster": within,
    "served": lambda path: path,  # a page of metrics, as `serve` calls it
}


def address(link: str) -> str:
    """Of what a cell is of: "job:narval/123", "user:alice". Nothing where there is no page of such things."""
    kind, _, name = link.partition(":")
    cluster, slash, rest = name.partition("/")
    if slash and kind in _OF_ONE:
        return _OF_ONE[kind](cluster, rest)
    return _OF_ALL[kind](name) if kind in _OF_ALL else ""
