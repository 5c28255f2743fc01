# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every fixed string of the portal has its French, with the same places to be filled in."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from slurmscope.web.translation import Translation, catalogue

SOURCE = Path(__file__).parents[2] / "src" / "slurmscope"
WEB = SOURCE / "web"
_IN_TEMPLATE = re.compile(r"""\b(?:t|say)\((?:"([^"]+)"|'([^']+)')""")
_PLACE = re.compile(r"\{(\w+)\}")
# Which of what is given to these is read by people: it is translated when a page is made of it.
_READ = {
    **dict.fromkeys(("t", "say", "Section", "Series"), (0,)),
    "Column": (1,),
    **dict.fromkeys(("Refusal", "NotFound", "NotNow", "Wrong", "SignInFirst", "Forbidden"), (0, 1)),
}


def _of_templates() -> set[str]:
    texts = [one.read_text() for folder in ("web", "reports") for one in (SOURCE / folder / "templates").glob("*.html")]
    return {found[1] or found[2] for text in texts for found in _IN_TEMPLATE.finditer(text)}


def _of_code() -> set[str]:
    found = set()
    for file in (one for folder in ("web", "reports", "waiting") for one in (SOURCE / folder).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            given = [call.args[at] for at in _READ.get(name, ()) if at < len(call.args)]
            found |= {one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found - {""}


def test_every_string_has_its_french() -> None:
    assert sorted((_of_templates() | _of_code()) - catalogue("fr").keys()) == []


def test_the_same_places_are_filled_in() -> None:
    for english, french in catalogue("fr").items():
        assert set(_PLACE.findall(english)) == set(_PLACE.findall(french)), english
        assert french.strip() == french and french, english


def test_english_is_what_the_code_says() -> None:
    assert Translation("en")("{count} found for “{wanted}”", count=3, wanted="x") == "3 found for “x”"


@pytest.mark.parametrize("hostile", ["{0.__class__}", "{", "%s", "{wanted}"])
def test_what_is_filled_in_is_only_text(hostile: str) -> None:
    assert Translation("en")("{count} found for “{wanted}”", count=1, wanted=hostile) == f"1 found for “{hostile}”"
