# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What browsers are sent to run: little, only from here, and nothing that the content security policy forbids."""

from __future__ import annotations

import re
import zlib
from importlib import resources

import pytest

from slurmscope.web import files

WEB = resources.files("slurmscope.web")
SCRIPTS = sorted(one.name for one in WEB.joinpath("static").iterdir() if one.name.endswith(".js"))
TEMPLATES = [
    one
    for package in ("slurmscope.web", "slurmscope.reports")
    for one in resources.files(package).joinpath("templates").iterdir()
    if one.name.endswith(".html") and one.name not in ("report.html", "mail.html")  # those stand alone
]


def test_all_of_it_is_small() -> None:
    assert "portal.js" in SCRIPTS
    squeezed = [len(zlib.compress(WEB.joinpath("static", one).read_bytes(), 6)) for one in SCRIPTS]
    assert sum(squeezed) < 80_000, dict(zip(SCRIPTS, squeezed, strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_makes_code_or_markup_of_text_or_comes_from_elsewhere(name: str) -> None:
    script = WEB.joinpath("static", name).read_text()
    for forbidden in ("eval(", "new Function", "innerHTML", "outerHTML =", "insertAdjacentHTML", "document.write"):
        assert forbidden not in script
    addresses = set(re.findall(r"[\"'`]((?:https?:)?//[^\"'`]*)", script))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: str(one.name))
def test_pages_have_no_script_or_style_within(template: object) -> None:
    text = template.read_text()  # type: ignore[attr-defined]
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", text) == []


def test_a_file_may_be_kept_for_ever_and_is_squeezed_for_who_can_read_that() -> None:
    address = files.address("portal.js")
    found = files.answer(tuple(address.strip("/").split("/")))
    assert found is not None and found.status == 200
    assert (b"cache-control", b"public, max-age=31536000, immutable") in found.headers
    squeezed = files.answer(tuple(address.strip("/").split("/")), "gzip, br")
    assert squeezed is not None and (b"content-encoding", b"gzip") in squeezed.headers
    assert zlib.decompress(squeezed.body[0], wbits=31) == found.body[0] == WEB.joinpath("static/portal.js").read_bytes()
    assert files.answer(("static", "000000000000", "no.js")) is None
