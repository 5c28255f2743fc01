# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: one thin function a command."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import Progress

from slurmscope import (
    __version__,
    auth,
    cli_agent,
    cli_db,
    cli_job,
    cli_mail,
    cli_portal,
    cli_report,
    cli_rules,
    cli_store,
    cli_trace,
    cli_why,
    config,
)
from slurmscope.keeper import Archive
from slurmscope.look import bundle, complain, from_option, look, watched
from slurmscope.metrics import catalogue
from slurmscope.serve import assemble, serve
from slurmscope.settings import CloudWatch, Cluster, Elasticsearch, Mail, Portal, Prometheus, Pushgateway, Settings
from slurmscope.slurm import bundle as bundles
from slurmscope.slurm import capture as captures
from slurmscope.slurm.bundle import Bundle
from slurmscope.slurm.clusters import ways_of
from slurmscope.slurm.commands import COMMANDS, JOB_COMMANDS, WAYS, Command
from slurmscope.store import place
from slurmscope.store.protocol import StoreError
from slurmscope.terminal import asked_secret, bar, config_option, fail, load, named, run, show, show_json, show_table
from slurmscope.words import printable

listen_option = click.option(
    "--listen", metavar="HOST:PORT", help="Address to serve on, e.g. :9092 for all interfaces."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slurmscope")
def main() -> None:
    """Read Slurm clusters and serve true numbers to Prometheus.

    \b
    slurmscope doctor      what works here, what is missing, and what to do about it
    slurmscope metrics     one look at the clusters, as Prometheus would see them
    slurmscope serve       go on looking, serve http://127.0.0.1:9092/metrics, and keep what happens
    slurmscope import      read the accounting of the last 90 days into what is kept
    slurmscope job 123     what is known of a job, and what it used
    slurmscope report      a job, a user, an account or a cluster, also as HTML and PDF
    slurmscope rules       the rules by which jobs are judged; who would have been told what
    slurmscope why 123     why a job waits, what can be done, and when it may start
    slurmscope agent       on a compute node: what its jobs use
    slurmscope capture     write down all that a cluster answers, for a bug report
    slurmscope run         within a job: run a command, and tell what it uses
    slurmscope demo        the same with a simulated cluster, no Slurm needed

    Settings come from slurmscope.toml, a .env file and the environment; `slurmscope config` shows those in force.
    """


@main.command("serve")
@config_option
@listen_option
@from_option
def serve_command(path: Path | None, listen: str | None, recording: Path | None) -> None:
    """Poll the clusters and serve their metrics until stopped.

    However many scrapers ask, slurmctld is asked once an interval (poll.interval). While it does not answer, the
    last good numbers are served with their age, and slurm_up is 0. Several clusters ([clusters.NAME] in the settings)
    are each read at their own pace.
    """
    settings = load(path, serve__listen=listen).settings
    if recording is not None:
        # it is of a moment that is long over, and nobody else's business
        _unused(settings, "a recording has no past, and so no portal")
        settings, url = _alone(settings), place.NONE
    else:
        url = place.prepared_url(settings.store)
    archive = None if url == place.NONE else Archive(url)
    run(serve(settings, watched(settings, recording, from_zero=True), archive=archive))


def _unused(settings: Settings, why: str) -> None:
    if settings.portal != Portal():
        click.echo(f"slurmscope: {why}: [portal] is not used", err=True)


def _alone(settings: Settings) -> Settings:
    """What is no cluster of theirs is not sent to the site's servers or people, nor asked of them."""
    return msgspec.structs.replace(
        settings,
        elasticsearch=Elasticsearch(),
        cloudwatch=CloudWatch(),
        pushgateway=Pushgateway(),
        prometheus=Prometheus(),
        mail=Mail(),
        portal=Portal(),
    )


@main.command()
@click.option("--seed", default=1, show_default=True, help="Which cluster is made; the same seed makes the same.")
@listen_option
def demo(seed: int, listen: str | None) -> None:
    """Serve a simulated cluster: 200 nodes with GPUs, jobs that come and go, and 90 days of past.

    Needs no Slurm and no root. The past is made at the first start, in half a minute, and kept in store.folder.
    """
    # only here, so that nobody else pays for loading the simulation
    from slurmscope.demo import start as demo_start  # noqa: PLC0415

    settings = load(None, serve__listen=listen).settings
    # one that is simulated, whatever clusters the settings name
    cluster = Cluster(msgspec.structs.replace(settings.slurm, cluster=""), settings.poll)
    _unused(settings, "nobody signs in to a simulated cluster")
    settings = _alone(settings)
    with bar("making a cluster") as (progress, task):
        try:
            url, source = demo_start.begin(
                place.folder_of(settings.store), seed, lambda done, of: progress.update(task, completed=done, total=of)
            )
        except StoreError as error:
            fail(str(error))
    simulated = assemble(cluster, settings, source, from_zero=True)
    told = f"{{}}/  (Ctrl-C stops it; its past is {url})"
    run(
        serve(
            settings,
            [simulated],
            lambda url: click.echo(f"a simulated cluster is at {told.format(url)}"),
            archive=Archive(url),
        )
    )


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
@from_option
def metrics(path: Path | None, profile: str, openmetrics: bool, recording: Path | None) -> None:
    """Ask the clusters once, print one page of metrics, and exit.

    For a look, or for node_exporter's textfile collector. `--profile slurmscope` passes `promtool check metrics`.
    Exits with 1 when nothing could be read, and with 0 when something could: slurm_up and slurm_part_up say what.
    """
    clusters = watched(load(path).settings, recording, from_zero=False)
    page = run(look(clusters, profile, openmetrics))
    complain(clusters)
    show(page)


@main.command()
@config_option
@from_option
def snapshot(path: Path | None, recording: Path | None) -> None:
    """Ask the clusters once and print all that is known of them as JSON: an object, or with several a list of them.

    Base units throughout: seconds, bytes, counts; times are UTC epoch seconds; null is unknown.
    """
    clusters = watched(load(path).settings, recording, from_zero=False)
    run(look(clusters, None, False))
    complain(clusters)
    found = [one.poll.snapshot for one in clusters]
    show_json(found[0] if len(found) == 1 else found)


@main.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
@from_option
@click.option("--cluster", help="Which one, where the settings name several ([clusters.NAME]).")
@click.option(
    "--ways",
    metavar=",".join(WAYS),
    help="Ask only by these. Default: by all that are set up. On a large cluster json takes long, and much memory.",
)
@click.option("--anonymise", is_flag=True, help="Replace names of people, accounts, jobs, hosts, paths and comments.")
def capture(
    file: Path, path: Path | None, recording: Path | None, cluster: str | None, ways: str | None, anonymise: bool
) -> None:
    """Ask a cluster everything, once, and write all its answers into FILE.

    FILE is one compressed document, for a bug report or for tests, which serve, metrics, snapshot and doctor read by
    --from. With --anonymise it tells nobody's name; with --from as well, an older recording is made anonymous.
    """
    settings = load(path).settings
    if recording is not None:
        found = bundle(recording)
    else:
        found = run(_captured(named(settings, cluster), ways.split(",") if ways else list(WAYS)))
    if anonymise:
        # only here, so that nobody else pays for loading it
        from slurmscope.anonymise import recording as anonymous  # noqa: PLC0415

        try:
            found = anonymous.anonymise(found)
        except anonymous.NameLeft as error:
            fail(str(error))
    good = sum(not answer.error for answer in found.answers)
    said = f"{good} of {len(found.answers)} questions answered"
    if good:
        try:
            size = captures.write(found, file)
        except bundles.BundleError as error:
            fail(str(error))
        said = f"{file}: {said}, {size / 1024:,.0f} KiB"
    click.echo(said, err=True)
    unanswered: dict[tuple[str, str], list[str]] = {}
    for answer in found.answers:
        if answer.error:
            unanswered.setdefault((answer.way, answer.error), []).append(answer.part)
    for (way, why), parts in unanswered.items():
        click.echo(f"  not by {way}: {', '.join(parts)}: {printable(why)}", err=True)
    if not good:
        fail("nothing was answered, and nothing is written; `slurmscope doctor` says what to do")


async def _captured(cluster: Cluster, names: list[str]) -> Bundle:
    if unknown := [name for name in names if name not in WAYS]:
        fail(f"--ways: {unknown[0]!r} is none of {', '.join(WAYS)}", 2)
    ways = [way for way in ways_of(cluster) if way.name in names]
    if not ways:
        fail(f"--ways: none of {', '.join(names)} is set up for this cluster", 2)
    try:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("asking", total=len(captures.questions(ways)))

            def asked(command: Command) -> None:
                progress.update(task, advance=1, description=f"{command.way} {command.part}")

            return await captures.capture(ways, asked)
    finally:
        for way in ways:
            await way.close()


@main.command()
@config_option
@from_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def doctor(path: Path | None, recording: Path | None, as_json: bool) -> None:
    """Look at this machine and at each cluster: what works, what is missing, and the next step.

    Exits with 0 when all is well, with 1 when something deserves a look, with 2 when something does not work.
    docs/doctor.md lists every check.
    """
    # only here, so that nobody else pays for loading it
    from slurmscope.doctor import examination, finding, report  # noqa: PLC0415

    loaded = load(path)
    logging.getLogger("slurmscope").setLevel(logging.CRITICAL)  # all that is wrong is a finding
    if recording is not None:
        findings = run(examination.examine_recording(bundle(recording, 2)))
    else:
        with Console(stderr=True).status("asking"):
            findings = run(examination.examine(loaded))
    if as_json:
        show_json(findings)
    else:
        terminal = sys.stdout is not None and sys.stdout.isatty()
        width = shutil.get_terminal_size((100, 24)).columns
        show(report.text(findings, width, colour=terminal).rstrip("\n"))
    sys.exit(finding.exit_status(findings))


@main.command("config")
@config_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def config_command(path: Path | None, as_json: bool) -> None:
    """Print the settings in force and where each came from."""
    rows = config.rows(load(path))
    if as_json:
        show_json([{"key": key, "value": _value(value), "origin": origin} for key, value, origin in rows])
        return
    show_table(("setting", "value", "from"), rows)


def _value(notation: str) -> object:
    """A value of TOML as JSON has it; a table, which JSON writes otherwise, stays as it is written."""
    try:
        return msgspec.json.decode(notation)
    except msgspec.DecodeError:
        return notation


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def commands(as_json: bool) -> None:
    """Print every question that slurmscope asks, by which way, how often, and why it has that form.

    Nothing else is ever asked; `slurmscope doctor` besides runs each command with --version, and `slurmscope agent` may
    ask which jobs have which SLUIDs (docs/agent.md). Nothing is changed, but where mail.cancel_zero_gpu is set scancel
    is run (docs/mail.md).
    """
    if as_json:
        found = [
            {
                "way": one.way,
                "part": one.part,
                "argv": one.argv,
                "every": one.every,
                "answers": one.answers,
                "why": one.why,
                "cost": one.cost,
                "cannot_know": one.lacks,
                "parser": f"{one.parse.__module__}.{one.parse.__name__}",
                "recording": one.recording,
            }
            for one in (*COMMANDS, *JOB_COMMANDS)
        ]
        show_json(found)
        return
    lines = []
    for one in (*COMMANDS, *JOB_COMMANDS):
        lines.append(" ".join(one.argv))
        for label, text in (
            ("way", f"{one.way}, for {one.part}"),
            ("answers", one.answers),
            ("why", one.why),
            ("cost", one.cost),
            ("every", one.every),
            ("lacks", "; ".join(f"{field} ({why})" for field, why in one.lacks.items())),
            ("parser", f"{one.parse.__module__}.{one.parse.__name__}, guarded by {one.recording}"),
        ):
            if text:
                lines.append(click.wrap_text(text, 100, f"  {label + ':':9}", " " * 11))
        lines.append("")
    show("\n".join(lines))


main.add_command(cli_agent.agent_command)
main.add_command(cli_db.db_group)
main.add_command(cli_job.job_command)
main.add_command(cli_mail.mail_group)
main.add_command(cli_mail.mailprog_command)
main.add_command(cli_portal.portal_group)
main.add_command(cli_report.report_group)
main.add_command(cli_rules.rules_group)
main.add_command(cli_store.import_command)
main.add_command(cli_store.store_group)
main.add_command(cli_trace.run_command)
main.add_command(cli_why.why_command)


@main.command("hash-password")
@click.option(
    "--token",
    is_flag=True,
    help="Hash a bearer token, for serve.tokens, agents.tokens or trace.tokens, in place of a password.",
)
def hash_password(token: bool) -> None:
    """Ask for a password and print its hash, for serve.users.

    Where standard input is no terminal, its first line is the secret:

    \b
    slurmscope hash-password --token < /etc/slurmscope/token
    """
    secret = asked_secret("token" if token else "password")
    show(auth.hash_token(secret) if token else auth.hash_password(secret))
