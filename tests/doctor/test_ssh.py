# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster behind a real sshd."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor.patients import examined, healthy, leaving_nothing, of, one
from sshd import HOST, Sshd

from slurmscope.doctor.finding import Check, Status


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    folder = tmp_path / "sshd"
    folder.mkdir()
    server = Sshd(folder)
    server.start()
    yield server
    server.stop()


def test_a_login_node_that_lets_us_in(sshd: Sshd, tmp_path: Path) -> None:
    with leaving_nothing():
        findings = examined(one(ssh=HOST, ssh_config=str(sshd.config), bin_dir=str(healthy(tmp_path / "bin"))))
        assert sshd.idle()
    found = of(findings, Check.SSH)
    assert found.status is Status.OK
    assert f"{HOST} lets us in and runs the probe, Python {platform.python_version()}" in found.message
    assert of(findings, Check.TEXT).message.startswith("all 12 parts")
    assert of(findings, Check.COMMANDS).status is of(findings, Check.VERSIONS).status is Status.OK


def test_a_login_node_that_refuses_our_key(sshd: Sshd, tmp_path: Path) -> None:
    sshd.write_config(key="stranger")
    findings = examined(one(ssh=HOST, ssh_config=str(sshd.config), bin_dir=str(healthy(tmp_path / "bin"))))
    found = of(findings, Check.SSH)
    assert found.status is Status.FAILED and "the key was refused" in found.message
    assert f"`ssh -F {sshd.config} {HOST} python3 --version`" in found.next_step
    assert [finding.check for finding in findings if finding.status is Status.FAILED] == [Check.SSH]


def test_no_slurm_on_the_login_node(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    findings = examined(one(ssh=HOST, ssh_config=str(sshd.config), bin_dir=str(tmp_path / "empty")))
    assert of(findings, Check.SSH).status is Status.OK
    found = of(findings, Check.COMMANDS)
    assert found.status is Status.FAILED and f"`ssh -F {sshd.config} {HOST}" in found.next_step
