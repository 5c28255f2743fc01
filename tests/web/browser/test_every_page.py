# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every page of the table of addresses, in both themes, narrow and wide: one that is new cannot be forgotten."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from web.browser import looks
from web.browser.tabs import Tabs

from slurmscope.web.route import GET, HTML
from slurmscope.web.table import ROUTES

pytestmark = pytest.mark.browser

PATHS = [path for route in ROUTES if route.method == GET and HTML in route.forms for path in route.paths]
ELSEWHERE = ("/shared/{token}", "/sign-in/begin", "/sign-in/oidc")
"""Nobody signs in to the demo, or is sent a link: `test_doors.py` opens these."""
MORE = ["/nodes?view=table", "/jobs?arrays=each&state=running", "/search?q=a", "/clusters/{cluster}/jobs/{waiting}"]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
@pytest.mark.parametrize("path", [path for path in PATHS if path not in ELSEWHERE] + MORE)
def test_it_looks_as_it_should(tabs: Tabs, things: Mapping[str, str], path: str, theme: str, width: int) -> None:
    page = tabs(color_scheme=theme)
    answer = page.goto(path.format(**things))
    assert answer is not None and answer.status == 200
    for one in page.locator("main details:not([open]) > summary").all():
        one.click()  # what is folded is looked at too
    wrong = looks.wrong(page, f"demo/{theme}-{width}/{looks.name_of(path)}", width)
    assert not wrong, "\n".join(wrong)
