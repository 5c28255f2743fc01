# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""This machine is looked at, whatever it lacks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from doctor.patients import examined, of, one, told

from slurmscope import __version__
from slurmscope.config import Config
from slurmscope.doctor import host
from slurmscope.doctor.finding import HOST, Check, Status


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Settings for a machine without a Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return one()


def test_what_is_here(nowhere: Config) -> None:
    findings = [finding for finding in examined(nowhere) if finding.subject == HOST]
    assert f"slurmscope {__version__}" in of(findings, Check.SLURMSCOPE).message
    assert of(findings, Check.DISK).status is of(findings, Check.MEMORY).status is Status.OK
    assert of(findings, Check.TLS).status is of(findings, Check.PROMETHEUS).status is Status.SKIPPED


def test_settings_and_files_that_were_not_read(nowhere: Config) -> None:
    origins = {
        "slurm.timeout": "/etc/my: own/slurmscope.toml",
        "poll.interval": "environment: POLL_LIMIT",
        "log.level": ".env: LOGLEVEL",
        "log.format": "default",
    }
    ignored = ("slurmscope.toml: belongs to another user", ".env: anybody may write to it")
    findings = examined(Config(nowhere.settings, origins, ignored))
    assert told(findings, Check.SETTINGS) == [
        "ok: from /etc/my: own/slurmscope.toml, environment, .env; the rest are defaults",
        "warning: slurmscope.toml was not read: belongs to another user",
        "warning: .env was not read: anybody may write to it",
    ]
    assert [one.next_step for one in findings if one.check is Check.SETTINGS][2].startswith("chmod o-w .env")
    assert told(examined(nowhere), Check.SETTINGS)[0].startswith("ok: all are defaults")


def test_nowhere_to_write(nowhere: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    found = of(examined(nowhere), Check.DISK)
    assert found.status is Status.FAILED and "TMPDIR" in found.next_step


def test_little_memory(nowhere: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "meminfo"
    monkeypatch.setattr(host, "MEMORY", file)
    assert of(examined(nowhere), Check.MEMORY).status is Status.SKIPPED
    file.write_text("MemTotal:        1000000 kB\nMemAvailable:    102400 kB\n")
    found = of(examined(nowhere), Check.MEMORY)
    assert (found.status, found.message) == (Status.WARNING, "100 MiB available")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("cgroup.controllers", "ok: version 2"),
        ("unified/cgroup.controllers", "ok: hybrid"),
        ("memory/tasks", "ok: version 1"),
        ("nothing", "skipped: no cgroups are mounted"),
    ],
)
def test_cgroups(there: str, words: str, nowhere: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cgroup" / there
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    assert told(examined(nowhere), Check.CGROUP)[0].startswith(words)


def test_a_fault_of_ours_is_a_finding(nowhere: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MEMORY", None)
    findings = examined(nowhere)
    assert any("a fault of slurmscope's own: AttributeError" in finding.message for finding in findings)
    assert of(findings, Check.COMMANDS).status is Status.FAILED


def test_findings_are_json(nowhere: Config) -> None:
    rows = msgspec.json.decode(msgspec.json.encode(examined(nowhere)))
    assert {tuple(row) for row in rows} == {("subject", "check", "status", "message", "next_step")}
