# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with ssh is said with its cure, and docs/ssh.md is right."""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import written
from pythons import python
from recorded import GENERATIONS, commands
from sshd import HOST, PING, Sshd, asked, masters, picture, refusal, script, to

from slurmscope.slurm import probe
from slurmscope.slurm.commands import BY_PART
from slurmscope.slurm.local import Local
from slurmscope.slurm.ssh import Ssh
from slurmscope.slurm.transport import Failed

PAGE = Path(__file__).parent.parent.parent / "docs" / "ssh.md"


def test_a_host_that_nobody_knows(sshd: Sshd) -> None:
    sshd.write_config(HostName="nowhere.invalid")
    assert refusal(to(sshd)).startswith("Unreachable: ssh cluster: no such host: slurm.ssh must name one")


def test_a_host_that_refuses(sshd: Sshd) -> None:
    sshd.stop()
    assert "Unreachable: ssh cluster: no sshd listens there" in refusal(to(sshd))


def test_a_host_that_says_nothing(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setattr("slurmscope.slurm.ssh._ALLOWANCE", 0.0)
    sshd.write_config(ProxyCommand="sleep 600")
    assert "Unreachable: ssh cluster: the host did not let us in within 0.3 s" in refusal(to(sshd, timeout=0.3))
    assert not list(temporary.iterdir()) and not masters()


def test_a_host_whose_key_is_not_known(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    assert "Unreachable: ssh cluster: the host's key is not known: connect once by hand" in refusal(to(sshd))


def test_a_host_whose_key_has_changed(sshd: Sshd) -> None:
    sshd.know("stranger")
    assert "Unreachable: ssh cluster: the host has another key than known_hosts says" in refusal(to(sshd))


def test_a_key_that_is_refused(sshd: Sshd) -> None:
    sshd.write_config(key="stranger")
    said = refusal(to(sshd))
    assert "Unreachable: ssh cluster: the key was refused" in said and "(publickey)" in said


def test_a_configuration_of_ssh_that_is_not_there(sshd: Sshd) -> None:
    sshd.config.unlink()
    assert "Unreachable: ssh cluster: slurm.ssh_config names a file that cannot be read" in refusal(to(sshd))


def test_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(Ssh("host")) == "NotFound: ssh is not here: install the OpenSSH client (slurm.ssh is set)"
    assert not list(temporary.iterdir())


def test_a_server_that_allows_few_sessions(sshd: Sshd, tmp_path: Path) -> None:
    sshd.stop()
    sshd.start("MaxSessions 1")
    folder = script(tmp_path / "slurm", "scontrol", f"echo $$ > {tmp_path}/pid; until [ -e {tmp_path}/go ]; do :; done")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder))
        first = asyncio.create_task(ssh.run(PING))
        await written(tmp_path / "pid")
        with pytest.raises(Failed, match=r"sshd allows fewer than 8 sessions at a time: raise MaxSessions there"):
            await ssh.run(PING)
        (tmp_path / "go").touch()
        await first  # which is not harmed
        await ssh.close()

    asyncio.run(look())


def test_no_python_there(sshd: Sshd) -> None:
    (sshd.bin / "python3").unlink()
    sshd.stop()
    sshd.start(path=str(sshd.bin))
    assert "NotFound: ssh cluster: python3 cannot be run there: name one by slurm.python" in refusal(to(sshd))
    assert "NotFound: ssh cluster: /no/python cannot be run there" in refusal(to(sshd, python="/no/python"))


def test_a_python_that_is_too_old(sshd: Sshd) -> None:
    said = refusal(to(sshd, python=python("2.7")))
    assert re.match(r"Failed: ssh cluster: .*python2.7 there is too old for the probe, which needs Python 3.6", said)


def test_a_python_that_is_too_old_played_by_a_script(sshd: Sshd, tmp_path: Path) -> None:
    script(tmp_path, "python", "cat > /dev/null; echo 'SyntaxError: invalid syntax' >&2; exit 1")
    assert "there is too old for the probe" in refusal(to(sshd, python=str(tmp_path / "python")))


def test_a_probe_that_is_not_there(sshd: Sshd) -> None:
    said = refusal(to(sshd, probe="/no/probe.py"))
    assert said.startswith("NotFound: ssh cluster: there is no /no/probe.py (slurm.ssh_probe): copy probe.py there")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"--parts"', '"--topics"'),  # it does not know an option
        ("JobArrayID", "ArrayJobID"),  # it asks for other fields
        ("VERSION = 1", "VERSION = 99"),  # its document is newer
    ],
)
def test_a_probe_of_another_slurmscope(before: str, after: str, sshd: Sshd, tmp_path: Path) -> None:
    source = Path(probe.__file__).read_text()
    assert before in source
    (tmp_path / "probe.py").write_text(source.replace(before, after))
    folder = script(tmp_path / "slurm", "squeue", "echo")
    said = refusal(to(sshd, probe=str(tmp_path / "probe.py"), bin_dir=str(folder)), BY_PART["jobs"])
    assert re.match(r"(Failed|NoDocument): ssh cluster: .*(is of another slurmscope|it is of version 99)", said)


def test_an_account_that_may_not_log_in(sshd: Sshd) -> None:
    sshd.stop()
    sshd.start("ForceCommand echo This account is currently not available.; false")
    said = refusal(to(sshd))
    assert said.startswith("NoDocument: ssh cluster: the probe exited with 1, no document of probe.py")
    assert said.endswith("This account is currently not available.")


def test_the_gate_of_the_page_lets_the_probe_through_and_nothing_else(sshd: Sshd, tmp_path: Path) -> None:
    (source,) = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", PAGE.read_text(), re.DOTALL)
    installed = shutil.copy(probe.__file__, tmp_path / "probe.py")
    gate = tmp_path / "gate"
    gate.write_text(source.replace("/opt/slurmscope/probe.py", str(installed)))
    gate.chmod(0o755)
    sshd.allow(f'restrict,command="{gate}" {(sshd.folder / "key.pub").read_text()}')
    folder = commands(GENERATIONS[-1], tmp_path / "slurm")
    assert picture(to(sshd, probe=str(installed), bin_dir=str(folder))) == picture(Local(str(folder)))

    def by_hand(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["ssh", "-F", str(sshd.config), "-o", "BatchMode=yes", HOST, *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    allowed = shlex.join(["python3", str(installed), "--ways=text", "--parts=controllers"])
    assert "slurmscope bundle" in by_hand(allowed).stdout
    for words in ("id", "", f"{allowed}; id", f"{allowed} $(id)", f"{allowed}\nid", f"python3 -c pass {installed}"):
        refused = by_hand(words)
        assert (refused.returncode, refused.stdout) == (1, ""), words
        assert "slurmscope's probe and nothing else" in refused.stderr


def test_a_key_that_is_restricted_does_for_a_probe_that_is_sent(sshd: Sshd, tmp_path: Path) -> None:
    sshd.allow(f"restrict {(sshd.folder / 'key.pub').read_text()}")
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")
    assert asked(to(sshd, bin_dir=str(folder)))[0].data == b"pong\n"
