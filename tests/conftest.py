# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import settings

# No test is timed. Where others wait for the result the examples are the same each time; elsewhere chance looks on.
settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' own checker, of Debian's package prometheus, which `make test` installs when it is root."""
    found = shutil.which("promtool")
    if found is None:
        missing = "promtool is missing: apt install prometheus"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return found
