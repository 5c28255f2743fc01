# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
from disks import mounted
from hypothesis import settings
from munged import Munged
from servers.mongodb import MongoDB
from servers.moto import CloudWatch
from servers.opensearch import Elasticsearch, OpenSearch, OtherElasticsearch
from servers.process import Elsewhere, Server, Unavailable
from servers.proxy import Keyed, api_key
from servers.pushgateway import Pushgateway

# No test is timed. Where others wait for the result the examples are the same each time; elsewhere chance looks on.
settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")

SERVERS = ("mongodb", "opensearch", "cloudwatch", "pushgateway")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a server is marked with its name."""
    for item in items:
        for name in SERVERS:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(name)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that a test starts keeps anything in this machine's own place for it."""
    before = os.environ.get("STATE_DIRECTORY")
    os.environ["STATE_DIRECTORY"] = str(tmp_path_factory.mktemp("state"))
    yield
    del os.environ["STATE_DIRECTORY"]
    if before is not None:
        os.environ["STATE_DIRECTORY"] = before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 24) as place:
        yield place


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' own checker, of Debian's package prometheus, which `make test` installs when it is root."""
    found = shutil.which("promtool")
    if found is None:
        _missing("promtool is missing: apt install prometheus")
    return found


@pytest.fixture(scope="session")
def pdftotext() -> str:
    """A reader of PDF that is not ours, of Debian's package poppler-utils, which `make test` installs for root."""
    found = shutil.which("pdftotext")
    if found is None:
        _missing("pdftotext is missing: apt install poppler-utils")
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    """A browser, of Debian's package chromium, which `make test` installs when it is root."""
    found = shutil.which("chromium")
    if found is None:
        _missing("chromium is missing: apt install chromium")
    return found


@pytest.fixture(scope="session")
def w3m() -> str:
    """A browser of text, of Debian's package w3m, which `make test` installs when it is root."""
    found = shutil.which("w3m")
    if found is None:
        _missing("w3m is missing: apt install w3m")
    return found


@pytest.fixture(scope="session")
def munged() -> Iterator[Munged]:
    """A munged of Debian's package munge, which `make test` installs when it is root."""
    if shutil.which("munge") is None:
        _missing("munge is missing: apt install munge")
    found = Munged()
    try:
        yield found
    finally:
        found.close()


def _missing(what: str) -> NoReturn:
    """Skipped where it may be so; a failure where it could have been installed."""
    if os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks MongoDB's protocol, at `url` with a user and a password in it."""
    yield from _running("MONGODB", lambda: MongoDB(tmp_path_factory.mktemp("mongodb")), Elsewhere)


@pytest.fixture(scope="session")
def opensearch() -> Iterator[Elasticsearch]:
    """A server that speaks Elasticsearch's protocol: `url`, `user`, `password` and `ca`."""
    yield from _running("ELASTICSEARCH", OpenSearch, OtherElasticsearch)


@pytest.fixture(scope="session")
def opensearch_key(opensearch: Elasticsearch) -> Iterator[Keyed]:
    """The same by an API key, which a proxy before it checks: `url`, `key` and `ca`."""
    if not isinstance(opensearch, OpenSearch):
        pytest.skip("the proxy is for the tests' own OpenSearch")
    with api_key(opensearch) as keyed:
        yield keyed


@pytest.fixture(scope="session")
def cloudwatch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A CloudWatch at `url`, for any credentials; it forgets its data when it stops."""
    yield from _running("CLOUDWATCH", lambda: CloudWatch(tmp_path_factory.mktemp("cloudwatch")), Elsewhere)


@pytest.fixture(scope="session")
def pushgateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Pushgateway at `url`."""
    yield from _running("PUSHGATEWAY", lambda: Pushgateway(tmp_path_factory.mktemp("pushgateway")), Elsewhere)


S = TypeVar("S", bound=Server)


def _running(name: str, make: Callable[[], S], other: Callable[[str, str], S]) -> Iterator[S]:
    """Started for the whole session, which shares it: a test keeps to a database or a name of its own.

    Where `SLURMSCOPE_TEST_…` names another, that one is used.
    """
    if url := os.environ.get(f"SLURMSCOPE_TEST_{name}"):
        yield other(name, url)
        return
    try:
        server = make()
        try:
            server.start()
        except Unavailable:
            server.close()
            raise
    except Unavailable as error:
        _missing(str(error))
    try:
        yield server
    finally:
        server.close()
