# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The sections [clusters.NAME]."""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import configured
import msgspec
import pytest
from configured import from_toml, problems
from hypothesis import given
from hypothesis import strategies as st

from slurmscope import config
from slurmscope.config import ConfigError
from slurmscope.settings import Cluster, Poll, Settings, Slurm
from slurmscope.slurm.clusters import ways_of

OWN = {*Slurm.__struct_fields__, *Poll.__struct_fields__} - {"cluster"}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.alone(tmp_path, monkeypatch)
    Path("token").touch()


# Inheritance


def test_a_cluster_is_as_the_others_but_for_what_it_sets() -> None:
    loaded = from_toml(
        """
        [slurm]
        bin_dir = "/opt/slurm/bin"
        [poll]
        slow_interval = 300
        [clusters.alpha]
        ssh = "alice@alpha"
        interval = 30
        [clusters.beta]
        bin_dir = ""
        rest_url = "https://beta:6820"
        timeout = 5
        """
    )
    assert loaded.settings.clusters == {
        "alpha": Cluster(
            slurm=Slurm(cluster="alpha", bin_dir="/opt/slurm/bin", ssh="alice@alpha"),
            poll=Poll(interval=30.0, slow_interval=300.0),
            own=frozenset({"ssh", "interval"}),
        ),
        "beta": Cluster(
            slurm=Slurm(cluster="beta", rest_url="https://beta:6820", timeout=5.0),
            poll=Poll(slow_interval=300.0),
            own=frozenset({"bin_dir", "rest_url", "timeout"}),
        ),
    }
    assert loaded.settings.read == tuple(loaded.settings.clusters.values())
    assert loaded.settings.slurm == Slurm(bin_dir="/opt/slurm/bin")


def test_without_clusters_there_is_one() -> None:
    for text in ("", "[clusters]"):
        loaded = from_toml(f"[slurm]\ncluster = 'alpha'\n{text}")
        assert loaded.settings.clusters == {}
        assert loaded.settings.read == (Cluster(slurm=Slurm(cluster="alpha")),)


def test_variables_set_what_is_inherited() -> None:
    Path(".env").write_text("SLURMSCOPE_SLURM_BIN_DIR=/dotenv\n")
    loaded = from_toml(
        "[slurm]\nbin_dir = '/file'\n[clusters.alpha]\n[clusters.beta]\ntimeout = 3\ninterval = 15\n",
        {"CLI_TIMEOUT": "20.", "POLL_LIMIT": "30"},
    )
    alpha, beta = loaded.settings.read
    assert (alpha.slurm.timeout, alpha.poll.interval, alpha.slurm.bin_dir) == (20.0, 30.0, "/dotenv")
    assert (beta.slurm.timeout, beta.poll.interval, beta.slurm.bin_dir) == (3.0, 15.0, "/dotenv")
    overridden = config.load(Path("given.toml"), env={}, overrides={"slurm.timeout": "7"})
    assert [one.slurm.timeout for one in overridden.settings.read] == [7.0, 3.0]


def test_every_setting_of_a_cluster_can_be_its_own() -> None:
    Path("file").touch()
    values: dict[str, Any] = dict.fromkeys(OWN, "file")
    values |= {"rest_url": "unix:/x", "source": "json", "timeout": 2.5, "interval": 2.0, "slow_interval": 3.0}
    # alternatives, one of which stands for all
    del values["rest_token"], values["rest_token_command"]
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
    (cluster,) = from_toml(f"[clusters.alpha]\n{text}\n").settings.read
    found = msgspec.to_builtins(cluster)
    assert found["slurm"] | found["poll"] == values | {"cluster": "alpha", "rest_token": "", "rest_token_command": ""}


@pytest.mark.parametrize("name", ["a", "Alpha-2", "a_b", "0", "-"])
def test_names(name: str) -> None:
    assert list(from_toml(f"[clusters.{name}]").settings.clusters) == [name]


def test_a_name_with_a_dot_is_in_quotes() -> None:
    loaded = from_toml('[clusters."a.b"]\ntimeout = 3\n')
    assert loaded.settings.clusters["a.b"].slurm.cluster == "a.b"
    assert config.rows(loaded)[-1] == ('clusters."a.b".timeout', "3.0", "given.toml")
    assert problems("[clusters.a.b]\ntimeout = 3\n") == [
        'given.toml: clusters.a.b: unknown setting, a name with a dot is written [clusters."a.b"]'
    ]
    assert problems('[clusters."a.b"]\ntimeout = 0\n') == [
        'given.toml: clusters."a.b".timeout: expected a number above 0 and at most 3600, found 0'
    ]


def test_the_example_of_the_documentation_needs_nothing_but_its_files() -> None:
    page = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text()
    (example,) = (block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[clusters." in block)
    assert problems(example) == [
        f'given.toml: clusters.{key}: expected a file that exists and can be read, found "/etc/slurmscope/{name}"'
        for key, name in [("alpha.ssh_config", "ssh_config"), ("beta.rest_token_file", "beta.jwt")]
    ]
    alpha, beta = from_toml(
        example.replace("/etc/slurmscope/", "").replace("beta.jwt", "token").replace('"ssh_config"', '"token"')
    ).settings.read
    assert (alpha.slurm.cluster, alpha.slurm.ssh, alpha.slurm.timeout) == (
        "alpha",
        "slurmscope@login.alpha.example.org",
        20.0,
    )
    assert (beta.slurm.source, beta.slurm.timeout, beta.poll.interval) == ("rest", 20.0, 60.0)


# Tokens


@pytest.mark.parametrize(
    "inherited", ["rest_token = 'secret'", "rest_token_file = 'token'", "rest_token_command = 'x'"]
)
@pytest.mark.parametrize("own", ["rest_token = 'mine'", "rest_token_file = 'given.toml'", "rest_token_command = 'y'"])
def test_a_cluster_with_a_token_of_its_own_inherits_none(inherited: str, own: str) -> None:
    loaded = from_toml(f"[slurm]\n{inherited}\n[clusters.alpha]\n{own}\n[clusters.beta]\n")
    alpha, beta = (
        {name: getattr(one.slurm, name) for name in ("rest_token", "rest_token_file", "rest_token_command")}
        for one in loaded.settings.read
    )
    assert {name: value for name, value in alpha.items() if value} == tomllib.loads(own)
    assert {name: value for name, value in beta.items() if value} == tomllib.loads(inherited)


def test_a_cluster_that_needs_no_token_says_so() -> None:
    loaded = from_toml(
        "[clusters.alpha]\nrest_token = ''\n[clusters.beta]\n", {"SLURMSCOPE_SLURM_REST_TOKEN_FILE": "token"}
    )
    assert [one.slurm.rest_token_file for one in loaded.settings.read] == ["", "token"]
    assert ("clusters.alpha.rest_token_file", '""', "given.toml") in config.rows(loaded)


def test_two_tokens_in_one_place_are_a_conflict() -> None:
    assert problems("[clusters.alpha]\nrest_token_command = 'x'\nrest_token_file = 'token'\n[clusters.beta]\n") == [
        "given.toml: clusters.alpha.rest_token_file: expected to be the only one that gives a token, "
        "found clusters.alpha.rest_token_command beside it: leave out all but one"
    ]
    # once, however many inherit it
    assert problems(
        "[slurm]\nrest_token_command = 'x'\nrest_token_file = 'token'\n[clusters.alpha]\n[clusters.beta]\n"
    ) == [
        "given.toml: slurm.rest_token_file: expected to be the only one that gives a token, "
        "found slurm.rest_token_command beside it: leave out all but one"
    ]


# What is wrong


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters = 3", "clusters: expected a section, [clusters.NAME]"),
        ("[[clusters]]\ntimeout = 3", "clusters: expected a section, [clusters.NAME]"),
        ("[clusters]\nalpha = 3", "clusters.alpha: expected a section, [clusters.alpha]"),
        ("[[clusters.alpha]]", "clusters.alpha: expected a section, [clusters.alpha]"),
        ('[clusters.""]', 'clusters."": expected a name made of a-z, A-Z, 0-9, _, - and .'),
        ('[clusters."a b"]', 'clusters."a b": expected a name made of a-z, A-Z, 0-9, _, - and .'),
        ('[clusters."a\\nb"]', 'clusters."a\\nb": expected a name made of a-z, A-Z, 0-9, _, - and .'),
        ("[clusters.a]\ntimeout = 0", "clusters.a.timeout: expected a number above 0 and at most 3600, found 0"),
        ("[clusters.a]\ninterval = 'x'", 'clusters.a.interval: expected a number of at least 1, found "x"'),
        (
            "[clusters.a]\nssh = '-v'",
            'clusters.a.ssh: expected host or user@host, without spaces and not beginning with -, found "-v"',
        ),
        (
            "[clusters.a]\nrest_ca = 'none'",
            'clusters.a.rest_ca: expected a file that exists and can be read, found "none"',
        ),
        ("[clusters.a]\nrest_token = 3", "clusters.a.rest_token: expected text"),
        ("[clusters.a]\nintervall = 3", "clusters.a.intervall: unknown setting, did you mean clusters.a.interval?"),
        ("[clusters.a]\nbindir = 3", "clusters.a.bindir: unknown setting, did you mean clusters.a.bin_dir?"),
        ("[clusters.a]\nxyzzy = 3", "clusters.a.xyzzy: unknown setting"),
        ('[clusters.a]\n"x\\ny" = 3', 'clusters.a."x\\ny": unknown setting'),
        (
            "[clusters.a.slurm]\ntimeout = 3",
            "clusters.a.slurm: unknown setting, a cluster's are in [clusters.a] itself",
        ),
        (
            "[clusters.a]\ncluster = 'b'",
            "clusters.a.cluster: expected none, for the section's name is the cluster's: leave it out",
        ),
        (
            "[clusters.a]\nsource = 'rest'\n[clusters.b]",
            'clusters.a.source: expected clusters.a.rest_url to be set too where it is "rest", found it empty',
        ),
        (
            "[slurm]\nsource = 'rest'\n[clusters.a]\nrest_url = 'http://a'\n[clusters.b]",
            'slurm.source: expected clusters.b.rest_url to be set too where it is "rest", found it empty',
        ),
        (
            "[clusters.a]\ninterval = 30\nslow_interval = 20",
            "clusters.a.slow_interval: expected at least clusters.a.interval, which is 30, found 20",
        ),
        (
            "[poll]\nslow_interval = 20\n[clusters.a]\ninterval = 30",
            "poll.slow_interval: expected at least clusters.a.interval, which is 30, found 20",
        ),
        (
            "[clusters.a]\nslow_interval = 5",
            "clusters.a.slow_interval: expected at least poll.interval, which is 10, found 5",
        ),
        (
            "[poll]\ninterval = 30\nslow_interval = 20\n[clusters.a]\n[clusters.b]",
            "poll.slow_interval: expected at least poll.interval, which is 30, found 20",
        ),
        (
            "[slurm]\ncluster = 'b'\n[clusters.a]",
            "slurm.cluster: expected none beside [clusters], where each section's name is the cluster's: leave it out",
        ),
    ],
)
def test_a_wrong_section(text: str, problem: str) -> None:
    assert problems(text) == [f"given.toml: {problem}"]


def test_what_no_cluster_inherits_need_not_fit() -> None:
    loaded = from_toml("[slurm]\nsource = 'rest'\n[clusters.a]\nrest_url = 'http://a'\n[clusters.b]\nsource = 'json'\n")
    assert [one.slurm.source for one in loaded.settings.read] == ["rest", "json"]


def test_a_default_that_is_too_short_is_left_to_the_poll() -> None:
    assert from_toml("[clusters.a]\ninterval = 120").settings.read[0].poll == Poll(interval=120.0)


def test_the_name_of_one_cluster_among_many_is_refused_wherever_it_is_set() -> None:
    (found,) = problems("[clusters.a]", {"SLURMSCOPE_SLURM_CLUSTER": "b"})
    assert found.startswith("environment: SLURMSCOPE_SLURM_CLUSTER: slurm.cluster: expected none beside [clusters]")
    assert from_toml("[slurm]\ncluster = 'b'\n[clusters.a]", {"SLURMSCOPE_SLURM_CLUSTER": ""})


def test_all_that_is_wrong_with_all_clusters_is_said_at_once() -> None:
    found = problems("[slurm]\ntimeout = 0\n[clusters.a]\ntimeout = 'x'\nxyzzy = 1\n[clusters.b]\nsource = 1\n")
    assert sorted(line.partition(": expected")[0].partition(": unknown")[0] for line in found) == [
        "given.toml: clusters.a.timeout",
        "given.toml: clusters.a.xyzzy",
        "given.toml: clusters.b.source",
        "given.toml: slurm.timeout",
    ]


# Rows


def test_rows_show_what_each_cluster_does_not_inherit() -> None:
    loaded = from_toml(
        """
        [slurm]
        timeout = 5
        rest_token_file = "token"
        [clusters.alpha]
        bin_dir = "/opt/alpha"
        rest_token = "hunter2"
        timeout = 5
        slow_interval = 90
        [clusters.beta]
        """
    )
    found = config.rows(loaded)
    known = [setting.key for setting in config.describe() if setting.env]
    assert [key for key, _, _ in found][: len(known)] == known
    assert found[len(known) :] == [
        ("clusters.alpha.bin_dir", '"/opt/alpha"', "given.toml"),
        ("clusters.alpha.rest_token", '"********"', "given.toml"),
        ("clusters.alpha.rest_token_file", '""', "given.toml"),
        ("clusters.alpha.slow_interval", "90.0", "given.toml"),
        ("clusters.beta", "{}", "given.toml"),
    ]
    # they are a file that says the same, but for the secret
    written = "\n".join(f"{key} = {value}" for key, value, _ in found if "token" not in key)
    again = from_toml(written).settings
    assert again.clusters["alpha"].poll == loaded.settings.clusters["alpha"].poll
    assert again.clusters["alpha"].slurm.bin_dir == "/opt/alpha"
    assert list(again.clusters) == ["alpha", "beta"]


# Anything at all

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["rest", "auto", "-x", "http://h"])
)
anything = st.recursive(
    leaves.filter(lambda leaf: leaf is not None),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
tables = st.dictionaries(st.sampled_from([*sorted(OWN), "cluster"]) | st.text(), anything, max_size=5)
clusters = st.dictionaries(st.sampled_from(["alpha", "beta"]) | st.text(), tables | anything, max_size=3)


def toml(value: Any) -> str:
    """As TOML has it, on one line."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


@given(clusters | anything)
def test_any_clusters_are_read_or_refused(written: Any) -> None:
    try:
        loaded = from_toml(f"clusters = {toml(written)}\n")
    except ConfigError as error:
        assert error.problems
        assert all(problem.startswith(("given.toml: clusters", "given.toml: not TOML")) for problem in error.problems)
        assert all(problem.isprintable() for problem in error.problems)
    else:
        assert list(loaded.settings.clusters) == list(written)
        assert [one.slurm.cluster for one in loaded.settings.read if written] == list(written)
        for name, table in written.items():
            found = msgspec.to_builtins(loaded.settings.clusters[name])
            assert (found["slurm"] | found["poll"]).items() >= table.items()
        assert msgspec.convert(msgspec.to_builtins(loaded.settings), Settings) == loaded.settings
        assert len(config.rows(loaded)) >= len(written)


@given(st.text())
def test_any_text_after_a_section_is_read_or_refused(text: str) -> None:
    try:
        from_toml(f"[clusters.alpha]\n{text}")
    except ConfigError as error:
        assert all(problem.startswith("given.toml: ") for problem in error.problems)


@pytest.mark.parametrize("key", ["clusters", "clusters.a", "clusters.a.timeout", "clusters.a.rest_token", "slurm.ssh"])
def test_nesting_beyond_reason(key: str) -> None:
    (found,) = problems(f"{key}{'.x' * 5000} = 3\n")
    assert found.startswith("given.toml: ")
    assert len(found) < 400


@pytest.mark.parametrize(
    ("lines", "here"),
    [
        ("rest_url = 'http://beta:6820'", False),
        ("rest_url = 'http://beta:6820'\nsource = 'rest'", False),
        ("rest_url = 'http://beta:6820'\nsource = 'text'", True),
        ("rest_url = 'http://beta:6820'\nconf = '/etc/slurm/beta.conf'", True),
        ("rest_url = 'http://beta:6820'\nssh = 'login.beta'", True),
        ("", True),
    ],
)
def test_a_cluster_by_slurmrestd_is_not_asked_by_commands_that_belong_to_another(lines: str, here: bool) -> None:
    """Nor by a folder of commands that it only inherits; and also when it is the only section."""
    loaded = from_toml(f"[slurm]\nbin_dir = '/usr/bin'\n[clusters.beta]\n{lines}\n")
    (beta,) = loaded.settings.read
    assert beta.has_commands is here
    assert [way.name for way in ways_of(beta)] == ["text", "pyslurm", "json"] * here + ["rest"] * ("rest_url" in lines)
