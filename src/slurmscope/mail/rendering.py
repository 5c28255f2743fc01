# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Mails from templates: the built-in ones, or a site's own files of the same names.

A template says what stands around a report. It can read what it is given and nothing else. One that is broken keeps no
mail from being sent: the built-in one takes its place, and the caller is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from slurmscope.mail.message import Content, line
from slurmscope.mail.notice import ASKED, CANCEL, DIGEST, ESCALATION, JOB, KINDS
from slurmscope.reports.mail import MailParts

SUBJECT, TEXT, HTML = "subject", "txt", "html"
WARNING = "WARNING"
"""How the last line of a job's mail begins, for programs."""
_OF_A_JOB = (JOB, ASKED)
_BODY = re.compile(r"<body[^>]*>(.*)</body>", re.DOTALL | re.IGNORECASE)
_BLANKS = re.compile(r"\n{3,}")

_COMMON: dict[str, Any] = {
    "person": "alice",
    "cluster": "alpha",
    "hint": "123 train: its GPUs were never used",
    "report": "The report.",
    "reply_to": "help@example.org",
    "opt_out_url": "https://slurmscope.example.org/opt-out/…",
    "job": "123",
    "work": "train",
    "rule": "zero_gpu",
    "accounts": ["physics"],
    "fine": [{"rule": "zero_gpu", "title": "GPUs never used", "url": "https://slurmscope.example.org/fine/…"}],
}
SAMPLES: dict[str, dict[str, Any]] = {
    JOB: _COMMON,
    ASKED: _COMMON | {"words": "Slurm Job_id=123 Name=train Ended, Run time 00:01:00, COMPLETED, ExitCode 0"},
    DIGEST: _COMMON,
    ESCALATION: _COMMON | {"number": 3, "days": 90, "role": "pi"},
    CANCEL: _COMMON | {"number": 1, "hours": "4", "cancelled": False},
}
"""All that each kind of template is given, with examples."""


class Problem(msgspec.Struct, frozen=True):
    """A template that cannot be used: where, and why."""

    place: str  # file, and line where it is known
    why: str


class Templates:
    def __init__(self, folder: str = "") -> None:
        built_in = jinja2.PackageLoader("slurmscope.mail")
        self._built_in = _environment(built_in)
        self._folder = Path(folder) if folder else None
        self._site = (
            None if not folder else _environment(jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder), built_in]))
        )

    def content(
        self,
        kind: str,
        parts: MailParts | None,
        given: Mapping[str, Any],
        *,
        warning: bool = False,
        report: Callable[[Problem], None] = lambda problem: None,
    ) -> Content:
        """What a mail of this kind says around the parts of its document; where there is none, text alone."""
        context = {**given, "report": "", "hint": parts.subject_hint if parts is not None else ""}
        subject = line(self._render(kind, SUBJECT, context, report))
        context["subject"] = subject
        text = self._render(kind, TEXT, context | {"report": parts.text if parts is not None else ""}, report)
        text = _BLANKS.sub("\n\n", text).strip("\n") + "\n"
        if kind in _OF_A_JOB:
            # after all that a template may say: programs read it
            text += f"\n{WARNING}={'true' if warning else 'false'}\n"
        if parts is None:
            return Content(subject=subject, text=text)
        html = self._render(kind, HTML, context | {"report": Markup(body_of(parts.html))}, report)  # noqa: S704 - escaped
        return Content(subject=subject, text=text, html=html, pictures=parts.pictures)

    def problems(self) -> list[Problem]:
        """What is wrong with the site's own templates, tried with examples."""
        found: list[Problem] = []
        if self._site is None or self._folder is None:
            return found
        names = {f"{kind}.{part}" for kind in KINDS for part in (SUBJECT, TEXT, HTML)}
        known = names | set(self._built_in.list_templates())
        try:
            there = sorted(path.name for path in self._folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            return [Problem(str(self._folder), f"{error.strerror}: may this user read it?")]
        found += [
            Problem(str(self._folder / name), f"no template has this name; there are {', '.join(sorted(known))}")
            for name in there
            if name.endswith((SUBJECT, TEXT, HTML)) and name not in known
        ]
        for name in sorted(names):
            kind = name.partition(".")[0]
            try:
                _rendered(self._site, name, {"subject": "a subject"} | SAMPLES[kind])
            except Exception as error:  # a template may do wrong whatever an expression can
                found.append(_problem(self._folder, name, error))
        return found

    def _render(self, kind: str, part: str, context: Mapping[str, Any], report: Callable[[Problem], None]) -> str:
        name = f"{kind}.{part}"
        if self._site is not None and self._folder is not None:
            try:
                return _rendered(self._site, name, context)
            except Exception as error:  # … and one that includes itself never ends
                report(_problem(self._folder, name, error))
        return _rendered(self._built_in, name, context)


def body_of(page: str) -> str:
    """What is within the body of a page."""
    found = _BODY.search(page)
    return found[1] if found is not None else page


def _environment(loader: jinja2.BaseLoader) -> jinja2.Environment:
    return SandboxedEnvironment(
        loader=loader,
        autoescape=lambda name: name is None or name.endswith(f".{HTML}"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _rendered(environment: jinja2.Environment, name: str, context: Mapping[str, Any]) -> str:
    return environment.get_template(name).render(context)


def _problem(folder: Path, name: str, error: Exception) -> Problem:
    if isinstance(error, jinja2.TemplateSyntaxError):
        file = error.filename or str(folder / (error.name or name))
        return Problem(f"{file}:{error.lineno}", line(error.message or "is no template"))
    number = _line_of(error, folder)
    why = line(str(error)) or type(error).__name__
    return Problem(number or str(folder / name), why)


def _line_of(error: Exception, folder: Path) -> str:
    """Where in the site's files it went wrong; Jinja has made the traceback tell."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(f"{folder}/"):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
