# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""From what a source gave for a setting to a value that can be used, or to what was expected instead."""

import ipaddress
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from slurmscope import auth
from slurmscope.fields import FIELDS, Field
from slurmscope.mail import checks as mail
from slurmscope.notation import parsed, shown
from slurmscope.web.people import checks as portal


class Found(NamedTuple):
    """A value as a source gives it; from anywhere but TOML it is text."""

    value: object
    origin: str
    text: bool


class WrongError(Exception):
    """What was expected of one value, and what was found; never a secret."""


def checked(key: str, found: Found) -> object:
    """The value of this setting. Raises WrongError."""
    field = FIELDS[key]
    try:
        value = parsed(found.value, field.type) if found.text and isinstance(found.value, str) else found.value
        value = msgspec.convert(value, field.hint, strict=not found.text)
    except (ValueError, OverflowError, msgspec.ValidationError):
        raise _wrong(field, field.words, found.value) from None
    # TOML and Python know inf, which is above every bound
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(field, field.words, found.value)
    expected = _CHECKS[key](value) if key in _CHECKS else None
    if expected is not None:
        raise _wrong(field, expected, found.value)
    return value


def _wrong(field: Field, expected: str, value: object) -> WrongError:
    return WrongError(f"expected {expected}" + ("" if field.secret else f", found {shown(value)}"))


# Addresses


ADDRESS_WORDS = "host:port, such as 127.0.0.1:9092, [::1]:9092 or :9092"
_HOST_NAME = r"[A-Za-z0-9._-]"
_ADDRESS = re.compile(rf"(?:\[([^\]]+)\]|({_HOST_NAME}*)):([0-9]{{1,5}})")
# a query, a fragment or a password has no place in an address to which paths are added
_URL = re.compile(rf"https?://(?:\[([^\]]+)\]|{_HOST_NAME}+)(?::([0-9]{{1,5}}))?(?:/[!-~]*)?")
_NOT_IN_A_PREFIX = re.compile("[?#@]")


def address(listen: str) -> tuple[str, int] | None:
    """Host and port, None where it is no address."""
    found = _ADDRESS.fullmatch(listen)
    if found is None or int(found[3]) > 65535 or not _ipv6(found[1]):
        return None
    return found[1] or found[2], int(found[3])


def _ipv6(host: str | None) -> bool:
    """Whether what is in brackets, if anything is, may be there."""
    if host is not None:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
    return True


def _check_listen(listen: str) -> str | None:
    return None if address(listen) else ADDRESS_WORDS


def _is_url(url: str) -> bool:
    found = _URL.fullmatch(url)
    if found is None or _NOT_IN_A_PREFIX.search(url):
        return False
    return _ipv6(found[1]) and 0 < int(found[2] or "1") <= 65535


def _check_url(url: str) -> str | None:
    return None if not url or _is_url(url) else "http://host[:port][/prefix] or https://host[:port][/prefix]"


def _check_rest_url(url: str) -> str | None:
    socket = url.startswith("unix:/") and url.isprintable() and not url.endswith("/")
    if not url or socket or _is_url(url):
        return None
    return "http://host[:port][/prefix], https://host[:port][/prefix] or unix:/absolute/path"


def _check_ssh(target: str) -> str | None:
    # what begins with - would be taken for an option, and options can run programs
    host = target.rpartition("@")[2]
    right = host and target.isprintable() and " " not in target and not target.startswith("-") and host[0] != "-"
    return None if right or not target else "host or user@host, without spaces and not beginning with -"


def _check_command(command: str) -> str | None:
    try:
        return None if not command or shlex.split(command) else "a command"
    except ValueError:
        return "a command with its quotes closed"


# Files and secrets


def _check_file(path: str) -> str | None:
    if path:
        try:
            with Path(path).open("rb"):
                pass
        except (OSError, ValueError):
            return "a file that exists and can be read"
    return None


def _check_users(users: dict[str, str]) -> str | None:
    # Users are counted, not named: written the wrong way round, the name is the secret.
    for number, (name, stored) in enumerate(users.items(), start=1):
        if not name or ":" in name:
            return f"names without a colon, which user {number} of {len(users)} is not"
        if not auth.valid_hash(stored):
            return f"a password hash for user {number} of {len(users)}: run `slurmscope hash-password`"
    return None


def _check_tokens(tokens: list[str]) -> str | None:
    for number, stored in enumerate(tokens, start=1):
        if not auth.valid_token_hash(stored):
            return (
                f"a SHA-256 in 64 lower-case hex digits for token {number} of {len(tokens)}: "
                'run `printf %s "$TOKEN" | sha256sum`'
            )
    return None


def _check_agent_listen(listen: str) -> str | None:
    return None if listen == "none" or address(listen) else f"{ADDRESS_WORDS}, or none"


_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_OWN_PATHS = re.compile(r"/(metrics(/.*)?|healthz|readyz|agent)")


def _check_path(path: str) -> str | None:
    if _PATH.fullmatch(path) and not _OWN_PATHS.fullmatch(path):
        return None
    return "a path such as /trace, which is none of /metrics, /healthz, /readyz and /agent"


# Sinks

# Labels that series of the pages have: the Pushgateway would write the group's own over them.
PAGE_LABELS = re.compile(
    "accounts?|cluster|code|command|event|family|feature|flags?|host|hostname|jobid|kind|le|license|name|nodes?|parent|part|"
    "partitions?|qos|reason|reservation|role|scheduler|sink|slurm_node_states|source|state|status|topic|tres|type|unit|use|"
    "users?|username|version"
)
_INDEX_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._/#-][A-Za-z0-9._/#:-]{0,254}")
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")
CLUSTER_DIMENSION = "ClusterName"
_PASSWORDS = ("password", "password_file")
SINK_SECRETS = {
    "elasticsearch": (*_PASSWORDS, "api_key"),
    "pushgateway": _PASSWORDS,
    "database": _PASSWORDS,
    "mail": _PASSWORDS,
    "portal": portal.SECRETS,
}
"""Settings of which only one may be set, by section."""
_NAMED_ALREADY = ("database",)  # whose user has a name before `slurmscope db grant` gives him a password
_MOST_DIMENSIONS = 30


def _check_prefix(prefix: str) -> str | None:
    if _INDEX_PREFIX.fullmatch(prefix):
        return None
    return "up to 100 of a-z, 0-9, _, - and ., the first a letter or a digit: so must an index be called"


def _check_api_key(key: str) -> str | None:
    # a header with anything else in it could not be sent, and the error would repeat it
    return None if key.isascii() and key.isprintable() and " " not in key else "letters, digits and signs of ASCII"


def _check_namespace(namespace: str) -> str | None:
    if _NAMESPACE.fullmatch(namespace):
        return None
    return "up to 255 of A-Z, a-z, 0-9, ., -, _, /, # and :, not beginning with : or AWS/, as CloudWatch wants it"


def _check_dimensions(dimensions: dict[str, str]) -> str | None:
    most = _MOST_DIMENSIONS - (CLUSTER_DIMENSION not in dimensions)
    if len(dimensions) > most:
        return f"at most {most} dimensions, for CloudWatch takes {_MOST_DIMENSIONS} with {CLUSTER_DIMENSION}"
    for name, value in dimensions.items():
        if not _ascii(name, 255) or name.startswith(":"):
            return f"names of 1 to 255 characters of ASCII that do not begin with :, which {shown(name)} is not"
        if not _ascii(value, 1024):
            return f"values of 1 to 1024 characters of ASCII, which that of {shown(name)} is not"
    return None


def _ascii(text: str, most: int) -> bool:
    return text.isascii() and text.isprintable() and bool(text.strip()) and len(text) <= most


def _check_grouping(grouping: dict[str, str]) -> str | None:
    for name in grouping:
        if not _LABEL.fullmatch(name):
            return f"names of labels (a-z, A-Z, 0-9, _), which {shown(name)} is not"
        if name == "job":
            return "no label job here, for pushgateway.job is that one"
        if PAGE_LABELS.fullmatch(name):
            return f"no label that a series has already, which {name} is: another name, such as site"
    return None


def _check_job(job: str) -> str | None:
    return None if job.strip() else "a name"


def sink_conflicts(values: Mapping[str, Any], clusters: int) -> Iterator[tuple[str, str]]:
    """Settings of sinks that are right one by one and wrong together: which one, and what was expected of it.

    Of a setting that is wrong by itself there is no value.
    """
    for sink, keys in SINK_SECRETS.items():
        first, *others = [f"{sink}.{key}" for key in keys if values.get(f"{sink}.{key}")] or [""]
        if others:
            yield (
                first,
                f"expected to be the only secret, found {' and '.join(others)} beside it: leave out all but one",
            )
        if sink in _NAMED_ALREADY:
            continue
        user, passwords = values.get(f"{sink}.user"), [f"{sink}.{key}" for key in _PASSWORDS]
        if user and not first:
            yield f"{sink}.user", f"expected {' or '.join(passwords)} to be set too, found them empty"
        if first in passwords and user == "":
            yield first, f"expected {sink}.user to be set too, found it empty"
    if clusters > 1 and CLUSTER_DIMENSION in (values.get("cloudwatch.dimensions") or ()):
        yield (
            "cloudwatch.dimensions",
            f"expected no {CLUSTER_DIMENSION} where {clusters} clusters are read, for it would be the same of all: "
            "leave it out",
        )
    yield from mail.conflicts(values)
    yield from portal.conflicts(values)


# The accounting's database


_DATABASE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _check_database_host(host: str) -> str | None:
    return None if address(f"{host}:1" if ":" not in host else f"[{host}]:1") and host else "a host's name or address"


def _check_database_name(name: str) -> str | None:
    return None if _DATABASE_NAME.fullmatch(name) else "1 to 64 of a-z, A-Z, 0-9, _, - and ."


def _check_socket(path: str) -> str | None:
    return None if not path or (path.startswith("/") and path.isprintable()) else "an absolute path"


def _check_password(password: str) -> str | None:
    # what else there is, servers understand in one character set or another
    return None if password.isascii() and password.isprintable() else "letters, digits and signs of ASCII"


# each gives what was expected, None where the value is right
def _check_store(url: str) -> str | None:
    if url in ("", "none") or re.fullmatch(r"sqlite:/{0,3}[^/].*|mongodb(\+srv)?://.+", url, re.DOTALL):
        return None
    return "sqlite:/path/to/file.db, mongodb://user:password@host/database, or none"


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "slurm.ssh": _check_ssh,
    "slurm.ssh_config": _check_file,
    "slurm.rest_url": _check_rest_url,
    "slurm.rest_token_command": _check_command,
    "slurm.rest_ca": _check_file,
    "slurm.rest_token_file": _check_file,
    "serve.listen": _check_listen,
    "serve.tls_cert": _check_file,
    "serve.tls_key": _check_file,
    "serve.users": _check_users,
    "serve.tokens": _check_tokens,
    "agents.tokens": _check_tokens,
    "trace.tokens": _check_tokens,
    "trace.path": _check_path,
    "agent.listen": _check_agent_listen,
    "agent.serve_url": _check_url,
    "agent.serve_token_file": _check_file,
    "agent.serve_ca": _check_file,
    "prometheus.url": _check_url,
    "store.url": _check_store,
    "database.host": _check_database_host,
    "database.socket": _check_socket,
    "database.name": _check_database_name,
    "database.view": _check_database_name,
    "database.user": _check_database_name,
    "database.password": _check_password,
    "database.ca": _check_file,
    "elasticsearch.url": _check_url,
    "elasticsearch.password_file": _check_file,
    "elasticsearch.ca": _check_file,
    "elasticsearch.api_key": _check_api_key,
    "elasticsearch.prefix": _check_prefix,
    "cloudwatch.endpoint_url": _check_url,
    "cloudwatch.namespace": _check_namespace,
    "cloudwatch.dimensions": _check_dimensions,
    "pushgateway.url": _check_url,
    "pushgateway.job": _check_job,
    "pushgateway.grouping": _check_grouping,
    "pushgateway.password_file": _check_file,
    "pushgateway.ca": _check_file,
    "mail.host": _check_database_host,
    "mail.ca": _check_file,
    "mail.password": _check_password,
    "mail.password_file": _check_file,
    "mail.url": _check_url,
    **mail.CHECKS,
    "portal.oidc_client_secret_file": _check_file,
    **portal.CHECKS,
}
