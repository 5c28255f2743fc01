# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A mail is whole and can be read by any program, whatever people call themselves and their jobs."""

from __future__ import annotations

import email.utils
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.mail.address import of_recipients, of_user, usable
from slurmscope.mail.message import Content, compose, line
from slurmscope.mail.smtp import stuffed
from slurmscope.settings import Mail

MAIL = Mail(sender="Cluster Größe <slurm@example.org>", reply_to="help@example.org", address="{user}@example.org")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "Auto-Submitted",
    "Precedence",
    "X-Auto-Response-Suppress",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
]
ANYTHING = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=300)


def read(data: bytes) -> EmailMessage:
    found = message_from_bytes(data, policy=policy.SMTP)
    assert isinstance(found, EmailMessage)
    return found


def made(content: Content, **more: Any) -> EmailMessage:
    given: dict[str, Any] = {"id_": "abc", "recipient": "alice@example.org", "time": 1_700_000_000}
    return read(compose(content, MAIL, **(given | more)))


def test_text_page_and_pictures_are_where_mail_programs_look_for_them() -> None:
    page = '<p>ü</p><img src="cid:chart-1">'
    mail = made(Content(subject="Größe π", text="ü\n", html=page, pictures={"chart-1": PNG}))
    assert mail.get_content_type() == "multipart/alternative"
    text, related = mail.iter_parts()
    assert (text.get_content_type(), text.get_content_charset()) == ("text/plain", "utf-8")
    assert text.get_content().splitlines() == ["ü"]
    assert related.get_content_type() == "multipart/related"
    html, picture = related.iter_parts()
    assert (html.get_content_type(), html.get_content().strip()) == ("text/html", page)
    assert picture["Content-ID"] == "<chart-1>"
    assert picture.get_content_disposition() == "inline"
    assert picture.get_content() == PNG
    assert mail["Subject"] == "Größe π"
    assert mail["From"].addresses[0].display_name == "Cluster Größe"
    assert not mail.defects


def test_all_of_a_mail_is_ascii_for_servers_that_take_nothing_else() -> None:
    content = Content(subject="π", text="Leave it out: π.\n", html="<p>π</p>")
    assert compose(content, Mail(), id_="1", recipient="a@example.org", time=1).isascii()
    assert made(content).get_body(("plain",)) is not None


def test_headers() -> None:
    mail = made(Content(subject="x", text="y"), unsubscribe="https://slurmscope.example.org/opt-out/abc")
    assert mail["Message-ID"] == "<abc@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Precedence"] == "bulk"
    assert mail["Reply-To"] == "help@example.org"
    assert mail["List-Unsubscribe"] == "<https://slurmscope.example.org/opt-out/abc>"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert email.utils.parsedate_to_datetime(mail["Date"]).timestamp() == 1_700_000_000


def test_a_long_link_to_opt_out_stays_on_its_line_and_is_not_encoded() -> None:
    url = f"https://slurmscope.example.org/opt-out/{'x' * 800}"
    content = Content(subject="x", text="y")
    data = compose(content, MAIL, id_="abc", recipient="alice@example.org", time=0, unsubscribe=url)
    assert f"List-Unsubscribe: <{url}>\r\n".encode() in data
    assert made(content, unsubscribe=f"{url}\r\nBcc: x")["List-Unsubscribe"] is None


@pytest.mark.parametrize("subject", ["Slurm Job_id=7 " + "x " * 60, "=?utf-8?q?=41?=", "ü" * 150, "a =?x?= ü" * 9])
def test_subjects_are_read_as_they_were_written(subject: str) -> None:
    assert str(made(Content(subject=subject, text=""))["Subject"]) == subject.strip()


@given(ANYTHING, ANYTHING, ANYTHING)
def test_nothing_that_people_write_becomes_a_header(subject: str, text: str, html: str) -> None:
    data = compose(
        Content(subject=subject, text=text, html=html), MAIL, id_="abc", recipient="alice@example.org", time=0
    )
    mail = read(data)
    assert set(mail.keys()) <= set(HEADERS)
    assert len(mail.keys()) == len(set(mail.keys()))
    assert line(str(mail["Subject"])) == line(subject)[:200].strip() or not line(subject)
    head = data.partition(b"\r\n\r\n")[0]
    assert head.isascii()
    assert all(len(one) <= 998 for one in data.split(b"\r\n"))
    assert b"\n" not in data.replace(b"\r\n", b"") and b"\r" not in data.replace(b"\r\n", b"")


@given(st.binary(max_size=500))
def test_no_line_of_a_mail_ends_it(message: bytes) -> None:
    found = stuffed(message)
    assert found.endswith(b"\r\n")
    assert b"\r\n.\r\n" not in b"\r\n" + found
    lines = [one.removeprefix(b".") for one in found.split(b"\r\n")[:-1]]
    back = b"\r\n".join(lines) + b"\r\n"
    assert back.replace(b"\r\n", b"").replace(b".", b"") == message.replace(b"\r", b"").replace(b"\n", b"").replace(
        b".", b""
    )


def test_what_cannot_be_seen_is_shown_and_spaces_that_do_not_break_stay() -> None:
    text = "a\u00a0b\tc\x1b[31m\u202ed\u2028e\udcff"
    assert made(Content(subject="x", text=text)).get_content().splitlines() == ["a\u00a0b\tc�[31m�d�e�"]


@pytest.mark.parametrize("name", ["../x", "a b", 'a"b', "a>b", ""])
def test_a_picture_has_a_name_that_cannot_be_more(name: str) -> None:
    with pytest.raises(ValueError, match="no name for a picture"):
        made(Content(subject="x", text="y", html="z", pictures={name: PNG}))


@pytest.mark.parametrize(
    ("address", "right"),
    [
        ("alice", True),
        ("dana.o-neil@example.org", True),
        ("alice@host.example.org", True),
        ("", False),
        ("a b@example.org", False),
        ("alice@example.org\nBcc: x@y", False),
        ("alice@example.org>", False),
        ("<alice@example.org>", False),
        ("a@b@c", False),
        ("ü@example.org", False),
        (".a@example.org", False),
        ("a" * 300, False),
    ],
)
def test_addresses(address: str, right: bool) -> None:
    assert usable(address) == right


def test_whose_address() -> None:
    mail = Mail(address="{user}@example.org", addresses={"bob": "robert@example.com"})
    assert of_user("alice", mail) == "alice@example.org"
    assert of_user("bob", mail) == "robert@example.com"
    assert of_user("x\nBcc: y", mail) is None
    assert of_recipients("alice", mail) == ["alice@example.org"]
    assert of_recipients("carol@home.example, alice, carol@home.example", mail) == [
        "carol@home.example",
        "alice@example.org",
    ]
    assert of_recipients("no body@x, ,", mail) == []


@given(ANYTHING)
def test_whatever_a_recipient_is_called_the_address_is_one(name: str) -> None:
    assert all(usable(one) for one in of_recipients(name, MAIL))
