# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope run`: the wrapper of jobs, for those who have slurmscope installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from slurmscope.trace import wrapper


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """The wrapper's own, from its own table."""
    for one in reversed(wrapper.OPTIONS):
        value = {"metavar": one.metavar} if one.metavar else {"is_flag": True}
        command = click.option(one.flag, help=one.help, **value)(command)
    return command


@click.command(
    "run",
    help=f"{wrapper.HELP}\n\n\b\n" + wrapper.TEACHING.replace("\n\n", "\n\n\b\n"),
    context_settings={"allow_interspersed_args": False},
)
@_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run_command(command: tuple[str, ...], **options: Any) -> None:
    argv: list[str] = []
    for one in wrapper.OPTIONS:
        value = options[one.flag.removeprefix("--").replace("-", "_")]
        if value:
            argv += [one.flag, value] if one.metavar else [one.flag]
    # All of slurmscope is loaded by now, for each task of a job. The wrapper is a program that needs none of it, so
    # this process becomes that one; -I and -S, for a job's modules may set PYTHONPATH to another Python's.
    wrapper.as_it_was()
    program = [sys.executable, "-I", "-S", wrapper.__file__, *argv, "--", *command]
    os.execv(program[0], program)  # noqa: S606 - no shell is meant
