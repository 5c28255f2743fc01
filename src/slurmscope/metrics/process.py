# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""This process as /proc has it: what a process exporter would say."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_PAGE = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    def __init__(self) -> None:
        text = Path("/proc/self/stat").read_text()
        stat = text[text.rindex(")") + 2 :].split()
        self.cpu = (int(stat[11]) + int(stat[12])) / _TICKS
        self.virtual = int(stat[20])
        self.resident = int(stat[21]) * _PAGE
        boot = next(
            int(line.split()[1]) for line in Path("/proc/stat").read_text().split("\n") if line.startswith("btime")
        )
        self.started = boot + int(stat[19]) / _TICKS
        self.files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no need for paths
        self.most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        self.most_virtual = 2**64 - 1 if limit == resource.RLIM_INFINITY else limit
