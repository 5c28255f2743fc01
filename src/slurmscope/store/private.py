# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Files that tell of people are for their owner's eyes alone, unless they say otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def make_private(path: Path) -> None:
    """An empty file in its folder, where there is none; what is there stays as it is. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
