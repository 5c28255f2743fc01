# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A mail as bytes, of the parts that a report gives.

Nothing in it is trusted but the settings: names of jobs and users hold anything, and a header takes one line of what
can be printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email import policy
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from unicodedata import category

import msgspec

from slurmscope.mail.address import domain_of, of_sender
from slurmscope.settings import Mail

_LONGEST_SUBJECT = 200
_LONGEST_URL = 900  # a line of a mail has 998 characters at most
_CID = re.compile(r"[A-Za-z0-9._@-]+")
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_SPACES = re.compile(r"\s+")
# Lines of 78 where that is possible, CRLF, all of it in ASCII: not every server takes more.
_POLICY = policy.SMTP.clone(cte_type="7bit")


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a mail says."""

    subject: str
    text: str
    html: str = ""  # "": text alone
    pictures: Mapping[str, bytes] = {}  # PNG, by the name that the HTML calls them: cid:NAME


def compose(content: Content, settings: Mail, *, id_: str, recipient: str, time: int, unsubscribe: str = "") -> bytes:
    """The mail for one recipient. `unsubscribe` is the address of a page that takes a POST."""
    name, sender = of_sender(settings.sender)
    made = EmailMessage(policy=_POLICY)
    made["From"] = _address(line(name), sender)
    made["To"] = _address("", recipient)
    made["Date"] = datetime.fromtimestamp(time, UTC)
    made["Message-ID"] = f"<{id_}@{domain_of(settings.sender)}>"
    if settings.reply_to:
        made["Reply-To"] = _address("", settings.reply_to)
    # so that no holiday message answers it, and no list server either
    made["Auto-Submitted"] = "auto-generated"
    made["Precedence"] = "bulk"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content(_whole(content.text), charset="utf-8")
    if content.html:
        _add_html(made, content)
    return _subject(content.subject) + _unsubscribing(unsubscribe) + made.as_bytes()


def _subject(subject: str) -> bytes:
    """By hand: on one line where that is possible, for filters, and what looks like an encoded word is none."""
    text = line(subject)[:_LONGEST_SUBJECT].rstrip() or "slurmscope"
    if not text.isascii() or "=?" in text:
        text = Header(text, "utf-8", header_name="Subject").encode(linesep="\r\n")
    return f"Subject: {text}\r\n".encode("ascii")


def _unsubscribing(url: str) -> bytes:
    """By hand: a line that is long and has no spaces would be encoded, and no mail program reads it then."""
    if not url or not url.isascii() or not url.isprintable() or len(url) > _LONGEST_URL:
        return b""
    return f"List-Unsubscribe: <{url}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode()


def _add_html(made: EmailMessage, content: Content) -> None:
    made.add_alternative(_whole(content.html), subtype="html", charset="utf-8")
    page = made.get_payload(1)
    assert isinstance(page, EmailMessage)
    for cid, picture in content.pictures.items():
        if not _CID.fullmatch(cid):
            raise ValueError(f"no name for a picture: {cid!r}")
        page.add_related(
            picture, maintype="image", subtype="png", cid=f"<{cid}>", disposition="inline", filename=f"{cid}.png"
        )


def _address(name: str, address: str) -> Address:
    local, _, domain = address.partition("@")
    return Address(name, local, domain)


def line(text: str) -> str:
    """One line of what can be printed."""
    return _SPACES.sub(" ", "".join(char if char.isprintable() else " " for char in text)).strip()


def _whole(text: str) -> str:
    """Text that can be encoded and shown: no signs of control but lines and tabs, and none that turn text around."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join("�" if _hidden(char) else char for char in lines)


def _hidden(char: str) -> bool:
    return char not in "\n\t" and (char in _TURNS or category(char) in ("Cc", "Cs", "Zl", "Zp"))
