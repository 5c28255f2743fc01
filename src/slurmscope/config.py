# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How the settings come to their values: read from a TOML file, a `.env` file, the environment and the command line.

Later sources win. `describe` gives the tree to the documentation and `rows` a loaded one to the operator.
"""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from slurmscope import dotenv as dotenv_file
from slurmscope import notation, tables
from slurmscope.checks import ADDRESS_WORDS, SINK_SECRETS, Found, WrongError, address, checked, sink_conflicts
from slurmscope.fields import CLUSTERS, CLUSTERS_FIELD, FIELDS, OF_A_CLUSTER, SECTIONS, TABLE_FIELDS, TABLES, Field
from slurmscope.settings import Cluster, Poll, Settings, Slurm
from slurmscope.tables import Tables

PLACES = (Path("slurmscope.toml"), Path("/etc/slurmscope/slurmscope.toml"))
"""Where the TOML file is looked for when none is named."""

_PREFIX = "SLURMSCOPE_"
_CONFIG = "SLURMSCOPE_CONFIG"
MIGRATE_TO = "SLURMSCOPE_MIGRATE_TO"
"""No setting: it stands for `--to` of `slurmscope store migrate`, where it would show a password."""
# of `slurmscope run`, which is no part of what is set here; job scripts export them to whatever they start
_OF_THE_WRAPPER = ("SLURMSCOPE_TRACE_TOKEN", "SLURMSCOPE_TRACE_TOKEN_FILE")
# the integration tests are steered by variables of their own
_LAB_PREFIX = "SLURMSCOPE_LAB"
_MASK = "********"

_VARIABLES = {_PREFIX + key.replace(".", "_").upper(): key for key in FIELDS}
_ALIASES = {field.alias: key for key, field in FIELDS.items() if field.alias}
# it becomes a label, and is typed on command lines
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_TOKENS = ("slurm.rest_token", "slurm.rest_token_file", "slurm.rest_token_command")
_ALTERNATIVES = (_TOKENS, *(tuple(f"{sink}.{key}" for key in keys) for sink, keys in SINK_SECRETS.items()))


class ConfigError(Exception):
    """Settings that cannot be used: one problem per line of the message, never a secret in it."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Config(msgspec.Struct, frozen=True):
    settings: Settings
    origins: dict[str, str]
    """Where each setting, by dotted key, has its value from. Of a cluster's, those that it does not inherit."""
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


def describe() -> list[Setting]:
    """Every setting, in the order of the file; all the clusters' sections as one."""
    names: dict[str, list[str]] = {key: [] for key in FIELDS}
    for variable, key in [*_VARIABLES.items(), *_ALIASES.items()]:
        names[key].append(variable)
    found = [
        Setting(key, field.words, notation.toml(field.default), tuple(names[key]), field.description)
        for key, field in FIELDS.items()
    ]
    clusters = Setting(f"{CLUSTERS}.NAME", "a section", "{}", (), CLUSTERS_FIELD.description)
    return [*found, *(_described_table(name) for name in TABLES), clusters]


def _described_table(name: str) -> Setting:
    field = TABLE_FIELDS[name]
    tables_of = isinstance(field.default, list)
    return Setting(name, "tables" if tables_of else field.words, notation.toml(field.default), (), field.description)


def rows(config: Config) -> list[tuple[str, str, str]]:
    """Key, value in TOML's notation with the secrets masked, and origin of every setting.

    Of a cluster's settings, those that are not as [slurm] and [poll] have them.
    """
    return [(key, value, config.origins[key]) for key, value in shown(config.settings)]


def shown(settings: Settings) -> list[tuple[str, str]]:
    """The same without the origins, for whoever has only the settings."""
    found = [(key, _masked(field, _get(settings, key))) for key, field in FIELDS.items()]
    for name in TABLES:
        if value := getattr(settings, name):
            found.append((name, notation.toml(msgspec.to_builtins(value))))
    for name, cluster in settings.clusters.items():
        table = _table(name)
        own = [
            (f"{table}.{short}", _masked(FIELDS[key], _get(cluster, key)))
            for short, key in OF_A_CLUSTER.items()
            if _get(cluster, key) != _get(settings, key)
        ]
        found += own or [(table, "{}")]
    return found


def listen_address(settings: Settings) -> tuple[str, int]:
    """Host and port to listen on; the host is empty for all interfaces, IPv4 and IPv6."""
    found = address(settings.serve.listen)
    if found is None:
        raise ConfigError([f"serve.listen: expected {ADDRESS_WORDS}, found {notation.shown(settings.serve.listen)}"])
    return found


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
    ignored: list[str] = []
    dotenv_place, dotenv_variables = _read_dotenv(dotenv, problems, ignored)
    named = env.get(_CONFIG) or dotenv_variables.get(_CONFIG)
    file = _from_toml(path or (Path(named) if named else None), problems, ignored)
    found = _one_secret(file.found)
    found |= _one_secret(_from_variables(dotenv_variables, dotenv_place, problems))
    found |= _one_secret(_from_variables(env, "environment", problems))
    found |= _one_secret(_from_command_line(overrides or {}, problems))

    base = _DEFAULTS.merged(found, problems)
    clusters = {name: base.merged(_one_secret(own), problems, _table(name)) for name, own in file.clusters.items()}
    problems += _conflicts(base, len(clusters))
    # beside clusters, [slurm] and [poll] are what these inherit, and need not be right by themselves
    problems += dict.fromkeys(problem for scope in clusters.values() or [base] for problem in _cluster_conflicts(scope))
    if clusters and base.values.get("slurm.cluster"):
        problems.append(
            f"{base.origins['slurm.cluster']}: slurm.cluster: expected none beside [{CLUSTERS}], "
            "where each section's name is the cluster's: leave it out"
        )
    if problems:
        raise ConfigError(problems)

    origins = dict(base.origins) | dict.fromkeys((name for name in TABLES if getattr(file.tables, name)), file.place)
    for name, scope in clusters.items():
        origins[_table(name)] = file.place
        origins |= {scope.name(key): scope.origins[key] for key in scope.own}
    sections: dict[str, Any] = {section: struct(**base.section(section)) for section, struct in SECTIONS.items()}
    sections |= msgspec.structs.asdict(file.tables)
    sections[CLUSTERS] = {
        name: Cluster(
            Slurm(**scope.section("slurm") | {"cluster": name}),
            Poll(**scope.section("poll")),
            frozenset(key.partition(".")[2] for key in scope.own),
        )
        for name, scope in clusters.items()
    }
    return Config(Settings(**sections), origins, tuple(ignored))


def _masked(field: Field, value: Any) -> str:
    if field.secret:
        match value:
            case dict():
                value = dict.fromkeys(value, _MASK)
            case list():
                value = [_MASK for _ in value]
            case _:
                value = _MASK if value else value
    return notation.toml(value)


def _get(settings: Settings | Cluster, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _table(name: str) -> str:
    """The section of a cluster."""
    return f"{CLUSTERS}.{notation.toml_key(name)}"


# Merging


class _Scope(NamedTuple):
    """Values by the keys of [slurm], [poll] and so on, with their origins: of the whole, or of one cluster."""

    values: dict[str, Any]
    """Without those that are wrong."""
    origins: dict[str, str]
    table: str = ""
    """The cluster's section."""
    own: tuple[str, ...] = ()
    """What the cluster does not inherit."""

    def merged(self, found: Mapping[str, Found], problems: list[str], table: str = "") -> "_Scope":
        scope = _Scope(dict(self.values), dict(self.origins), table, tuple(found))
        for key, one in found.items():
            scope.origins[key] = one.origin
            try:
                scope.values[key] = checked(key, one)
            except WrongError as wrong:
                scope.values.pop(key, None)
                problems.append(f"{one.origin}: {scope.name(key)}: {wrong}")
        return scope

    def name(self, key: str) -> str:
        """What the setting is called here."""
        return f"{self.table}.{key.partition('.')[2]}" if self.table else key

    def told(self, key: str) -> str:
        """The setting that has the value, which may be the one that is inherited."""
        return self.name(key) if key in self.own else key

    def section(self, section: str) -> dict[str, Any]:
        return {key.partition(".")[2]: value for key, value in self.values.items() if key.startswith(f"{section}.")}


_DEFAULTS = _Scope({key: field.default for key, field in FIELDS.items()}, dict.fromkeys(FIELDS, "default"))


def _one_secret(found: dict[str, Found]) -> dict[str, Found]:
    """The ways to a secret are alternatives: where one is set, even to nothing, none is taken from elsewhere."""
    for keys in _ALTERNATIVES:
        given = [found[key].origin for key in keys if key in found]
        found = {key: Found("", given[0], text=False) for key in keys if given} | found
    return found


def _conflicts(scope: _Scope, clusters: int) -> list[str]:
    """What is wrong between settings that are right one by one."""
    problems = [
        f"{scope.origins[one]}: {one}: expected {other} to be set too, found it empty"
        for one, other in [("serve.tls_cert", "serve.tls_key"), ("serve.tls_key", "serve.tls_cert")]
        if scope.values.get(one) and scope.values.get(other) == ""
    ]
    wrong = sink_conflicts(scope.values, clusters)
    return problems + [f"{scope.origins[key]}: {key}: {expected}" for key, expected in wrong]


def _cluster_conflicts(scope: _Scope) -> list[str]:
    """The same, between those that each cluster has."""
    problems = []
    fast, slow = scope.values.get("poll.interval"), scope.values.get("poll.slow_interval")
    # a default that is too short is stretched by the poll: POLL_LIMIT alone must be enough to slow everything down
    origin = scope.origins["poll.slow_interval"]
    if origin != "default" and fast is not None and slow is not None and slow < fast:
        problems.append(
            f"{origin}: {scope.told('poll.slow_interval')}: expected at least {scope.told('poll.interval')}, "
            f"which is {fast:g}, found {slow:g}"
        )
    if scope.values.get("slurm.source") == "rest" and scope.values.get("slurm.rest_url") == "":
        problems.append(
            f"{scope.origins['slurm.source']}: {scope.told('slurm.source')}: "
            f'expected {scope.name("slurm.rest_url")} to be set too where it is "rest", found it empty'
        )
    first, *others = [key for key in _TOKENS if scope.values.get(key)] or [""]
    if others:
        problems.append(
            f"{scope.origins[first]}: {scope.told(first)}: expected to be the only one that gives a token, "
            f"found {' and '.join(map(scope.told, others))} beside it: leave out all but one"
        )
    return problems


# Sources


class _File(msgspec.Struct):
    place: str = ""
    found: dict[str, Found] = {}
    clusters: dict[str, dict[str, Found]] = {}
    """What each cluster's section sets, by the setting that it stands for there."""
    tables: Tables = msgspec.field(default_factory=Tables)


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


def _from_toml(given: Path | None, problems: list[str], ignored: list[str]) -> _File:
    for path in [given] if given else PLACES:
        if given is None and _foreign(path, ignored):
            continue
        text = _read(path, problems)
        if text is not None:
            return _parse_toml(text, str(path), problems)
    if given:
        problems.append(f"{given}: no such file")
    return _File()


def _parse_toml(text: str, place: str, problems: list[str]) -> _File:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(f"{place}: not TOML: {error}")
        return _File(place)
    file = _File(place)
    for section, table in document.items():
        if section in TABLES:
            tables.parse(section, table, place, file.tables, problems)
        elif section not in (*SECTIONS, CLUSTERS):
            near = _nearest(section, (*SECTIONS, *TABLES, CLUSTERS) if isinstance(table, dict | list) else FIELDS)
            problems.append(f"{place}: {notation.name(section)}: unknown setting{near}")
        elif not isinstance(table, dict):
            written = section if section in SECTIONS else f"{section}.NAME"
            problems.append(f"{place}: {section}: expected a section, [{written}]")
        elif section == CLUSTERS:
            for name, own in table.items():
                file.clusters[name] = _parse_cluster(name, own, place, problems)
        else:
            for name, value in table.items():
                key = f"{section}.{name}"
                if key in FIELDS:
                    file.found[key] = Found(value, place, text=False)
                else:
                    problems.append(f"{place}: {notation.name(key)}: unknown setting{_nearest(key, FIELDS)}")
    return file


def _parse_cluster(cluster: str, own: object, place: str, problems: list[str]) -> dict[str, Found]:
    table = _table(cluster)
    if not _CLUSTER_NAME.fullmatch(cluster):
        problems.append(f"{place}: {table}: expected a name made of a-z, A-Z, 0-9, _, - and .")
    if not isinstance(own, dict):
        problems.append(f"{place}: {table}: expected a section, [{table}]")
        return {}
    found = {}
    for name, value in own.items():
        if name in OF_A_CLUSTER:
            found[OF_A_CLUSTER[name]] = Found(value, place, text=False)
            continue
        if name == "cluster":
            why = "expected none, for the section's name is the cluster's: leave it out"
        elif isinstance(value, dict) and name in SECTIONS:
            why = f"unknown setting, a cluster's are in [{table}] itself"
        elif isinstance(value, dict):
            why = f"unknown setting, a name with a dot is written [{_table(f'{cluster}.{name}')}]"
        else:
            why = f"unknown setting{_nearest(name, OF_A_CLUSTER, shown=f'{table}.')}"
        problems.append(f"{place}: {table}.{notation.toml_key(name)}: {why}")
    return found


def _read_dotenv(given: Path | None, problems: list[str], ignored: list[str]) -> tuple[str, dict[str, str]]:
    path = given or Path(".env")
    if given is None and _foreign(path, ignored):
        return str(path), {}
    text = _read(path, problems)
    if text is None and given:
        problems.append(f"{given}: no such file")
    return str(path), dotenv_file.variables(text or "", str(path), problems)


def _from_variables(variables: Mapping[str, str], place: str, problems: list[str]) -> dict[str, Found]:
    found = {}
    # full names after aliases, so that they win
    for name, key in [*_ALIASES.items(), *_VARIABLES.items()]:
        if name in variables:
            found[key] = Found(variables[name], f"{place}: {name}", text=True)
    for name in variables:
        if name.startswith(_PREFIX) and name not in _VARIABLES:
            if name in (_CONFIG, MIGRATE_TO, *_OF_THE_WRAPPER) or name.startswith(_LAB_PREFIX):
                continue
            near = _nearest(name.removeprefix(_PREFIX), [other.removeprefix(_PREFIX) for other in _VARIABLES], _PREFIX)
            problems.append(f"{place}: {notation.name(name)}: unknown variable{near}")
    return found


def _from_command_line(overrides: Mapping[str, str], problems: list[str]) -> dict[str, Found]:
    found = {}
    for key, value in overrides.items():
        if key in FIELDS:
            option = key.partition(".")[2].replace("_", "-")
            found[key] = Found(value, f"command line: --{option}", text=True)
        else:
            problems.append(f"command line: {notation.name(key)}: unknown setting{_nearest(key, FIELDS)}")
    return found


def _nearest(name: str, known: Iterable[str], shown: str = "") -> str:
    """The end of a message about an unknown name: what may have been meant.

    The prefix that all names share is apart, as `shown`: it would make any two of them look alike.
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {shown}{near[0]}?" if near else ""
