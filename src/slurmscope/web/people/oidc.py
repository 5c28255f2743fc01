# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Sign-in by OpenID Connect: the code flow with PKCE.

What the browser keeps in a cookie meanwhile is one random secret. State, nonce and PKCE's verifier are made of it, so
that an answer is good in the browser that asked, once, and for ten minutes; the ledger has the secret's hash alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress

import httpx
from joserfc import jwt
from joserfc.errors import BadSignatureError, ClaimError, InvalidKeyIdError, JoseError, MissingClaimError
from joserfc.jwk import JWKRegistry, KeySet

from slurmscope.settings import Portal
from slurmscope.web.people import names
from slurmscope.web.people.checks import OIDC
from slurmscope.web.people.errors import OidcError
from slurmscope.web.people.ledger import Entry, Ledger, hashed, new_secret
from slurmscope.web.people.provider import Key, Provider
from slurmscope.words import printable

CALLBACK = "/sign-in/oidc"
"""Where the provider sends people back to, behind mail.url. It must be told so."""
PENDING_SECONDS = 600
_LEEWAY = 60  # seconds by which clocks may differ
# none of those by which whoever knows the client's secret, or nobody at all, could sign
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
_NO_TOKEN = (JoseError, ValueError, TypeError, KeyError)  # what is no token, or no key, may raise any of these
_MOST_SHOWN = 200
_AGAIN = "begin again."
_CLAIMS = {
    "iss": "is another provider's",
    "aud": "is for another program: is portal.oidc_client_id right?",
    "azp": "is for another program: is portal.oidc_client_id right?",
    "exp": "has ended: are the clocks of both machines right?",
    "iat": "is of the future: are the clocks of both machines right?",
    "nbf": "is of the future: are the clocks of both machines right?",
    "nonce": f"is of another sign-in: {_AGAIN}",
}


class Oidc:
    def __init__(self, portal: Portal, url: str, ledger: Ledger) -> None:
        """`url` is the address that people open."""
        self._portal = portal
        self._back = url.rstrip("/") + CALLBACK
        self._ledger = ledger
        self._provider = Provider(portal)

    def close(self) -> None:
        self._provider.close()

    def begin(self, now: int) -> tuple[str, str]:
        """Where the browser goes, and what it keeps until it comes back. Raises OidcError, StoreError."""
        about = self._provider.about(now)
        kept = new_secret()
        self._ledger.add_pending(hashed(kept), now)
        challenge = _encoded(hashlib.sha256(_derived(kept, "verifier").encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self._portal.oidc_client_id,
            "redirect_uri": self._back,
            "scope": " ".join(dict.fromkeys(("openid", "profile", *self._portal.oidc_scopes))),
            "state": _derived(kept, "state"),
            "nonce": _derived(kept, "nonce"),
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return str(httpx.URL(about.authorization_endpoint).copy_merge_params(asked)), kept

    def finish(self, kept: str, query: Mapping[str, Sequence[str]], now: int, address: str = "") -> str:
        """Who has signed in. `query` is what the provider sent the browser back with. Raises OidcError, StoreError."""
        begun = self._ledger.take_pending(hashed(kept)) if kept else None
        if begun is None or not 0 <= now - begun < PENDING_SECONDS:
            raise OidcError(
                "This sign-in was begun in another browser, more than ten minutes ago, or was finished already: "
                f"{_AGAIN}"
            )
        code = self._code(kept, query, now)
        tokens = self._provider.exchange(code, _derived(kept, "verifier"), self._back, now)
        try:
            claims = self._claims(tokens.id_token, _derived(kept, "nonce"), now)
            return self._name(claims, tokens.access_token, now)
        except OidcError as error:
            # outsiders cannot come so far, and so cannot fill the log
            self._ledger.write(Entry(time=now, who="", address=address, action=f"{OIDC} refused", detail=str(error)))
            raise

    def _code(self, kept: str, query: Mapping[str, Sequence[str]], now: int) -> str:
        if not hmac.compare_digest(
            _one(query, "state").encode("utf-8", "surrogatepass"), _derived(kept, "state").encode()
        ):
            raise OidcError(f"The OpenID provider answered another sign-in than the one begun here: {_AGAIN}")
        about = self._provider.about(now)
        issuer = _one(query, "iss")
        if (issuer or about.authorization_response_iss_parameter_supported) and issuer != about.issuer:
            raise OidcError(f"Another OpenID provider answered than the one that was asked: {_AGAIN}")
        if error := _one(query, "error"):
            said = ": ".join(one for one in (error, _one(query, "error_description")) if one)
            raise OidcError(f"The OpenID provider did not sign you in ({printable(said)[:_MOST_SHOWN]}): {_AGAIN}")
        code = _one(query, "code")
        if not code:
            raise OidcError(f"The OpenID provider sent no code: {_AGAIN}")
        return code

    def _claims(self, token: str, nonce: str, now: int) -> dict[str, object]:
        """What the ID token says, once it is known to be the provider's, for us, now, and of this sign-in."""
        try:
            claims = _verified(token, self._provider.keys(now))
        except (InvalidKeyIdError, BadSignatureError):
            # the provider may have changed its keys
            try:
                claims = _verified(token, self._provider.keys(now, anew=True))
            except _NO_TOKEN as error:
                raise OidcError(_unsigned(error)) from error
        except _NO_TOKEN as error:
            raise OidcError(_unsigned(error)) from error
        client, audience = self._portal.oidc_client_id, claims.get("aud")
        shared = isinstance(audience, list) and len(audience) > 1 and client in audience
        expected = jwt.JWTClaimsRegistry(
            now=now,
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._portal.oidc_issuer},
            aud={"essential": True, "value": client},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
            # a token for several is ours only if it says that it was made for us
            azp={"essential": shared, "value": client},
        )
        try:
            expected.validate(claims)
        except ClaimError as error:
            known = "" if isinstance(error, MissingClaimError) else _CLAIMS.get(error.claim, "")
            why = known or f"has no {printable(error.claim)} that can be used."
            raise OidcError(f"The OpenID provider's token {why}") from error
        return claims

    def _name(self, claims: Mapping[str, object], access_token: str, now: int) -> str:
        claim = self._portal.oidc_claim
        found = claims.get(claim)
        if found is None:
            told = self._provider.userinfo(access_token, now)
            if told and told.get("sub") != claims.get("sub"):
                raise OidcError(f"The OpenID provider told of another user than the one who signed in: {_AGAIN}")
            found = told.get(claim)
        if found is None:
            raise OidcError(
                f"The OpenID provider told no {claim} (portal.oidc_claim): let it, or ask for the scope that has it "
                "(portal.oidc_scopes)."
            )
        if not isinstance(found, str) or not names.plausible(found):
            shown = printable(str(found))[:_MOST_SHOWN]
            raise OidcError(
                f"The OpenID provider says that you are called {shown!r} ({claim}), which no user in Slurm can be: "
                "portal.oidc_claim may be another one."
            )
        return found


def _verified(token: str, keys: Sequence[Key]) -> dict[str, object]:
    """Raises any of _NO_TOKEN."""
    found = []
    for one in keys:
        with suppress(*_NO_TOKEN):  # one of a kind that is not known here: another may be the one
            found.append(JWKRegistry.import_key(one))
    if not found:
        raise InvalidKeyIdError("the provider has no key that can be used")
    return jwt.decode(token, KeySet(found), algorithms=_ALGORITHMS).claims


def _unsigned(error: Exception) -> str:
    return f"The OpenID provider's token is not signed as it must be ({printable(str(error))[:_MOST_SHOWN]}): {_AGAIN}"


def _one(query: Mapping[str, Sequence[str]], name: str) -> str:
    """What is there twice was put together by somebody."""
    values = query.get(name, ())
    return values[0] if len(values) == 1 else ""


def _derived(kept: str, what: str) -> str:
    """One of the secrets of a sign-in; from one of them no other can be told."""
    return _encoded(hmac.digest(kept.encode("utf-8", "surrogatepass"), f"slurmscope {what}".encode(), "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
