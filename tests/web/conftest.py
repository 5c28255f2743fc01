# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For all tests of the portal."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from web import town

from slurmscope.web.portal import Portal


@pytest.fixture(scope="module", params=["sqlite", pytest.param("mongodb", marks=pytest.mark.mongodb)])
def portal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Over the town, in either store: pages must not know which."""
    url = ""
    if request.param == "mongodb":
        server = request.getfixturevalue("mongodb")
        url = f"{server.url}test_{secrets.token_hex(6)}?authSource=admin"
    with town.opened(tmp_path_factory.mktemp("town"), url) as found:
        yield found
