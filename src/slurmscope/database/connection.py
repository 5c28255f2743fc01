# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to MariaDB or MySQL, and what its errors mean to the one who runs the command."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from slurmscope.settings import Database

if TYPE_CHECKING:
    import pymysql

_TIMEOUT = 60  # seconds for one answer; slurmdbd may hold what is asked for
_CONNECT_TIMEOUT = 10
_UNREACHABLE = (2002, 2003)
_BROKEN = (2006, 2013)
_REFUSED = (1045, 1698)
_NOT_ALLOWED = (1044, 1142, 1143, 1227, 1410)
_NO_TEXT = "a name that was given (user, host, cluster) is no text in UTF-8"  # and may stand beside a password


class DatabaseError(Exception):
    """What the database did not do, and the cure; `code` is the server's number for it."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Target(NamedTuple):
    """Which server, and who we are to it."""

    user: str
    password: str
    host: str
    port: int
    socket: str
    """In place of host and port, where it is set."""
    ca: str
    cure: str
    """What to do when the server refuses us."""

    @property
    def where(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


def reader(settings: Database) -> Target:
    """The user who may read the view. Raises DatabaseError."""
    return Target(
        settings.user,
        password_of(settings),
        settings.host,
        settings.port,
        settings.socket,
        settings.ca,
        "is the password right (database.password, database.password_file), and has `slurmscope db grant` been run, "
        "with the --host that we come from?",
    )


def password_of(settings: Database) -> str:
    """Raises DatabaseError."""
    return first_line(settings.password_file) if settings.password_file else settings.password


def first_line(path: str | Path) -> str:
    """Of a file that holds a secret. Raises DatabaseError."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(4096).rstrip(b"\r\n").decode("ascii")
    except OSError as error:
        raise DatabaseError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        line = ""
    # what else there is, servers understand in one character set or another
    if not line or not line.isprintable():
        raise DatabaseError(f"{path}: expected a password in its first line, of letters, digits and signs of ASCII")
    return line


class Connection:
    """Raises DatabaseError, from each of its methods."""

    def __init__(self, target: Target) -> None:
        self._target = target
        try:
            # only here: it is an extra, and nothing else needs it
            import pymysql  # noqa: PLC0415
        except ImportError as missing:
            raise DatabaseError(
                f"the database is read by pymysql ({missing}): pip install 'slurmscope[database]'"
            ) from missing
        self._error = pymysql.err.Error
        self._connection: pymysql.Connection[Any]
        try:
            self._connection = pymysql.connect(
                user=target.user,
                password=target.password,
                host=target.host,
                port=target.port,
                unix_socket=target.socket or None,
                ssl=_context(target),
                charset="utf8mb4",
                connect_timeout=_CONNECT_TIMEOUT,
                read_timeout=_TIMEOUT,
                write_timeout=_TIMEOUT,
                autocommit=True,
            )
        except pymysql.err.Error as error:
            raise self._told(error) from error
        except UnicodeEncodeError as error:
            raise DatabaseError(_NO_TEXT) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """What is asked for; each `%s` stands for a value."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, values or None)
                return list(cursor.fetchall())
        except self._error as error:
            raise self._told(error) from error
        except UnicodeEncodeError as error:
            raise DatabaseError(_NO_TEXT) from error

    def _told(self, error: Exception) -> DatabaseError:
        code, said = (*error.args, "")[:2] if error.args and isinstance(error.args[0], int) else (None, str(error))
        where, user, said = self._target.where, self._target.user, str(said)
        if code in _UNREACHABLE:
            reason = _why(getattr(error, "original_exception", None) or said)
            what = "is that its socket" if self._target.socket else "are database.host and database.port right"
            return DatabaseError(f"{where}: cannot be reached: {reason}: does the server run, and {what}?", code)
        if code in _BROKEN:
            return DatabaseError(f"{where}: the connection broke, or no answer came in {_TIMEOUT} s: {said}", code)
        if code in _REFUSED:
            return DatabaseError(f"{where}: refused the user {user}: {self._target.cure}", code)
        if code in _NOT_ALLOWED:
            return DatabaseError(f"{where}: the user {user} may not do this: {said}", code)
        return DatabaseError(f"{where}: {said}" + (f" (error {code})" if code else ""), code)


def _context(target: Target) -> ssl.SSLContext | None:
    # what goes through a socket does not leave the machine
    if not target.ca or target.socket:
        return None
    try:
        return ssl.create_default_context(cafile=target.ca)
    except (OSError, ssl.SSLError) as error:
        raise DatabaseError(f"{target.ca} (database.ca): cannot be used: {_why(error)}") from error


def _why(error: object) -> str:
    return getattr(error, "strerror", None) or str(error)
