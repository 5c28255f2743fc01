# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmscope.auth import Guard, check_password, hash_password, hash_token, valid_hash

STORED = hash_password("sesame")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def scrypts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The scrypt calls made from here on."""
    calls: list[dict[str, Any]] = []
    real: Callable[..., bytes] = hashlib.scrypt

    def counted(password: bytes, **parameters: Any) -> bytes:
        calls.append({**parameters, "thread": threading.current_thread()})
        return real(password, **parameters)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    return calls


@pytest.mark.parametrize("password", ["sesame", "", "pässwörd:with:colons", "x" * 5000, "\udcff"])
def test_a_hash_accepts_its_password_only(password: str) -> None:
    stored = hash_password(password)
    assert valid_hash(stored)
    assert check_password(password, stored)
    assert not check_password(password + "x", stored)


def test_a_hash_says_how_it_was_made_and_is_salted() -> None:
    assert STORED.startswith("scrypt$16384$8$1$")
    assert hash_password("sesame") != STORED


def test_an_independent_scrypt_agrees() -> None:
    _, n, r, p, salt, digest = STORED.split("$")
    expected = hashlib.scrypt(b"sesame", salt=base64.b64decode(salt), n=int(n), r=int(r), p=int(p), dklen=32)
    assert base64.b64decode(digest) == expected


SALT = base64.b64encode(b"s" * 16).decode()
DIGEST = base64.b64encode(b"d" * 32).decode()


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "sesame",
        "$2y$10$abcdefghijklmnopqrstuu",
        f"scrypt$16383$8$1${SALT}${DIGEST}",
        f"scrypt$24576$8$1${SALT}${DIGEST}",
        f"scrypt$16384$8$1$c2FsdA==${DIGEST}",
        f"scrypt$16384$8$1${SALT}${SALT}",
        f"scrypt$2$8$1${SALT}${DIGEST}",
        f"scrypt$4194304$8$1${SALT}${DIGEST}",
        f"scrypt$16384$0$1${SALT}${DIGEST}",
        f"scrypt$16384$8$0${SALT}${DIGEST}",
        f"scrypt$16384$8$1$${DIGEST}",
        f"scrypt$16384$8$1${SALT}$",
        f"scrypt$16384$8$1${SALT[:-1]}${DIGEST}",
        f"scrypt$16384$8$1${SALT}${DIGEST}\n",
        f"scrypt$16384$8$1${SALT}${DIGEST}$",
        f"scrypt$１６３８４$8$1${SALT}${DIGEST}",
    ],
)
def test_malformed_hashes_are_invalid_and_match_nothing(stored: str) -> None:
    assert not valid_hash(stored)
    assert not check_password("sesame", stored)


@given(st.text())
def test_no_text_upsets_the_hash_reader(stored: str) -> None:
    assert not valid_hash(stored)
    assert not check_password("sesame", stored)


def test_a_guard_with_nothing_configured_is_open() -> None:
    guard = Guard({}, [])
    assert guard.allows(None)
    assert guard.allows("Basic nonsense")


def test_a_guard_with_only_a_malformed_hash_is_shut() -> None:
    guard = Guard({"alice": "sesame"}, [])
    assert not guard.allows(None)
    assert not guard.allows(basic("alice", "sesame"))


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (basic("alice", "sesame"), True),
        (basic("alice", "sesame").replace("Basic", "bAsIc"), True),
        (basic("alice", "Sesame"), False),
        (basic("alice", ""), False),
        (basic("bob", "sesame"), False),
        (basic("", "sesame"), False),
        ("Bearer open-up", True),
        ("bearer  open-up ", True),
        ("Bearer Open-up", False),
        ("Bearer ", False),
        ("Bearer", False),
        (f"Bearer {hash_token('open-up')}", False),
        ("Basic", False),
        ("Basic !!!", False),
        ("Basic " + base64.b64encode(b"no colon").decode(), False),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), False),
        ("open-up", False),
        ("Digest open-up", False),
        ("", False),
        (None, False),
    ],
)
def test_guard(header: str | None, allowed: bool) -> None:
    guard = Guard({"alice": STORED}, [hash_token("open-up")])
    assert guard.allows(header) is allowed
    assert asyncio.run(guard.allows_async(header)) is allowed


def test_the_hash_of_nothing_opens_nothing() -> None:
    guard = Guard({}, [hash_token("")])
    assert not guard.allows("Bearer ")
    assert not guard.allows("Bearer")


def test_users_and_tokens_each_open_only_their_own_scheme() -> None:
    assert not Guard({}, [hash_token("open-up")]).allows(basic("alice", "open-up"))
    assert not Guard({"alice": STORED}, []).allows("Bearer sesame")


def test_a_right_password_is_paid_for_once(scrypts: list[dict[str, Any]]) -> None:
    guard = Guard({"alice": STORED, "bob": STORED}, [])
    for _ in range(3):
        assert guard.allows(basic("alice", "sesame"))
    assert len(scrypts) == 1
    assert guard.allows(basic("bob", "sesame"))
    assert len(scrypts) == 2


def test_a_wrong_password_stays_wrong_and_is_paid_for_each_time(scrypts: list[dict[str, Any]]) -> None:
    guard = Guard({"alice": STORED}, [])
    assert not guard.allows(basic("alice", "wrong"))
    assert not guard.allows(basic("alice", "wrong"))
    assert guard.allows(basic("alice", "sesame"))
    assert not guard.allows(basic("alice", "wrong"))
    assert guard.allows(basic("alice", "sesame"))
    assert len(scrypts) == 4


def test_an_unknown_user_costs_what_a_wrong_password_costs(scrypts: list[dict[str, Any]]) -> None:
    guard = Guard({"alice": STORED.replace("$1$", "$2$", 1)}, [])
    assert not guard.allows(basic("alice", "wrong"))
    assert not guard.allows(basic("mallory", "wrong"))
    known, unknown = ({name: call[name] for name in ("n", "r", "p", "dklen")} for call in scrypts)
    assert known == unknown
    assert known["p"] == 2


def test_the_event_loop_is_not_held_up(scrypts: list[dict[str, Any]]) -> None:
    guard = Guard({"alice": STORED}, [])

    async def scrapes() -> list[bool]:
        logins = [basic("alice", "wrong"), basic("alice", "sesame"), basic("mallory", "sesame")]
        return await asyncio.gather(*(guard.allows_async(login) for login in logins))

    assert asyncio.run(scrapes()) == [False, True, False]
    assert len(scrypts) == 3
    threads = {call["thread"] for call in scrypts}
    assert len(threads) == 1, "a flood of logins may take one core, not all"
    assert threading.main_thread() not in threads

    assert asyncio.run(guard.allows_async(basic("alice", "sesame")))
    assert len(scrypts) == 3


GUARD = Guard({"alice": STORED}, [hash_token("open-up")])
anything = st.text(st.characters(exclude_categories=()))


@given(st.one_of(anything, anything.map("Basic {}".format), anything.map("Bearer {}".format)))
def test_no_text_upsets_the_guard(header: str) -> None:
    if header.partition(" ")[2].strip() != "open-up":
        assert GUARD.allows(header) is False


@settings(max_examples=25, deadline=None)
@given(st.binary())
def test_no_bytes_upset_the_guard(credentials: bytes) -> None:
    allowed = GUARD.allows("Basic " + base64.b64encode(credentials).decode())
    assert allowed is (credentials == b"alice:sesame")
