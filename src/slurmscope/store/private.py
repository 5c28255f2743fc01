# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Files that tell of people are for their owner's eyes alone, unless they say otherwise."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """Raises OSError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """An empty one, where there is none; what is there stays as it is, and must be for us to write. Raises OSError.

    One that is there is not opened: to close it again would end every lock that this process holds on it, as POSIX has
    it, and another process that has SQLite open would take itself for the last one and remove the log under us.
    """
    real = path.resolve()
    try:
        os.close(os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        code = errno.EISDIR if real.is_dir() else 0 if os.access(real, os.R_OK | os.W_OK) else errno.EACCES
        if code:
            raise OSError(code, os.strerror(code), str(path)) from None
