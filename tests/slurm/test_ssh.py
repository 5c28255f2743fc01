# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster is read through ssh as it is read at home, and nothing is left behind on either side."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from processes import gone, written
from pythons import python
from recorded import GENERATIONS, commands
from sshd import PING, Sshd, asked, masters, picture, refusal, script, to

from slurmscope.slurm import bundle, probe
from slurmscope.slurm.bundle import Recorded
from slurmscope.slurm.commands import BY_PART, BY_WAY
from slurmscope.slurm.local import Local
from slurmscope.slurm.transport import Failed, NotFound, TimedOut, Unanswered, Unreachable


def connections(sshd: Sshd) -> int:
    return (sshd.folder / "sshd.log").read_text().count("Connection from 127.0.0.1")


# --- the same picture, whatever the way ---


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_same_snapshot_at_home_and_through_ssh_and_from_a_file(generation: str, sshd: Sshd, tmp_path: Path) -> None:
    folder = commands(generation, tmp_path / "slurm")
    at_home = picture(Local(str(folder)))
    assert set(at_home) == set(BY_PART) and at_home["jobs"] and at_home["nodes"]
    assert picture(to(sshd, bin_dir=str(folder))) == at_home
    installed = shutil.copy(probe.__file__, tmp_path / "probe.py")
    assert picture(to(sshd, bin_dir=str(folder), probe=str(installed))) == at_home

    done = subprocess.run([sys.executable, installed, "--bin-dir", folder], capture_output=True, check=True)
    welcome, farewell = b"Welcome!\n{not the document}\n", b"logout {}\nGoodbye\n"
    for name, content in {
        "plain.json": done.stdout,
        "packed.json.gz": gzip.compress(done.stdout),
        "words.json": welcome + done.stdout + farewell,
        "words.json.gz": gzip.compress(welcome + done.stdout + farewell),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert picture(Recorded(bundle.load(tmp_path / name))) == at_home, name


@pytest.mark.parametrize("version", ["3.6", "3.13"])
def test_the_same_snapshot_by_an_older_and_a_newer_python_there(version: str, sshd: Sshd, tmp_path: Path) -> None:
    folder = commands("24.11", tmp_path / "slurm")
    at_home = picture(Local(str(folder)))
    assert picture(to(sshd, bin_dir=str(folder), python=python(version))) == at_home
    saved = tmp_path / "saved.json"
    with saved.open("wb") as file:
        subprocess.run([python(version), probe.__file__, "--bin-dir", folder], stdout=file, check=True)
    assert picture(Recorded(bundle.load(saved))) == at_home


def test_words_of_welcome_do_no_harm(sshd: Sshd, tmp_path: Path) -> None:
    """As an echo in .bashrc, or a message of the day, prints them."""
    sshd.stop()
    around = script(
        sshd.folder,
        "around",
        'echo "Welcome! {"; echo beware >&2; sh -c "$SSH_ORIGINAL_COMMAND"; status=$?; echo "}"; echo bye >&2; '
        "printf bye; exit $status",
    )
    (sshd.folder / "banner").write_text("Authorized use only\n")
    sshd.start(f"ForceCommand {around}/around", f"Banner {sshd.folder}/banner")
    folder = script(tmp_path / "slurm", "scontrol", "echo pong; echo hm >&2")
    (output,) = asked(to(sshd, bin_dir=str(folder)))
    assert (output.data, output.warnings, output.argv) == (b"pong\n", "hm", ("scontrol", "ping"))


def test_the_settings_go_along(sshd: Sshd, tmp_path: Path) -> None:
    folder = script(
        tmp_path / "a folder; it's odd", "scontrol", 'echo "$SLURM_CONF|$SLURM_CLUSTERS|$SLURM_TIME_FORMAT"'
    )
    (output,) = asked(to(sshd, bin_dir=str(folder), conf="/etc/a conf", multi_cluster="$other"))
    assert output.data == b"/etc/a conf|$other|%s\n"


def test_by_json_and_by_pyslurm(sshd: Sshd, tmp_path: Path) -> None:
    folder = script(tmp_path / "slurm", "squeue", 'echo "$@"')
    ssh = to(sshd, bin_dir=str(folder))
    (output,) = asked(ssh, BY_WAY["json"]["jobs"])
    assert output.data == b"--local --all --states=all --json\n"
    assert re.match(r"NotFound: .*PySlurm", refusal(ssh, BY_WAY["pyslurm"]["jobs"]))


def test_a_module_in_the_home_folder_is_not_taken_for_python_s(sshd: Sshd, tmp_path: Path) -> None:
    (sshd.home / "json.py").write_text("raise SystemExit('not me')\n")
    sshd.stop()
    around = script(sshd.folder, "around", f'cd {sshd.home}; exec sh -c "$SSH_ORIGINAL_COMMAND"')
    sshd.start(f"ForceCommand {around}/around")
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")
    assert asked(to(sshd, bin_dir=str(folder)))[0].data == b"pong\n"


def test_what_the_commands_say_there_is_said_here(sshd: Sshd, tmp_path: Path) -> None:
    folder = script(tmp_path / "slurm", "scontrol", "echo Unable to contact slurm controller >&2; exit 3")
    with pytest.raises(Unanswered, match=r"scontrol exited with 3: Unable to contact"):
        asked(to(sshd, bin_dir=str(folder)))
    with pytest.raises(NotFound, match=r"squeue not found in .*/slurm, or not executable: set slurm.bin_dir"):
        asked(to(sshd, bin_dir=str(folder)), BY_PART["jobs"])


# --- one connection ---


def test_all_questions_share_a_connection(sshd: Sshd, tmp_path: Path, temporary: Path) -> None:
    sshd.stop()
    sshd.start("LogLevel VERBOSE")
    folder = commands(GENERATIONS[0], tmp_path / "slurm")
    before = connections(sshd)

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder))
        await asyncio.gather(*(ssh.run(command) for command in BY_PART.values()))
        (private,) = os.scandir(temporary)
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        (pid,) = masters()
        await asyncio.gather(*(ssh.run(command) for command in BY_PART.values()))
        assert masters() == [pid]
        await ssh.close()
        assert gone(pid)

    asyncio.run(look())
    assert connections(sshd) == before + 1
    assert not list(temporary.iterdir())
    assert sshd.idle()


def test_a_connection_that_fails_is_tried_once_for_all_questions(sshd: Sshd, temporary: Path) -> None:
    sshd.stop()
    sshd.start("LogLevel VERBOSE")
    sshd.write_config(key="stranger")
    before = connections(sshd)

    async def look() -> list[Any]:
        ssh = to(sshd)
        try:
            return await asyncio.gather(*(ssh.run(PING) for _ in range(4)), return_exceptions=True)
        finally:
            await ssh.close()

    assert [type(one) for one in asyncio.run(look())] == [Unreachable] * 4
    assert connections(sshd) == before + 1
    assert not list(temporary.iterdir()) and not masters()


def test_the_user_s_configuration_of_ssh_cannot_take_the_connection_from_us(sshd: Sshd, tmp_path: Path) -> None:
    sshd.write_config(
        ControlMaster="auto",
        ControlPersist="yes",
        ControlPath=str(sshd.folder / "own"),
        RemoteCommand="echo hello",
        RequestTTY="force",
        LogLevel="QUIET",
        LocalForward=f"{sshd.port} 127.0.0.1:1",
        ExitOnForwardFailure="yes",
    )
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")
    assert asked(to(sshd, bin_dir=str(folder)))[0].data == b"pong\n"
    assert not (sshd.folder / "own").exists()
    assert not masters() and sshd.idle()


def test_a_long_temporary_folder(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a socket may have 107 bytes."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")
    assert asked(to(sshd, bin_dir=str(folder)))[0].data == b"pong\n"


def test_a_server_that_goes_and_comes_back(sshd: Sshd, tmp_path: Path, temporary: Path) -> None:
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder))
        await ssh.run(PING)
        sshd.stop()
        with pytest.raises(Failed, match=r"ssh cluster: (no sshd listens there|the connection was lost)"):
            await ssh.run(PING)
        sshd.start()
        for _ in range(1200):
            with contextlib.suppress(Failed):  # it is remembered for a moment
                assert (await ssh.run(PING)).data == b"pong\n"
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("it did not come back")
        await ssh.close()

    asyncio.run(look())
    assert not list(temporary.iterdir()) and not masters()


def test_a_server_that_goes_while_it_is_asked(sshd: Sshd, tmp_path: Path) -> None:
    folder = script(tmp_path / "slurm", "scontrol", f"echo $$ > {tmp_path}/pid; exec sleep 600")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder))
        question = asyncio.create_task(ssh.run(PING))
        await written(tmp_path / "pid")
        sshd.stop()
        with pytest.raises(Failed, match=r"ssh cluster: the connection was lost, and is made anew"):
            await question
        await ssh.close()

    asyncio.run(look())
    assert not masters()


def test_a_connection_that_was_killed_is_made_anew(sshd: Sshd, tmp_path: Path) -> None:
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder))
        await ssh.run(PING)
        (first,) = masters()
        os.kill(first, signal.SIGKILL)
        while first in masters():
            await asyncio.sleep(0.01)
        for attempt in range(2):  # the first may still go to the one that was killed
            with contextlib.suppress(Failed) if attempt == 0 else contextlib.nullcontext():
                assert (await ssh.run(PING)).data == b"pong\n"
        assert masters() and first not in masters()
        await ssh.close()

    asyncio.run(look())


def test_a_connection_that_hangs_is_made_anew(
    sshd: Sshd, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmscope.slurm.ssh._ALLOWANCE", 1.0)
    monkeypatch.setattr("slurmscope.slurm.ssh._CHECK", 0.5)
    folder = script(tmp_path / "slurm", "scontrol", "echo pong")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder), timeout=1.0)
        await ssh.run(PING)
        (first,) = masters()
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(TimedOut, match=r"ssh cluster: no answer within 2 s"):
            await ssh.run(PING)
        assert gone(first)
        assert (await ssh.run(PING)).data == b"pong\n"
        await ssh.close()

    asyncio.run(look())
    assert not list(temporary.iterdir()) and not masters()


# --- nothing is left ---


def test_a_command_that_hangs_is_killed_there(sshd: Sshd, tmp_path: Path, temporary: Path) -> None:
    folder = script(
        tmp_path / "slurm", "scontrol", f"sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/pid; wait"
    )

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder), timeout=3)
        with pytest.raises(TimedOut, match=r"scontrol was killed after 3 s"):
            await ssh.run(PING)
        assert len(masters()) == 1  # the connection has done nothing wrong
        await ssh.close()

    asyncio.run(look())
    assert gone(int((tmp_path / "pid").read_text())) and gone(int((tmp_path / "child").read_text()))
    assert not list(temporary.iterdir()) and not masters() and sshd.idle()


def test_a_probe_that_hangs_is_given_up(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.slurm.ssh._ALLOWANCE", 0.5)
    (tmp_path / "probe.py").write_text("import time; time.sleep(5)\n")

    async def look() -> None:
        ssh = to(sshd, probe=str(tmp_path / "probe.py"), timeout=0.5)
        with pytest.raises(TimedOut, match=r"ssh cluster: no answer within 1 s \(slurm.timeout"):
            await ssh.run(PING)
        assert len(masters()) == 1  # nothing but the connection is left, and it answers
        await ssh.close()

    asyncio.run(look())
    assert not masters()


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_question_that_is_given_up_midway_leaves_nothing(
    how: str, sshd: Sshd, tmp_path: Path, temporary: Path
) -> None:
    folder = script(tmp_path / "slurm", "scontrol", f"echo $$ > {tmp_path}/pid; exec sleep 600")

    async def look() -> None:
        ssh = to(sshd, bin_dir=str(folder), timeout=300.0)
        question = asyncio.create_task(ssh.run(PING))
        pid = await written(tmp_path / "pid")
        if how == "cancelled":
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            assert gone(pid)  # the probe there sees that nobody waits, while the connection stays
            assert len(masters()) == 1
            await ssh.close()
        else:
            await ssh.close()
            with pytest.raises(Failed, match=r"the connection was lost"):
                await question
            assert gone(pid)

    asyncio.run(look())
    assert not list(temporary.iterdir()) and not masters() and sshd.idle()


def test_a_connection_that_is_cancelled_while_it_is_made_leaves_nothing(
    sshd: Sshd, tmp_path: Path, temporary: Path
) -> None:
    sshd.stop()
    sshd.write_config(ProxyCommand=f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600'")

    async def look() -> None:
        ssh = to(sshd)
        question = asyncio.create_task(ssh.run(PING))
        await written(tmp_path / "pid")
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        await ssh.close()

    asyncio.run(look())
    assert gone(int((tmp_path / "pid").read_text()))
    assert not list(temporary.iterdir()) and not masters()
