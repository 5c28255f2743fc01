# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Commands are run as the table says, for no longer than they may, and nothing of them is left behind."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

import msgspec
import pytest
from processes import gone

import slurmscope
from slurmscope.slurm import probe, process
from slurmscope.slurm.commands import BY_PART, BY_WAY, COMMANDS, EVERY, JOB_COMMANDS
from slurmscope.slurm.local import Local
from slurmscope.slurm.transport import Failed, NotFound, Output, TimedOut, TooLong, Unanswered

PING = BY_PART["controllers"]


def script(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def run(folder: Path, timeout: float = 10.0, part: str = "controllers") -> Output:
    return asyncio.run(Local(str(folder), timeout=timeout).run(BY_PART[part]))


def test_the_arguments_and_the_environment(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", 'echo "$@"; echo "$SLURM_TIME_FORMAT $SLURM_BITSTR_LEN"')
    assert run(tmp_path).data == b"ping\n%s 0\n"


def test_the_marks_of_the_run_are_in_the_format(tmp_path: Path) -> None:
    script(tmp_path, "squeue", 'for last; do :; done; echo "$last"')
    output = run(tmp_path, part="jobs")
    data, marks = output.data.decode(), output.marks
    assert data.startswith("JobID:|,JobArrayID:|,")
    assert f",Dependency:{marks.field},Feature:{marks.field}," in data
    assert data.endswith(f",Name:{marks.end}\n")
    assert output.argv[-1] == data.rstrip("\n")
    assert run(tmp_path, part="jobs").marks != marks


def test_the_caller_s_defaults_do_not_change_the_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_USERS", "SQUEUE_PARTITION", "SLURM_CLUSTERS", "SQUEUE_PRIORITY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/kept.conf")
    script(tmp_path, "scontrol", "env")
    data = run(tmp_path).data.decode()
    assert "SQUEUE_" not in data and "SLURM_CLUSTERS" not in data
    assert "SLURM_CONF=/etc/kept.conf" in data


def test_a_process_that_cannot_be_killed_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that hangs in a dead file system; here the kill itself is kept from it."""
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda pid, signal: None)
    monkeypatch.setattr(process, "_PATIENCE", 0.2)
    script(tmp_path, "scontrol", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    local = Local(str(tmp_path), timeout=2)

    async def twice() -> None:
        with pytest.raises(TimedOut):
            await local.run(PING)
        with pytest.raises(Failed, match=r"was killed but does not end"):
            await local.run(PING)
        kill(int((tmp_path / "pid").read_text()), 9)
        script(tmp_path, "scontrol", "echo again")
        while (output := await again()) is None:
            await asyncio.sleep(0.01)
        assert output.data == b"again\n"

    async def again() -> Output | None:
        try:
            return await local.run(PING)
        except Failed:  # its end has not come to us yet
            return None

    asyncio.run(twice())


def test_slurm_home_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin", "scontrol", "echo from home")
    monkeypatch.setenv("SLURM_HOME", str(tmp_path))
    assert asyncio.run(Local().run(PING)).data == b"from home\n"


def test_the_configuration_file_is_passed_on(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", 'echo "$SLURM_CONF"')
    output = asyncio.run(Local(str(tmp_path), conf="/etc/other.conf").run(PING))
    assert output.data == b"/etc/other.conf\n"


def test_a_missing_program_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        NotFound, match=re.escape(f"scontrol not found in {tmp_path}, or not executable: set slurm.bin_dir")
    ):
        run(tmp_path)


def test_what_is_said_on_stderr_is_a_warning_and_the_status_decides(tmp_path: Path) -> None:
    script(tmp_path, "sdiag", "echo data; echo beware >&2")
    output = run(tmp_path, part="scheduler")
    assert (output.data, output.warnings) == (b"data\n", "beware")
    script(tmp_path, "sdiag", "echo data; echo Unable to contact slurm controller >&2; exit 1")
    with pytest.raises(Unanswered, match=r"sdiag exited with 1: Unable to contact slurm controller"):
        run(tmp_path, part="scheduler")


def test_a_status_that_is_an_answer(tmp_path: Path) -> None:
    """scontrol ping exits with 1 when a controller is down."""
    script(tmp_path, "scontrol", "echo 'Slurmctld(primary) at a is DOWN'; exit 1")
    assert b"DOWN" in run(tmp_path).data


def test_a_command_past_its_time_is_killed_with_its_children(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", f"sleep 600 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/parent; wait")
    with pytest.raises(TimedOut, match=r"killed after 2 s"):
        run(tmp_path, timeout=2)
    for name in ("child", "parent"):
        assert gone(int((tmp_path / name).read_text()))


def test_a_child_that_holds_the_pipe_open_is_killed_too(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", f"sleep 600 & echo $! > {tmp_path}/child; exit 0")
    with pytest.raises(TimedOut):
        run(tmp_path, timeout=2)
    assert gone(int((tmp_path / "child").read_text()))


def test_a_cancelled_run_leaves_nothing_behind(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", f"echo $$ > {tmp_path}/parent; exec sleep 600")

    async def cancel() -> None:
        task = asyncio.create_task(Local(str(tmp_path)).run(PING))
        while not (tmp_path / "parent").exists() or not (tmp_path / "parent").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert gone(int((tmp_path / "parent").read_text()))


def test_a_loop_that_ends_while_commands_are_started_ends_them(tmp_path: Path) -> None:
    """As when another part of the program fails at that moment, and asyncio cancels all that there is."""
    script(tmp_path, "scontrol", f"echo $$ >> {tmp_path}/pids; exec sleep 600")

    async def fail(turns: int) -> None:
        local = Local(str(tmp_path))
        tasks = [asyncio.create_task(local.run(PING)) for _ in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        raise RuntimeError(f"{len(tasks)} were being started")

    for turns in range(1, 12):
        with pytest.raises(RuntimeError, match="4 were being started"):
            asyncio.run(fail(turns))
    pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    assert all(gone(int(pid)) for pid in pids)


def test_what_has_left_and_holds_the_pipe_open_is_not_waited_for(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", f"setsid sleep 600 & echo $! > {tmp_path}/left")

    async def twice() -> None:
        local = Local(str(tmp_path), timeout=2)
        for _ in range(2):  # it is not taken for one that cannot be killed
            with pytest.raises(TimedOut):
                await local.run(PING)
            os.kill(int((tmp_path / "left").read_text()), 9)

    asyncio.run(twice())


def test_a_flood_of_complaints_is_cut(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", "head -c 5000000 /dev/zero | tr '\\\\0' x >&2; echo fine")
    output = run(tmp_path)
    assert output.data == b"fine\n"
    assert len(output.warnings) == 1000


def test_output_without_end_is_stopped(tmp_path: Path) -> None:
    script(tmp_path, "scontrol", f"echo $$ > {tmp_path}/parent; exec yes")
    command = msgspec.structs.replace(PING, row=PING.row._replace(most_bytes=10_000))
    with pytest.raises(TooLong):
        asyncio.run(Local(str(tmp_path)).run(command))
    assert gone(int((tmp_path / "parent").read_text()))


def test_another_cluster_is_asked_for_as_with_m(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "of the caller")
    script(tmp_path, "scontrol", 'echo "$SLURM_CLUSTERS"')
    output = asyncio.run(Local(str(tmp_path), multi_cluster="other").run(PING))
    assert output.data == b"other\n"


def test_an_older_slurm_is_asked_as_it_understands(tmp_path: Path) -> None:
    """Up to 22.05 scontrol has no --json: sinfo's is asked for, and from then on at once."""
    script(
        tmp_path,
        "scontrol",
        f"echo once >> {tmp_path}/asked; echo \"scontrol: unrecognized option '--json'\" >&2; exit 1",
    )
    script(tmp_path, "sinfo", 'echo "$@"')

    async def twice() -> list[Output]:
        local = Local(str(tmp_path))
        return [await local.run(BY_WAY["json"]["nodes"]) for _ in range(2)]

    outputs = asyncio.run(twice())
    assert [output.data for output in outputs] == [b"--all --json\n"] * 2
    assert outputs[0].argv == ("sinfo", "--all", "--json")
    assert (tmp_path / "asked").read_text() == "once\n"


def test_an_option_that_is_unknown_and_has_no_older_form_fails(tmp_path: Path) -> None:
    script(tmp_path, "sdiag", "echo \"sdiag: unrecognized option '--json'\" >&2; exit 1")
    with pytest.raises(Failed, match=r"sdiag exited with 1: sdiag: unrecognized option"):
        asyncio.run(Local(str(tmp_path)).run(BY_WAY["json"]["scheduler"]))


def test_a_python_for_the_probe_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"python9 cannot be run"):
        asyncio.run(Local(str(tmp_path), python=str(tmp_path / "python9")).run(BY_WAY["pyslurm"]["jobs"]))


def test_nothing_else_starts_a_process() -> None:
    """What is run is in the table: one module starts processes, and so do the two programs that stand alone: probe.py,
    and wrapper.py, which runs what a user tells it to (cli_trace.py becomes it)."""
    starts = re.compile(
        r"\b((import|from) (subprocess|multiprocessing)\b|os\.(system|popen|exec|(posix_)?spawn|fork)"
        r"|create_subprocess_)"
    )
    source = Path(slurmscope.__file__).parent
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if starts.search(path.read_text())}
    assert found == {"slurm/process.py", "slurm/probe.py", "trace/wrapper.py", "cli_trace.py"}


def test_the_table_is_whole() -> None:
    assert len({(command.way, command.part) for command in COMMANDS}) == len(COMMANDS)
    assert {row.part for row in probe.ROWS if row.way == probe.TEXT} == set(EVERY) == set(BY_PART)
    for command in COMMANDS:
        assert command.answers and command.why and command.cost
        assert command.every in ("fast", "slow", "rare", "asked")
    for command in JOB_COMMANDS:
        assert command.answers and command.why and command.cost
        assert command.every == "wanted"


def test_a_program_on_a_file_system_that_hangs_holds_up_nothing_but_itself_with_a_mock_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system cannot be had here: looking for the program hangs in its place."""
    found, hanging = threading.Event(), probe.program

    def program(name: str, path: str) -> str:
        if path == str(tmp_path / "nfs"):
            found.wait(30)
        return hanging(name, path)

    monkeypatch.setattr(probe, "program", program)
    monkeypatch.setattr(process, "_PATIENCE", 0.2)
    for folder in ("nfs", "here"):
        (tmp_path / folder).mkdir()
        script(tmp_path / folder, "scontrol", "echo pong")

    async def both() -> None:
        dead, good = Local(str(tmp_path / "nfs"), timeout=2), Local(str(tmp_path / "here"))
        stuck = asyncio.create_task(dead.run(PING))
        assert (await good.run(PING)).data == b"pong\n"  # meanwhile
        with pytest.raises(TimedOut, match=r"scontrol was not even started after 2 s: is its file system hanging\?"):
            await stuck
        with pytest.raises(Failed, match="is still being started"):
            await dead.run(PING)
        found.set()
        for _ in range(1200):
            await asyncio.sleep(0.05)
            try:
                assert (await dead.run(PING)).data == b"pong\n"
            except Failed:
                continue
            return
        raise AssertionError("it never came back")

    asyncio.run(both())
