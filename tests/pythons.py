# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Other Pythons than the one that runs the tests, where there are any."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def python(version: str) -> str:
    """A Python such as 3.6, of the PATH or of pyenv; else the test is skipped."""
    name = f"python{version}"
    for one in (shutil.which(name), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))):
        # pyenv leaves a file of that name on the PATH that only says where others are
        if one is not None and subprocess.run([one, "-c", ""], check=False, capture_output=True).returncode == 0:
            return str(one)
    pytest.skip(f"there is no Python {version} here, and Debian has none")
