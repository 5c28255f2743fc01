# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands `slurmscope report job|user|account|cluster`: what went wrong, what to change, who used what."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from slurmscope.cli_store import opened
from slurmscope.findings.policy import PolicyError, nearest
from slurmscope.reports import period as periods
from slurmscope.reports.document import Document
from slurmscope.reports.kept import NoSuchJobError, Reports
from slurmscope.reports.period import Period, PeriodError
from slurmscope.reports.rendering import FORMATS, rendered
from slurmscope.terminal import config_option, fail, load, show
from slurmscope.words import listed, printable

F = TypeVar("F", bound=Callable[..., Any])

_ENDINGS = {".html": "html", ".htm": "html", ".pdf": "pdf", ".json": "json", ".csv": "csv", ".txt": "text"}


def _options(command: F) -> F:
    """What all of them take."""
    for option in (
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write it to this file; its ending says the format, where --format does not.",
        ),
        click.option("--format", "form", type=click.Choice(FORMATS), help="Default: text, or what FILE's ending says."),
        click.option("--cluster", help="Of which cluster. Default: all of which something is kept."),
        config_option,
    ):
        command = option(command)
    return command


def _period_options(command: F) -> F:
    for option in (
        click.option("--until", metavar="DAY", help="… to this day, which is among it."),
        click.option("--since", metavar="DAY", help="From this day (2026-10-01) on."),
        click.option("--days", type=click.IntRange(1, 3660), help="The last days, today among them."),
        click.option("--month", metavar="YEAR-MONTH", help="A month: 2026-10."),
    ):
        command = option(command)
    return command


@click.group("report")
def report_group() -> None:
    """Tell of a job, a user, an account or a cluster: on the terminal, as HTML, PDF, JSON or CSV.

    \b
    slurmscope report job 123                        what went wrong, and what to change
    slurmscope report job 123 -o job.pdf             the same with charts, to hand on
    slurmscope report user alice --days 90           used, wasted, waited, failed
    slurmscope report account physics --month 2026-10
    slurmscope report cluster --month 2026-10 -o october.pdf

    It is read from the store, which `slurmscope serve` and `slurmscope import` fill. Days are those of UTC.
    """


@report_group.command("job")
@click.argument("job", metavar="JOBID")
@_options
def job_command(job: str, path: Path | None, cluster: str | None, form: str | None, output: Path | None) -> None:
    """Say what a job asked for and used, what was found, and what to ask for next time.

    JOBID is a job's number, one task's of an array (123_4), or an array's, of which the spread of its tasks is told.
    """

    def made(reports: Reports, where: str | None) -> Document:
        try:
            return reports.job(job, where)
        except NoSuchJobError as error:
            fail(printable(str(error)))

    _report(path, cluster, form, output, made)


@report_group.command("user")
@click.argument("name", metavar="NAME")
@_period_options
@_options
def user_command(name: str, **given: Any) -> None:
    """Say what a user used, wasted and waited for, by account, partition, QOS and GPU, against the time before.

    By default of the last 30 days.
    """
    _holder("user", name, given)


@report_group.command("account")
@click.argument("name", metavar="NAME")
@_period_options
@_options
def account_command(name: str, **given: Any) -> None:
    """Say what an account used, by user, partition, QOS and GPU, and how much of its allocation that is.

    By default of the last 30 days.
    """
    _holder("account", name, given)


@report_group.command("cluster")
@_period_options
@click.option("--full", is_flag=True, help="Of a month: all of it, and not the two pages for directors.")
@_options
def cluster_command(full: bool, **given: Any) -> None:
    """Say how full a cluster was, who used it, how long jobs waited, and what could not be used.

    By default of the last month that is over: two pages for directors, with what was used against what is allocated
    (`[[allocations]]`), energy and CO2. With another period, or --full, all of it.
    """
    now = time.time()
    period = _period(given, now) or periods.last_month(now)

    def made(reports: Reports, where: str | None) -> Document | None:
        assert where is not None
        return reports.month(where, period) if period.month and not full else reports.cluster(where, period)

    def missing(reports: Reports, where: str | None) -> str:
        return f"nothing is kept of {where} in {period.words}: `slurmscope store stats` says since when it is"

    _report(given["path"], given["cluster"], given["form"], given["output"], made, missing, one_cluster=True)


def _holder(kind: str, name: str, given: dict[str, Any]) -> None:
    now = time.time()
    period = _period(given, now) or periods.last_days(30, now)

    def made(reports: Reports, where: str | None) -> Document | None:
        return reports.user(name, period, where) if kind == "user" else reports.account(name, period, where)

    def missing(reports: Reports, where: str | None) -> str:
        on = f" on {where}" if where else ""
        known = reports.names(kind)
        told = f"nothing is kept of {kind} {printable(name)}{on} in {period.words}, nor in {period.before_words}"
        near = nearest(name, known) or (f"; such as {printable(listed(known[:3]))} are known" if known else "")
        return told + ("" if name in known else near)

    _report(given["path"], given["cluster"], given["form"], given["output"], made, missing)


def _period(given: dict[str, Any], now: float) -> Period | None:
    """None: it was not said."""
    month, days, since, until = (given[name] for name in ("month", "days", "since", "until"))
    if sum(1 for one in (month, days, since) if one is not None) > 1 or (until is not None and since is None):
        fail("expected one of --month, --days and --since (with --until, if it is to end before today)", 2)
    try:
        if month is not None:
            return periods.month_of(month, now)
        if since is not None:
            return periods.between(since, until, now)
    except PeriodError as error:
        fail(str(error), 2)
    return None if days is None else periods.last_days(days, now)


def _report(
    path: Path | None,
    cluster: str | None,
    form: str | None,
    output: Path | None,
    made: Callable[[Reports, str | None], Document | None],
    missing: Callable[[Reports, str | None], str] = lambda reports, where: "nothing is kept",
    *,
    one_cluster: bool = False,
) -> None:
    form = form or ("text" if output is None else _form_of(output))
    if form == "pdf" and output is None and sys.stdout.isatty():
        fail("a PDF is not for a terminal: -o FILE", 2)
    settings = load(path).settings
    with opened(settings) as store:
        there = store.clusters()
        if not there:
            fail(
                "nothing is kept yet: `slurmscope serve` keeps what it sees, `slurmscope import` takes what Slurm kept"
            )
        if cluster is not None and cluster not in there:
            fail(f"--cluster: expected one of {', '.join(there)}, found {printable(cluster)}", 2)
        if cluster is None and one_cluster:
            if len(there) != 1:
                fail(f"--cluster: expected one of {', '.join(there)}, found none", 2)
            cluster = there[0]
        try:
            reports = Reports(store, settings, int(time.time()))
        except PolicyError as error:
            fail(str(error).replace("\n", "\nslurmscope: "), 2)
        document = made(reports, cluster)
        if document is None:
            fail(missing(reports, cluster))
        data = _rendered(document, form, on_terminal=output is None and sys.stdout.isatty())
    _write(data, form, output)


def _width() -> int:
    return max(40, min(140, shutil.get_terminal_size().columns))


def _form_of(output: Path) -> str:
    """By its ending; a file without one, or what is no file (/dev/stdout), is text."""
    ending = output.suffix.lower()
    if ending and ending not in _ENDINGS:
        fail(f"-o {output}: expected an ending of {', '.join(_ENDINGS)}, or --format beside it", 2)
    return _ENDINGS.get(ending, "text")


def _rendered(document: Document, form: str, *, on_terminal: bool) -> bytes:
    colour = on_terminal and "NO_COLOR" not in os.environ
    return rendered(document, form, width=_width() if on_terminal or "COLUMNS" in os.environ else 100, colour=colour)


def _write(data: bytes, form: str, output: Path | None) -> None:
    if output is None:
        show(data if data.endswith(b"\n") or form == "pdf" else data + b"\n")
        return
    try:
        _replace(output, data)
    except OSError as error:
        fail(f"{output}: cannot be written: {error.strerror}: name another file with -o")
    click.echo(f"slurmscope: wrote {output}", err=True)


def _mode(output: Path) -> int:
    """Of what is there; else as any new file's."""
    if output.exists():
        return stat.S_IMODE(output.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _replace(output: Path, data: bytes) -> None:
    """All of it or nothing: what was there stays until the new one is whole. A link is followed, and the mode stays."""
    output = output.resolve()
    if output.exists() and not output.is_file():
        output.write_bytes(data)  # /dev/stdout, a pipe
        return
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(_mode(output))
        Path(name).replace(output)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
