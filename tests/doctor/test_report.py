# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is found can be read, on a narrow terminal and without colour, and is written down."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurmscope.doctor import report
from slurmscope.doctor.finding import HOST, Chart, Check, Finding, Status, exit_status

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


def _findings() -> list[Finding]:
    made: list[Finding] = []
    cluster = Chart("lab", made.append)
    cluster.failed(Check.COMMANDS, "squeue not found in /" + "X" * 200, "set slurm.bin_dir")
    cluster.skipped(Check.REST, "not asked")
    host = Chart(HOST, made.append)
    host.ok(Check.DISK, "a message of [bold]many[/bold] words, " * 6)
    host.warning(Check.CLOCK, "behind", "`timedatectl`")
    host.warning(Check.MEMORY, "little", "more")
    assert made == cluster.findings + host.findings
    return made


@pytest.mark.parametrize("width", [80, 120])
def test_a_table(width: int) -> None:
    text = report.text(_findings(), width, colour=False)
    lines = text.splitlines()
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    assert text.count("X") == 200  # a long word is folded and not cut
    assert "[bold]many[/bold]" in text
    assert lines[0] == "this host" and "cluster lab" in lines
    assert [line.split()[0] for line in lines if re.match("  [a-z]", line)] == [
        "ok",
        "warning",
        "warning",
        "failed",
        "skipped",
    ]
    assert re.search(r"\n +next: set slurm.bin_dir\n", text)
    assert lines[-1] == "5 checks: 1 failed, 2 warnings, 1 skipped, 1 ok"


def test_colour_is_beside_the_words() -> None:
    coloured = report.text(_findings(), 80, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == report.text(_findings(), 80, colour=False).split()


def test_the_exit_status() -> None:
    def status(*found: Status) -> int:
        return exit_status(Finding("x", Check.DISK, one, "") for one in found)

    assert status() == status(Status.OK, Status.SKIPPED) == 0
    assert status(Status.OK, Status.WARNING) == 1
    assert status(Status.WARNING, Status.FAILED, Status.OK) == 2


def test_what_others_say_is_made_harmless() -> None:
    chart = Chart("x", lambda finding: None, ["hush", ""])
    chart.failed(Check.REST, "a\x1b[2J\nb hush \udcff" + "c" * 9999, "say hush")
    (found,) = chart.findings
    assert found.message.startswith("a [2J b ******** c") and len(found.message) < 1000
    assert found.next_step == "say ********"


def test_every_check_and_status_is_in_the_manual() -> None:
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {str(one) for one in (*Check, *Status)}
