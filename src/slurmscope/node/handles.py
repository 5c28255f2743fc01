# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Files of /proc that are read at every look, kept open between two.

To find a file there costs the kernel more than to write what is in it. A handle is of one process and of no later one
with the same number: when that has ended, reading fails.
"""

from __future__ import annotations

import os
import resource

from slurmscope.node.groups import Missed, read

_MOST = 16384  # of them at a time, and half of what we may still open
_SIZE = 4096  # none of these files is longer


class Handles:
    def __init__(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = soft - len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no need for paths
        self._most = _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(0, free) // 2)
        self._open: dict[str, int] = {}
        self._used: set[str] = set()
        self._seen: set[str] = set()  # read in this round, and not kept open
        self._before: set[str] = set()

    def read(self, path: str, missed: Missed) -> bytes | None:
        handle = self._open.get(path)
        if handle is not None:
            try:
                found = os.pread(handle, _SIZE, 0)
                self._used.add(path)
                return found
            except OSError:
                os.close(self._open.pop(path))
        found_now = read(path, missed)
        if found_now is not None:
            # one that was there at the look before is likely to stay; most that are not end before the next
            if path in self._before and len(self._open) < self._most:
                self._keep(path)
            self._seen.add(path)
        return found_now

    def _keep(self, path: str) -> None:
        try:
            self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._used.add(path)
        except OSError:
            pass  # it has just ended, or there is no room

    def end(self) -> None:
        """A round is over: what was not read in it is closed."""
        for path in self._open.keys() - self._used:
            os.close(self._open.pop(path))
        self._before, self._seen, self._used = self._seen, set(), set()

    def close(self) -> None:
        self._used = set()
        self.end()
