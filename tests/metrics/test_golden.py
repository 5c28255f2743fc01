# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whole pages of the recordings against pages that were read and found right.

After a change that is meant, `UPDATE_GOLDEN=1 pytest tests/metrics/test_golden.py` writes them anew: read the
difference.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest
from recorded import GENERATIONS, read

from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages

GOLDEN = Path(__file__).parent.parent / "golden"
# of this process and this moment, and so different each time
_PASSING = re.compile(r"^(# \w+ )?(process_|slurm_command_|slurm_children_|slurm_own_rpc|slurm_\w+_scrape_duration)")


def steady(pages: Pages, profile: str) -> str:
    page = b"".join(asyncio.run(Book([pages]).body(profile, openmetrics=False, gzip=False))).decode()
    return "".join(line for line in page.splitlines(keepends=True) if not _PASSING.match(line))


@pytest.mark.parametrize("profile", sorted(catalogue.PROFILES))
@pytest.mark.parametrize("generation", GENERATIONS)
def test_golden_pages(generation: str, profile: str) -> None:
    _, pages = read(generation)
    page = steady(pages, profile)
    path = GOLDEN / f"{generation}-{profile}.prom"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page)
    assert page == path.read_text()
