# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope agent`."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import click

from slurmscope.settings import Settings
from slurmscope.terminal import config_option, fail, load, run, show, show_json

_BETWEEN = 1.0  # seconds between the two looks of --once: what is used is told by the difference


@click.command("agent")
@config_option
@click.option("--listen", metavar="HOST:PORT", help="Address of its page, e.g. :9095 for all interfaces, or none.")
@click.option("--once", is_flag=True, help="Look twice, a second apart, print the page, and exit.")
@click.option(
    "--json", "as_json", is_flag=True, help="For scripts: what --once, or --check, tells as JSON; alone, as --once."
)
@click.option("--check", is_flag=True, help="Say what can be measured here, what cannot, and what to do; then exit.")
def agent_command(path: Path | None, listen: str | None, once: bool, as_json: bool, check: bool) -> None:
    """Measure what the jobs of this node use, and serve it as http://127.0.0.1:9095/metrics.

    Runs on each compute node. Jobs and their processes are found in cgroups (version 1 or 2, as Slurm 22.05 to 26.05
    name them), what they use in cgroups, /proc and, where there are GPUs, the driver. Needs no root for what the kernel
    lets anybody read; --check says what more there would be.

    \b
    slurmscope agent --check      what can be measured here
    slurmscope agent --once       one look at the jobs of this node
    slurmscope agent              serve it; agent.serve_url and pushgateway.url send it as well

    docs/agent.md has the systemd unit and what each Slurm setting must be, docs/metrics.md every metric.
    """
    settings = load(path, agent__listen=listen).settings
    # only here, so that nobody else pays for loading it
    from slurmscope.node import agent  # noqa: PLC0415

    if check:
        _check(settings, as_json)
    elif once or as_json:
        run(_once(settings, as_json))
    else:
        run(agent.serve(settings))


async def _once(settings: Settings, as_json: bool) -> None:
    from slurmscope.node import agent  # noqa: PLC0415
    from slurmscope.node.page import Pages  # noqa: PLC0415

    try:
        looking = agent.of_settings(settings)
        await looking.look()
        await asyncio.sleep(_BETWEEN)
        await looking.look()
    except (OSError, RuntimeError) as error:  # the host denies us a thread, or a file
        fail(f"the jobs of this node cannot be looked at: {error}; `slurmscope agent --check` says more")
    if as_json:
        show_json(looking.reports)
    else:
        show(
            b"".join(
                await Pages(looking, compat=settings.metrics.compat).body("default", openmetrics=False, gzip=False)
            )
        )


def _check(settings: Settings, as_json: bool) -> None:
    from slurmscope.doctor import finding, report  # noqa: PLC0415
    from slurmscope.node.check import check as look  # noqa: PLC0415

    findings = run(look(settings))
    if as_json:
        show_json(findings)
    else:
        terminal = sys.stdout is not None and sys.stdout.isatty()
        show(report.text(findings, shutil.get_terminal_size((100, 24)).columns, colour=terminal).rstrip("\n"))
    sys.exit(finding.exit_status(findings))
