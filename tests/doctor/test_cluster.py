# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster is looked at through its commands, and what is wrong with it is told with a cure."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from doctor.patients import (
    PROGRAMS,
    changed,
    examined,
    healthy,
    leaving_nothing,
    of,
    one,
    program,
    several,
    token,
    told,
)
from recorded import GENERATIONS, RECORDINGS

from slurmscope.doctor import cures
from slurmscope.doctor.examination import examine
from slurmscope.doctor.finding import Check, Finding, Status, exit_status
from slurmscope.settings import Slurm
from slurmscope.slurm.source import own_user

_REFUSAL = (
    'case "$*" in *stats*) echo "sacctmgr: accounting_storage/slurmdbd: acct_storage_p_get_stats: RC:2002 '
    "Your user doesn't have privilege to perform this action\" >&2; exit 1;; *account*) echo 'bio|carol';; esac"
)
_NO_CONTACT = 'echo "$0: error: Unable to contact slurm controller (connect failure)" >&2; exit 1'


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "SLURM_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_cluster_that_is_well(generation: str, tmp_path: Path) -> None:
    findings = examined(one(bin_dir=str(healthy(tmp_path / "bin", generation))))
    about = [finding for finding in findings if finding.subject == f"lab{generation[:2]}"]
    bad = {finding.check for finding in about if finding.status in (Status.WARNING, Status.FAILED)}
    # a recording's clock stands still, and the lab counts jobs by /proc
    assert bad == {Check.CLOCK, Check.JOB_ACCOUNTING}
    assert exit_status(findings) == 1
    assert (
        f"squeue, scontrol, sdiag, sshare, sacctmgr, sacct, sinfo of Slurm {generation}"
        in of(about, Check.COMMANDS).message
    )
    assert of(about, Check.TEXT).message.startswith("all 12 parts")
    assert of(about, Check.SLURMCTLD).status is of(about, Check.SLURMDBD).status is Status.OK
    assert of(about, Check.VERSIONS).status is of(about, Check.PRIVATE_DATA).status is Status.OK
    assert (
        of(about, Check.PYSLURM).status
        is of(about, Check.REST).status
        is of(about, Check.JSON).status
        is Status.SKIPPED
    )
    assert "JobAcctGatherType=jobacct_gather/cgroup" in of(about, Check.JOB_ACCOUNTING).next_step


def test_no_slurm_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cures, "PLACES", ())
    findings = examined(one())
    missing = of(findings, Check.COMMANDS)
    assert missing.status is Status.FAILED
    assert missing.message.startswith("squeue, scontrol, sdiag, sshare, sacctmgr, sacct, sinfo not found in PATH")
    assert "slurm.bin_dir" in missing.next_step and "slurm.ssh" in missing.next_step
    assert exit_status(findings) == 2
    # what follows from it is not told as if it were more
    assert [finding.check for finding in findings if finding.status is Status.FAILED] == [Check.COMMANDS]


def test_slurm_in_a_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy(tmp_path / "slurm-24.11")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cures, "PLACES", (f"{tmp_path}/slurm*",))
    assert of(examined(one()), Check.COMMANDS).next_step == f'set slurm.bin_dir = "{tmp_path}/slurm-24.11"'


def test_a_program_that_is_missing_costs_its_part(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    (folder / "sshare").unlink()
    findings = examined(one(bin_dir=str(folder)))
    assert told(findings, Check.COMMANDS) == [f"warning: sshare not found in {folder}, or not executable"]
    assert any(words.startswith("failed: not told: shares: sshare not found") for words in told(findings, Check.TEXT))


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    (folder / "squeue").write_bytes(b"\x7fELF of another machine")
    findings = examined(one(bin_dir=str(folder)))
    assert any("jobs" in words and words.startswith("failed") for words in told(findings, Check.TEXT))


def test_a_ping_that_hangs(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    (folder / "scontrol").rename(folder / "scontrol-real")
    (folder / "scontrol").write_text(f'#!/bin/sh\n[ "$*" = ping ] && sleep 600\nexec {folder}/scontrol-real "$@"\n')
    (folder / "scontrol").chmod(0o755)
    with leaving_nothing():
        findings = examined(one(bin_dir=str(folder), timeout=5))
    assert told(findings, Check.SLURMCTLD) == [
        "warning: the ping took too long, but all else is answered: is a controller's host gone?"
    ]


def test_everything_hangs(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    for name in PROGRAMS:
        program(folder, name, "sleep 600")
    with leaving_nothing():
        findings = examined(one(bin_dir=str(folder), timeout=0.5))
    hung = of(findings, Check.SLURMCTLD)
    assert (hung.status, hung.message) == (
        Status.FAILED,
        "squeue was killed after 0.5 s (slurm.timeout); is slurmctld slow?",
    )
    assert "set slurm.timeout = 1.5" in hung.next_step


def test_slurmctld_is_down(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    for name in PROGRAMS:
        program(folder, name, _NO_CONTACT)
    program(
        folder, "scontrol", f'[ "$*" = ping ] && echo "Slurmctld(primary) at ctl1 is DOWN" && exit 1\n{_NO_CONTACT}'
    )
    findings = examined(one(bin_dir=str(folder)))
    down = of(findings, Check.SLURMCTLD)
    assert (down.status, down.message) == (Status.FAILED, "primary ctl1 does not answer")
    assert "systemctl status slurmctld` on ctl1" in down.next_step
    assert of(findings, Check.TEXT).status is Status.SKIPPED


def test_the_backup_is_down(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    changed(folder, "scontrol", old="^Slurmctld(primary).*", new="Slurmctld(primary/backup) at a/b are UP/DOWN")
    half = of(examined(one(bin_dir=str(folder))), Check.SLURMCTLD)
    assert (half.status, half.message) == (Status.WARNING, "backup b does not answer; primary a does")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("fatal: Could not establish a configuration source", "set slurm.conf ="),
        ("error: Protocol authentication error", "munge -n | unmunge"),
        ("error: Incompatible versions of client and server code", "set slurm.bin_dir"),
        ("something that nobody has heard of", "by hand must succeed"),
    ],
)
def test_what_slurm_says_has_a_cure(words: str, cure: str, tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    for name in PROGRAMS:
        program(folder, name, f'echo "$0: {words}" >&2; exit 1')
    wrong = of(examined(one(bin_dir=str(folder))), Check.SLURMCTLD)
    assert wrong.status is Status.FAILED and words in wrong.message
    assert cure in wrong.next_step


def test_a_slurm_conf_that_is_not_there(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    for name in PROGRAMS:
        program(folder, name, "sleep 600")
    findings = examined(one(bin_dir=str(folder), conf=f"{tmp_path}/none", timeout=0.5))
    assert told(findings, Check.SLURM_CONF) == [f"failed: {tmp_path}/none cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    "garbage", ["echo Welcome", "head -c 100000 /dev/urandom", "true", "printf '\\033[2Jx=\\n\\n'"]
)
def test_garbage_for_an_answer(garbage: str, tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    for name in PROGRAMS:
        program(folder, name, garbage)
    findings = examined(one(bin_dir=str(folder)))
    assert exit_status(findings) == 2
    assert all(finding.message.isprintable() and finding.next_step.isprintable() for finding in findings)
    assert any(words.startswith("failed: not told: ") for words in told(findings, Check.TEXT))


def test_rows_that_cannot_be_read(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    changed(folder, "scontrol", old=r"\(NodeName=n1 .*CPUTot=\)", new=r"\1many")
    findings = examined(one(bin_dir=str(folder)))
    assert any(words.startswith("warning: 1 row of nodes could not be read: ") for words in told(findings, Check.TEXT))


def test_commands_of_another_slurm(tmp_path: Path) -> None:
    odd = of(examined(one(bin_dir=str(healthy(tmp_path / "bin", "24.11", version="22.05.8")))), Check.VERSIONS)
    assert odd.status is Status.WARNING
    assert odd.message.startswith("slurmctld is 24.11.5, but squeue 22.05.8")
    assert "slurm.bin_dir" in odd.next_step


def test_job_accounting_by_cgroups(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    changed(folder, "scontrol", old="jobacct_gather/linux", new="jobacct_gather/cgroup")
    half = of(examined(one(bin_dir=str(folder))), Check.JOB_ACCOUNTING)
    assert "set ProctrackType=proctrack/cgroup in slurm.conf" in half.next_step
    (folder / "scontrol-real").rename(folder / "scontrol")
    changed(folder, "scontrol", old=r"\(proctrack\|jobacct_gather\)/linux[a-z]*", new=r"\1/cgroup")
    assert of(examined(one(bin_dir=str(folder))), Check.JOB_ACCOUNTING).status is Status.OK


def test_a_clock_that_agrees(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    program(
        folder, "sdiag", f'sed "s/^sdiag output at .*/sdiag output at now ($(date +%s))/" {RECORDINGS}/24.11/sdiag.txt'
    )
    assert of(examined(one(bin_dir=str(folder))), Check.CLOCK).status is Status.OK
    program(
        folder,
        "sdiag",
        f'sed "s/^sdiag output at .*/sdiag output at now ($(($(date +%s) + 90)))/" {RECORDINGS}/24.11/sdiag.txt',
    )
    ahead = of(examined(one(bin_dir=str(folder))), Check.CLOCK)
    assert ahead.status is Status.WARNING and ahead.message.endswith(" s ahead of ours")


# What we may see


def _private(folder: Path, level: str | None, *, admin: bool = False) -> Finding:
    changed(folder, "scontrol", old="^PrivateData .*", new="PrivateData = jobs,users")
    users = f"UserName={own_user()}(1234) DefAccount=x DefWckey= AdminLevel={level}" if level else ""
    body = (folder / "scontrol").read_text()
    mark = "User Records"
    body = body.replace(
        "#!/bin/sh\n", "#!/bin/sh\n" + f'echo "$*" | grep -q assoc_mgr && printf "{mark}\\n{users}\\n" && exit\n'
    )
    (folder / "scontrol").write_text(body)
    program(folder, "squeue", "true")
    if not admin:
        program(folder, "sacctmgr", _REFUSAL)
    return of(examined(one(bin_dir=str(folder))), Check.PRIVATE_DATA)


def test_private_data_and_no_operator(tmp_path: Path) -> None:
    found = _private(healthy(tmp_path / "bin"), "None")
    assert found.status is Status.FAILED
    assert found.message.startswith(f"PrivateData=jobs,users, and {own_user()} is no operator")
    assert found.next_step == f"`sacctmgr -i modify user where name={own_user()} set adminlevel=operator`"


def test_private_data_and_not_in_the_accounting(tmp_path: Path) -> None:
    found = _private(healthy(tmp_path / "bin"), None)
    assert (found.status, found.next_step) == (
        Status.FAILED,
        f"`sacctmgr -i add user {own_user()} account=root adminlevel=operator`",
    )


def test_private_data_and_an_operator(tmp_path: Path) -> None:
    assert _private(healthy(tmp_path / "bin"), "Operator").status is Status.OK


def test_private_data_and_an_administrator(tmp_path: Path) -> None:
    assert _private(healthy(tmp_path / "bin"), "Administrator", admin=True).status is Status.OK


def test_private_data_and_commands_that_run_as_somebody_else(tmp_path: Path) -> None:
    assert _private(healthy(tmp_path / "bin"), "Administrator").status is Status.WARNING


def test_statistics_for_administrators_alone(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    program(folder, "sacctmgr", _REFUSAL)
    findings = examined(one(bin_dir=str(folder)))
    found = of(findings, Check.SLURMDBD)
    assert found.status is Status.SKIPPED and "adminlevel=admin" in found.next_step
    assert of(findings, Check.TEXT).message.startswith("11 of 12 parts")


def test_a_slurmdbd_that_hides_accounts(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    body = (folder / "sacctmgr").read_text()
    hides = 'case "$*" in *withcoord*) echo "Access/permission denied" >&2; exit 1;; esac'
    (folder / "sacctmgr").write_text(body.replace("#!/bin/sh\n", f"#!/bin/sh\n{hides}\n", 1))
    findings = examined(one(bin_dir=str(folder)))
    well, hidden = (finding for finding in findings if finding.check is Check.SLURMDBD)
    assert well.status is Status.OK
    assert hidden.status is Status.WARNING and "who coordinates accounts" in hidden.message
    assert "adminlevel=operator" in hidden.next_step
    assert [words.split(":")[0] for words in told(findings, Check.TEXT)] == ["ok"]


def test_slurmdbd_does_not_answer(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    program(folder, "sacctmgr", 'echo "sacctmgr: error: Sending PersistInit msg: Connection refused" >&2; exit 1')
    found = of(examined(one(bin_dir=str(folder))), Check.SLURMDBD)
    assert found.status is Status.FAILED and "Connection refused" in found.message
    assert found.next_step == "`systemctl status slurmdbd` on localhost"


def test_a_cluster_without_slurmdbd(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    changed(folder, "scontrol", old="accounting_storage/slurmdbd", new="(null)")
    for name in ("sacctmgr", "sshare"):
        program(folder, name, 'echo "You are not running a supported accounting_storage plugin" >&2; exit 1')
    findings = examined(one(bin_dir=str(folder)))
    assert of(findings, Check.SLURMDBD).status is Status.SKIPPED
    assert [words.split(":")[0] for words in told(findings, Check.TEXT)] == ["ok"]


# Tokens and slurmrestd


def test_a_way_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "bin")
    findings = examined(one(bin_dir=str(folder), source="pyslurm", python=str(tmp_path / "python-without")))
    assert any(words.startswith("failed") for words in told(findings, Check.PYSLURM))


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({"sun": "alice", "exp": 1000}, Status.FAILED, "for alice, expired "),
        (
            {"sun": "alice", "exp": time.time() + 10700},
            Status.WARNING,
            "for alice, expires in 2 hours, and nothing renews it",
        ),
        ({"sun": "alice", "exp": time.time() + 864000}, Status.OK, "for alice, expires in 9 days"),
        ({"sun": "alice"}, Status.OK, "for alice, without an end"),
        ({}, Status.WARNING, "what is set does not look like a token of Slurm's"),
    ],
)
def test_a_token(said: dict[str, object], status: Status, words: str, tmp_path: Path) -> None:
    secret = token(**said)
    findings = examined(one(bin_dir=str(tmp_path), rest_url="http://127.0.0.1:9", rest_token=secret))
    found = of(findings, Check.TOKEN)
    assert found.status is status and found.message.startswith(words)
    assert bool(found.next_step) == (status is not Status.OK)
    rest = of(findings, Check.REST)
    if status is Status.FAILED:
        assert rest.status is Status.SKIPPED
    else:
        assert rest.status is Status.FAILED and "cannot be reached" in rest.message


def test_a_token_that_is_renewed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(sun="bob", exp=time.time() + 7300))
    settings = {"bin_dir": str(tmp_path), "rest_url": "http://127.0.0.1:9"}
    found = of(examined(one(**settings, rest_token_file=str(file))), Check.TOKEN)
    assert (found.status, found.message) == (Status.OK, "for bob, expires in 2 hours, read anew when its file changes")
    found = of(examined(one(**settings, rest_token_command=f"cat {file}")), Check.TOKEN)
    assert found.message.endswith("asked for anew in time")


def test_no_finding_has_a_secret_in_it(tmp_path: Path) -> None:
    secret = token(sun="alice", exp=time.time() + 60)
    folder = healthy(tmp_path / "bin")
    program(folder, "squeue", f"echo 'what is {secret}?' >&2; exit 1")
    findings = examined(one(bin_dir=str(folder), rest_url="http://127.0.0.1:9", rest_token=secret))
    assert any("what is ********?" in finding.message for finding in findings)
    assert not any(secret in finding.message + finding.next_step for finding in findings)


# Several


def test_two_that_are_one(tmp_path: Path) -> None:
    first, second = healthy(tmp_path / "a", "24.11"), healthy(tmp_path / "b", "24.11")
    third = healthy(tmp_path / "c", "26.05")
    found = of(examined(several(one=first, two=second, three=third)), Check.SAME_CLUSTER)
    assert found.status is Status.WARNING
    assert found.message.startswith("one and two both answer as ClusterName=lab24")
    assert told(examined(several(one=first, three=third)), Check.SAME_CLUSTER) == []


def test_a_cluster_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    slow, quick, over = healthy(tmp_path / "a"), healthy(tmp_path / "b"), tmp_path / "over"
    for name in PROGRAMS:
        program(slow, name, f"while [ ! -e {over} ]; do sleep 0.1; done")
    order: list[str] = []

    def made(finding: Finding) -> None:
        order.append(finding.subject)
        if finding.subject == "quick":
            over.touch()

    config = several(slow=Slurm(cluster="slow", bin_dir=str(slow), timeout=60), quick=quick)
    findings = asyncio.run(examine(config, made))
    assert len(order) == len(findings)
    assert order.index("quick") < order.index("slow")


def test_settings_are_called_as_the_cluster_has_them(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "a")
    for name in PROGRAMS:
        program(folder, name, "sleep 600")
    findings = examined(several(slow=Slurm(cluster="slow", bin_dir=str(folder), timeout=0.5), other=tmp_path))
    assert any("set clusters.slow.timeout = 1.5" in finding.next_step for finding in findings)
