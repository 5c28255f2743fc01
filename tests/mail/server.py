# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real mail server on loopback, which can be told to be difficult."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from slurmscope.settings import Mail

USER, PASSWORD = "slurmscope", "open sesame"


class Box:
    """What has arrived, and what is answered to RCPT and to the last line."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.rcpt: dict[str, str] = {}  # answers by address
        self.data = "250 taken"
        self.hang_up = False  # at the last line, after it was taken
        self.hang = False  # at the last line, and never answer
        self.slow = 0.0  # seconds before the last line is answered

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.rcpt:
            return self.rcpt[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.data.startswith("250"):
            content = envelope.content
            assert isinstance(content, bytes)
            self.mails.append(message_from_bytes(content, policy=policy.SMTP))
            self.recipients += envelope.rcpt_tos
        if self.hang_up:
            assert isinstance(server.transport, asyncio.WriteTransport)
            server.transport.abort()
        if self.hang:
            await asyncio.sleep(600)
        await asyncio.sleep(self.slow)
        return self.data

    @property
    def ids(self) -> list[str]:
        return [str(mail["Message-ID"]) for mail in self.mails]


def authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    if not cert.exists():
        words = (
            "req -x509 -newkey rsa:2048 -nodes -subj /CN=mail.example.org -days 1 -addext subjectAltName=IP:127.0.0.1"
        )
        subprocess.run(["openssl", *words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def serving(box: Box, folder: Path | None = None, *, implicit: bool = False, login: bool = False) -> Iterator[int]:
    """At a port of 127.0.0.1. With a folder there is TLS: offered and demanded, or from the start."""
    more: dict[str, Any] = {}
    if folder is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate(folder))
        more = {"ssl_context": context} if implicit else {"tls_context": context, "require_starttls": True}
    if login:
        more |= {
            "authenticator": authenticate,
            "auth_required": True,
            "auth_require_tls": folder is not None and not implicit,
        }
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), **more)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


def settings(port: int, **more: Any) -> Mail:
    given: dict[str, Any] = {
        "enabled": True,
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "Cluster <slurm@example.org>",
        "address": "{user}@example.org",
        "per_minute": 100_000,
        "answer_seconds": 10.0,
    }
    return Mail(**(given | more))
