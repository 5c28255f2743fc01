# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What all commands do alike: settings, errors, signals, and what they print."""

from __future__ import annotations

import asyncio
import io
import shutil
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from slurmscope import config, logs
from slurmscope.listening import ServeError
from slurmscope.settings import Cluster, Settings
from slurmscope.slurm import bundle as bundles
from slurmscope.store.protocol import StoreError

T = TypeVar("T")


def fail(message: str, status: int = 1) -> NoReturn:
    click.echo(f"slurmscope: {message}", err=True)
    sys.exit(status)


def load(path: Path | None, **overrides: str | None) -> config.Config:
    given = {key.replace("__", "."): value for key, value in overrides.items() if value is not None}
    try:
        loaded = config.load(path, overrides=given)
    except config.ConfigError as error:
        fail(str(error).replace("\n", "\nslurmscope: "), 2)
    logs.setup(loaded.settings.log.level, loaded.settings.log.format)
    for reason in loaded.ignored:
        click.echo(f"slurmscope: not read: {reason}; --config names a file that is", err=True)
    return loaded


def run(work: Coroutine[Any, Any, T]) -> T:
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
        fail(str(error), error.status)
    except (StoreError, bundles.BundleError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:
        sys.exit(143)


def show(text: str | bytes) -> None:
    """To standard output, which may be full or closed."""
    data = text.encode("utf-8", "backslashreplace") + b"\n" if isinstance(text, str) else text
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(data)
    except BrokenPipeError:
        sys.exit(128 + signal.SIGPIPE)  # whoever read it has seen enough
    except OSError as error:
        fail(f"cannot write to standard output: {error.strerror}")


def asked_secret(what: str) -> str:
    """Asked for twice at a terminal, without showing it; else the first line of standard input."""
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(what.capitalize(), hide_input=True, confirmation_prompt=True))
    # it is in one of our files as well, whose last line may have no end
    line = sys.stdin.buffer.readline() if sys.stdin is not None else b""
    try:
        secret = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        fail(f"{what}: expected text in UTF-8 on standard input", 2)
    if not secret:
        fail(f"{what}: expected a line on standard input, found none", 2)
    return secret


config_option = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="Settings file. Default: $SLURMSCOPE_CONFIG, ./slurmscope.toml, /etc/slurmscope/slurmscope.toml.",
)


def named(settings: Settings, name: str | None) -> Cluster:
    there = {one.slurm.cluster: one for one in settings.read}
    if name is not None and not any(there):
        fail("--cluster: the settings name no cluster ([clusters.NAME], slurm.cluster): leave it out", 2)
    if name is None and len(there) == 1:
        return settings.read[0]
    if name not in there:
        fail(f"--cluster: expected one of {', '.join(there) or 'none'}, found {name or 'none'}", 2)
    return there[name]


def show_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(*head, box=None, pad_edge=False, show_header=any(head))
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    # in a pipe a table has no width to fit into
    width = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else 200
    Console(file=out, width=width, markup=False, highlight=False).print(table)
    show("\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n")))


def show_json(found: object) -> None:
    show(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


@contextmanager
def bar(what: str) -> Iterator[tuple[Progress, TaskID]]:
    """A bar on a terminal, and nothing where nobody looks."""
    percent = TextColumn("{task.percentage:.0f} %")
    columns = (TextColumn("{task.description}"), BarColumn(), percent, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress, progress.add_task(what, total=None)
