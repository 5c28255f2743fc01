# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Sign-in by OpenID Connect with a provider that others use in production, and with one that lies.

Whoever lies stands between that provider and slurmscope, and has the provider's key where it says so.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from servers.process import free_port
from web.people.openid import CLIENT, SECRET, USER, OpenId, browse, new_key

from slurmscope.settings import Portal
from slurmscope.web.people.errors import OidcError
from slurmscope.web.people.ledger import Ledger
from slurmscope.web.people.oidc import PENDING_SECONDS, Oidc

PORTAL = f"http://127.0.0.1:{free_port()}"  # where nobody listens: the browser is stopped before


@pytest.fixture(scope="module")
def openid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenId]:
    found = OpenId(tmp_path_factory.mktemp("openid"), PORTAL)
    try:
        found.start()
        yield found
    finally:
        found.close()


def settings(openid: OpenId, **more: Any) -> Portal:
    given: dict[str, Any] = {
        "sign_in": ["oidc"],
        "oidc_issuer": openid.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
    }
    return Portal(**given | more)


@pytest.fixture
def oidc(openid: OpenId, ledger: Ledger) -> Iterator[Oidc]:
    found = Oidc(settings(openid), PORTAL, ledger)
    yield found
    found.close()


def now() -> int:
    return int(time.time())


def signed_in(oidc: Oidc) -> str:
    url, kept = oidc.begin(now())
    return oidc.finish(kept, browse(url, PORTAL), now())


def refused(oidc: Oidc) -> str:
    """Why somebody whom the provider has signed in is not."""
    url, kept = oidc.begin(now())
    query = browse(url, PORTAL)
    with pytest.raises(OidcError) as caught:
        oidc.finish(kept, query, now())
    assert str(caught.value).isprintable()
    return str(caught.value)


def resigned(openid: OpenId, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Any], Any]:
    """The provider's token with other claims or another header, signed with the provider's own key."""

    def changed(answer: dict[str, Any]) -> dict[str, Any]:
        header, claims = _parts(answer["id_token"])
        change(header, claims)
        key = RSAKey.import_key(openid.key)
        return answer | {"id_token": jwt.encode(header, claims, key, algorithms=[header["alg"]])}

    return changed


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    header, claims, _ = token.split(".")
    read = [msgspec.json.decode(base64.urlsafe_b64decode(one + "=" * (-len(one) % 4))) for one in (header, claims)]
    return read[0], read[1]


# --- as it should be --------------------------------------------------------------------------------------------------


def test_a_user_signs_in(oidc: Oidc) -> None:
    assert signed_in(oidc) == USER
    assert signed_in(oidc) == USER


def test_the_secret_may_be_in_a_file(openid: OpenId, ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    oidc = Oidc(
        settings(openid, oidc_client_secret="", oidc_client_secret_file=str(tmp_path / "secret")), PORTAL, ledger
    )
    assert signed_in(oidc) == USER
    (tmp_path / "secret").unlink()
    assert "oidc_client_secret_file) cannot be read" in refused(oidc)
    oidc.close()


def test_a_name_that_is_not_in_the_token_is_asked_for(openid: OpenId, oidc: Oidc) -> None:
    with openid.relay.changing("/token", resigned(openid, lambda header, claims: claims.pop("preferred_username"))):
        assert signed_in(oidc) == USER


def test_keys_are_asked_for_once_and_again_when_the_provider_has_new_ones(openid: OpenId, oidc: Oidc) -> None:
    def keys() -> int:
        return len([one for one in openid.relay.asked if one.endswith("jwks.json")])

    before = keys()
    for _ in range(2):
        assert signed_in(oidc) == USER
    assert keys() == before + 1
    openid.key = new_key()
    with openid.stopped():
        pass
    assert signed_in(oidc) == USER
    assert keys() == before + 2


# --- who does not sign in ---------------------------------------------------------------------------------------------


def test_what_another_browser_began_is_refused(oidc: Oidc) -> None:
    """An attacker's own answer, put before somebody else, would sign that person in as the attacker."""
    url, _ = oidc.begin(now())
    _, mine = oidc.begin(now())
    answer = browse(url, PORTAL)
    with pytest.raises(OidcError, match="answered another sign-in"):
        oidc.finish(mine, answer, now())
    for never in ("", "x", "\ud800"):
        with pytest.raises(OidcError, match="begin again"):
            oidc.finish(never, answer, now())


def test_an_answer_is_good_once(oidc: Oidc) -> None:
    url, kept = oidc.begin(now())
    answer = browse(url, PORTAL)
    assert oidc.finish(kept, answer, now()) == USER
    with pytest.raises(OidcError, match="was finished already"):
        oidc.finish(kept, answer, now())


def test_a_code_that_was_used_is_refused_by_the_provider(oidc: Oidc) -> None:
    url, kept = oidc.begin(now())
    used = browse(url, PORTAL)
    assert oidc.finish(kept, used, now()) == USER
    url, kept = oidc.begin(now())
    fresh = browse(url, PORTAL)
    with pytest.raises(OidcError, match=r"gave no token \(400, invalid_grant"):
        oidc.finish(kept, fresh | {"code": used["code"]}, now())


def test_a_code_of_another_sign_in_is_refused_by_its_verifier(oidc: Oidc) -> None:
    stolen = browse(oidc.begin(now())[0], PORTAL)["code"]
    url, kept = oidc.begin(now())
    with pytest.raises(OidcError, match=r"gave no token \(400, invalid_grant"):
        oidc.finish(kept, browse(url, PORTAL) | {"code": stolen}, now())


def test_ten_minutes_are_enough(oidc: Oidc) -> None:
    url, kept = oidc.begin(now())
    answer = browse(url, PORTAL)
    with pytest.raises(OidcError, match="more than ten minutes ago"):
        oidc.finish(kept, answer, now() + PENDING_SECONDS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"code": []}, "sent no code"),
        ({"code": ["a", "b"]}, "sent no code"),
        ({"state": []}, "another sign-in"),
        ({"iss": ["https://evil.example.org"]}, "Another OpenID provider answered"),
        ({"error": ["access_denied"], "error_description": ["no\x1b[31m way"]}, "access_denied: no"),
    ],
)
def test_answers_that_are_none(oidc: Oidc, change: dict[str, list[str]], why: str) -> None:
    url, kept = oidc.begin(now())
    with pytest.raises(OidcError, match=why) as caught:
        oidc.finish(kept, browse(url, PORTAL) | change, now())
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "another"}, "is of another sign-in"),
        ({"nonce": None}, "has no nonce"),
        ({"aud": "another"}, "is for another program"),
        ({"aud": ["another", "third"]}, "is for another program"),
        ({"aud": [CLIENT, "another"]}, "has no azp"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "is for another program"),
        ({"azp": "another"}, "is for another program"),
        ({"iss": "https://evil.example.org"}, "is another provider's"),
        ({"exp": 1_000_000_000}, "has ended: are the clocks"),
        ({"exp": None}, "has no exp"),
        ({"exp": "tomorrow"}, "has ended"),
        ({"iat": 4_000_000_000}, "is of the future"),
        ({"sub": None}, "has no sub"),
        ({"preferred_username": "alice, root"}, "which no user in Slurm can be"),
        ({"preferred_username": ["root"]}, "which no user in Slurm can be"),
        ({"preferred_username": ""}, "which no user in Slurm can be"),
        ({"preferred_username": "<script>"}, "which no user in Slurm can be"),
    ],
)
def test_tokens_that_the_provider_signed_and_that_are_not_for_this(
    openid: OpenId, oidc: Oidc, ledger: Ledger, claims: dict[str, Any], why: str
) -> None:
    with openid.relay.changing("/token", resigned(openid, lambda header, found: found.update(claims))):
        assert why in refused(oidc)
    assert ledger.entries()[0].action == "oidc refused"
    assert signed_in(oidc) == USER


def _unsigned(answer: dict[str, Any]) -> dict[str, Any]:
    _, claims, _ = answer["id_token"].split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return answer | {"id_token": f"{header}.{claims}."}


def _by_the_secret(answer: dict[str, Any]) -> dict[str, Any]:
    header, claims = _parts(answer["id_token"])
    key = OctKey.import_key(SECRET)
    return answer | {"id_token": jwt.encode(header | {"alg": "HS256"}, claims, key, algorithms=["HS256"])}


def _by_another(answer: dict[str, Any]) -> dict[str, Any]:
    header, claims = _parts(answer["id_token"])
    key = RSAKey.import_key(new_key())
    return answer | {"id_token": jwt.encode(header, claims, key, algorithms=["RS256"])}


def _by_one_that_nobody_knows(answer: dict[str, Any]) -> dict[str, Any]:
    header, claims = _parts(answer["id_token"])
    key = RSAKey.import_key(new_key())
    return answer | {"id_token": jwt.encode(header | {"kid": "x"}, claims, key, algorithms=["RS256"])}


def _changed(answer: dict[str, Any]) -> dict[str, Any]:
    header, _, signature = answer["id_token"].split(".")
    _, claims = _parts(answer["id_token"])
    other = base64.urlsafe_b64encode(msgspec.json.encode(claims | {"preferred_username": "root"})).rstrip(b"=").decode()
    return answer | {"id_token": f"{header}.{other}.{signature}"}


@pytest.mark.parametrize(
    "change",
    [
        _unsigned,
        _by_the_secret,
        _by_another,
        _by_one_that_nobody_knows,
        _changed,
        lambda answer: answer | {"id_token": "x"},
        lambda answer: answer | {"id_token": "a.b.c"},
        lambda answer: answer | {"id_token": ""},
    ],
)
def test_tokens_that_the_provider_did_not_sign(openid: OpenId, oidc: Oidc, change: Callable[[Any], Any]) -> None:
    with openid.relay.changing("/token", change):
        assert "is not signed as it must be" in refused(oidc)
    assert signed_in(oidc) == USER


def test_what_is_told_of_somebody_else_is_not_believed(openid: OpenId, oidc: Oidc) -> None:
    without = resigned(openid, lambda header, claims: claims.pop("preferred_username"))

    def tamper(path: str, body: bytes) -> bytes:
        found = msgspec.json.decode(body) if path.rstrip("/").endswith(("/token", "/userinfo")) else None
        if found is not None and "id_token" in found:
            return msgspec.json.encode(without(found))
        return body if found is None else msgspec.json.encode(found | {"sub": "2", "preferred_username": "root"})

    openid.relay.tamper = tamper
    assert "told of another user" in refused(oidc)
    openid.relay.tamper = lambda path, body: body


def test_a_claim_that_is_not_told(openid: OpenId, ledger: Ledger) -> None:
    oidc = Oidc(settings(openid, oidc_claim="uid"), PORTAL, ledger)
    assert "told no uid (portal.oidc_claim)" in refused(oidc)
    oidc.close()


def test_a_wrong_secret_names_the_setting(openid: OpenId, ledger: Ledger) -> None:
    oidc = Oidc(settings(openid, oidc_client_secret="wrong"), PORTAL, ledger)
    assert "are portal.oidc_client_id and portal.oidc_client_secret right?" in refused(oidc)
    oidc.close()


# --- a provider that is not as it should be ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda about: about | {"issuer": about["issuer"] + "/"}, "to the last character"),
        (lambda about: about | {"token_endpoint": "http://evil.example.org/token"}, "expected an address with https"),
        (lambda about: {}, "something else than expected"),
        (lambda about: [], "something else than expected"),
    ],
)
def test_what_a_provider_may_not_say_of_itself(
    openid: OpenId, oidc: Oidc, change: Callable[[Any], Any], why: str
) -> None:
    with openid.relay.changing("/openid-configuration", change), pytest.raises(OidcError, match=why):
        oidc.begin(now())
    oidc.begin(now())


def test_keys_that_are_none(openid: OpenId, oidc: Oidc) -> None:
    with openid.relay.changing("/jwks.json", lambda found: {"keys": [{"kty": "?"}, {"kty": "RSA"}]}):
        assert "has no key that can be used" in refused(oidc)
    with openid.relay.changing("/jwks.json", lambda found: {"keys": [{"kty": "RSA"}, *found["keys"]]}):
        assert signed_in(oidc) == USER


def test_a_provider_that_is_away(openid: OpenId, oidc: Oidc, ledger: Ledger) -> None:
    url, kept = oidc.begin(now())
    answer = browse(url, PORTAL)
    nobody = Oidc(settings(openid, oidc_issuer=f"http://127.0.0.1:{free_port()}"), PORTAL, ledger)
    with pytest.raises(OidcError, match=r"cannot be reached at http://127\.0\.0\.1:.*try again later"):
        nobody.begin(now())
    nobody.close()
    with openid.stopped(), pytest.raises(OidcError, match=r"gave no token \(502, no reason given\)"):
        oidc.finish(kept, answer, now())
    assert signed_in(oidc) == USER
