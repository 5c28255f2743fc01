# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The findings on a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slurmscope.doctor.finding import HOST, Finding, Status
from slurmscope.words import amount

# colour goes with a word and is never the only sign
_STYLES = {Status.OK: "green", Status.SKIPPED: "dim", Status.WARNING: "yellow", Status.FAILED: "bold red"}
_NEXT = "next: "


def text(findings: Sequence[Finding], width: int, *, colour: bool) -> str:
    """Subject by subject, each finding with its next step under it, and a line that sums up."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        markup=False,
        highlight=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    # in the order in which they came, but what is this machine's first
    subjects = sorted(dict.fromkeys(finding.subject for finding in findings), key=lambda subject: subject != HOST)
    wide = max((len(finding.check) for finding in findings), default=0)
    for subject in subjects:
        console.print(Text("this host" if subject == HOST else f"cluster {subject}", "bold"))
        console.print(_table([finding for finding in findings if finding.subject == subject], wide))
        console.print()
    console.print(summary(findings))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _table(findings: Sequence[Finding], wide: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(min_width=max(map(len, Status)) + 2, no_wrap=True)
    table.add_column(min_width=wide, no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        told = Text(finding.message)
        if finding.next_step:
            told.append(f"\n{_NEXT}", "bold").append(finding.next_step)
        table.add_row(Text(f"  {finding.status}", _STYLES[finding.status]), Text(finding.check), told)
    return table


def summary(findings: Sequence[Finding]) -> str:
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    words = ", ".join(f"{counts[status]} {status}" for status in reversed(Status) if counts[status])
    if counts[Status.WARNING] > 1:
        words = words.replace(Status.WARNING, "warnings")
    return f"{amount(len(findings), 'check')}: {words}" if findings else "nothing was looked at"
