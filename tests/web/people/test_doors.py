# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal's settings: what is expected of each, and when the portal may be opened."""

from __future__ import annotations

from pathlib import Path

import configured
import pytest
from configured import from_toml, problems

from slurmscope.web.people import doors

OIDC = 'oidc_issuer = "https://login.example.org"\noidc_client_id = "slurmscope"\n'
URL = '[mail]\nurl = "https://portal.example.org"\n'


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.alone(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('sign_in = ["ldap"]', "portal.sign_in: expected any of local, proxy, oidc"),
        ('staff = ["a b"]', "portal.staff: expected names of users"),
        ('proxies = ["10.0.0.1/24"]', "portal.proxies: expected addresses, or networks"),
        ('proxies = ["proxy.example.org"]', "portal.proxies: expected addresses, or networks"),
        ('proxy_header = "Cookie"', "portal.proxy_header: expected the name of a header"),
        ('proxy_header = "X Y"', "portal.proxy_header: expected the name of a header"),
        ('oidc_issuer = "http://login.example.org"', "portal.oidc_issuer: expected https://host"),
        ('oidc_issuer = "https://a:b@login.example.org"', "portal.oidc_issuer: expected https://host"),
        ('oidc_issuer = "login.example.org"', "portal.oidc_issuer: expected https://host"),
        ('oidc_client_id = "a b"', "portal.oidc_client_id: expected letters, digits and signs"),
        ('oidc_claim = ""', "portal.oidc_claim: expected the name of a claim"),
        ('oidc_scopes = ["a b"]', "portal.oidc_scopes: expected words"),
        ('oidc_client_secret_file = "/none"', "portal.oidc_client_secret_file: expected a file"),
        ("session_hours = 0", "portal.session_hours: expected a number above 0"),
        ("session_hours = 169", "portal.session_hours: expected a number above 0 and at most 168"),
        ("share_days = 0", "portal.share_days: expected a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_named(line: str, expected: str) -> None:
    (found,) = problems(f"[portal]\n{line}")
    assert found.startswith(f"given.toml: {expected}")


def test_a_secret_is_never_repeated() -> None:
    (found,) = problems('[portal]\noidc_client_secret = "hunter 2"')
    assert "hunter" not in found


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('sign_in = ["proxy"]', ["portal.proxies"]),
        ('sign_in = ["oidc"]', ["portal.oidc_issuer", "portal.oidc_client_id", "mail.url"]),
        (f'sign_in = ["local", "oidc"]\n{OIDC}', ["mail.url"]),
    ],
)
def test_a_way_that_lacks_something(text: str, missing: list[str]) -> None:
    assert [one.split()[3] for one in problems(f"[portal]\n{text}")] == missing


def test_one_secret_is_enough(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    text = f'[portal]\noidc_client_secret = "x"\noidc_client_secret_file = "{tmp_path}/secret"\n'
    (found,) = problems(text)
    assert "expected to be the only secret" in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[mail]\nurl = "http://localhost:9092"',
        '[portal]\nsign_in = ["local"]',
        '[serve]\nlisten = "[::1]:1"',
        f'[serve]\nlisten = ":1"\n[portal]\nsign_in = ["local"]\n{URL}',
        f'[serve]\nlisten = ":1"\n[portal]\nsign_in = ["oidc"]\n{OIDC}{URL}',
        '[serve]\nlisten = ":1"\n[portal]\nsign_in = ["proxy"]\nproxies = ["10.0.0.7", "fd00::/64"]',
    ],
)
def test_it_may_be_opened(text: str) -> None:
    assert doors.problems(from_toml(text).settings) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[serve]\nlisten = ":1"', "whoever reaches :1 (serve.listen) would see everybody's jobs"),
        (f'[serve]\nlisten = ":1"\n{URL}', "whoever reaches :1"),
        (URL, "whoever reaches https://portal.example.org (mail.url) would see everybody's jobs"),
        ('[serve]\nlisten = ":1"\n[portal]\nsign_in = ["local"]', "could be read on the way"),
        ('[serve]\nlisten = ":1"\n[portal]\nsign_in = ["local"]\n[mail]\nurl = "http://x"', "could be read on the way"),
    ],
)
def test_it_may_not(text: str, why: str) -> None:
    (found,) = doors.problems(from_toml(text).settings)
    assert found.startswith("portal.sign_in: ") and why in found
