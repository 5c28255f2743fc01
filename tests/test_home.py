# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The first page: a browser's view of one cluster, or of several."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser

import msgspec
from recorded import read

from slurmscope.home import home
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.model import PARTS


class Seen(HTMLParser):
    """Headings, links, anchors, and the words of each row of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.rows: list[str] = []
        self._within = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("h1", "h2", "h3"):
            self.headings.append("")
        if tag == "tr":
            self.rows.append("")
        if tag in ("h1", "h2", "h3", "tr", "p", "style", "ul"):
            self._within = tag
        self.links += [str(found["href"])] if "href" in found else []
        self.ids += [str(found["id"])] if "id" in found else []

    def handle_data(self, data: str) -> None:
        if self._within == "tr":
            self.rows[-1] += f"{data} "
        elif self._within.startswith("h"):
            self.headings[-1] += data.strip()


def pages_named(name: str) -> Pages:
    snapshot, recorded = read("24.11")
    pages = Pages()
    pages.up = recorded.up
    asyncio.run(pages.publish(msgspec.structs.replace(snapshot, cluster=name), frozenset(PARTS)))
    return pages


def seen(*clusters: Pages) -> Seen:
    return Seen(home(Book(clusters).issue))


def test_one_cluster_has_the_page_for_itself() -> None:
    page = seen(read("24.11")[1])
    assert page.headings == ["lab24", "What is read"]
    assert page.ids == []
    assert (
        [row for row in page.rows if row.startswith("jobs ")]
        == [row for row in page.rows if "text:squeue" in row]
        != []
    )


def test_several_clusters_have_an_index_and_a_section_each() -> None:
    page = seen(read("24.11")[1], Pages(cluster="far"), read("22.05")[1])
    assert page.headings == [
        "3 clusters",
        *("lab24", "What is read"),
        *("far", "What is read"),
        *("lab22", "What is read"),
    ]
    index = page.rows[:3]
    assert [row.split()[0] for row in index] == ["lab24", "far", "lab22"]
    assert "slurmctld answers" in index[0] and "jobs run" in index[0]
    assert "slurmctld does not answer" in index[1] and "jobs run" not in index[1]
    assert [link[1:] for link in page.links if link.startswith("#")] == page.ids
    assert len(set(page.ids)) == 3
    assert len([row for row in page.rows if row.startswith("accounting ")]) == 3


def test_a_cluster_that_has_another_ones_name_is_said_to_be_left_out() -> None:
    clusters = pages_named("twin"), pages_named("twin")
    page = home(Book(clusters).issue)
    assert page.count("Another cluster has the same name") == 1
    assert page.index("Another cluster has the same name") > page.rindex("<h2")
    rows = Seen(page).rows
    assert "slurmctld answers" in rows[0] and "left out" in rows[1]
    assert "Another cluster" not in home(Book([clusters[0], pages_named("other")]).issue)


def test_a_name_is_not_taken_for_html() -> None:
    named = "<b>&{x}"
    for clusters in ([pages_named(named)], [pages_named(named), pages_named("other")]):
        page = home(Book(clusters).issue)
        assert "<b>&{x}" not in page
        assert named in Seen(page).headings
