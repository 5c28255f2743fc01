# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""An OpenID provider, as slurmscope speaks with it: what it says of itself, its keys, and tokens for a code."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from slurmscope.settings import Portal
from slurmscope.web.people.checks import is_safe
from slurmscope.web.people.errors import OidcError
from slurmscope.words import printable

T = TypeVar("T")
Key = dict[str, Any]

_SECONDS = 10.0  # for each answer
_MOST_ANSWER = 1 << 20
_FRESH = 3600  # seconds for which what it says of itself, and its keys, are not asked for again
_MOST_SAID = 200
_ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
_BASIC, _POST = "client_secret_basic", "client_secret_post"


class About(msgspec.Struct, frozen=True):
    """What a provider says of itself (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _Keys(msgspec.Struct, frozen=True):
    keys: list[Key]


class Provider:
    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._issuer = portal.oidc_issuer
        self._lock = threading.Lock()
        self._about: tuple[int, About] | None = None
        self._keys: tuple[int, list[Key]] | None = None
        # no proxy and no .netrc of the environment: whom we ask is told by the settings alone
        self._client = httpx.Client(verify=ssl.create_default_context(), timeout=_SECONDS, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def about(self, now: int) -> About:
        """Raises OidcError."""
        with self._lock:
            if self._about is None or not 0 <= now - self._about[0] < _FRESH:
                self._about = now, self._discovered()
            return self._about[1]

    def _discovered(self) -> About:
        url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        found = _decoded(self._good("GET", url), About, url)
        if found.issuer != self._issuer:
            raise OidcError(
                f"The OpenID provider calls itself {_shown(found.issuer)}, and portal.oidc_issuer is {self._issuer}: "
                "they must be the same, to the last character."
            )
        for name in _ADDRESSES:
            address = getattr(found, name)
            if address is not None and not is_safe(address):
                raise OidcError(f"The OpenID provider's {name} is {_shown(address)}: expected an address with https.")
        return found

    def keys(self, now: int, *, anew: bool = False) -> list[Key]:
        """By which it signs, as it tells them; `anew` where one is missing. Raises OidcError."""
        about = self.about(now)
        with self._lock:
            if anew or self._keys is None or not 0 <= now - self._keys[0] < _FRESH:
                found = _decoded(self._good("GET", about.jwks_uri), _Keys, about.jwks_uri)
                self._keys = now, found.keys
            return self._keys[1]

    def exchange(self, code: str, verifier: str, back: str, now: int) -> Tokens:
        """Raises OidcError."""
        about, secret = self.about(now), self._secret()
        client = self._portal.oidc_client_id
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        auth = None
        if secret and (_BASIC in (ways := about.token_endpoint_auth_methods_supported) or _POST not in ways):
            auth = httpx.BasicAuth(quote(client, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": client} | ({"client_secret": secret} if secret else {})
        status, body = self._ask("POST", about.token_endpoint, data=form, auth=auth)
        if status != 200:
            raise OidcError(_refused(status, body))
        return _decoded(body, Tokens, about.token_endpoint)

    def userinfo(self, access_token: str, now: int) -> dict[str, object]:
        """What it says of the user besides the ID token; nothing where it says no more. Raises OidcError."""
        url = self.about(now).userinfo_endpoint
        if not url or not access_token:
            return {}
        body = self._good("GET", url, headers={"Authorization": f"Bearer {access_token}"})
        return _decoded(body, dict[str, object], url)

    def _secret(self) -> str:
        path = self._portal.oidc_client_secret_file
        if not path:
            return self._portal.oidc_client_secret
        try:
            return Path(path).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not text in UTF-8"
            raise OidcError(f"{path} (portal.oidc_client_secret_file) cannot be read: {why}.") from error

    def _good(self, method: str, url: str, headers: dict[str, str] | None = None) -> bytes:
        status, body = self._ask(method, url, headers=headers)
        if status != 200:
            raise OidcError(f"The OpenID provider answered {url} with {status}: is portal.oidc_issuer right?")
        return body

    def _ask(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        data: dict[str, str] | None = None,
        auth: httpx.BasicAuth | None = None,
    ) -> tuple[int, bytes]:
        body = bytearray()
        try:
            with self._client.stream(method, url, headers=headers, data=data, auth=auth) as response:
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > _MOST_ANSWER:
                        raise OidcError(f"The OpenID provider answered {url} with more than {_MOST_ANSWER >> 20} MiB.")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = str(error) or type(error).__name__
            raise OidcError(
                f"The OpenID provider cannot be reached at {url} ({_shown(why)}): try again later."
            ) from error
        return response.status_code, bytes(body)


def _decoded(body: bytes, kind: type[T], url: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OidcError(f"The OpenID provider answered {url} with something else than expected: {error}.") from error


def _refused(status: int, body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Refusal()
    words = _shown(": ".join(one for one in (said.error, said.error_description) if one) or "no reason given")
    match said.error:
        case "invalid_client" | "unauthorized_client":
            cure = "are portal.oidc_client_id and portal.oidc_client_secret right?"
        case "invalid_grant":
            cure = "the sign-in took too long, or its page was loaded twice; begin again."
        case _:
            cure = "begin again."
    return f"The OpenID provider gave no token ({status}, {words}): {cure}"


def _shown(text: str) -> str:
    """What somebody else said, for people."""
    return printable(text)[:_MOST_SAID]
