# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: one thin function a command."""

from __future__ import annotations

import asyncio
import io
import logging
import shutil
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table

from slurmscope import __version__, auth, config, logs
from slurmscope.metrics import catalogue
from slurmscope.model import PARTS, Snapshot
from slurmscope.serve import ServeError, assemble, local_source, serve
from slurmscope.settings import Settings
from slurmscope.slurm.commands import COMMANDS

T = TypeVar("T")


def _fail(message: str, status: int = 1) -> NoReturn:
    click.echo(f"slurmscope: {message}", err=True)
    sys.exit(status)


def _load(path: Path | None, **overrides: str | None) -> config.Config:
    given = {key.replace("__", "."): value for key, value in overrides.items() if value is not None}
    try:
        loaded = config.load(path, overrides=given)
    except config.ConfigError as error:
        _fail(str(error).replace("\n", "\nslurmscope: "), 2)
    logs.setup(loaded.settings.log.level, loaded.settings.log.format)
    for reason in loaded.ignored:
        click.echo(f"slurmscope: not read: {reason}; --config names a file that is", err=True)
    return loaded


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end, or until a signal comes; either way no command is left behind."""

    async def until_signalled() -> T:
        task = asyncio.current_task()
        assert task is not None
        for signum in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
        return await work

    try:
        return asyncio.run(until_signalled())
    except ServeError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:
        sys.exit(143)


def _print(text: str | bytes) -> None:
    """To standard output, which may be full or closed."""
    data = text.encode("utf-8", "backslashreplace") + b"\n" if isinstance(text, str) else text
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(data)
    except OSError as error:
        _fail(f"cannot write to standard output: {error.strerror}")


config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="Settings file. Default: $SLURMSCOPE_CONFIG, ./slurmscope.toml, /etc/slurmscope/slurmscope.toml.",
)
listen_option = click.option(
    "--listen", metavar="HOST:PORT", help="Address to serve on, e.g. :9092 for all interfaces."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slurmscope")
def main() -> None:
    """Read a Slurm cluster and serve true numbers to Prometheus.

    \b
    slurmscope metrics     one look at the cluster, as Prometheus would see it
    slurmscope serve       go on looking, and serve http://127.0.0.1:9092/metrics
    slurmscope demo        the same with a simulated cluster, no Slurm needed

    Settings come from slurmscope.toml, a .env file and the environment; `slurmscope config` shows those in force.
    """


@main.command("serve")
@config_option
@listen_option
def serve_command(path: Path | None, listen: str | None) -> None:
    """Poll the cluster and serve its metrics until stopped.

    However many scrapers ask, slurmctld is asked once an interval (poll.interval). While it does not answer, the
    last good numbers are served with their age, and slurm_up is 0.
    """
    settings = _load(path, serve__listen=listen).settings
    _run(serve(settings, local_source(settings)))


@main.command()
@click.option("--seed", default=1, show_default=True, help="Which cluster is made; the same seed makes the same.")
@listen_option
def demo(seed: int, listen: str | None) -> None:
    """Serve a simulated cluster: 200 nodes with GPUs, jobs that come and go. Needs no Slurm and no root."""
    # only here, so that nobody else pays for loading the simulation
    from slurmscope.demo.source import DemoSource  # noqa: PLC0415

    settings = _load(None, serve__listen=listen).settings
    click.echo("making a cluster …", err=True)
    source = DemoSource(seed=seed)
    _run(serve(settings, source, lambda url: click.echo(f"a simulated cluster is at {url}/  (Ctrl-C stops it)")))


async def _look(settings: Settings, profile: str | None, openmetrics: bool) -> tuple[Snapshot, bytes]:
    # what fails is told at the end, once
    logging.getLogger("slurmscope.poll").setLevel(logging.CRITICAL)
    poll, pages = assemble(settings, local_source(settings), from_zero=False)
    await poll.once()
    page = b""
    if profile is not None:
        page = b"".join(await pages.body(profile, openmetrics=openmetrics, gzip=False))
    return poll.snapshot, page


def _complain(snapshot: Snapshot) -> None:
    """Says what could not be read; gives up when that is everything."""
    errors: dict[str, list[str]] = {}
    for part in PARTS:
        if error := snapshot.part(part).error:
            errors.setdefault(error, []).append(part)
    for error, parts in errors.items():
        printable = "".join(char if char.isprintable() else " " for char in error)
        click.echo(f"slurmscope: {', '.join(parts)}: {printable}", err=True)
    if all(snapshot.part(part).value is None for part in PARTS):
        _fail("nothing could be read")


@main.command()
@config_option
@click.option(
    "--profile",
    type=click.Choice(catalogue.NAMES),
    default=catalogue.DEFAULT,
    show_default=True,
    help="Whose names: our own (slurmscope), an older exporter's, or our own and rivosinc's (default).",
)
@click.option("--openmetrics", is_flag=True, help="Print OpenMetrics in place of Prometheus' text format.")
def metrics(path: Path | None, profile: str, openmetrics: bool) -> None:
    """Ask the cluster once, print one page of metrics, and exit.

    For a look, or for node_exporter's textfile collector. `--profile slurmscope` passes `promtool check metrics`.
    Exits with 1 when nothing could be read, and with 0 when something could: slurm_up and slurm_part_up say what.
    """
    snapshot, page = _run(_look(_load(path).settings, profile, openmetrics))
    _complain(snapshot)
    _print(page)


@main.command()
@config_option
def snapshot(path: Path | None) -> None:
    """Ask the cluster once and print all that is known of it as JSON.

    Base units throughout: seconds, bytes, counts; times are UTC epoch seconds; null is unknown.
    """
    found, _ = _run(_look(_load(path).settings, None, False))
    _complain(found)
    _print_json(found)


@main.command("config")
@config_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def config_command(path: Path | None, as_json: bool) -> None:
    """Print the settings in force and where each came from."""
    rows = config.rows(_load(path))
    if as_json:
        found = [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
        _print_json(found)
        return
    _print_table(("setting", "value", "from"), rows)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def commands(as_json: bool) -> None:
    """Print every Slurm command that slurmscope runs, how often, and why it has that form.

    Nothing else is ever run.
    """
    if as_json:
        found = [
            {
                "part": one.part,
                "argv": one.argv,
                "every": one.every,
                "answers": one.answers,
                "why": one.why,
                "cost": one.cost,
                "parser": f"{one.parse.__module__}.{one.parse.__name__}",
                "recording": one.recording,
            }
            for one in COMMANDS
        ]
        _print_json(found)
        return
    lines = []
    for one in COMMANDS:
        lines.append(" ".join(one.argv))
        for label, text in (
            ("answers", one.answers),
            ("why", one.why),
            ("cost", one.cost),
            ("every", one.every),
            ("parser", f"{one.parse.__module__}.{one.parse.__name__}, guarded by {one.recording}"),
        ):
            lines.append(click.wrap_text(text, 100, f"  {label + ':':9}", " " * 11))
        lines.append("")
    _print("\n".join(lines))


@main.command("hash-password")
@click.option("--token", is_flag=True, help="Hash a bearer token for serve.tokens in place of a password.")
def hash_password(token: bool) -> None:
    """Ask for a password and print its hash, for serve.users."""
    secret = click.prompt("Token" if token else "Password", hide_input=True, confirmation_prompt=True)
    _print(auth.hash_token(secret) if token else auth.hash_password(secret))


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    # in a pipe a table has no width to fit into
    width = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 200
    Console(file=out, width=width, markup=False, highlight=False).print(table)
    _print(out.getvalue().rstrip("\n"))


def _print_json(found: object) -> None:
    _print(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
