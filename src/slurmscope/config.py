# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How the settings come to their values: read from a TOML file, a `.env` file, the environment and the command line.

Later sources win. `describe` gives the tree to the documentation and `rows` a loaded one to the operator.
"""

import difflib
import ipaddress
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import inspect as types

from slurmscope import auth
from slurmscope import dotenv as dotenv_file
from slurmscope.settings import Settings

PLACES = (Path("slurmscope.toml"), Path("/etc/slurmscope/slurmscope.toml"))
"""Where the TOML file is looked for when none is named."""

_PREFIX = "SLURMSCOPE_"
_CONFIG = "SLURMSCOPE_CONFIG"
# the integration tests are steered by variables of their own
_LAB_PREFIX = "SLURMSCOPE_LAB"
_MASK = "********"


class ConfigError(Exception):
    """Settings that cannot be used: one problem per line of the message, never a secret in it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Config(msgspec.Struct, frozen=True):
    settings: Settings
    origins: dict[str, str]
    """Where each setting, by dotted key, has its value from."""
    ignored: tuple[str, ...] = ()
    """Files of the current folder that were not read, with the reason."""


class Setting(NamedTuple):
    """What there is to know of a setting before it has a value."""

    key: str
    type: str
    default: str
    """In TOML's notation."""
    env: tuple[str, ...]
    """The variables that set it; where several are set in one place, the first wins."""
    description: str


class _Field(NamedTuple):
    """A setting as its section declares it."""

    hint: Any
    type: types.Type
    words: str
    default: object
    alias: str | None
    secret: bool
    description: str


class _Found(NamedTuple):
    """A value as a source gives it; from anywhere but TOML it is text."""

    value: object
    origin: str
    text: bool


def _words(type_: types.Type, hint: Any) -> str:
    match type_:
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            words = "a whole number" if isinstance(type_, types.IntType) else "a number"
            if type_.ge is not None:
                words += f" of at least {type_.ge:g}"
            if type_.gt is not None:
                words += f" above {type_.gt:g}"
            return words
        case types.LiteralType():
            # in the order they were declared, which msgspec does not keep
            return "one of " + ", ".join(get_args(get_args(hint)[0]))
        case types.ListType():
            return "a list of text"
        case types.DictType():
            return "a table of text"
        case _:
            return "text"


def _declared() -> dict[str, _Field]:
    found = {}
    for section in msgspec.structs.fields(Settings):
        hints = get_type_hints(section.type, include_extras=True)
        defaults = section.type()
        for name, hint in hints.items():
            meta = types.type_info(hint)
            assert isinstance(meta, types.Metadata), name
            found[f"{section.name}.{name}"] = _Field(
                hint=hint,
                type=meta.type,
                words=_words(meta.type, hint),
                default=getattr(defaults, name),
                alias=(meta.extra or {}).get("alias"),
                secret=(meta.extra or {}).get("secret", False),
                description=(meta.extra_json_schema or {})["description"],
            )
    return found


_FIELDS = _declared()
_SECTIONS = tuple(field.name for field in msgspec.structs.fields(Settings))
_VARIABLES = {_PREFIX + key.replace(".", "_").upper(): key for key in _FIELDS}
_ALIASES = {field.alias: key for key, field in _FIELDS.items() if field.alias}


def describe() -> list[Setting]:
    """Every setting, in the order of the file."""
    names: dict[str, list[str]] = {key: [] for key in _FIELDS}
    for variable, key in [*_VARIABLES.items(), *_ALIASES.items()]:
        names[key].append(variable)
    return [
        Setting(key, field.words, _notation(field.default), tuple(names[key]), field.description)
        for key, field in _FIELDS.items()
    ]


def rows(config: Config) -> list[tuple[str, str, str]]:
    """Key, value in TOML's notation with the secrets masked, and origin of every setting."""
    found = []
    for key, field in _FIELDS.items():
        value = _get(config.settings, key)
        if field.secret:
            value = dict.fromkeys(value, _MASK) if isinstance(value, dict) else [_MASK for _ in value]
        found.append((key, _notation(value), config.origins[key]))
    return found


def listen_address(settings: Settings) -> tuple[str, int]:
    """Host and port to listen on; the host is empty for all interfaces, IPv4 and IPv6."""
    address = _address(settings.serve.listen)
    if address is None:
        raise ConfigError([f"serve.listen: expected {_ADDRESS_WORDS}, found {_shown(settings.serve.listen)}"])
    return address


def load(
    path: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    dotenv: Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """Read, merge and check all sources; `overrides` are dotted keys from the command line.

    Only values in effect are checked, so that a wrong one can be overridden. Raises ConfigError.
    """
    env = os.environ if env is None else env
    problems: list[str] = []
    found: dict[str, _Found] = {}

    ignored: list[str] = []
    dotenv_place, dotenv_variables = _read_dotenv(dotenv, problems, ignored)
    named = env.get(_CONFIG) or dotenv_variables.get(_CONFIG)
    found |= _from_toml(path or (Path(named) if named else None), problems, ignored)
    found |= _from_variables(dotenv_variables, dotenv_place, problems)
    found |= _from_variables(env, "environment", problems)
    found |= _from_command_line(overrides or {}, problems)

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, field in _FIELDS.items():
        origins[key] = found[key].origin if key in found else "default"
        try:
            values[key] = _converted(key, field, found[key]) if key in found else field.default
        except _Wrong as wrong:
            problems.append(f"{origins[key]}: {key}: {wrong}")
    problems += _conflicts(values, origins)
    if problems:
        raise ConfigError(problems)

    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections[section][name] = value
    return Config(msgspec.convert(sections, Settings), origins, tuple(ignored))


def dotenv_values(text: str, place: str) -> dict[str, str]:
    """The variables of a `.env` file's text. Raises ConfigError naming the place and each unreadable line."""
    problems: list[str] = []
    variables = dotenv_file.variables(text, place, problems)
    if problems:
        raise ConfigError(problems)
    return variables


# Sources


def _read(path: Path, problems: list[str]) -> str | None:
    """The file's text, None where there is no file."""
    try:
        return path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        problems.append(f"{path}: expected text in UTF-8")
    except (OSError, ValueError) as error:
        problems.append(f"{path}: cannot be read: {getattr(error, 'strerror', error)}")
    return ""


def _foreign(path: Path, ignored: list[str]) -> bool:
    """Whether a file that nobody named is somebody else's.

    Settings name the programs that are run: whoever calls slurmscope in a folder of another must not run his.
    """
    try:
        status = path.stat()
    except PermissionError:  # a folder of another's, and so is what is in it
        return True
    except (OSError, ValueError):
        return False
    if status.st_uid not in (0, os.geteuid()):
        ignored.append(f"{path}: belongs to another user")
    elif status.st_mode & stat.S_IWOTH:
        ignored.append(f"{path}: anybody may write to it")
    else:
        return False
    return True


def _from_toml(given: Path | None, problems: list[str], ignored: list[str]) -> dict[str, _Found]:
    for path in [given] if given else PLACES:
        if given is None and _foreign(path, ignored):
            continue
        text = _read(path, problems)
        if text is not None:
            return _parse_toml(text, str(path), problems)
    if given:
        problems.append(f"{given}: no such file")
    return {}


def _parse_toml(text: str, place: str, problems: list[str]) -> dict[str, _Found]:
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        problems.append(f"{place}: not TOML: {error}")
        return {}
    found = {}
    for section, table in document.items():
        if section not in _SECTIONS:
            near = _nearest(section, _SECTIONS if isinstance(table, dict) else _FIELDS)
            problems.append(f"{place}: {_name(section)}: unknown setting{near}")
        elif not isinstance(table, dict):
            problems.append(f"{place}: {section}: expected a section, [{section}]")
        else:
            for name, value in table.items():
                key = f"{section}.{name}"
                if key in _FIELDS:
                    found[key] = _Found(value, place, text=False)
                else:
                    problems.append(f"{place}: {_name(key)}: unknown setting{_nearest(key, _FIELDS)}")
    return found


def _read_dotenv(given: Path | None, problems: list[str], ignored: list[str]) -> tuple[str, dict[str, str]]:
    path = given or Path(".env")
    if given is None and _foreign(path, ignored):
        return str(path), {}
    text = _read(path, problems)
    if text is None and given:
        problems.append(f"{given}: no such file")
    return str(path), dotenv_file.variables(text or "", str(path), problems)


def _from_variables(variables: Mapping[str, str], place: str, problems: list[str]) -> dict[str, _Found]:
    found = {}
    # full names after aliases, so that they win
    for name, key in [*_ALIASES.items(), *_VARIABLES.items()]:
        if name in variables:
            found[key] = _Found(variables[name], f"{place}: {name}", text=True)
    for name in variables:
        if name.startswith(_PREFIX) and name not in _VARIABLES:
            if name == _CONFIG or name.startswith(_LAB_PREFIX):
                continue
            problems.append(f"{place}: {_name(name)}: unknown variable{_nearest(name, _VARIABLES, _PREFIX)}")
    return found


def _from_command_line(overrides: Mapping[str, str], problems: list[str]) -> dict[str, _Found]:
    found = {}
    for key, value in overrides.items():
        if key in _FIELDS:
            option = key.partition(".")[2].replace("_", "-")
            found[key] = _Found(value, f"command line: --{option}", text=True)
        else:
            problems.append(f"command line: {_name(key)}: unknown setting{_nearest(key, _FIELDS)}")
    return found


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of a message about an unknown name: what may have been meant."""
    # the prefix all names share would make any two of them look alike
    without = [other.removeprefix(prefix) for other in known]
    near = difflib.get_close_matches(name.removeprefix(prefix), without, n=1, cutoff=0.5)
    return f", did you mean {prefix}{near[0]}?" if near else ""


# Values


class _Wrong(Exception):
    """What was expected of one value, and what was found; never leaves this module."""


def _converted(key: str, field: _Field, found: _Found) -> object:
    try:
        value = _parsed(key, field, found.value) if isinstance(found.value, str) and found.text else found.value
        value = msgspec.convert(value, field.hint, strict=not found.text)
    except (ValueError, msgspec.ValidationError):
        raise _wrong(field, field.words, found.value) from None
    # TOML and Python know inf, which is above every bound
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(field, field.words, found.value)
    expected = _CHECKS[key](value) if key in _CHECKS else None
    if expected is not None:
        raise _wrong(field, expected, found.value)
    return value


def _wrong(field: _Field, expected: str, value: object) -> _Wrong:
    return _Wrong(f"expected {expected}" + ("" if field.secret else f", found {_shown(value)}"))


def _parsed(key: str, field: _Field, text: str) -> object:
    """The text of a variable or an option as TOML would have given it."""
    match field.type:
        case types.FloatType():
            # unlike msgspec, takes "10.", which older deployments write
            return float(text)
        case types.LiteralType():
            word = text.strip().lower()
            return "warn" if key == "log.level" and word == "warning" else word
        case types.ListType():
            return [part.strip() for part in text.split(",") if part.strip()]
        case types.DictType():
            pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
            if not all(equals for _, equals, _ in pairs):
                raise ValueError("a pair without =")
            return {name.strip(): value.strip() for name, _, value in pairs}
        case types.StrType():
            return text
        case _:
            return text.strip()


_ADDRESS_WORDS = "host:port, such as 127.0.0.1:9092, [::1]:9092 or :9092"
_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([A-Za-z0-9._-]*)):([0-9]{1,5})")


def _address(listen: str) -> tuple[str, int] | None:
    found = _ADDRESS.fullmatch(listen)
    if found is None or int(found[3]) > 65535:
        return None
    if found[1] is not None:
        try:
            ipaddress.IPv6Address(found[1])
        except ValueError:
            return None
    return found[1] or found[2], int(found[3])


def _check_listen(listen: str) -> str | None:
    return None if _address(listen) else _ADDRESS_WORDS


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


# each gives what was expected, None where the value is right
_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "serve.listen": _check_listen,
    "serve.tls_cert": _check_file,
    "serve.tls_key": _check_file,
    "serve.users": _check_users,
    "serve.tokens": _check_tokens,
}


def _conflicts(values: Mapping[str, Any], origins: Mapping[str, str]) -> list[str]:
    """What is wrong between settings that are right one by one."""
    problems = []
    fast, slow = values.get("poll.interval"), values.get("poll.slow_interval")
    # a default that is too short is stretched by the poll: POLL_LIMIT alone must be enough to slow everything down
    chosen = origins["poll.slow_interval"] != "default"
    if chosen and fast is not None and slow is not None and slow < fast:
        problems.append(
            f"{origins['poll.slow_interval']}: poll.slow_interval: expected at least poll.interval, "
            f"which is {fast:g}, found {slow:g}"
        )
    for one, other in [("serve.tls_cert", "serve.tls_key"), ("serve.tls_key", "serve.tls_cert")]:
        if values.get(one) and values.get(other) == "":
            problems.append(f"{origins[one]}: {one}: expected {other} to be set too, found it empty")
    return problems


def _get(settings: Settings, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


# Notation


def _notation(value: object) -> str:
    """A value as TOML writes it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_json(k)} = {_json(v)}" for k, v in value.items()) + "}"
        case _:
            return _json(value)


def _shown(value: object) -> str:
    """A value that was found wrong, on one line."""
    # a whole key pasted where its file's name belongs is not to be repeated
    if isinstance(value, str) and (len(value) > 200 or "\n" in value):
        return f"text of {len(value)} characters"
    return _json(value)


def _name(name: str) -> str:
    return name if name.isprintable() else _json(name)


def _json(value: object) -> str:
    """JSON on one line, in which only what a terminal cannot show is escaped."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(value, default=str)
