# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from hypothesis import settings
from servers.mongodb import MongoDB
from servers.process import Elsewhere, Server, Unavailable

# No test is timed. Where others wait for the result the examples are the same each time; elsewhere chance looks on.
settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")

SERVERS = ("mongodb",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a server is marked with its name."""
    for item in items:
        for name in SERVERS:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' own checker, of Debian's package prometheus, which `make test` installs when it is root."""
    found = shutil.which("promtool")
    if found is None:
        _missing("promtool is missing: apt install prometheus")
    return found


def _missing(what: str) -> NoReturn:
    """Skipped where it may be so; a failure where it could have been installed."""
    if os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks MongoDB's protocol; `SLURMSCOPE_TEST_MONGODB` names another to use."""
    yield from _running("MONGODB", lambda: MongoDB(tmp_path_factory.mktemp("mongodb")))


def _running(name: str, make: Callable[[], Server]) -> Iterator[Server]:
    """Started for the whole session, which shares it: a test keeps to a database or a name of its own."""
    if url := os.environ.get(f"SLURMSCOPE_TEST_{name}"):
        yield Elsewhere(name, url)
        return
    try:
        server = make()
        server.start()
    except Unavailable as error:
        _missing(str(error))
    try:
        yield server
    finally:
        server.kill()
