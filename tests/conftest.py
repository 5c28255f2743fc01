# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""For all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# No test is timed. Where others wait for the result the examples are the same each time; elsewhere chance looks on.
settings.register_profile("house", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("house")
