# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""probe.py by itself: on any Python from 3.6 on, whatever the commands print, and for as long as somebody listens."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import gone, until
from pythons import python
from recorded import GENERATIONS, commands
from sshd import script

from slurmscope.slurm import bundle, probe
from slurmscope.slurm.commands import BY_PART

SOURCE = Path(probe.__file__)
PING = next(row for row in probe.ROWS if (row.way, row.part) == (probe.TEXT, "controllers"))


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scontrol that prints what is in the file `said` beside it."""
    folder = tmp_path_factory.mktemp("echo")
    return script(folder, "scontrol", f"cat {folder}/said")


def run(*words: str | Path, by: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([by, SOURCE, *words], check=False, capture_output=True, text=True, encoding="utf-8")


def document(*words: str | Path, by: str = sys.executable) -> dict[str, Any]:
    """What it prints, less what differs from run to run."""
    done = run(*words, by=by)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.pop("time") > 0 and found.pop("python") and found.pop("host")
    for answer in found["answers"]:
        field, end = answer.pop("marks")
        assert answer.pop("time") > 0 and answer.pop("seconds") >= 0
        for key in ("text", "argv"):
            answer[key] = json.dumps(answer.get(key)).replace(end, "END").replace(field, "FIELD")
    return found


# --- on any Python ---


def test_it_is_python_3_6_and_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 6))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add((node.module or "").partition(".")[0])
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize("version", ["3.6", "3.13"])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_older_and_a_newer_python_print_the_same(version: str, generation: str, tmp_path: Path) -> None:
    other = python(version)
    folder = commands(generation, tmp_path / "slurm")
    here = document("--bin-dir", folder)
    assert [answer["part"] for answer in here["answers"]] == list(BY_PART)
    assert not any("error" in answer for answer in here["answers"])
    assert document("--bin-dir", folder, by=other) == here
    assert document("--bin-dir", tmp_path, by=other) == document("--bin-dir", tmp_path)  # where there is nothing


def test_it_runs_alone_wherever_it_is_copied(tmp_path: Path) -> None:
    copy = shutil.copy(SOURCE, tmp_path / "probe.py")
    done = subprocess.run([sys.executable, "-I", "-S", copy, "--help"], check=True, capture_output=True, text=True)
    assert done.stdout == run("--help").stdout


# --- as a program ---


def test_help_teaches() -> None:
    done = run("--help")
    assert done.returncode == 0
    for word in ("--ways", "--parts", "--timeout", "--bin-dir", "--conf", "--cluster", "examples:", "--from"):
        assert word in done.stdout
    assert "python3 probe.py > cluster.json" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ways", "text,guess"], "--ways: 'guess' is none of text, json, pyslurm"),
        (["--parts", "jobs,people"], "--parts: 'people' is none of accounting"),
        (["--timeout", "soon"], "--timeout: invalid float value: 'soon'"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], said: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_only_what_is_asked_for_is_asked(tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", f'echo "$@" >> {tmp_path}/asked; echo "$@"')
    shutil.copy(folder / "scontrol", folder / "sdiag")
    found = document("--ways", "text,json", "--parts", "controllers,licenses", "--bin-dir", folder)
    assert [(answer["way"], answer["part"]) for answer in found["answers"]] == [
        ("text", "controllers"),
        ("text", "licenses"),
        ("json", "controllers"),
        ("json", "licenses"),
    ]
    assert (tmp_path / "asked").read_text().splitlines() == [
        "ping",
        "show licenses --oneliner",
        "ping --json",
        "show licenses --json",
    ]


def test_what_fails_is_written_down_and_the_status_says_if_all_did(tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", "echo no >&2; exit 7")
    done = run("--parts", "config,jobs", "--bin-dir", folder)
    jobs, config = json.loads(done.stdout)["answers"]
    assert done.returncode == 1
    assert (config["kind"], config["error"]) == ("failed", "scontrol exited with 7: no")
    assert jobs["kind"] == "not found" and f"squeue not found in {tmp_path}" in jobs["error"]
    script(folder, "squeue", "echo fine")
    assert run("--parts", "config,jobs", "--bin-dir", folder).returncode == 0


@pytest.mark.parametrize("body", ["sleep 600", "exec >&- 2>&-; sleep 600"], ids=["waits", "waits with nothing to say"])
def test_a_command_past_its_time_is_killed_with_its_children(body: str, tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", f"sleep 600 >&- 2>&- & echo $! > {tmp_path}/child; {body}")
    (answer,) = document("--parts", "controllers", "--timeout", "0.5", "--bin-dir", folder)["answers"]
    assert (answer["kind"], answer["error"]) == (
        "timed out",
        "scontrol was killed after 0.5 s (slurm.timeout); is slurmctld slow?",
    )
    assert gone(int((tmp_path / "child").read_text()))


def test_it_ends_with_its_command_when_nobody_listens_any_more(tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    argv = [sys.executable, str(SOURCE), "--parts", "controllers", "--timeout", "600", "--bin-dir", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        process.stdout.close()
        assert gone(int((tmp_path / "pid").read_text()))
        assert process.wait() == 1


def test_an_older_slurm_is_asked_as_it_understands(tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", "echo \"scontrol: unrecognized option '--json'\" >&2; exit 1")
    script(folder, "sinfo", 'echo "$@"')
    (answer,) = document("--ways", "json", "--parts", "nodes", "--bin-dir", folder)["answers"]
    assert json.loads(answer["argv"]) == ["sinfo", "--all", "--json"]
    assert json.loads(answer["text"]) == "--all --json\n"


def test_output_without_end_is_stopped(tmp_path: Path) -> None:
    folder = script(tmp_path, "scontrol", f"echo $$ > {tmp_path}/pid; exec yes")
    found = probe.answer(PING._replace(most_bytes=10_000), str(folder), "", "", 600.0)
    assert found["kind"] == "too long"
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_file_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_bytes(b"\x7fELF and no more")
    (tmp_path / "scontrol").chmod(0o755)
    (answer,) = document("--parts", "controllers", "--bin-dir", tmp_path)["answers"]
    assert answer["kind"] == "failed" and re.search(r"scontrol cannot be run: .*Exec format error", answer["error"])


# --- whatever the commands print ---


@given(st.binary(max_size=2000))
def test_any_bytes_come_back_unchanged(echo: Path, data: bytes) -> None:
    (echo / "said").write_bytes(data)
    found = probe.answer(PING, str(echo), "", "", 600.0)
    (answer,) = bundle.parse(json.dumps(probe.document([found])).encode()).answers
    assert answer.data == data
    assert answer.output().data == data


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\xff\xfe\n", "ünïcode \U0001f600\u2028\u0085\n".encode(), b'{"format": "slurmscope bundle"}\n' * 3],
)
def test_any_bytes_come_back_through_the_program(echo: Path, data: bytes) -> None:
    (echo / "said").write_bytes(data)
    argv = [sys.executable, str(SOURCE), "--parts", "controllers", "--bin-dir", str(echo)]
    for environment in ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-16"}):
        path = {"PATH": "/usr/bin:/bin"}
        done = subprocess.run(argv, check=True, capture_output=True, env={**path, **environment})
        printed = done.stdout.decode("utf-16").encode() if "PYTHONIOENCODING" in environment else done.stdout
        (answer,) = bundle.parse(printed).answers
        assert answer.data == data
