# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands `slurmscope mail …`, and `slurmscope mailprog`, which Slurm calls.

mail/desk.py does them. It is loaded by these alone, so that no other command pays for it.
"""

from __future__ import annotations

from pathlib import Path

import click

from slurmscope.terminal import config_option


@click.group("mail")
def mail_group() -> None:
    """Mail to people about their jobs: what is sent, what waits, what was decided.

    \b
    slurmscope mail check                      the settings, the server and the templates
    slurmscope mail check --to me@example.org  … and a test mail
    slurmscope mail preview job 123            what would be sent of a job
    slurmscope mail log --user alice           every decision, and why

    Nothing is sent before mail.enabled is set; all is decided and written down as if it were (docs/mail.md).
    """


@mail_group.command("check")
@config_option
@click.option("--to", metavar="ADDRESS", help="Send a test mail to this address, in a dry run too.")
def check_command(path: Path | None, to: str | None) -> None:
    """Look whether mail can be sent: the settings, the server with TLS and login, the templates.

    Exits with 1 where something does not work.
    """
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.check(path, to)


@mail_group.command("log")
@config_option
@click.option("--user", help="Only what is about this user.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def log_command(path: Path | None, user: str | None, limit: int, as_json: bool) -> None:
    """Print every decision: what was sent, what was not and why, what people said, what was cancelled."""
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.log(path, user, limit, as_json)


@mail_group.command("queue")
@config_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def queue_command(path: Path | None, as_json: bool) -> None:
    """Print what waits to be sent, and since when."""
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.queue(path, as_json)


@mail_group.command("opt-out")
@click.argument("user")
@config_option
@click.option("--undo", is_flag=True, help="The user wants mail again.")
def opt_out_command(user: str, path: Path | None, undo: bool) -> None:
    """Write down that a user wants no mail, for those who tell the help desk so."""
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.opt_out(user, path, undo)


@mail_group.command("send")
@config_option
def send_command(path: Path | None) -> None:
    """Decide what is new, and send what is due.

    Looks at jobs that have ended since the last time and, on the day for it, at everybody's week. Then sends what
    waits, if mail.enabled is set. Run it every few minutes by cron or a timer; several at once do no harm.
    """
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.send(path)


@mail_group.command("preview")
@click.argument("kind", type=click.Choice(["job", "digest"]))
@click.argument("whom", metavar="JOBID|USER")
@config_option
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it to this file (.eml).")
def preview_command(kind: str, whom: str, path: Path | None, output: Path | None) -> None:
    """Print the mail that would be sent of a job, or of a user's last week. Nothing is sent or written down."""
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.preview(kind, whom, path, output)


@click.command("mailprog", context_settings={"ignore_unknown_options": True})
@click.option("-s", "words", metavar="SUBJECT", required=True, help="What Slurm says.")
@click.argument("recipient", type=click.UNPROCESSED)
@config_option
@click.option("--cluster", help="Of which cluster the job is. Default: $SLURM_CLUSTER_NAME.")
@click.option("--user", help="Whose job it is. Default: $SLURM_JOB_USER.")
def mailprog_command(words: str, recipient: str, path: Path | None, cluster: str | None, user: str | None) -> None:
    """Send what Slurm has to say of a job, with a report when it has ended. For MailProg of slurm.conf.

    MailProg takes a path alone: packaging/slurm/mailprog calls this. The mail is written down, then sent at once if
    that is possible, or later by `slurmscope mail send`. It ends within a minute, whatever happens.
    """
    from slurmscope.mail import desk  # noqa: PLC0415

    desk.mailprog(words, recipient, path, cluster, user)
