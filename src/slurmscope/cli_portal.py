# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands `slurmscope portal …`: who may sign in, who is signed in, and what was done by whom.

web/people/desk.py does them. It is loaded by these alone, so that no other command pays for it.
"""

from __future__ import annotations

from pathlib import Path

import click

from slurmscope.terminal import config_option

json_option = click.option("--json", "as_json", is_flag=True, help="For scripts.")


@click.group("portal")
def portal_group() -> None:
    """People of the portal: local accounts, tokens, sessions, and the log of what was done.

    \b
    slurmscope portal user add alice       an account; asks for its password
    slurmscope portal sessions end alice   sign somebody out everywhere
    slurmscope portal log                  who signed in from where, and who was refused

    Local accounts are for `portal.sign_in = ["local"]` (docs/sign-in.md). Run these as the user of `slurmscope serve`;
    they take effect at once.
    """


# --- local accounts ---------------------------------------------------------------------------------------------------


@portal_group.group("user")
def user_group() -> None:
    """Local accounts, by which people sign in with a name and a password."""


@user_group.command("add")
@click.argument("name")
@config_option
def add_command(name: str, path: Path | None) -> None:
    """Make an account. NAME is that of the user in Slurm.

    Asks for the password twice; where standard input is no terminal, its first line is the password.
    """
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.add(name, path)


@user_group.command("password")
@click.argument("name")
@config_option
def password_command(name: str, path: Path | None) -> None:
    """Give an account another password. Who is signed in by that name is signed out, and its tokens are revoked: they
    may have been made by whoever had the older password.

    Asks for the password twice; where standard input is no terminal, its first line is the password.
    """
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.change(name, path)


@user_group.command("remove")
@click.argument("name")
@config_option
def remove_command(name: str, path: Path | None) -> None:
    """Remove an account, with its sessions and tokens."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.remove(name, path)


@user_group.command("list")
@config_option
@json_option
def list_command(path: Path | None, as_json: bool) -> None:
    """Print all accounts, when they were made, and when they last got a password."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.accounts(path, as_json)


# --- tokens -----------------------------------------------------------------------------------------------------------


@portal_group.group("token")
def token_group() -> None:
    """Tokens of the API, which people make for themselves in the portal."""


@token_group.command("list")
@config_option
@click.option("--user", help="Only those of this user.")
@json_option
def list_tokens_command(path: Path | None, user: str | None, as_json: bool) -> None:
    """Print whose tokens there are, what for, and when they were last used. The tokens themselves nobody knows."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.tokens(path, user, as_json)


@token_group.command("revoke")
@click.argument("number", type=int)
@config_option
def revoke_command(number: int, path: Path | None) -> None:
    """End a token. NUMBER is as `slurmscope portal token list` has it."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.revoke(number, path)


# --- sessions, and what was done --------------------------------------------------------------------------------------


@portal_group.group("sessions")
def sessions_group() -> None:
    """Who is signed in."""


@sessions_group.command("end")
@click.argument("user")
@config_option
def end_command(user: str, path: Path | None) -> None:
    """Sign somebody out everywhere. Tokens stay; `slurmscope portal token list` prints them."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.end_sessions(user, path)


@portal_group.command("log")
@config_option
@click.option("--user", help="Only what this user did.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="So many at most.")
@json_option
def log_command(path: Path | None, user: str | None, limit: int, as_json: bool) -> None:
    """Print who signed in, from where and how, who was refused, and what was changed. Kept for 400 days."""
    from slurmscope.web.people import desk  # noqa: PLC0415

    desk.log(path, user, limit, as_json)
