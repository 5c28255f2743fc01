# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Renderings against ones that were read, looked at and found right.

After a change that is meant, `UPDATE_GOLDEN=1 pytest tests/reports/test_golden.py` writes them anew: read the
difference, and look at the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from reports import samples

from slurmscope.reports.html import html
from slurmscope.reports.mail import parts
from slurmscope.reports.svg import chart_svg
from slurmscope.reports.text import text

GOLDEN = Path(__file__).parent.parent / "golden" / "reports"
CHARTS = {chart.name: chart for made in (samples.job, samples.cluster) for chart in made().charts()}


def agree(name: str, page: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(page)
    assert page == path.read_text()


@pytest.mark.parametrize("name", ["job", "cluster"])
def test_text(name: str) -> None:
    agree(f"{name}.txt", text(samples.SAMPLES[name](), width=100, colour=False))


def test_text_in_little_room() -> None:
    agree("job-narrow.txt", text(samples.job(), width=48, colour=False))


@pytest.mark.parametrize("name", ["job", "cluster"])
def test_page(name: str) -> None:
    """Its own CSS is a file that can be read there."""
    agree(
        f"{name}.html", re.sub("<style>.*</style>", "<style></style>", html(samples.SAMPLES[name]()), flags=re.DOTALL)
    )


def test_mail() -> None:
    agree("mail.html", parts(samples.job()).html)


@pytest.mark.parametrize("name", sorted(CHARTS))
def test_charts(name: str) -> None:
    agree(f"{name}.svg", chart_svg(CHARTS[name], styled=True).replace("><", ">\n<") + "\n")
