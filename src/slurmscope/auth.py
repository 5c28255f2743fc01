# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Who may read the pages: passwords, bearer tokens, and the guard that checks them."""

import asyncio
import base64
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

_SALT_BYTES = 16
_HASH_BYTES = 32
_STORED = re.compile(r"scrypt\$([0-9]{1,7})\$([0-9]{1,2})\$([0-9]{1,2})\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)")
_TOKEN_HASH = re.compile(r"[0-9a-f]{64}")


class _Scrypt(NamedTuple):
    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @property
    def cost(self) -> int:
        return self.n * self.r * self.p

    def derive(self, password: str) -> bytes:
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=self.n,
            r=self.r,
            p=self.p,
            # what OpenSSL counts is 128·r·(n + p + 2); its own limit of 32 MiB leaves no room for a larger n
            maxmem=128 * self.r * (self.n + self.p + 2) + 2**20,
            dklen=_HASH_BYTES,
        )

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self.derive(password), self.digest)

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt${self.n}${self.r}${self.p}${salt}${digest}"


def _parse(stored: str) -> _Scrypt | None:
    found = _STORED.fullmatch(stored)
    if found is None:
        return None
    n, r, p = (int(part) for part in found.groups()[:3])
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in found.groups()[3:])
    except ValueError:
        return None
    # The upper bounds keep one login under 128 MiB, whatever the settings hold; the lower ones refuse
    # hashes that are quick to guess.
    strong = n & (n - 1) == 0 and 2**14 <= n <= 2**17 and r == 8 and 1 <= p <= 4
    if not strong or len(salt) < _SALT_BYTES or len(digest) != _HASH_BYTES:
        return None
    return _Scrypt(n, r, p, salt, digest)


def hash_password(password: str) -> str:
    """The text to store for a password: `scrypt$n$r$p$salt$hash`."""
    blank = _Scrypt(n=2**14, r=8, p=1, salt=os.urandom(_SALT_BYTES), digest=b"")
    return str(blank._replace(digest=blank.derive(password)))


def valid_hash(stored: str) -> bool:
    """Whether a text is a password hash that `check_password` can use."""
    return _parse(stored) is not None


def check_password(password: str, stored: str) -> bool:
    parsed = _parse(stored)
    return parsed is not None and parsed.matches(password)


def hash_token(token: str) -> str:
    """The text to store for a bearer token. Tokens are long and random, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def valid_token_hash(stored: str) -> bool:
    return _TOKEN_HASH.fullmatch(stored) is not None


class _Login(NamedTuple):
    user: str
    password: str


class Guard:
    """Checks the `Authorization` header of a request; lets everyone in when nothing is configured."""

    def __init__(self, users: Mapping[str, str], tokens: Iterable[str]) -> None:
        self._tokens = [token.encode() for token in tokens]
        self.open = not users and not self._tokens  # to everybody
        self._users = {user: parsed for user, stored in users.items() if (parsed := _parse(stored))}
        # An unknown user is checked against this, so that the time taken does not tell who exists.
        self._nobody = max(self._users.values(), key=lambda stored: stored.cost, default=None)
        if self._nobody is not None:
            self._nobody = self._nobody._replace(salt=os.urandom(_SALT_BYTES), digest=os.urandom(_HASH_BYTES))
        # The login that last succeeded for each user, so that only the first scrape pays for scrypt. Kept
        # as a MAC under a key that dies with the process: a quick hash of a password is never at rest.
        self._key = os.urandom(32)
        self._remembered: dict[str, bytes] = {}
        # One thread: a flood of wrong passwords then costs one core and one scrypt's memory, no more.
        self._slow = ThreadPoolExecutor(max_workers=1, thread_name_prefix="password")

    def allows(self, authorization: str | None) -> bool:
        verdict = self._quick(authorization)
        return self._check(verdict) if isinstance(verdict, _Login) else verdict

    async def allows_async(self, authorization: str | None) -> bool:
        """As `allows`, without holding up the event loop for the tens of milliseconds scrypt takes."""
        verdict = self._quick(authorization)
        if isinstance(verdict, _Login):
            return await asyncio.get_running_loop().run_in_executor(self._slow, self._check, verdict)
        return verdict

    def _quick(self, authorization: str | None) -> bool | _Login:
        """The verdict, or the login that only scrypt can judge."""
        if self.open:
            return True
        scheme, _, credentials = (authorization or "").strip().partition(" ")
        match scheme.lower():
            case "bearer":
                return self._knows_token(credentials.strip())
            case "basic":
                login = _login(credentials.strip())
                if login is None or self._nobody is None:
                    return False
                remembered = self._remembered.get(login.user)
                if remembered is not None and hmac.compare_digest(remembered, self._mac(login)):
                    return True
                return login
        return False

    def _knows_token(self, token: str) -> bool:
        # An empty token is never right: its hash gets configured when a variable was unset by mistake.
        if not token:
            return False
        offered = hash_token(token).encode()
        return any(hmac.compare_digest(offered, known) for known in self._tokens)

    def _check(self, login: _Login) -> bool:
        stored = self._users.get(login.user)
        against = stored or self._nobody
        right = against is not None and against.matches(login.password) and stored is not None
        if right:
            self._remembered[login.user] = self._mac(login)
        return right

    def _mac(self, login: _Login) -> bytes:
        # the user is the key it is stored under, so the password alone need be covered
        return hmac.digest(self._key, login.password.encode("utf-8", "surrogatepass"), "sha256")


def _login(credentials: str) -> _Login | None:
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return None
    return _Login(user, password) if colon else None
