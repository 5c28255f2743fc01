# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of slurmdbd's database: `slurmscope db grant` and `slurmscope db jobs`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from slurmscope.database import grant as granting
from slurmscope.database.connection import Connection, DatabaseError, Target, first_line, password_of, reader
from slurmscope.database.grant import Found, Statement, Wanted
from slurmscope.database.jobs import Job, jobs_of, user_of
from slurmscope.settings import Database
from slurmscope.terminal import config_option, fail, load, show, show_json, show_table
from slurmscope.words import printable

_SOCKETS = ("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock")  # Debian's, and Red Hat's
_HERE = ("127.0.0.1", "localhost", "::1")
_ADMIN_CURE = (
    "run this as root, whom the server knows by its socket (--socket), or name somebody else (--admin-user, "
    "--admin-password-file)"
)


@contextmanager
def _told() -> Iterator[None]:
    """What the database would not do ends the command, in one line."""
    try:
        yield
    except DatabaseError as error:
        fail(printable(str(error)))


@click.group("db")
def db_group() -> None:
    """Ask slurmdbd's database (MariaDB, MySQL) which jobs a user had.

    \b
    slurmscope db grant    once, and again when clusters come or go: makes a view, and a user who may read that alone
    slurmscope db jobs     reads it

    Both need `pip install 'slurmscope[database]'`; the section [database] of the settings says where the database is
    (docs/database.md).
    """


# --- grant ------------------------------------------------------------------------------------------------------------


@db_group.command()
@config_option
@click.option("--admin-user", default="root", show_default=True, help="Who makes the view; it works with his rights.")
@click.option(
    "--admin-password-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with his password in its first line. Default: he needs none, as root by the server's socket.",
)
@click.option(
    "--socket",
    metavar="PATH",
    help="The server's socket. Default: database.socket; else the system's, where it is there and database.host is "
    "this machine; else by host and port. With '' by host and port.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="From where the user may come: a name, an address, 10.1.%. May be given several times. "
    "Default: localhost (by the socket) and 127.0.0.1.",
)
@click.option(
    "--password-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with the password that the user gets, in its first line.",
)
@click.option(
    "--write-password",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The same, and where there is no such FILE, a password is made and written into it (mode 0600).",
)
@click.option("--dry-run", is_flag=True, help="Print the SQL, without the password, and change nothing.")
@click.option("--revoke", is_flag=True, help="Remove the view and the user.")
def grant(
    path: Path | None,
    admin_user: str,
    admin_password_file: Path | None,
    socket: str | None,
    hosts: tuple[str, ...],
    password_file: Path | None,
    write_password: Path | None,
    dry_run: bool,
    revoke: bool,
) -> None:
    """Make a view of users and their jobs, and a user of the database who may read it and nothing else.

    The view (database.view) has user id, job id, array and task, name, cluster and time of submission of all clusters'
    jobs. Run this again when a cluster was added, and when one was removed; it does no harm. Who is there keeps his
    password, unless one is given: by --password-file or --write-password, or else by database.password or
    database.password_file. Where there is none at all, one is made, and printed once.

    \b
    slurmscope db grant --dry-run                                          what would be done
    slurmscope db grant --write-password /etc/slurmscope/database.password
    slurmscope db grant --revoke                                           undo it
    """
    if password_file and write_password:
        fail("--write-password: expected none beside --password-file: leave out one of them", 2)
    if revoke and (password_file or write_password or hosts):
        fail("--revoke: expected neither a password nor --host beside it: whoever has that name is removed", 2)
    settings = load(path).settings.database
    wanted = Wanted(settings.name, settings.view, settings.user, hosts or ("localhost", "127.0.0.1"))
    with _told(), Connection(_admin(settings, admin_user, admin_password_file, socket)) as connection:
        found = granting.look(connection, wanted)
        if revoke:
            statements = granting.revoking(wanted, found)
            said = [f"{wanted.database}.{wanted.view}, {_accounts(wanted.user, found.hosts) or 'no user'}: removed"]
        else:
            password, how = None, "password: kept as it was"
            if _gets_password(settings, (password_file, write_password), found):
                # a dry run makes none, reads none and writes none
                password, how = ("*", "") if dry_run else _password(settings, password_file, write_password)
            statements, said = granting.granting(wanted, found, password), _report(wanted, found, how)
        if dry_run:
            show(_script(statements))
            return
        granting.carry_out(connection, statements)
    show("\n".join(map(printable, said)))


def _admin(settings: Database, user: str, password_file: Path | None, socket: str | None) -> Target:
    """Who makes the view, at the server that the settings name."""
    if socket is None:
        known = [one for one in _SOCKETS if settings.host in _HERE and Path(one).is_socket()]
        socket = settings.socket or next(iter(known), "")
    password = first_line(password_file) if password_file else ""
    return Target(user, password, settings.host, settings.port, socket, settings.ca, _ADMIN_CURE)


def _gets_password(settings: Database, options: tuple[Path | None, ...], found: Found) -> bool:
    """Whether the user gets one, or keeps his."""
    return any(options) or bool(settings.password or settings.password_file) or not found.hosts


def _password(settings: Database, given: Path | None, written: Path | None) -> tuple[str, str]:
    """The password that the user gets, and what is to be said of it. Raises DatabaseError."""
    if given is not None:
        return first_line(given), f"password: as in {given}"
    if written is not None:
        return _written(written)
    if settings.password or settings.password_file:
        return password_of(settings), "password: as the settings have it"
    password = granting.new_password()
    return password, f"password: {password} (not shown again; database.password_file names a file that has it)"


def _written(path: Path) -> tuple[str, str]:
    """The same, of a file; where there is none, it is made, for its owner's eyes alone."""
    password = granting.new_password()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{password}\n")
    except FileExistsError:
        return first_line(path), f"password: as in {path}"
    except OSError as error:
        raise DatabaseError(f"--write-password: {path}: cannot be written: {error.strerror}") from error
    return password, f"password: made, and written into {path}"


def _report(wanted: Wanted, found: Found, how: str) -> list[str]:
    said = [
        f"{wanted.database}.{wanted.view}: the jobs of {', '.join(found.clusters)}",
        f"{_accounts(wanted.user, wanted.hosts)}: may read it, and nothing else",
        how,
    ]
    if found.removed:
        said.append(f"left out: {', '.join(found.removed)}, which slurmdbd has no more")
    if others := [host for host in found.hosts if host not in wanted.hosts]:
        said.append(f"there before, and left as it was: {_accounts(wanted.user, others)}")
    return said


def _accounts(user: str, hosts: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"{user}@{host}" for host in hosts)


def _script(statements: list[Statement]) -> str:
    return "\n".join(f"{one.shown};" for one in statements)


# --- jobs -------------------------------------------------------------------------------------------------------------


@db_group.command()
@click.argument("user", metavar="USER")
@config_option
@click.option("--cluster", help="Of which cluster. Default: all that the database has.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    help="The latest so many. 0: all.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="For scripts: an object with the user's name, and a list of jobs."
)
def jobs(user: str, path: Path | None, cluster: str | None, limit: int, as_json: bool) -> None:
    """List the jobs of a user, the latest first, from slurmdbd's database.

    USER is a name, as this machine knows it, or the number of a user. A requeued job is there once for each time it was
    submitted. The database is read with the rights of database.user, which `slurmscope db grant` makes.

    \b
    slurmscope db jobs alice --limit 10
    slurmscope db jobs 64101 --cluster alpha --json
    """
    settings = load(path).settings.database
    who = user_of(user)
    if who is None:
        fail(
            f"USER: expected a name that this machine knows (`getent passwd`), or a number, found {printable(user)!r}",
            2,
        )
    with _told(), Connection(reader(settings)) as connection:
        # one more tells whether there are more
        found = jobs_of(connection, settings, who.uid, cluster, limit + 1 if limit else None)
    more = bool(limit) and len(found) > limit
    found = found[:limit] if limit else found
    if as_json:
        show_json({who.name: found})
    elif found:
        show_table(("job", "cluster", "submitted", "name"), [_row(job) for job in found])
    else:
        where = f" on {printable(cluster)}" if cluster else ""
        show(f"no jobs of {printable(who.name)} ({who.uid}){where}")
    if more:
        click.echo(f"slurmscope: these are the latest {limit}; --limit 0 lists all", err=True)


def _row(job: Job) -> tuple[str, ...]:
    number = f"{job.array_id}_{job.array_task} ({job.id})" if job.array_task is not None else str(job.id)
    when = (
        "unknown"
        if job.submit_time is None
        else f"{datetime.fromtimestamp(job.submit_time, UTC):%Y-%m-%d %H:%M:%S UTC}"
    )
    return number, printable(job.cluster), when, printable(job.name)
