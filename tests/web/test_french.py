# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a reader of French still reads in English: each page is opened in both, and what is alike must have a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from web import sites, town
from web.test_access import HERS, HIS, LOOKS, filled, named

from slurmscope import config
from slurmscope.life import Life
from slurmscope.model import PARTS
from slurmscope.reports.document import Cell, Column, Document, Event, Facts, Section, Table, Timeline, Verdict
from slurmscope.web.portal import Portal
from slurmscope.web.route import HTML, Route
from slurmscope.web.taste import zones
from slurmscope.web.translation import Translation, catalogue

PAGES = [case for case in LOOKS if case[2] == HTML]
QUESTIONS = ("", "?view=table", "?user=*&time=all", "?people=true", "?month=2025-12", "?q=a")
REFUSED = (
    *("/nonsense", "/clusters/beta/jobs", "/clusters/alpha/jobs/999", "/clusters/alpha/nodes/x", "/users/x"),
    *("/clusters/alpha/accounts/x", "/shared/x", "/clusters/alpha/report?month=2020-01"),
)
_WORD = re.compile(r"[A-Za-z]{3,}|\b(?:to|of|in|on|by|d)\b")
_UNREAD = ("script", "style", "pre", "code", "kbd", "head")
_SAID = ("aria-label", "placeholder", "alt")


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """In one store: words do not depend on it."""
    with town.opened(tmp_path_factory.mktemp("town")) as found:
        yield found


# --- what stays English, and why --------------------------------------------------------------------------------------

# What findings, reports and the explanation of waiting say: the same words as in mails, PDF and the terminal.
_SENTENCES = re.compile(
    r"cores' time was idle|cores were busy|^From \d+ run|^Not known, and so not judged|\(rule \w+\)$"
    r"|core-hours|kWh$|^Jobs waited|was held and not used|^What is in use and idle|[Bb]y the settings nothing is taken"
    r"|All running jobs of the account together"
)
# Names: of programs, people, accounts, nodes, files, and what Slurm calls its reasons, states and limits.
_NAMES = re.compile(
    r"slurmscope|slurm\b|sacct|OpenAPI|Prometheus|English|Français|UTC|PDF|CSV|JSON|[KMGT]iB|\bmin\b|\btext\b|True|False"
    r"|alice|bobsecret|carol|\bsam\b|physics|chemsecret|\broot\b|alpha|train|hushwork|\bn1\b|hidden9|\bmain\b|\bnormal\b|\bcpu\b"
    r"|[A-Z][a-z]+(?:[A-Z][A-Za-z]+)+|\b[A-Z_]{4,}\b|\b[a-z]+(?:_[a-z]+)+\b|\b[a-z]+(?:\.[a-z_]+)+\b|\w*:?/[\w/{}.:=-]+"
)
# How a parameter is described to programs, besides what the API's own document says.
_PARAMETER = re.compile(r"^[?{]|^text|several times$|^\d+ to \d+$|^\w+(?:, \w+)*$")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _as_kept(portal: Portal, address: str) -> set[str]:
    """What is called as in files, in the store and in answers, where a page shows it; and what is said of one job,
    which programs are told in the same words."""
    reader = town.as_(portal, town.SAM)
    if address.startswith("/api"):
        return set(_strings(reader.get("/api.json").json))
    if address.startswith("/settings"):
        return set(zones())
    if address.partition("?")[0].endswith("/health"):
        return {text for pair in config.shown(portal.site.settings) for text in pair} | set(PARTS)
    if "/jobs/" in address:
        told = reader.get(f"{address.partition('?')[0]}.json")
        data = {name: one for name, one in told.json.items() if name != "verdict"}
        sentences = {one for one in _strings(data) if " " in one}
        return sentences | (set(Life.__struct_fields__) - catalogue("fr").keys())
    return set()


# --- looking ----------------------------------------------------------------------------------------------------------


class _Texts(HTMLParser):
    """What is to be read on a page, or heard."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._within.append(tag)
        self.found += [value for name, value in attrs if name in _SAID and value]

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        if not self._within and data.strip():
            self.found.append(" ".join(data.split()))


def texts(page: str) -> list[str]:
    found = _Texts()
    found.feed(page)
    return found.found


def untranslated(portal: Portal, address: str) -> set[str]:
    """Texts with words that are the same in both languages, though none of the reasons above holds for them."""
    left = _as_kept(portal, address)
    left |= {english for english, french in catalogue("fr").items() if english == french}
    found = set()
    for who in (town.SAM, town.ALICE):
        reader = town.as_(portal, who)
        english, french = (texts(reader.get(address, accept_language=one).text) for one in ("en", "fr-FR,fr;q=0.9"))
        for text in set(english) & set(french) - left:
            rest = " ".join(word for word in _NAMES.sub("", text).split() if word not in left)
            if _WORD.search(rest) and not _SENTENCES.search(text):
                found.add(text)
    return {one for one in found if not (address.startswith("/api") and _PARAMETER.search(one))}


@pytest.mark.parametrize("case", PAGES, ids=map(named, PAGES))
def test_a_page_speaks_french(portal: Portal, case: tuple[Route, str, str]) -> None:
    _, path, form = case
    whose = (HERS, HIS, HERS | {"job": str(town.HER_JOB + 1)}, HERS | {"job": str(town.HER_JOB + 2)})
    addresses = {filled(path, things, form) + question for things in whose for question in QUESTIONS}
    assert {address: found for address in addresses if (found := untranslated(portal, address))} == {}


@pytest.mark.parametrize("address", REFUSED)
def test_a_refusal_speaks_french(portal: Portal, address: str) -> None:
    assert untranslated(portal, address) == set()


def test_what_programs_get_is_the_same_in_every_language(portal: Portal) -> None:
    reader = town.as_(portal, town.SAM)
    for address in ("/jobs.json?user=*", "/nodes.json", "/jobs.csv?user=*", "/health.csv", f"/users/{town.ALICE}.json"):
        assert reader.get(address, accept_language="fr").body == reader.get(address, accept_language="en").body
    assert reader.get("/nonsense.json", accept_language="fr").json["error"] == "There is no such page."


# --- words and names --------------------------------------------------------------------------------------------------


def _document(*blocks: Any, title: str = "11 time", headline: str = "11 time: it waits") -> Document:
    return Document("job", title, "memory", sites.NOW, Verdict("note", headline, ""), (Section("Facts", blocks),), {})


def test_times_and_spans_have_french_names() -> None:
    french, english = Translation("fr"), Translation("en")
    assert french.minute(1_794_781_800) == "dim. 15 nov. 22:30"
    assert english.minute(1_794_781_800) == "Sun 15 Nov 22:30"
    assert french.minute(sites.NOW, year=True) == "jeu. 01 janv. 2026 00:00"
    assert (french.span(100_000), english.span(100_000)) == ("1 j 3 h", "1 d 3 h")
    assert french.period("October 2026, so far") == "octobre 2026, en cours"
    assert french.period("2026-10-18 to 2026-11-16") == "2026-10-18 au 2026-11-16"


def test_what_people_called_something_stays() -> None:
    """Though it is a word of the catalogue."""
    columns = (Column("name", "name"), Column("ran", "ran", True), Column("user", "user"))
    row = (Cell("memory", "memory"), Cell("1 d 3 h", 97_200), Cell("jobs", "jobs", link="user:jobs"))
    facts = Facts((("State", Cell("unknown", "unknown")), ("name", Cell("waiting 2 d long", None))))
    said = Translation("fr").document(_document(Table("t", columns, (row,)), facts))
    table, told = said.sections[0].blocks
    assert isinstance(table, Table) and isinstance(told, Facts)
    assert [one.title for one in table.columns] == ["nom", "durée", "personne"]
    assert [one.text for one in table.rows[0]] == ["memory", "1 j 3 h", "jobs"]
    assert [(name, cell.text) for name, cell in told.rows] == [("État", "unknown"), ("nom", "waiting 2 d long")]
    assert (said.title, said.subtitle, said.verdict.headline) == ("11 time", "memory", "11 time : il attend")


def test_a_word_may_mean_something_else_in_one_column() -> None:
    columns = (Column("seconds", "for", True), Column("what", "for"))
    said = Translation("fr").document(_document(Table("t", columns, ()))).sections[0].blocks[0]
    assert isinstance(said, Table) and [one.title for one in said.columns] == ["durée", "pour"]


def test_words_before_a_figure_are_said() -> None:
    events = Timeline((Event(None, "Waited 2 d 3 h", "Priority"), Event(0, "Odd 5", "")))
    said = Translation("fr").document(_document(events)).sections[0].blocks[0]
    assert isinstance(said, Timeline)
    assert [one.title for one in said.events] == ["A attendu 2 j 3 h", "Odd 5"]


def test_rows_have_labels_of_ours() -> None:
    columns = (Column("why", ""), Column("share", "of all", True))
    labels = ("drained: a disk, memory: 2", "maintenance", "3 other reasons", "GPU-hours", "whatever")
    rows = tuple((Cell(one, one), Cell("less than 1 %", 0.001)) for one in labels)
    said = Translation("fr").document(_document(Table("t", columns, rows))).sections[0].blocks[0]
    assert isinstance(said, Table)
    assert [row[0].text for row in said.rows] == [
        *("vidé : a disk, memory: 2", "maintenance", "3 autres raisons", "Heures de GPU", "whatever")
    ]
    assert said.rows[0][1].text == "moins de 1 %"
