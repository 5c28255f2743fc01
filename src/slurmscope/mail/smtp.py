# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mail over SMTP, so that none is sent twice.

A server takes a mail when it has got its last line, a dot. All but that is sent first. Then the caller writes down
that the mail is handed over, and only then the dot follows. Who is killed before the dot has sent nothing; who is
killed after it knows that the mail may have arrived.

  SmtpError
    Unavailable   the server cannot be used now, for any mail; or it refuses us, and not this mail
    Later         not this mail, now
    Refused       not this mail, ever: by its recipient, or once all of it was read
    Unsure        the dot was sent, and no answer came
    Taken         somebody else has sent it, or it is not to be sent any more
"""

from __future__ import annotations

import os
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slurmscope.mail.message import line
from slurmscope.settings import Mail

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_MOST_SAID = 300
_GOING = 421
_PATIENCE = 10  # times mail.answer_seconds


class SmtpError(Exception):
    pass


class Unavailable(SmtpError):
    pass


class Later(SmtpError):
    pass


class Refused(SmtpError):
    pass


class Unsure(SmtpError):
    pass


class Taken(SmtpError):
    pass


class Connection:
    """One that is open; several mails may be sent over it, one after the other."""

    def __init__(self, smtp: smtplib.SMTP, where: str, patience: float) -> None:
        """`patience` are the seconds that the server may take for the last line."""
        self._smtp = smtp
        self._where = where
        self._patience = patience

    def submit(self, sender: str, recipient: str, message: bytes, hand: Callable[[], bool]) -> str:
        """What the server said when it had taken it. `hand` is called before the last line goes; False: it must not."""
        body = stuffed(message)
        try:
            self._begin(sender, recipient)
            self._smtp.send(body)
            if not self._there():
                raise Unavailable(f"{self._where}: the connection was lost before the mail was whole")
        except (smtplib.SMTPException, OSError) as error:
            raise Unavailable(f"{self._where}: {_words(error)}") from error
        if not hand():
            raise Taken("it is not to be sent any more")
        try:
            code, said = self._end()
        except (smtplib.SMTPException, OSError) as error:
            raise Unsure(f"{self._where}: no answer to the mail's last line: {_words(error)}") from error
        if 200 <= code < 300:
            return _said(code, said)
        raise _error(code, said, self._where)

    def _end(self) -> tuple[int, bytes]:
        """Servers look for viruses and the like before they answer: who gives up too early knows nothing."""
        sock = self._smtp.sock
        if sock is None:
            raise smtplib.SMTPServerDisconnected("the connection was lost")
        usual = sock.gettimeout()
        sock.settimeout(self._patience)
        self._smtp.send(b".\r\n")
        found = self._smtp.getreply()
        sock.settimeout(usual)
        return found

    def _begin(self, sender: str, recipient: str) -> None:
        for command, argument, wanted in (
            ("RSET", "", (250,)),
            ("MAIL", f"FROM:<{sender}>", (250,)),
            ("RCPT", f"TO:<{recipient}>", (250, 251)),
            ("DATA", "", (354,)),
        ):
            code, said = self._smtp.docmd(command, argument)
            if code not in wanted:
                found = _error(code, said, self._where)
                if isinstance(found, Refused) and command != "RCPT":
                    # whoever is the sender, and however we log in: it is so for every mail
                    raise Unavailable(f"{found} (to {command}): are mail.sender, mail.user and mail.security right?")
                raise found

    def _there(self) -> bool:
        """A server that has hung up, or speaks out of turn, has not taken what it was sent."""
        sock = self._smtp.sock
        if sock is None:
            return False
        with socket.socket(fileno=os.dup(sock.fileno())) as peek:
            try:
                seen = peek.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            # over TLS there may be something to read that is not for us
            return bool(seen) and isinstance(sock, ssl.SSLSocket)


@contextmanager
def connected(settings: Mail) -> Iterator[Connection]:
    """Raises Unavailable."""
    where = f"{settings.host}:{port_of(settings)}"
    smtp: smtplib.SMTP | None = None
    try:
        smtp = _opened(settings)
    except smtplib.SMTPAuthenticationError as error:
        cure = "are mail.user and mail.password right?"
        raise Unavailable(
            f"{where}: the login was refused ({_said(error.smtp_code, error.smtp_error)}): {cure}"
        ) from error
    except smtplib.SMTPNotSupportedError as error:
        cure = "mail.security is starttls, or mail.user is set, and the server offers neither"
        raise Unavailable(f"{where}: {_words(error)}: {cure}") from error
    except ssl.SSLCertVerificationError as error:
        cure = "is mail.host the name in it, and mail.ca who signed it?"
        raise Unavailable(f"{where}: its certificate is not believed ({error.verify_message}): {cure}") from error
    except ssl.SSLError as error:
        cure = "is mail.security what the server speaks at this port?"
        raise Unavailable(f"{where}: no TLS: {error.reason or error}: {cure}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise Unavailable(f"{where}: {_words(error)}") from error
    try:
        yield Connection(smtp, where, _PATIENCE * settings.answer_seconds)
    finally:
        # after what went wrong nothing more is said: half a mail must not become a whole one
        smtp.close()


def port_of(settings: Mail) -> int:
    return settings.port or _PORTS[settings.security]


def _opened(settings: Mail) -> smtplib.SMTP:
    port, name = port_of(settings), socket.gethostname()
    password = password_of(settings) if settings.user else ""
    context = ssl.create_default_context(cafile=settings.ca or None) if settings.security != "none" else None
    if settings.security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            settings.host, port, name, timeout=settings.answer_seconds, context=context
        )
    else:
        smtp = smtplib.SMTP(settings.host, port, name, timeout=settings.answer_seconds)
    try:
        smtp.ehlo_or_helo_if_needed()
        if settings.security == "starttls":
            code, said = smtp.starttls(context=context)
            if code != 220:
                raise smtplib.SMTPResponseException(code, said)
            smtp.ehlo_or_helo_if_needed()
        if settings.user:
            smtp.login(settings.user, password)
    except BaseException:
        smtp.close()
        raise
    return smtp


def password_of(settings: Mail) -> str:
    """Raises Unavailable."""
    if not settings.user.isascii() or not settings.password.isascii():
        raise Unavailable("mail.user, mail.password: expected ASCII, for servers agree on no other letters")
    if not settings.password_file:
        return settings.password
    try:
        return Path(settings.password_file).read_text("ascii").rstrip("\r\n")
    except OSError as error:
        raise Unavailable(f"{settings.password_file}: {error.strerror} (mail.password_file)") from error
    except ValueError as error:
        raise Unavailable(f"{settings.password_file}: expected ASCII (mail.password_file)") from error


def stuffed(message: bytes) -> bytes:
    """With the ends of lines and the doubled dots that SMTP wants, all but the last line."""
    lines = re.sub(rb"\r\n|\r|\n", b"\r\n", message)
    if not lines.endswith(b"\r\n"):
        lines += b"\r\n"
    return re.sub(rb"(?m)^\.", b"..", lines)


def _error(code: int, said: bytes, where: str) -> SmtpError:
    words = f"{where}: {_said(code, said)}"
    if code == _GOING or code < 0:
        return Unavailable(words)
    return Refused(words) if 500 <= code < 600 else Later(words)


def _said(code: int, said: bytes | str) -> str:
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return line(f"{code} {words}")[:_MOST_SAID]


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _said(error.smtp_code, error.smtp_error)
    with suppress(AttributeError):
        if error.strerror:  # type: ignore[attr-defined]
            return str(error.strerror)  # type: ignore[attr-defined]
    return line(str(error)) or type(error).__name__
