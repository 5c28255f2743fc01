# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
import os
import tomllib
from pathlib import Path

import configured
import msgspec
import pytest
from configured import from_toml, problems
from hypothesis import given
from hypothesis import strategies as st

from slurmscope import config
from slurmscope.auth import hash_password, hash_token
from slurmscope.config import ConfigError
from slurmscope.settings import Settings

HASH = hash_password("sesame")
TOKEN = hash_token("open-up")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJodW50ZXIyIn0.c2lnbmVk"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured.alone(tmp_path, monkeypatch)


# Sources


def test_defaults() -> None:
    loaded = config.load(env={})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.settings.serve.listen == "127.0.0.1:9092"
    assert (loaded.settings.poll.interval, loaded.settings.poll.slow_interval) == (10.0, 60.0)
    assert (loaded.settings.slurm.timeout, loaded.settings.metrics.top) == (10.0, 100)
    assert (loaded.settings.log.level, loaded.settings.metrics.compat) == ("info", True)


def test_a_file_sets_what_it_names() -> None:
    loaded = from_toml(
        f"""
        [slurm]
        cluster = "alpha"
        timeout = 5
        [metrics]
        compat = false
        [serve]
        users = {{ alice = "{HASH}" }}
        tokens = ["{TOKEN}"]
        """
    )
    assert loaded.settings.slurm.cluster == "alpha"
    assert loaded.settings.slurm.timeout == 5.0
    assert loaded.settings.metrics.compat is False
    assert loaded.settings.serve.users == {"alice": HASH}
    assert loaded.settings.serve.tokens == [TOKEN]
    assert loaded.settings.poll == Settings().poll
    assert loaded.origins["slurm.cluster"] == "given.toml"
    assert loaded.origins["slurm.conf"] == "default"


def test_later_sources_win_one_setting_at_a_time() -> None:
    Path("given.toml").write_text(
        "[metrics]\ntop = 1\n[poll]\ninterval = 11\nslow_interval = 100\n[log]\nlevel='error'"
    )
    Path("given.env").write_text("SLURMSCOPE_METRICS_TOP=2\nPOLL_LIMIT=12.\nLOGLEVEL=debug\n")
    loaded = config.load(
        Path("given.toml"),
        env={"SLURMSCOPE_METRICS_TOP": "3", "POLL_LIMIT": "13"},
        dotenv=Path("given.env"),
        overrides={"metrics.top": "4", "serve.tls_cert": ""},
    )
    assert loaded.settings.metrics.top == 4
    assert loaded.settings.poll.interval == 13.0
    assert loaded.settings.log.level == "debug"
    assert loaded.settings.poll.slow_interval == 100.0
    assert loaded.origins["metrics.top"] == "command line: --top"
    assert loaded.origins["serve.tls_cert"] == "command line: --tls-cert"
    assert loaded.origins["poll.interval"] == "environment: POLL_LIMIT"
    assert loaded.origins["log.level"] == "given.env: LOGLEVEL"
    assert loaded.origins["poll.slow_interval"] == "given.toml"


def test_the_file_of_this_folder_and_its_dotenv_are_found() -> None:
    Path("slurmscope.toml").write_text("[metrics]\ntop = 7\n")
    Path(".env").write_text("CLI_TIMEOUT=3\n")
    loaded = config.load(env={})
    assert loaded.settings.metrics.top == 7
    assert loaded.origins["metrics.top"] == "slurmscope.toml"
    assert loaded.origins["slurm.timeout"] == ".env: CLI_TIMEOUT"


def test_the_file_of_the_system_is_used_when_this_folder_has_none(tmp_path: Path) -> None:
    system = tmp_path / "etc" / "slurmscope.toml"
    system.parent.mkdir()
    system.write_text("[metrics]\ntop = 8\n")
    assert config.load(env={}).origins["metrics.top"] == str(system)
    Path("slurmscope.toml").write_text("[metrics]\ntop = 7\n")
    assert config.load(env={}).settings.metrics.top == 7


def test_the_file_may_be_named_by_a_variable() -> None:
    Path("slurmscope.toml").write_text("[metrics]\ntop = 7\n")
    Path("one.toml").write_text("[metrics]\ntop = 1\n")
    Path("two.toml").write_text("[metrics]\ntop = 2\n")
    Path(".env").write_text("SLURMSCOPE_CONFIG=one.toml\n")
    assert config.load(env={}).settings.metrics.top == 1
    assert config.load(env={"SLURMSCOPE_CONFIG": "two.toml"}).settings.metrics.top == 2
    assert config.load(Path("slurmscope.toml"), env={"SLURMSCOPE_CONFIG": "two.toml"}).settings.metrics.top == 7


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SLURMSCOPE_") or name in ("CLI_TIMEOUT", "POLL_LIMIT", "LOGLEVEL"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SLURMSCOPE_SLURM_CLUSTER", "beta")
    assert config.load().settings.slurm.cluster == "beta"


def test_every_setting_has_a_variable() -> None:
    Path("cert").touch()
    env = {
        "SLURMSCOPE_SLURM_CLUSTER": "alpha",
        "SLURMSCOPE_SLURM_SOURCE": "REST",
        "SLURMSCOPE_SLURM_BIN_DIR": "/opt/slurm/bin",
        "SLURMSCOPE_SLURM_CONF": "/etc/slurm.conf",
        "SLURMSCOPE_SLURM_MULTI_CLUSTER": "beta",
        "SLURMSCOPE_SLURM_TIMEOUT": "2.5",
        "SLURMSCOPE_SLURM_PYTHON": "python3.6",
        "SLURMSCOPE_SLURM_SSH": "alice@login",
        "SLURMSCOPE_SLURM_SSH_CONFIG": "cert",
        "SLURMSCOPE_SLURM_SSH_PROBE": "bin/probe.py",
        "SLURMSCOPE_SLURM_REST_URL": "https://head:6820",
        "SLURMSCOPE_SLURM_REST_USER": "alice",
        "SLURMSCOPE_SLURM_REST_TOKEN_COMMAND": "scontrol token",
        "SLURMSCOPE_SLURM_REST_CA": "cert",
        "SLURMSCOPE_POLL_INTERVAL": "20",
        "SLURMSCOPE_POLL_SLOW_INTERVAL": "1e2",
        "SLURMSCOPE_METRICS_COMPAT": "false",
        "SLURMSCOPE_METRICS_TOP": "5",
        "SLURMSCOPE_SERVE_LISTEN": ":80",
        "SLURMSCOPE_SERVE_NAMES": "portal, host.docker.internal",
        "SLURMSCOPE_SERVE_TLS_CERT": "cert",
        "SLURMSCOPE_SERVE_TLS_KEY": "cert",
        "SLURMSCOPE_SERVE_USERS": f"alice={HASH}, bob={HASH}",
        "SLURMSCOPE_SERVE_TOKENS": f"{TOKEN}, {TOKEN},",
        "SLURMSCOPE_LOG_LEVEL": "ERROR",
        "SLURMSCOPE_LOG_FORMAT": "json",
        "SLURMSCOPE_PROMETHEUS_URL": "http://prometheus:9090",
        "SLURMSCOPE_ELASTICSEARCH_URL": "https://elastic:9200",
        "SLURMSCOPE_ELASTICSEARCH_USER": "alice",
        "SLURMSCOPE_ELASTICSEARCH_PASSWORD_FILE": "cert",
        "SLURMSCOPE_ELASTICSEARCH_CA": "cert",
        "SLURMSCOPE_ELASTICSEARCH_PREFIX": "hpc",
        "SLURMSCOPE_ELASTICSEARCH_HISTORY": "true",
        "SLURMSCOPE_ELASTICSEARCH_SPOOL_MEGABYTES": "1",
        "SLURMSCOPE_CLOUDWATCH_ENABLED": "true",
        "SLURMSCOPE_CLOUDWATCH_REGION": "eu-north-1",
        "SLURMSCOPE_CLOUDWATCH_ENDPOINT_URL": "https://vpce.example",
        "SLURMSCOPE_CLOUDWATCH_NAMESPACE": "HPC/Slurm",
        "SLURMSCOPE_CLOUDWATCH_DIMENSIONS": "Site=Bergen, Stage=test",
        "SLURMSCOPE_CLOUDWATCH_HIGH_RESOLUTION": "true",
        "SLURMSCOPE_CLOUDWATCH_INTERVAL": "300",
        "SLURMSCOPE_CLOUDWATCH_SPOOL_MEGABYTES": "2",
        "SLURMSCOPE_STORE_URL": "sqlite:/var/lib/slurmscope/history.db",
        "SLURMSCOPE_STORE_FOLDER": "/var/lib/slurmscope",
        "SLURMSCOPE_STORE_JOBS_DAYS": "400",
        "SLURMSCOPE_STORE_USAGE_DAYS": "4000",
        "SLURMSCOPE_STORE_SERIES_DAYS": "20",
        "SLURMSCOPE_STORE_NODE_CHANGES_DAYS": "30",
        "SLURMSCOPE_STORE_TOTALS_FINE_DAYS": "2",
        "SLURMSCOPE_STORE_TOTALS_MIDDLE_DAYS": "7",
        "SLURMSCOPE_STORE_TOTALS_COARSE_DAYS": "700",
        "SLURMSCOPE_ACCOUNTING_ENABLED": "false",
        "SLURMSCOPE_ACCOUNTING_INTERVAL": "60",
        "SLURMSCOPE_ACCOUNTING_REACH_DAYS": "2",
        "SLURMSCOPE_DATABASE_HOST": "db.example",
        "SLURMSCOPE_DATABASE_PORT": "3307",
        "SLURMSCOPE_DATABASE_SOCKET": "/run/mysqld/mysqld.sock",
        "SLURMSCOPE_DATABASE_NAME": "slurm",
        "SLURMSCOPE_DATABASE_VIEW": "jobs",
        "SLURMSCOPE_DATABASE_USER": "scope",
        "SLURMSCOPE_DATABASE_PASSWORD_FILE": "cert",
        "SLURMSCOPE_DATABASE_CA": "cert",
        "SLURMSCOPE_PUSHGATEWAY_URL": "http://push:9091",
        "SLURMSCOPE_PUSHGATEWAY_JOB": "slurm",
        "SLURMSCOPE_PUSHGATEWAY_GROUPING": "site=Bergen",
        "SLURMSCOPE_PUSHGATEWAY_USER": "bob",
        "SLURMSCOPE_PUSHGATEWAY_PASSWORD": "secret",
        "SLURMSCOPE_PUSHGATEWAY_CA": "cert",
        "SLURMSCOPE_PUSHGATEWAY_INTERVAL": "60",
        "SLURMSCOPE_PUSHGATEWAY_DELETE_ON_STOP": "true",
        "SLURMSCOPE_AGENTS_ENABLED": "true",
        "SLURMSCOPE_AGENTS_TOKENS": TOKEN,
        "SLURMSCOPE_TRACE_ENABLED": "true",
        "SLURMSCOPE_TRACE_PATH": "/traces",
        "SLURMSCOPE_TRACE_TOKENS": TOKEN,
        "SLURMSCOPE_TRACE_MUNGE": "true",
        "SLURMSCOPE_TRACE_JOBS": "10",
        "SLURMSCOPE_TRACE_PROCESSES": "5",
        "SLURMSCOPE_TRACE_KEEP_SECONDS": "30",
        "SLURMSCOPE_AGENT_LISTEN": "none",
        "SLURMSCOPE_AGENT_INTERVAL": "5",
        "SLURMSCOPE_AGENT_NODE": "n1",
        "SLURMSCOPE_AGENT_SCRATCH": "/fast/*,/tmp/*",
        "SLURMSCOPE_AGENT_PROGRAMS": "3",
        "SLURMSCOPE_AGENT_SERVE_URL": "https://slurmscope:9092",
        "SLURMSCOPE_AGENT_SERVE_TOKEN_FILE": "cert",
        "SLURMSCOPE_AGENT_SERVE_CA": "cert",
        "SLURMSCOPE_COST_CURRENCY": "EUR",
        "SLURMSCOPE_COST_CORE_HOUR": "0.01",
        "SLURMSCOPE_COST_GPU_HOUR": "a100=1.5, default=1",
        "SLURMSCOPE_COST_CORE_WATTS": "8",
        "SLURMSCOPE_COST_GPU_WATTS": "a100=400",
        "SLURMSCOPE_COST_CO2_GRAMS": "30",
        "SLURMSCOPE_COST_GPU_UNIT": "units",
        "SLURMSCOPE_COST_GPU_WEIGHTS": "a100=4",
        "SLURMSCOPE_FINDINGS_INTERACTIVE": "desktop*,bash",
        "SLURMSCOPE_MAIL_ENABLED": "true",
        "SLURMSCOPE_MAIL_HOST": "mail.example.org",
        "SLURMSCOPE_MAIL_PORT": "2525",
        "SLURMSCOPE_MAIL_SECURITY": "tls",
        "SLURMSCOPE_MAIL_CA": "cert",
        "SLURMSCOPE_MAIL_USER": "slurmscope",
        "SLURMSCOPE_MAIL_PASSWORD": "secret",
        "SLURMSCOPE_MAIL_ANSWER_SECONDS": "5",
        "SLURMSCOPE_MAIL_SENDER": "Cluster <slurm@example.org>",
        "SLURMSCOPE_MAIL_REPLY_TO": "help@example.org",
        "SLURMSCOPE_MAIL_ADDRESS": "{user}@example.org",
        "SLURMSCOPE_MAIL_ADDRESSES": "alice=alice@example.com",
        "SLURMSCOPE_MAIL_URL": "https://slurmscope.example.org",
        "SLURMSCOPE_MAIL_LINK_DAYS": "30",
        "SLURMSCOPE_MAIL_TEMPLATES": ".",
        "SLURMSCOPE_MAIL_TIME_ZONE": "Europe/Paris",
        "SLURMSCOPE_MAIL_QUIET_DAYS": "sat, sun, 2026-12-25",
        "SLURMSCOPE_MAIL_QUIET_HOURS": "20:00-07:00",
        "SLURMSCOPE_MAIL_LEAST_DAYS": "14",
        "SLURMSCOPE_MAIL_EXEMPT_USERS": "root",
        "SLURMSCOPE_MAIL_EXEMPT_ACCOUNTS": "ops",
        "SLURMSCOPE_MAIL_EXEMPT_PARTITIONS": "debug",
        "SLURMSCOPE_MAIL_PIS": "physics=curie@example.org",
        "SLURMSCOPE_MAIL_STAFF": "staff@example.org",
        "SLURMSCOPE_MAIL_TO_PI": "2",
        "SLURMSCOPE_MAIL_TO_STAFF": "4",
        "SLURMSCOPE_MAIL_LADDER_DAYS": "60",
        "SLURMSCOPE_MAIL_JOBS": "false",
        "SLURMSCOPE_MAIL_DIGEST_DAY": "tue",
        "SLURMSCOPE_MAIL_DIGEST_CORE_HOURS": "10",
        "SLURMSCOPE_MAIL_DIGEST_GPU_HOURS": "1",
        "SLURMSCOPE_MAIL_DIGEST_SHARE": "0.5",
        "SLURMSCOPE_MAIL_PER_MINUTE": "10",
        "SLURMSCOPE_MAIL_KEEP_DAYS": "3",
        "SLURMSCOPE_MAIL_LOG_DAYS": "365",
        "SLURMSCOPE_MAIL_CANCEL_ZERO_GPU": "true",
        "SLURMSCOPE_MAIL_CANCEL_HOURS": "2",
        "SLURMSCOPE_PORTAL_SIGN_IN": "local, proxy,oidc",
        "SLURMSCOPE_PORTAL_STAFF": "root,eve",
        "SLURMSCOPE_PORTAL_SESSION_HOURS": "8",
        "SLURMSCOPE_PORTAL_SHARE_DAYS": "3",
        "SLURMSCOPE_PORTAL_PROXIES": "10.0.0.7,fd00::/64",
        "SLURMSCOPE_PORTAL_PROXY_HEADER": "X-Auth-User",
        "SLURMSCOPE_PORTAL_OIDC_ISSUER": "https://login.example.org/realms/hpc",
        "SLURMSCOPE_PORTAL_OIDC_CLIENT_ID": "slurmscope",
        "SLURMSCOPE_PORTAL_OIDC_CLIENT_SECRET": "secret",
        "SLURMSCOPE_PORTAL_OIDC_CLAIM": "uid",
        "SLURMSCOPE_PORTAL_OIDC_SCOPES": "email",
    }
    loaded = config.load(env=env)
    assert {origin.removeprefix("environment: ") for origin in loaded.origins.values()} == set(env)
    # each of the alternatives in its turn
    for name, value in [("SLURMSCOPE_SLURM_REST_TOKEN", "secret"), ("SLURMSCOPE_SLURM_REST_TOKEN_FILE", "cert")]:
        other = config.load(env={name: value})
        assert value in (other.settings.slurm.rest_token, other.settings.slurm.rest_token_file)
    assert msgspec.to_builtins(loaded.settings) == {
        "slurm": {
            "cluster": "alpha",
            "source": "rest",
            "bin_dir": "/opt/slurm/bin",
            "conf": "/etc/slurm.conf",
            "multi_cluster": "beta",
            "timeout": 2.5,
            "python": "python3.6",
            "ssh": "alice@login",
            "ssh_config": "cert",
            "ssh_probe": "bin/probe.py",
            "rest_url": "https://head:6820",
            "rest_user": "alice",
            "rest_token": "",
            "rest_token_file": "",
            "rest_token_command": "scontrol token",
            "rest_ca": "cert",
        },
        "poll": {"interval": 20.0, "slow_interval": 100.0},
        "metrics": {"compat": False, "top": 5},
        "serve": {
            "listen": ":80",
            "names": ["portal", "host.docker.internal"],
            "tls_cert": "cert",
            "tls_key": "cert",
            "users": {"alice": HASH, "bob": HASH},
            "tokens": [TOKEN, TOKEN],
        },
        "log": {"level": "error", "format": "json"},
        "prometheus": {"url": "http://prometheus:9090"},
        "store": {
            "url": "sqlite:/var/lib/slurmscope/history.db",
            "folder": "/var/lib/slurmscope",
            "jobs_days": 400,
            "usage_days": 4000,
            "series_days": 20,
            "node_changes_days": 30,
            "totals_fine_days": 2,
            "totals_middle_days": 7,
            "totals_coarse_days": 700,
        },
        "accounting": {"enabled": False, "interval": 60.0, "reach_days": 2},
        "database": {
            "host": "db.example",
            "port": 3307,
            "socket": "/run/mysqld/mysqld.sock",
            "name": "slurm",
            "view": "jobs",
            "user": "scope",
            "password": "",
            "password_file": "cert",
            "ca": "cert",
        },
        "elasticsearch": {
            "url": "https://elastic:9200",
            "user": "alice",
            "password": "",
            "password_file": "cert",
            "api_key": "",
            "ca": "cert",
            "prefix": "hpc",
            "history": True,
            "spool_megabytes": 1,
        },
        "cloudwatch": {
            "enabled": True,
            "region": "eu-north-1",
            "endpoint_url": "https://vpce.example",
            "namespace": "HPC/Slurm",
            "dimensions": {"Site": "Bergen", "Stage": "test"},
            "high_resolution": True,
            "interval": 300.0,
            "spool_megabytes": 2,
        },
        "pushgateway": {
            "url": "http://push:9091",
            "job": "slurm",
            "grouping": {"site": "Bergen"},
            "user": "bob",
            "password": "secret",
            "password_file": "",
            "ca": "cert",
            "interval": 60.0,
            "delete_on_stop": True,
        },
        "agents": {"enabled": True, "tokens": [TOKEN]},
        "trace": {
            "enabled": True,
            "path": "/traces",
            "tokens": [TOKEN],
            "munge": True,
            "jobs": 10,
            "processes": 5,
            "keep_seconds": 30.0,
        },
        "agent": {
            "listen": "none",
            "interval": 5.0,
            "node": "n1",
            "scratch": ["/fast/*", "/tmp/*"],
            "programs": 3,
            "serve_url": "https://slurmscope:9092",
            "serve_token_file": "cert",
            "serve_ca": "cert",
        },
        "cost": {
            "currency": "EUR",
            "core_hour": 0.01,
            "gpu_hour": {"a100": 1.5, "default": 1.0},
            "core_watts": 8.0,
            "gpu_watts": {"a100": 400.0},
            "co2_grams": 30.0,
            "gpu_unit": "units",
            "gpu_weights": {"a100": 4.0},
        },
        "mail": {
            "enabled": True,
            "host": "mail.example.org",
            "port": 2525,
            "security": "tls",
            "ca": "cert",
            "user": "slurmscope",
            "password": "secret",
            "password_file": "",
            "answer_seconds": 5.0,
            "sender": "Cluster <slurm@example.org>",
            "reply_to": "help@example.org",
            "address": "{user}@example.org",
            "addresses": {"alice": "alice@example.com"},
            "url": "https://slurmscope.example.org",
            "link_days": 30,
            "templates": ".",
            "time_zone": "Europe/Paris",
            "quiet_days": ["sat", "sun", "2026-12-25"],
            "quiet_hours": "20:00-07:00",
            "least_days": 14,
            "exempt_users": ["root"],
            "exempt_accounts": ["ops"],
            "exempt_partitions": ["debug"],
            "pis": {"physics": "curie@example.org"},
            "staff": "staff@example.org",
            "to_pi": 2,
            "to_staff": 4,
            "ladder_days": 60,
            "jobs": False,
            "digest_day": "tue",
            "digest_core_hours": 10.0,
            "digest_gpu_hours": 1.0,
            "digest_share": 0.5,
            "per_minute": 10,
            "keep_days": 3,
            "log_days": 365,
            "cancel_zero_gpu": True,
            "cancel_hours": 2.0,
        },
        "portal": {
            "sign_in": ["local", "proxy", "oidc"],
            "staff": ["root", "eve"],
            "session_hours": 8.0,
            "share_days": 3,
            "proxies": ["10.0.0.7", "fd00::/64"],
            "proxy_header": "X-Auth-User",
            "oidc_issuer": "https://login.example.org/realms/hpc",
            "oidc_client_id": "slurmscope",
            "oidc_client_secret": "secret",
            "oidc_client_secret_file": "",
            "oidc_claim": "uid",
            "oidc_scopes": ["email"],
        },
        "findings": {"interactive": ["desktop*", "bash"]},
        "rules": [],
        "allocations": [],
        "constants": {},
        "clusters": {},
    }


@pytest.mark.parametrize(("text", "seconds"), [("10.", 10.0), ("10", 10.0), (" 7.5 ", 7.5)])
def test_older_spellings_of_numbers(text: str, seconds: float) -> None:
    loaded = config.load(env={"CLI_TIMEOUT": text, "POLL_LIMIT": text})
    assert (loaded.settings.slurm.timeout, loaded.settings.poll.interval) == (seconds, seconds)


@pytest.mark.parametrize(
    ("text", "level"), [("warning", "warn"), ("WARNING", "warn"), ("Warn", "warn"), ("DEBUG", "debug")]
)
def test_spellings_of_log_levels(text: str, level: str) -> None:
    assert config.load(env={"LOGLEVEL": text}).settings.log.level == level


def test_the_full_name_wins_over_the_alias_in_one_place_only() -> None:
    both = {"POLL_LIMIT": "20", "SLURMSCOPE_POLL_INTERVAL": "30"}
    assert config.load(env=both).settings.poll.interval == 30.0
    Path(".env").write_text("SLURMSCOPE_POLL_INTERVAL=30\nPOLL_LIMIT=25\n")
    assert config.load(env={}).settings.poll.interval == 30.0
    assert config.load(env={"POLL_LIMIT": "20"}).settings.poll.interval == 20.0


def test_a_wrong_value_can_be_overridden() -> None:
    assert from_toml("[poll]\ninterval = 'often'", {"POLL_LIMIT": "20"}).settings.poll.interval == 20.0


# Wrong values


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[poll]\ninterval = 'often'", 'poll.interval: expected a number of at least 1, found "often"'),
        ("[poll]\ninterval = 0.5", "poll.interval: expected a number of at least 1, found 0.5"),
        ("[poll]\ninterval = inf", "poll.interval: expected a number of at least 1, found Infinity"),
        ("[poll]\ninterval = true", "poll.interval: expected a number of at least 1, found true"),
        ("[slurm]\ntimeout = 0", "slurm.timeout: expected a number above 0 and at most 3600, found 0"),
        ("[slurm]\ntimeout = nan", "slurm.timeout: expected a number above 0 and at most 3600, found NaN"),
        ("[slurm]\ncluster = 3", "slurm.cluster: expected text, found 3"),
        ("[slurm]\ncluster = 2026-01-01", 'slurm.cluster: expected text, found "2026-01-01"'),
        ("[metrics]\ntop = 0", "metrics.top: expected a whole number of at least 1, found 0"),
        ("[metrics]\ntop = 1.5", "metrics.top: expected a whole number of at least 1, found 1.5"),
        ("[metrics]\ntop = '5'", 'metrics.top: expected a whole number of at least 1, found "5"'),
        ("[metrics]\ncompat = 'yes'", 'metrics.compat: expected true or false, found "yes"'),
        ("[log]\nlevel = 'loud'", 'log.level: expected one of debug, info, warn, error, found "loud"'),
        ("[log]\nformat = 'xml'", 'log.format: expected one of logfmt, json, found "xml"'),
        (
            "[serve]\nlisten = '9092'",
            'serve.listen: expected host:port, such as 127.0.0.1:9092, [::1]:9092 or :9092, found "9092"',
        ),
        ("[serve]\nusers = 'x'", "serve.users: expected a table of text"),
        ("[serve]\ntokens = 'x'", "serve.tokens: expected a list of text"),
        ("[slurm]\nrest_token = 3", "slurm.rest_token: expected text"),
        (
            "[slurm]\nsource = 'best'",
            'slurm.source: expected one of auto, text, json, rest, pyslurm, found "best"',
        ),
        ("poll = 3", "poll: expected a section, [poll]"),
        ("[poll]\nintervall = 3", "poll.intervall: unknown setting, did you mean poll.interval?"),
        ("[poll]\ntimeout = 3", "poll.timeout: unknown setting, did you mean slurm.timeout?"),
        ("[pol]\ninterval = 3", "pol: unknown setting, did you mean poll?"),
        ("[cluster.alpha]", "cluster: unknown setting, did you mean clusters?"),
        ("listen = ':1'", "listen: unknown setting, did you mean serve.listen?"),
        ("xyzzy = 3", "xyzzy: unknown setting"),
        ('"a\\nb" = 3', '"a\\nb": unknown setting'),
    ],
)
def test_a_wrong_file(text: str, problem: str) -> None:
    assert problems(text) == [f"given.toml: {problem}"]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("POLL_LIMIT", "often", 'poll.interval: expected a number of at least 1, found "often"'),
        ("POLL_LIMIT", "inf", 'poll.interval: expected a number of at least 1, found "inf"'),
        ("POLL_LIMIT", "", 'poll.interval: expected a number of at least 1, found ""'),
        ("CLI_TIMEOUT", "-1", 'slurm.timeout: expected a number above 0 and at most 3600, found "-1"'),
        ("LOGLEVEL", "loud", 'log.level: expected one of debug, info, warn, error, found "loud"'),
        ("SLURMSCOPE_METRICS_COMPAT", "maybe", 'metrics.compat: expected true or false, found "maybe"'),
        (
            "SLURMSCOPE_METRICS_TOP",
            "x\ny",
            "metrics.top: expected a whole number of at least 1, found text of 3 characters",
        ),
        ("SLURMSCOPE_POLL_INTERVL", "3", "unknown variable, did you mean SLURMSCOPE_POLL_INTERVAL?"),
        ("SLURMSCOPE_LISTEN", "3", "unknown variable, did you mean SLURMSCOPE_SERVE_LISTEN?"),
        ("SLURMSCOPE_XYZZY", "3", "unknown variable"),
    ],
)
def test_a_wrong_variable(name: str, value: str, problem: str) -> None:
    assert problems(env={name: value}) == [f"environment: {name}: {problem}"]
    Path(".env").write_text(f'{name}="{value}"' if "\n" not in value else f'{name}="x\\ny"')
    assert problems() == [f".env: {name}: {problem}"]


def test_wrong_overrides() -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(env={}, overrides={"serve.listen": "nowhere", "serve.lisen": ":1"})
    assert sorted(line.partition(", ")[0] for line in caught.value.problems) == [
        "command line: --listen: serve.listen: expected host:port",
        "command line: serve.lisen: unknown setting",
    ]


def test_all_that_is_wrong_is_said_at_once() -> None:
    Path(".env").write_text("SLURMSCOPE_METRICS_TOP=none\nwhat is this\n")
    found = problems(
        "[poll]\ninterval = 'often'\nslow_interval = 'rarely'\n[log]\ncolour = true\n",
        {"LOGLEVEL": "loud", "SLURMSCOPE_NOTHING_AT_ALL": ""},
    )
    assert sorted(line.partition(": expected")[0].partition(": unknown")[0] for line in found) == [
        ".env: SLURMSCOPE_METRICS_TOP: metrics.top",
        ".env: line 2",
        "environment: LOGLEVEL: log.level",
        "environment: SLURMSCOPE_NOTHING_AT_ALL",
        "given.toml: log.colour",
        "given.toml: poll.interval",
        "given.toml: poll.slow_interval",
    ]


def test_nesting_beyond_reason_is_no_toml() -> None:
    assert problems("x = " + "[" * 100_000)[0].startswith("given.toml: not TOML: ")


def test_syntax_errors_name_the_line() -> None:
    assert problems("[poll]\ninterval = \n")[0].startswith("given.toml: not TOML: ")
    assert "line 2" in problems("[poll]\ninterval = \n")[0]


def test_files_that_were_asked_for_must_exist() -> None:
    with pytest.raises(ConfigError, match=r"^none\.toml: no such file$"):
        config.load(Path("none.toml"), env={})
    with pytest.raises(ConfigError, match=r"^none\.toml: no such file$"):
        config.load(env={"SLURMSCOPE_CONFIG": "none.toml"})
    with pytest.raises(ConfigError, match=r"^none\.env: no such file$"):
        config.load(env={}, dotenv=Path("none.env"))


def test_files_that_cannot_be_read() -> None:
    Path("folder.toml").mkdir()
    Path(".env").write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError) as caught:
        config.load(Path("folder.toml"), env={})
    assert caught.value.problems == (
        ".env: expected text in UTF-8",
        "folder.toml: cannot be read: Is a directory",
    )


def test_other_programs_variables_are_left_alone() -> None:
    Path(".env").write_text("DATABASE_URL=postgres://x\nSLURMSCOPE_LAB_DIR=/lab\n")
    env = {"PATH": "/bin", "SLURM_CONF": "/x", "slurmscope_poll_interval": "x", "SLURMSCOPE_LAB": "1"}
    assert config.load(env=env).settings == Settings()


def test_what_the_wrapper_of_job_scripts_is_told_stops_no_other_command() -> None:
    Path(".env").write_text("SLURMSCOPE_TRACE_TOKEN_FILE=/home/alice/token\n")
    assert config.load(env={"SLURMSCOPE_TRACE_TOKEN": "secret"}).settings == Settings()
    found = problems(env={"SLURMSCOPE_TRACE_TOKENZ": "secret"})
    assert found == ["environment: SLURMSCOPE_TRACE_TOKENZ: unknown variable, did you mean SLURMSCOPE_TRACE_TOKENS?"]


def test_the_slow_interval_is_no_shorter_than_the_fast_one() -> None:
    assert problems("[poll]\ninterval = 30\nslow_interval = 20") == [
        "given.toml: poll.slow_interval: expected at least poll.interval, which is 30, found 20"
    ]
    assert from_toml("[poll]\ninterval = 120").settings.poll.interval == 120.0
    assert from_toml("[poll]\ninterval = 30\nslow_interval = 30").settings.poll.slow_interval == 30.0


def test_reading_by_rest_needs_an_address() -> None:
    assert problems("[slurm]\nsource = 'rest'") == [
        'given.toml: slurm.source: expected slurm.rest_url to be set too where it is "rest", found it empty'
    ]
    # what is wrong already is not missing too
    assert len(problems("[slurm]\nsource = 'rest'\nrest_url = 'x'")) == 1
    loaded = from_toml("[slurm]\nsource = 'rest'\nrest_url = 'http://head:6820'\nssh = 'login'")
    assert (loaded.settings.slurm.source, loaded.settings.slurm.ssh) == ("rest", "login")


def test_a_token_has_one_origin_and_later_ones_win() -> None:
    Path("token").touch()
    assert problems("[slurm]\nrest_token = 'secret'\nrest_token_file = 'token'\nrest_token_command = 'echo'") == [
        "given.toml: slurm.rest_token: expected to be the only one that gives a token, found slurm.rest_token_file "
        "and slurm.rest_token_command beside it: leave out all but one"
    ]
    (found,) = problems(env={"SLURMSCOPE_SLURM_REST_TOKEN_FILE": "token", "SLURMSCOPE_SLURM_REST_TOKEN_COMMAND": "x"})
    assert found.startswith("environment: SLURMSCOPE_SLURM_REST_TOKEN_FILE: slurm.rest_token_file: expected to be ")
    loaded = from_toml("[slurm]\nrest_token_file = 'token'", {"SLURMSCOPE_SLURM_REST_TOKEN": "secret"})
    assert (loaded.settings.slurm.rest_token, loaded.settings.slurm.rest_token_file) == ("secret", "")
    assert loaded.origins["slurm.rest_token_file"] == "environment: SLURMSCOPE_SLURM_REST_TOKEN"
    # a file that is not used need not be there
    assert from_toml("[slurm]\nrest_token_file = 'none'", {"SLURMSCOPE_SLURM_REST_TOKEN": "secret"})


# Secrets


@pytest.mark.parametrize(
    "written",
    [
        {"SLURMSCOPE_SERVE_USERS": "alice=hunter2"},
        {"SLURMSCOPE_SERVE_USERS": "alice:hunter2"},
        {"SLURMSCOPE_SERVE_USERS": "hunter2=alice"},
        {"SLURMSCOPE_SERVE_USERS": f"hunter2:x={HASH}"},
        {"SLURMSCOPE_SERVE_TOKENS": "hunter2"},
        {"SLURMSCOPE_SERVE_TOKEN": "hunter2"},
        {"SLURMSCOPE_SERVE_TLS_KEY": "-----BEGIN PRIVATE KEY-----\nhunter2\n"},
        {"SLURMSCOPE_SLURM_REST_TOKEN_FILE": f"{JWT}hunter2"},
    ],
)
def test_secrets_are_not_repeated(written: dict[str, str]) -> None:
    found = "\n".join(problems(env=written))
    assert "hunter2" not in found
    assert found.startswith(f"environment: {next(iter(written))}: ")


def test_secrets_in_a_file_are_not_repeated() -> None:
    Path(".env").write_text("export hunter2\nA='hunter2\n")
    found = problems('[serve]\nusers = { a = "hunter2" }\ntokens = ["hunter2", 3]\n')
    assert len(found) == 4
    assert "hunter2" not in "\n".join(found)


def test_rows_show_every_setting_with_secrets_masked() -> None:
    loaded = from_toml(
        f'[serve.users]\n"alice b" = "{HASH}"\n',
        {"SLURMSCOPE_SERVE_TOKENS": TOKEN, "SLURMSCOPE_SLURM_CONF": 'a"b', "SLURMSCOPE_SLURM_REST_TOKEN": JWT},
    )
    found = config.rows(loaded)
    assert [key for key, _, _ in found] == [setting.key for setting in config.describe() if setting.env]
    assert ("slurm.rest_token", '"********"', "environment: SLURMSCOPE_SLURM_REST_TOKEN") in found
    assert ("slurm.rest_token", '""', "default") in config.rows(config.load(env={}))
    assert JWT not in str(found)
    assert ("serve.users", '{"alice b" = "********"}', "given.toml") in found
    assert ("serve.tokens", '["********"]', "environment: SLURMSCOPE_SERVE_TOKENS") in found
    assert ("poll.interval", "10.0", "default") in found
    assert ("metrics.compat", "true", "default") in found
    assert HASH not in str(found)
    assert TOKEN not in str(found)
    for key, value, _ in found:
        assert "value" in tomllib.loads(f"value = {value}"), key


def test_rows_can_be_printed_whatever_the_environment_held() -> None:
    loaded = config.load(env={"SLURMSCOPE_SLURM_CONF": "/\udcff\x1b", "SLURMSCOPE_SLURM_CLUSTER": "Ålpha"})
    assert loaded.settings.slurm.conf == "/\udcff\x1b"
    found = {key: value for key, value, _ in config.rows(loaded)}
    assert found["slurm.conf"] == r'"/\udcff\u001b"'
    assert found["slurm.cluster"] == '"Ålpha"'


# Description


def test_every_setting_is_described() -> None:
    described = {setting.key: setting for setting in config.describe()}
    declared = msgspec.to_builtins(Settings())
    clusters = described.pop("clusters.NAME")
    assert (clusters.type, clusters.default, clusters.env) == ("a section", "{}", ())
    assert clusters.description.endswith(".")
    for name in ("rules", "allocations", "constants"):
        assert described.pop(name).env == ()
        del declared[name]
    assert list(described) == [f"{section}.{name}" for section, table in declared.items() for name in table]
    for key, setting in described.items():
        section, _, name = key.partition(".")
        assert tomllib.loads(f"value = {setting.default}")["value"] == declared[section][name]
        assert setting.description.endswith(".")
        assert setting.env[0] == f"SLURMSCOPE_{section}_{name}".upper()
    assert described["poll.interval"].env == ("SLURMSCOPE_POLL_INTERVAL", "POLL_LIMIT")
    assert described["poll.interval"].type == "a number of at least 1"
    assert described["log.level"].type == "one of debug, info, warn, error"
    assert described["log.level"].env[1] == "LOGLEVEL"
    assert described["slurm.timeout"].env[1] == "CLI_TIMEOUT"


@given(st.sampled_from([setting for s in config.describe() for setting in s.env]), st.text())
def test_any_text_in_a_variable_is_read_or_refused_by_name(name: str, value: str) -> None:
    try:
        config.load(env={name: value})
    except ConfigError as error:
        assert len(error.problems) == 1
        assert error.problems[0].startswith(f"environment: {name}: ")
        assert error.problems[0].isprintable()


@pytest.mark.parametrize("name", ["slurmscope.toml", ".env"])
def test_a_file_of_the_current_folder_that_others_may_write_is_not_read(name: str) -> None:
    Path(name).write_text(
        '[slurm]\nbin_dir = "/evil"\n' if name.endswith("toml") else "SLURMSCOPE_SLURM_BIN_DIR=/evil\n"
    )
    assert config.load(env={}).settings.slurm.bin_dir == "/evil"
    Path(name).chmod(0o646)
    loaded = config.load(env={})
    assert loaded.settings.slurm.bin_dir == ""
    assert loaded.ignored == (f"{name}: anybody may write to it",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read_unless_it_is_named() -> None:
    Path("slurmscope.toml").write_text('[slurm]\nbin_dir = "/evil"\n')
    os.chown("slurmscope.toml", 12345, 12345)
    loaded = config.load(env={})
    assert (loaded.settings.slurm.bin_dir, loaded.ignored) == ("", ("slurmscope.toml: belongs to another user",))
    assert config.load(Path("slurmscope.toml"), env={}).settings.slurm.bin_dir == "/evil"
