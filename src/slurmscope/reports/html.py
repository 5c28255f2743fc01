# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A document as one page of HTML: nothing to fetch, nothing to run, light and dark, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources

import jinja2

from slurmscope.reports import shared
from slurmscope.reports.document import Block, Document, Drawn
from slurmscope.reports.rows import cell_html, heads_html, rows_html, titles
from slurmscope.reports.svg import chart_svg
from slurmscope.words import english, minute, moment


def html(document: Document) -> str:
    css = resources.files("slurmscope.reports").joinpath("static/report.css").read_text("utf-8")
    return environment().get_template("report.html").render(document=shared.plain(document), css=css)


@cache
def environment() -> jinja2.Environment:
    """The templates, with what they call; everything that they are given is escaped."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("slurmscope.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        chart_svg=chart_svg,
        cell_html=cell_html,
        heads_html=heads_html,
        rows_html=rows_html,
        titles=titles,
        directive=shared.directive,
        beyond=shared.beyond,
        metered=shared.metered,
        filled=shared.filled,
        unbroken=shared.unbroken,
        rows=shared.rows,
        words=shared.WORDS,
        shapes=shared.SHAPES,
        kind_of=_kind,
        runs=_runs,
        zip=zip,
        instant=_instant,
        minute=minute,
        moment=moment,
        zone=UTC,
        say=english,
        live=False,  # a page that is alone has no script
    )
    return made


def _kind(block: Block) -> str:
    return str(block.__struct_config__.tag)


def _runs(blocks: Sequence[Block]) -> list[list[Block]]:
    """Charts that follow each other share a place, where they stand side by side if it is wide."""
    found: list[list[Block]] = []
    for block in blocks:
        if found and isinstance(block, Drawn) and isinstance(found[-1][-1], Drawn):
            found[-1].append(block)
        else:
            found.append([block])
    return found


def _instant(when: int) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
