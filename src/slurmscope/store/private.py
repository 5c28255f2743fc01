# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Files that tell of people are for their owner's eyes alone, unless they say otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """An empty one, where there is none; what is there stays as it is. Raises OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
