# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whom a proxy names: believed from those that are listed, and from nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.settings import Portal
from slurmscope.web.people import names
from slurmscope.web.people.proxy import ProxyError, client_of, name_of

PORTAL = Portal(sign_in=["proxy"], proxies=["10.0.0.7", "10.1.0.0/24", "fd00::/64"])
Headers = list[tuple[bytes, bytes]]


def named(*values: str) -> Headers:
    return [(b"accept", b"*/*"), *((b"x-remote-user", one.encode()) for one in values)]


@pytest.mark.parametrize(
    "peer", ["10.0.0.7", "10.1.0.250", "fd00::12", "::ffff:10.0.0.7", "::ffff:10.1.0.1", "fd00::1%eth0"]
)
def test_those_that_are_listed_are_believed(peer: str) -> None:
    assert name_of(peer, named("alice"), PORTAL) == "alice"
    assert name_of(peer, named(), PORTAL) is None
    assert name_of(peer, named(""), PORTAL) is None


@pytest.mark.parametrize(
    "peer", ["10.0.0.8", "127.0.0.1", "::1", "fd00:0:0:1::1", "::ffff:10.0.0.8", "", "unix", "10.0.0.7.evil"]
)
def test_nobody_else_is(peer: str) -> None:
    assert name_of(peer, named("alice"), PORTAL) is None
    assert name_of(peer, named("alice", "root"), PORTAL) is None
    assert name_of(peer, named("alice"), Portal(sign_in=["proxy"])) is None


@pytest.mark.parametrize("values", [("alice", "root"), ("", "alice"), ("alice", "alice")])
def test_a_header_that_is_there_twice_was_not_removed_by_the_proxy(values: tuple[str, ...]) -> None:
    with pytest.raises(ProxyError, match="2 times: it must remove"):
        name_of("10.0.0.7", named(*values), PORTAL)


@pytest.mark.parametrize(
    "name",
    ["alice, root", "alice root", "<b>", "-rf", "../etc", "a" * 129, "(null)", "al\x00ice", "alicé", "@x", "a\nb"],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ProxyError, match="expected up to 128"):
        name_of("10.0.0.7", named(name), PORTAL)


def test_the_header_is_the_one_of_the_settings() -> None:
    portal = Portal(proxies=["10.0.0.7"], proxy_header="X-Auth-User")
    assert name_of("10.0.0.7", named("alice"), portal) is None
    assert name_of("10.0.0.7", [(b"x-auth-user", b"alice")], portal) == "alice"
    assert name_of("10.0.0.7", [(b"x_auth_user", b"alice")], portal) is None


@given(st.binary(max_size=60), st.sampled_from(["10.0.0.7", "10.9.9.9"]))
def test_whatever_is_sent(value: bytes, peer: str) -> None:
    try:
        found = name_of(peer, [(b"x-remote-user", value)], PORTAL)
    except ProxyError as error:
        assert peer == "10.0.0.7" and str(error).isprintable()
    else:
        assert found is None or (peer == "10.0.0.7" and names.plausible(found))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.7", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.7", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.7", ["1.1.1.1", "198.51.100.1, 10.1.0.3"], "198.51.100.1"),
        ("10.0.0.7", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.7", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.0.0.7", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.7", ["garbage"], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1, garbage, 10.1.0.3"], "10.1.0.3"),
        ("", [], ""),
    ],
)
def test_from_where_somebody_comes(peer: str, forwarded: list[str], client: str) -> None:
    assert client_of(peer, [(b"x-forwarded-for", one.encode()) for one in forwarded], PORTAL) == client
