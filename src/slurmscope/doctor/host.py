# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""This machine: what slurmscope is here, its settings, and the room that it has."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import tempfile
from pathlib import Path

from slurmscope import __version__
from slurmscope.config import PLACES, Config
from slurmscope.doctor.finding import Chart, Check
from slurmscope.slurm.source import own_user

_MIB = 1 << 20
_LEAST_DISK = 100 * _MIB
_LEAST_MEMORY = 256 * _MIB  # a cluster of 5,000 nodes takes 90 MiB, and squeue about as much beside us
CGROUPS = Path("/sys/fs/cgroup")
MEMORY = Path("/proc/meminfo")


def look(chart: Chart, config: Config) -> None:
    chart.ok(
        Check.SLURMSCOPE,
        f"slurmscope {__version__}, Python {platform.python_version()}, as {own_user()} on {socket.gethostname()}",
    )
    _settings(chart, config)
    _disk(chart)
    _memory(chart)
    _cgroup(chart)


def _settings(chart: Chart, config: Config) -> None:
    # an origin is a file, or a place and the name of the variable or option there
    places = dict.fromkeys(re.split(r": (?=[A-Z_]+$|--)", origin)[0] for origin in config.origins.values())
    told = [place for place in places if place != "default"]
    if told:
        chart.ok(Check.SETTINGS, f"from {', '.join(told)}; the rest are defaults")
    else:
        chart.ok(Check.SETTINGS, f"all are defaults: there is no {' and no '.join(map(str, PLACES))}")
    for reason in config.ignored:
        path, _, why = reason.rpartition(": ")
        cure = f"chmod o-w {path}" if "write" in why else f"chown {own_user()} {path}"
        chart.warning(Check.SETTINGS, f"{path} was not read: {why}", f"{cure}, or name it by --config {path}")


def _disk(chart: Chart) -> None:
    """Where ssh's socket and what is being captured are written."""
    try:
        folder = tempfile.gettempdir()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        chart.failed(
            Check.DISK,
            f"no temporary file can be written: {error.strerror or error}",
            "make room in /tmp, or set TMPDIR to a folder that the user may write to",
        )
        return
    told = f"{folder} can be written to, {free // _MIB:,} MiB free"
    if free < _LEAST_DISK:
        chart.warning(
            Check.DISK, told, f"make room in {folder}, or set TMPDIR to a folder with {_LEAST_DISK // _MIB} MiB"
        )
    else:
        chart.ok(Check.DISK, told)


def _memory(chart: Chart) -> None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", MEMORY.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        chart.skipped(Check.MEMORY, f"{MEMORY} does not say how much is available")
        return
    free = int(found[1]) << 10
    told = f"{free // _MIB:,} MiB available"
    if free < _LEAST_MEMORY:
        cure = f"run slurmscope where {_LEAST_MEMORY // _MIB} MiB are free: slurm.ssh reads a cluster from elsewhere"
        chart.warning(Check.MEMORY, told, cure)
    else:
        chart.ok(Check.MEMORY, told)


def _cgroup(chart: Chart) -> None:
    """Which kind this machine has; on compute nodes that is where per-job numbers come from."""
    # os.path, for it says no where Path would raise that it may not look
    if os.path.exists(CGROUPS / "cgroup.controllers"):  # noqa: PTH110
        chart.ok(Check.CGROUP, "version 2")
    elif os.path.exists(CGROUPS / "unified" / "cgroup.controllers"):  # noqa: PTH110
        chart.ok(Check.CGROUP, "hybrid: version 1, and version 2 beside it without controllers")
    elif os.path.isdir(CGROUPS / "memory"):  # noqa: PTH112
        chart.ok(Check.CGROUP, "version 1")
    else:
        chart.skipped(Check.CGROUP, f"no cgroups are mounted at {CGROUPS}, or we may not see them")
