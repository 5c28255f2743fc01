# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every page is looked at over either store: none may know which."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from web import sites


@pytest.fixture(scope="module", autouse=True, params=["sqlite", pytest.param("mongodb", marks=pytest.mark.mongodb)])
def store(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "sqlite":
        yield
        return
    server = request.getfixturevalue("mongodb")

    def url_of(folder: Path) -> str:
        return f"{server.url}test_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}?authSource=admin"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "url_of", url_of)
        yield
