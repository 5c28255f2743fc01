# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A store of each kind, empty, for every test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.process import Server
from store.made import opened

from slurmscope.store.protocol import Store


@pytest.fixture
def mongodb_url(mongodb: Server) -> str:
    """Of a database of its own."""
    return f"{mongodb.url}test_{secrets.token_hex(6)}?authSource=admin"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'store.db'}"


@pytest.fixture(params=["sqlite", pytest.param("mongodb", marks=pytest.mark.mongodb)])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    found = opened(url)
    yield found
    found.close()
