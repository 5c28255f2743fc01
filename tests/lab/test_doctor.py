# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The doctor at a real Slurm: slurmrestd, tokens that end, users without privileges, a slurmctld that is gone."""

from __future__ import annotations

import time
from pathlib import Path

from doctor.patients import examined, leaving_nothing, of, one, told
from lab.cluster import Lab

from slurmscope.doctor.finding import Check, Finding, Status

_REST = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.45"}


def addresses(lab: Lab) -> tuple[str, str]:
    """Where slurmrestd takes everybody, and where it wants a token."""
    socket, address = lab.script("rest").stdout.decode().split()
    return socket, address


def made(lab: Lab, seconds: int) -> str:
    """A token of the cluster's own."""
    return lab.run("scontrol", "token", f"lifespan={seconds}").stdout.decode().strip()


def with_token(lab: Lab, token: str) -> list[Finding]:
    return examined(one(bin_dir=str(lab.bin), rest_url=addresses(lab)[1], rest_token=token))


def test_a_cluster_that_is_well(lab: Lab) -> None:
    findings = examined(one(bin_dir=str(lab.bin), rest_url=addresses(lab)[0]))
    about = [finding for finding in findings if finding.subject == lab.cluster]
    assert {finding.check for finding in about if finding.status is Status.WARNING} == {Check.JOB_ACCOUNTING}
    assert not any(finding.status is Status.FAILED for finding in about)
    assert of(about, Check.TEXT).message.startswith("all 12 parts")
    assert of(about, Check.CLOCK).status is of(about, Check.VERSIONS).status is Status.OK
    assert of(about, Check.PRIVATE_DATA).status is of(about, Check.SLURMDBD).status is Status.OK
    assert told(about, Check.REST)[0].startswith(f"ok: slurmrestd speaks {_REST[lab.generation]} ")
    assert told(about, Check.TOKEN) == ["ok: none is set, and slurmrestd asks for none"]
    assert f"sinfo of Slurm {lab.generation}." in of(about, Check.COMMANDS).message


def test_a_token_that_ends_soon(lab: Lab) -> None:
    token = made(lab, 600)
    findings = with_token(lab, token)
    found = of(findings, Check.TOKEN)
    assert found.status is Status.WARNING
    assert found.message.startswith("for root, expires in ") and found.message.endswith(", and nothing renews it")
    assert "slurm.rest_token_command" in found.next_step
    assert told(findings, Check.REST)[0].startswith("ok: slurmrestd speaks ")
    secret = token.partition("=")[2]
    assert secret and not any(secret in finding.message + finding.next_step for finding in findings)


def test_a_token_that_holds(lab: Lab) -> None:
    found = of(with_token(lab, made(lab, 3 * 86400)), Check.TOKEN)
    assert (found.status, found.message) == (Status.OK, "for root, expires in 2 days")


def test_a_token_that_has_ended(lab: Lab) -> None:
    token = made(lab, 1)
    time.sleep(2)
    findings = with_token(lab, token)
    found = of(findings, Check.TOKEN)
    assert found.status is Status.FAILED and found.message.startswith("for root, expired ")
    assert of(findings, Check.REST).status is Status.SKIPPED
    assert of(findings, Check.TEXT).status is Status.OK


def test_no_token(lab: Lab) -> None:
    made(lab, 1)
    findings = with_token(lab, "")
    bad = [finding for finding in findings if finding.status is Status.FAILED]
    # 22.05 tells everybody what it speaks, and refuses only the questions
    assert {finding.check for finding in bad} <= {Check.TOKEN, Check.REST} and bad
    assert of(findings, Check.TEXT).status is Status.OK


def test_a_user_without_privileges(lab: Lab, tmp_path: Path) -> None:
    lab.script("bin", str(tmp_path / "bin"), "alice")
    findings = examined(one(bin_dir=str(tmp_path / "bin")))
    found = of(findings, Check.SLURMDBD)
    assert found.status is Status.SKIPPED and "to administrators alone" in found.message
    assert of(findings, Check.TEXT).message.startswith("11 of 12 parts")
    assert of(findings, Check.PRIVATE_DATA).status is Status.OK


def test_slurmctld_is_gone(lab: Lab) -> None:
    lab.ctld("kill")
    try:
        findings = examined(one(bin_dir=str(lab.bin)))
    finally:
        lab.ctld("start")
    down = of(findings, Check.SLURMCTLD)
    assert down.status is Status.FAILED and "does not answer" in down.message
    assert "systemctl status slurmctld" in down.next_step


def test_slurmctld_hangs(lab: Lab) -> None:
    lab.ctld("stop")
    try:
        with leaving_nothing():
            findings = examined(one(bin_dir=str(lab.bin), timeout=2))
    finally:
        lab.ctld("cont")
    assert of(findings, Check.SLURMCTLD).status is Status.FAILED
