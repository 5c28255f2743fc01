# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The links of mails, over real connections: only whole ones, only the button acts, and that is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.auth import Guard
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.links import FINE, OPT_OUT, Links
from slurmscope.mail.pages import doors
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.server import App
from slurmscope.signed import LinkError, key_of

NOW = 1_700_000_000
T = TypeVar("T")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(tmp_path / "notices.db")
    yield found
    found.close()


def token(url: str) -> str:
    return url.rpartition("/")[2]


def test_the_key_is_made_once_and_is_nobody_else_s(tmp_path: Path) -> None:
    key = key_of(tmp_path / "new")
    assert key == key_of(tmp_path / "new")
    assert len(key) == 32
    assert (tmp_path / "new" / "links.key").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["links.key"]


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=100), st.text(max_size=100))
def test_a_link_says_what_it_was_made_for_and_nothing_else(person: str, work: str) -> None:
    links = Links(b"k" * 32, "https://slurmscope.example.org/", 60)
    url = links.fine(person, "zero_gpu", work, "alpha.1.2", NOW)
    assert url.startswith("https://slurmscope.example.org/fine/") and url.isascii()
    claim = links.claim(FINE, token(url), NOW)
    assert (claim.rule, claim.work, claim.job) == ("zero_gpu", work, "alpha.1.2")
    with pytest.raises(LinkError, match="something else"):
        links.claim(OPT_OUT, token(url), NOW)
    with pytest.raises(LinkError, match="too old"):
        links.claim(FINE, token(url), NOW + 60 * 86400)
    with pytest.raises(LinkError):
        Links(b"j" * 32, "x", 60).claim(FINE, token(url), NOW)


@given(st.data())
def test_no_bit_of_a_link_can_be_changed(data: st.DataObject) -> None:
    links = Links(b"k" * 32, "", 60)
    good = token(links.opt_out("alice", NOW))
    at = data.draw(st.integers(0, len(good) - 1))
    char = data.draw(st.sampled_from("ABCxyz019-_=.%é"))
    bad = good[:at] + char + good[at + 1 :]
    try:
        assert links.claim(OPT_OUT, bad, NOW).person == "alice"  # the last one has bits that say nothing
    except LinkError:
        assert bad != good


@given(st.text(max_size=5000))
def test_anything_else_is_no_link(text: str) -> None:
    with pytest.raises(LinkError):
        Links(b"k" * 32, "", 60).claim(OPT_OUT, text, NOW)


def served(ledger: Ledger, links: Links, work: Coroutine[None, None, T] | None = None) -> App:
    return App(
        Book([Pages(cluster="c")]), Guard({}, ["0" * 64]), prefixes=doors(lambda: (links, ledger), clock=lambda: NOW)
    )


async def _asked(app: App, requests: list[tuple[str, str, str]]) -> list[httpx.Response]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            return [
                await client.request(
                    method, path, content=body, headers={"content-type": "application/x-www-form-urlencoded"}
                )
                for method, path, body in requests
            ]
    finally:
        server.should_exit = True
        await task


def asked(app: App, *requests: tuple[str, str, str]) -> list[httpx.Response]:
    return asyncio.run(_asked(app, list(requests)))


def test_looking_changes_nothing_and_the_button_opts_out(ledger: Ledger) -> None:
    links = Links(b"k" * 32, "", 60)
    path = links.opt_out("alice", NOW)
    app = served(ledger, links)
    looked, headed = asked(app, ("GET", path, ""), ("HEAD", path, ""))
    assert looked.status_code == 200
    assert looked.text.count("<button") == 1
    assert looked.headers["referrer-policy"] == "no-referrer"
    assert headed.status_code != 200
    assert not ledger.opted_out("alice") and ledger.entries() == []
    (pressed,) = asked(app, ("POST", path, "yes=1"))
    assert pressed.status_code == 200 and ledger.opted_out("alice")
    assert [(one.event, one.person) for one in ledger.entries()] == [("opted out", "alice")]
    asked(app, ("POST", path, "undo=1"))
    assert not ledger.opted_out("alice")
    # as mail programs do it by themselves (RFC 8058)
    asked(app, ("POST", path, "List-Unsubscribe=One-Click"))
    assert ledger.opted_out("alice")


def test_the_button_says_that_it_is_fine(ledger: Ledger) -> None:
    links = Links(b"k" * 32, "", 60)
    path = links.fine("alice", "zero_gpu", "<script>x</script>", "alpha.1.2", NOW)
    app = served(ledger, links)
    looked, pressed = asked(app, ("GET", path, ""), ("POST", path, "yes=1"))
    assert "<script>" not in looked.text
    assert "no more is said of it" in looked.text
    assert pressed.status_code == 200
    assert ledger.fines("alice") == {("zero_gpu", "<script>x</script>")}
    (entry,) = ledger.entries()
    assert (entry.event, entry.rule, entry.job) == ("said to be fine", "zero_gpu", "alpha.1.2")


def test_what_is_no_link_does_nothing(ledger: Ledger) -> None:
    links = Links(b"k" * 32, "", 60)
    old = Links(b"k" * 32, "", 1).opt_out("alice", NOW - 2 * 86400)
    other = Links(b"j" * 32, "", 60).opt_out("alice", NOW)
    crossed = links.opt_out("alice", NOW).replace("/opt-out/", "/fine/")
    app = served(ledger, links)
    for path in (old, other, crossed, "/opt-out/", "/fine/x", "/opt-out/%C3%A9"):
        for answer in asked(app, ("GET", path, ""), ("POST", path, "yes=1")):
            assert answer.status_code == 404, path
    long = asked(app, ("POST", links.opt_out("alice", NOW), "x" * 5000))
    assert long[0].status_code == 413
    assert ledger.entries() == []


def test_while_nothing_can_be_written_down_it_is_said_so(ledger: Ledger) -> None:
    links = Links(b"k" * 32, "", 60)
    path = links.opt_out("alice", NOW)
    app = App(Book([Pages(cluster="c")]), Guard({}, ["0" * 64]), prefixes=doors(lambda: None, clock=lambda: NOW))
    assert [one.status_code for one in asked(app, ("GET", path, ""), ("POST", path, "yes=1"))] == [503, 503]
    ledger.close()
    (pressed,) = asked(served(ledger, links), ("POST", path, "yes=1"))
    assert pressed.status_code == 503


def test_other_addresses_stay_closed(ledger: Ledger) -> None:
    app = served(ledger, Links(b"k" * 32, "", 60))
    found = asked(app, ("GET", "/metrics", ""), ("GET", "/opt-outs", ""), ("POST", "/fine", ""))
    assert [one.status_code for one in found] == [401, 401, 404]
