# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names that somebody chose to do harm with: nothing of them is run, and no page breaks, in any form."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from findings.cases import node
from lives import accounted, job
from msgspec.structs import replace
from web import sites, town
from web.client import Client
from web.test_access import LOOKS, named, params
from web.test_portal import tags

from slurmscope.life import seen, told
from slurmscope.model import Limit, Part, Share, Snapshot
from slurmscope.store.place import open_store
from slurmscope.store.protocol import KeptNode, NodeChange
from slurmscope.web import addresses
from slurmscope.web.portal import Portal
from slurmscope.web.route import CSV, HTML, JSON, PDF, RAW, Route

NAMES = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "quotes": "\"' onmouseover=alert(1) x='",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "controls": "a\r\nSet-Cookie: x=1\x1b[31m\x00b",
    "directions": "\u202egpj.exe\u2066",
    "bytes": "caf\ufffd\U0001f4a9",
    "slashes": "../..//etc?x=1&y=2#z",
    "formula": "=cmd|' /C calc'!A0",
    "long": "x" * 900,
}
ODD = {
    "form": "me.csv",  # as if it said in which form the answer is wanted
    "lost bytes": "caf\\xe9",  # as what is no text is read
    "percent": "100%41%2f",
    "spaces": " a  b\t",
    "newline": "\n",
}
"""Names of which nothing is run, but which break addresses."""
CLUSTER, NOW = "alpha", sites.NOW
LISTS = (
    "/",
    "/clusters/alpha",
    "/jobs?user=*&time=all",
    "/clusters/alpha/jobs/1",
    "/nodes",
    "/clusters/alpha/nodes?view=table",
    "/clusters/alpha/accounts?people=true",
    "/clusters/alpha/report",
    "/search?q={beginning}",
    "/users/{name}",
    "/clusters/alpha/users/{name}",
    "/clusters/alpha/accounts/{name}",
    "/clusters/alpha/nodes/{name}",
)
"""Pages that lead to others."""


def opened(folder: Path, name: str) -> Portal:
    """Everything on this cluster is called so."""
    ended = job(
        1,
        "FAILED",
        name=name,
        user=name,
        account=name,
        partition=name,
        qos=name,
        node_list=name,
        reason=name,
        features=name,
        licenses=name,
        login_node=name,
        submit_time=NOW - 9000,
        start_time=NOW - 8000,
        end_time=NOW - 4000,
    )
    waits = replace(ended, id=2, state="PENDING", start_time=None, end_time=None, node_list="", submit_time=NOW - 500)
    runs = replace(ended, id=3, state="RUNNING", end_time=None, submit_time=NOW - 900, start_time=NOW - 800)
    there = node(
        name,
        partitions=(name,),
        reason=name,
        reason_user=name,
        features=(name,),
        version=name,
        state="DOWN",
        reason_time=NOW - 50,
        gpus={name: 2},
        gpus_allocated={name: 1},
    )
    shares = (
        Share("root", None, None, None, 0, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        Share(name, None, None, "root", 1, 1, 0.5, 100.0, 0.5, 0.5, 0.5, 1.0),
        Share(name, name, name, name, 2, 1, 0.5, 100.0, 0.5, 0.5, 0.5, 1.0),
    )
    limits = (Limit("association", name, None, None, None, "GrpTRES", f"gres/gpu:{name}", 8.0, 8.0),)
    snapshot = Snapshot(CLUSTER).replaced(
        nodes=Part((there,), float(NOW), name),
        jobs=Part((waits, runs), float(NOW), name, error=name),
        shares=Part(shares, float(NOW), "text"),
        limits=Part(limits, float(NOW), "text"),
    )
    site = sites.site_of(folder, [snapshot], town.SETTINGS)
    site.script = lambda life: "#!/bin/sh\n"
    sites.keep(
        site,
        [told(None, CLUSTER, accounted(ended), NOW), seen(None, CLUSTER, waits, NOW), seen(None, CLUSTER, runs, NOW)],
    )
    store = open_store(site.url)
    with store.writing(CLUSTER) as writer:
        writer.put_nodes([KeptNode(CLUSTER, there, NOW, NOW - 50)])
        writer.add_node_changes([NodeChange(CLUSTER, name, NOW - 50, "DOWN", (), name, name, NOW - 50)])
    store.close()
    return sites.portal_of(site)


@pytest.fixture(scope="module", params=NAMES, ids=str)
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Portal]]:
    name = NAMES[request.param]
    portal = opened(tmp_path_factory.mktemp("hostile"), name)
    yield name, portal
    portal.close()


def address(path: str, name: str, form: str) -> str:
    # where the proxy would stop it, so would a browser: what is no address is not asked for
    part = quote(name, safe="", errors="surrogateescape")
    things = {"cluster": CLUSTER, "job": "1", "token": "1", "metric": "cpu"}
    for one in params(path):
        path = path.replace(f"{{{one}}}", things.get(one, part))
    return path if form in (HTML, RAW) else f"{path}.{form}" if path != "/" else f"/index.{form}"


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if (tag, name) == ("a", "href")}


@pytest.mark.parametrize("case", LOOKS, ids=map(named, LOOKS))
def test_nothing_is_run_and_nothing_breaks(hostile: tuple[str, Portal], case: tuple[Route, str, str]) -> None:
    name, portal = hostile
    _, path, form = case
    client: Client = town.as_(portal, town.SAM)
    asked = quote(name, errors="surrogateescape")
    # what is filtered by shows on pages and in tables alone
    queries = ("",) if form in (PDF, RAW) else ("", f"?q={asked}", f"?user=*&time=all&name={asked}")
    for query in queries:
        got = client.get(address(path, name, form) + query)
        assert got.status in (200, 303, 400, 404), (path, got.text[-400:])
        assert not {"x", "set-cookie: x"} & got.headers.keys()
        if form == HTML and got.status != 303:
            found = tags(got.text)
            assert (found.inline, found.elsewhere) == ([], []), path
            seen_tags = _Texts()
            seen_tags.feed(got.text)
            assert "img" not in seen_tags.tags and not {one for one in seen_tags.attributes if one.startswith("on")}
            assert "49${" not in got.text and "$49" not in got.text
            assert not any(char in got.text for char in "\x00\x1b\u202e")
        if form == JSON:
            assert got.status == 303 or got.json is not None
        if form == CSV and got.status == 200:
            assert not any(cell.startswith(("=", "@")) for line in got.text.splitlines() for cell in line.split(","))


def links(page: str) -> set[str]:
    found = _Texts()
    found.feed(page)
    # what is made as PDF is of the same address as the page
    return {one.partition("#")[0] for one in found.links if not one.endswith(".pdf")} - {""}


@pytest.mark.parametrize("name", [*NAMES.values(), *ODD.values()], ids=[*NAMES, *ODD])
def test_every_link_leads_somewhere(tmp_path: Path, name: str) -> None:
    portal = opened(tmp_path, name)
    client = town.as_(portal, town.SAM)
    try:
        seen_links: set[str] = set()
        for path in LISTS:
            asked = path.replace("{name}", addresses.part(name)).replace("{beginning}", addresses.part(name[:100]))
            got = client.get(asked)
            if got.status == 303:
                got = client.get(got.headers["location"])
            assert got.status == 200, (asked, got.text[-300:])
            seen_links |= links(got.text)
        broken = {one: status for one in sorted(seen_links) if (status := client.get(one).status) != 200}
        assert broken == {}
        # … and to what is called so
        for thing in ("users", "clusters/alpha/nodes", "clusters/alpha/accounts"):
            assert f"/{thing}/{addresses.part(name)}" in seen_links
    finally:
        portal.close()
