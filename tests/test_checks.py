# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is expected of single values, through the door that everybody uses: `config.load`."""

from pathlib import Path

import configured
import pytest
from configured import from_toml, problems

from slurmscope import config
from slurmscope.auth import hash_password, hash_token
from slurmscope.checks import PAGE_LABELS
from slurmscope.config import ConfigError, listen_address
from slurmscope.metrics import catalogue
from slurmscope.settings import Serve, Settings

HASH = hash_password("sesame")
TOKEN = hash_token("open-up")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.alone(tmp_path, monkeypatch)


# Addresses


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("", 9092)),
        ("head-1.cluster.example:65535", ("head-1.cluster.example", 65535)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_listen_address(listen: str, address: tuple[str, int]) -> None:
    assert listen_address(config.load(env={"SLURMSCOPE_SERVE_LISTEN": listen}).settings) == address


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "9092",
        "localhost",
        "::1:9092",
        "[::1]",
        "[x]:1",
        "[]:1",
        "h:65536",
        "h:-1",
        "h:٣",
        "a b:1",
        "h:1\n",
    ],
)
def test_addresses_that_are_none(listen: str) -> None:
    assert problems(env={"SLURMSCOPE_SERVE_LISTEN": listen})
    with pytest.raises(ConfigError):
        listen_address(Settings(serve=Serve(listen=listen)))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://head",
        "http://head:6820",
        "https://head-1.cluster.example:443/slurm/api/",
        "http://[::1]:6820",
        "http://10.0.0.1/",
    ],
)
def test_addresses_of_services(url: str) -> None:
    loaded = config.load(env={"SLURMSCOPE_SLURM_REST_URL": url, "SLURMSCOPE_PROMETHEUS_URL": url})
    assert (loaded.settings.slurm.rest_url, loaded.settings.prometheus.url) == (url, url)


def test_slurmrestd_may_listen_on_a_socket() -> None:
    assert from_toml("[slurm]\nrest_url = 'unix:/run/slurmrestd.sock'").settings.slurm.rest_url.startswith("unix:/")
    assert problems("[prometheus]\nurl = 'unix:/run/prometheus.sock'") == [
        "given.toml: prometheus.url: expected http://host[:port][/prefix] or https://host[:port][/prefix], "
        'found "unix:/run/prometheus.sock"'
    ]


@pytest.mark.parametrize(
    "url",
    [
        "head:6820",
        "HTTP//head",
        "ftp://head",
        "http://",
        "http://:6820",
        "http://head:0",
        "http://head:65536",
        "http://head:٣",
        "http://[x]:1",
        "http://head/ a",
        "http://head/a?b",
        "http://head/a#b",
        "http://a b",
        " http://head",
        "unix:run/slurmrestd.sock",
        "unix:",
        "unix:/",
        "/run/slurmrestd.sock",
    ],
)
def test_addresses_that_no_service_can_have(url: str) -> None:
    assert problems(f"[slurm]\nrest_url = '{url}'") == [
        "given.toml: slurm.rest_url: expected http://host[:port][/prefix], https://host[:port][/prefix] "
        f'or unix:/absolute/path, found "{url}"'
    ]
    assert len(problems(f"[prometheus]\nurl = '{url}'")) == 1


@pytest.mark.parametrize("key", ["slurm.rest_url", "prometheus.url"])
def test_a_password_in_an_address_is_refused_and_not_repeated(key: str) -> None:
    (found,) = problems(f"{key} = 'https://alice:hunter2@head'")
    assert found.startswith(f"given.toml: {key}: expected ")
    assert "hunter2" not in found


# ssh


@pytest.mark.parametrize("target", ["", "login", "alice@login-1.cluster.example", "a@b@host", "fe80::1"])
def test_where_ssh_leads(target: str) -> None:
    assert from_toml(f"[slurm]\nssh = '{target}'").settings.slurm.ssh == target


@pytest.mark.parametrize(
    "target",
    [
        "-oProxyCommand=reboot",
        "-oProxyCommand=reboot@login",
        "alice@-oProxyCommand=reboot",
        "a b",
        "login ",
        "a\tb",
        "a\x00b",
        "alice@",
    ],
)
def test_what_ssh_would_take_for_something_else(target: str) -> None:
    (found,) = problems(env={"SLURMSCOPE_SLURM_SSH": target})
    assert found.startswith(
        "environment: SLURMSCOPE_SLURM_SSH: slurm.ssh: "
        "expected host or user@host, without spaces and not beginning with -, found "
    )
    assert found.isprintable()


# Commands


def test_a_command_is_one_as_a_shell_would_read_it() -> None:
    command = "sudo -u slurm 'scontrol' token lifespan=3600"
    assert from_toml(f'slurm.rest_token_command = "{command}"').settings.slurm.rest_token_command == command
    assert problems("[slurm]\nrest_token_command = 'it\"s'") == [
        'given.toml: slurm.rest_token_command: expected a command with its quotes closed, found "it\\"s"'
    ]
    assert problems("[slurm]\nrest_token_command = ' '") == [
        'given.toml: slurm.rest_token_command: expected a command, found " "'
    ]


# Files


@pytest.mark.parametrize("name", ["slurm.rest_ca", "slurm.rest_token_file", "slurm.ssh_config", "serve.tls_cert"])
def test_files_must_be_there(name: str) -> None:
    Path("folder").mkdir()
    for path in ("none", "folder"):
        assert f'given.toml: {name}: expected a file that exists and can be read, found "{path}"' in problems(
            f"{name} = '{path}'"
        )


@pytest.mark.parametrize("name", ["rest_ca", "rest_token_file", "ssh_config"])
def test_files_that_are_there(name: str) -> None:
    Path("file").touch()
    assert getattr(from_toml(f"slurm.{name} = 'file'").settings.slurm, name) == "file"


def test_tls_needs_both_files_and_they_must_exist() -> None:
    Path("cert").touch()
    assert problems("[serve]\ntls_cert = 'cert'") == [
        "given.toml: serve.tls_cert: expected serve.tls_key to be set too, found it empty"
    ]
    assert problems("[serve]\ntls_key = 'cert'") == [
        "given.toml: serve.tls_key: expected serve.tls_cert to be set too, found it empty"
    ]
    assert problems("[serve]\ntls_cert = 'cert'\ntls_key = 'none'") == [
        'given.toml: serve.tls_key: expected a file that exists and can be read, found "none"'
    ]
    assert from_toml("[serve]\ntls_cert = 'cert'\ntls_key = 'cert'").settings.serve.tls_key == "cert"


def test_a_malformed_password_hash_says_how_to_make_one() -> None:
    assert problems(f'[serve.users]\nalice = "{HASH}"\nbob = "hunter2"') == [
        "given.toml: serve.users: expected a password hash for user 2 of 2: run `slurmscope hash-password`"
    ]
    assert problems(f'[serve]\ntokens = ["{TOKEN.upper()}"]')[0].startswith(
        "given.toml: serve.tokens: expected a SHA-256 in 64 lower-case hex digits for token 1 of 1"
    )


# Numbers


@pytest.mark.parametrize("number", ["0x" + "f" * 300, "0x" + "f" * 9000, "1" + "0" * 400, "-inf"])
@pytest.mark.parametrize("name", ["slurm.timeout", "metrics.top"])
def test_numbers_beyond_reason(name: str, number: str) -> None:
    try:
        loaded = from_toml(f"{name} = {number}")
    except ConfigError as error:
        assert [line.partition(": expected")[0] for line in error.problems] == [f"given.toml: {name}"]
        assert len(str(error)) < 400
    else:
        assert loaded.settings.metrics.top > 10**18


# Sinks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[elasticsearch]\nurl = 'elastic:9200'", "elasticsearch.url: expected http://host[:port][/prefix] or"),
        ("[elasticsearch]\nprefix = 'HPC'", "elasticsearch.prefix: expected up to 100 of a-z, 0-9, _, - and ."),
        ("[elasticsearch]\nprefix = '-a'", "elasticsearch.prefix: expected up to 100 of"),
        ("[elasticsearch]\nca = '/nowhere'", "elasticsearch.ca: expected a file that exists and can be read"),
        (
            "[elasticsearch]\nspool_megabytes = 0",
            "elasticsearch.spool_megabytes: expected a whole number of at least 1",
        ),
        (
            "[elasticsearch]\napi_key = 'a'\nuser = 'b'\npassword = 'c'",
            "elasticsearch.password: expected to be the only secret, found elasticsearch.api_key beside it: "
            "leave out all but one",
        ),
        (
            "[elasticsearch]\nuser = 'b'",
            "elasticsearch.user: expected elasticsearch.password or elasticsearch.password_file to be set too, "
            "found them empty",
        ),
        (
            "[pushgateway]\npassword = 'b'",
            "pushgateway.password: expected pushgateway.user to be set too, found it empty",
        ),
        ("[pushgateway]\njob = ' '", "pushgateway.job: expected a name"),
        (
            "[pushgateway]\ngrouping = {cluster = 'a'}",
            "pushgateway.grouping: expected no label that a series has already",
        ),
        ("[pushgateway]\ngrouping = {job = 'a'}", "pushgateway.grouping: expected no label job here"),
        (
            "[pushgateway]\ngrouping = {'a-b' = 'a'}",
            "pushgateway.grouping: expected names of labels (a-z, A-Z, 0-9, _), ",
        ),
        ("[cloudwatch]\nnamespace = 'AWS/EC2'", "cloudwatch.namespace: expected up to 255 of"),
        ("[cloudwatch]\nendpoint_url = 'aws'", "cloudwatch.endpoint_url: expected http://"),
        ("[cloudwatch]\ndimensions = {Site = ''}", "cloudwatch.dimensions: expected values of 1 to 1024 characters"),
        ("[cloudwatch]\ndimensions = {':a' = 'b'}", "cloudwatch.dimensions: expected names of 1 to 255 characters"),
        ("[cloudwatch]\ninterval = 0.5", "cloudwatch.interval: expected a number of at least 1"),
        (
            "[cloudwatch]\ndimensions = {ClusterName = 'a'}\n[clusters.a]\n[clusters.b]",
            "cloudwatch.dimensions: expected no ClusterName where 2 clusters are read",
        ),
    ],
)
def test_sinks_that_cannot_be(text: str, expected: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"given.toml: {expected}")


def test_a_key_that_is_no_header_is_not_repeated() -> None:
    (found,) = problems(env={"SLURMSCOPE_ELASTICSEARCH_API_KEY": "hunter2\n"})
    assert "hunter2" not in found


def test_as_many_dimensions_as_cloudwatch_takes() -> None:
    many = ",".join(f"d{at}=x" for at in range(29))
    assert len(config.load(env={"SLURMSCOPE_CLOUDWATCH_DIMENSIONS": many}).settings.cloudwatch.dimensions) == 29
    assert problems(env={"SLURMSCOPE_CLOUDWATCH_DIMENSIONS": f"{many},d29=x"})
    config.load(env={"SLURMSCOPE_CLOUDWATCH_DIMENSIONS": f"{many},ClusterName=x"})


def test_a_secret_of_the_environment_takes_the_place_of_one_in_the_file() -> None:
    text = "[elasticsearch]\nuser = 'alice'\npassword = 'old'"
    found = from_toml(text, {"SLURMSCOPE_ELASTICSEARCH_API_KEY": "new"}).settings.elasticsearch
    assert (found.password, found.api_key) == ("", "new")


def test_labels_of_a_group_are_not_those_of_a_series() -> None:
    labels = {
        label
        for topics in catalogue.PROFILES.values()
        for topic in topics
        for family in topic.families
        for label in family.labels
    }
    assert not [label for label in sorted(labels | {"cluster", "le"}) if not PAGE_LABELS.fullmatch(label)]
