# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Templates that a site can edit, and cannot break a mail with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.mail.notice import ASKED, DIGEST, JOB, KINDS
from slurmscope.mail.rendering import SAMPLES, Problem, Templates
from slurmscope.reports.mail import MailParts

PAGE = '<!doctype html><html><head><title>t</title></head><body style="x"><p>R &amp; R</p></body></html>'
PARTS = MailParts("123 train: its GPUs were never used", "R & R", PAGE, {"chart-1": b"png"})


@pytest.mark.parametrize("kind", KINDS)
def test_the_built_in_ones_say_what_they_are_given(kind: str) -> None:
    content = Templates().content(kind, PARTS, SAMPLES[kind])
    assert content.subject and "\n" not in content.subject
    assert "R & R" in content.text
    assert "<p>R &amp; R</p>" in content.html
    assert content.html.count("<body") == content.html.count("</body>") == 1
    assert content.pictures == PARTS.pictures
    assert "SPDX" not in content.text + content.html + content.subject


def test_there_is_nothing_to_see_where_there_are_no_links() -> None:
    bare = SAMPLES[JOB] | {"fine": [], "opt_out_url": "", "reply_to": ""}
    content = Templates().content(JOB, PARTS, bare)
    assert "http" not in content.text + content.html
    assert "\n\n\n" not in content.text


@pytest.mark.parametrize(("warning", "last"), [(True, "WARNING=true"), (False, "WARNING=false")])
@pytest.mark.parametrize("kind", [JOB, ASKED])
def test_the_last_line_of_a_job_s_mail_is_for_programs(tmp_path: Path, kind: str, warning: bool, last: str) -> None:
    for text in ("nothing", "WARNING=maybe", "x\n{% if true %}WARNING=false{% endif %}\n\n\n", ""):
        (tmp_path / f"{kind}.txt").write_text(text)
        content = Templates(str(tmp_path)).content(kind, PARTS, SAMPLES[kind], warning=warning)
        assert content.text.splitlines()[-1] == last
    assert "WARNING=" not in Templates().content(DIGEST, PARTS, SAMPLES[DIGEST]).text


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_no_words_of_people_are_markup_or_the_last_line(words: str) -> None:
    given_ = SAMPLES[ASKED] | {"words": words, "work": words, "person": words}
    content = Templates().content(ASKED, PARTS, given_, warning=True)
    assert content.text.splitlines()[-1] == "WARNING=true"
    marked = "<script>" + words
    page = Templates().content(ASKED, PARTS, given_ | {"words": marked}).html
    assert "<script>" not in page


def test_a_site_s_own_is_taken_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "job.subject").write_text("Auftrag {{ job }}: {{ hint }}")
    (tmp_path / "footer.txt").write_text("Gruß")
    templates = Templates(str(tmp_path))
    assert templates.problems() == []
    content = templates.content(JOB, PARTS, SAMPLES[JOB])
    assert content.subject == "Auftrag 123: 123 train: its GPUs were never used"
    assert "Gruß" in content.text and "Dear alice" in content.text


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("one\n{% if %}\n", "job.txt:2", "Expected an expression"),
        ("one\ntwo\n{{ jobname }}\n", "job.txt:3", "'jobname' is undefined"),
        ("{{ 1 / 0 }}", "job.txt:1", "division by zero"),
        ("{{ person.__class__.__mro__ }}", "job.txt:1", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{% include 'none.txt' %}", "job.txt:1", "none.txt"),
        ("{{ ''.join(['x'] * 3).nothing() }}", "job.txt:1", "'str object' has no attribute 'nothing'"),
    ],
)
def test_a_broken_one_is_named_and_the_built_in_one_used(tmp_path: Path, text: str, where: str, why: str) -> None:
    (tmp_path / "job.txt").write_text(text)
    templates = Templates(str(tmp_path))
    (problem,) = templates.problems()
    assert problem.place == str(tmp_path / where)
    assert why in problem.why
    told: list[Problem] = []
    content = templates.content(JOB, PARTS, SAMPLES[JOB], report=told.append)
    assert told == [problem]
    assert content.text == Templates().content(JOB, PARTS, SAMPLES[JOB]).text


def test_a_name_that_nothing_has_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("x")
    (tmp_path / "digest.html").write_bytes(b"\xff\xfe")
    found = {Path(one.place).name: one.why for one in Templates(str(tmp_path)).problems()}
    assert set(found) == {"jobs.txt", "digest.html"}
    assert found["jobs.txt"].startswith("no template has this name; there are asked.html")


def test_one_that_cannot_be_rendered_in_the_mail_s_own_case(tmp_path: Path) -> None:
    """It was right with the examples."""
    (tmp_path / "job.txt").write_text("{{ fine[0].url }}")
    templates = Templates(str(tmp_path))
    assert templates.problems() == []
    told: list[Problem] = []
    assert "Dear alice" in templates.content(JOB, PARTS, SAMPLES[JOB] | {"fine": []}, report=told.append).text
    assert len(told) == 1
