# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

from slurmscope.node.groups import Missed
from slurmscope.node.handles import Handles


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_of_a_process_that_stays_are_kept_open_and_read_anew() -> None:
    before, handles, missed = opened(), Handles(), Missed()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        own = opened() - before
        path = f"/proc/{process.pid}/io"
        found = []
        for _ in range(4):
            process.stdin.write(b"x")
            process.stdin.flush()
            process.stdout.read(1)
            found.append(handles.read(path, missed))
            handles.end()
        assert len(set(found)) == 4 and None not in found  # each time as it is then
        assert opened() - before - own == 1
        process.stdin.close()
    assert handles.read(path, missed) is None
    handles.end()
    assert opened() == before and missed.counts == {}


def test_what_is_not_read_any_more_is_closed() -> None:
    before, handles, missed = opened(), Handles(), Missed()
    for _ in range(3):
        assert handles.read("/proc/self/stat", missed) and handles.read("/proc/1/stat", missed)
        handles.end()
    assert opened() == before + 2
    handles.read("/proc/1/stat", missed)
    handles.end()
    assert opened() == before + 1
    handles.close()
    assert opened() == before


def test_no_more_are_kept_than_may_be() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before, missed = opened(), Missed()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 20, limits[1]))
    try:
        handles = Handles()
        paths = [f"/proc/self/task/{os.getpid()}/{name}" for name in ("stat", "io", "status", "comm", "cmdline")]
        paths += [f"/proc/{pid}/stat" for pid in (1, 2)] + [f"/proc/self/{name}" for name in ("stat", "io", "statm")]
        paths += [f"/proc/{name}" for name in ("stat", "uptime", "loadavg", "meminfo", "vmstat", "version", "devices")]
        paths += [f"/proc/sys/kernel/{name}" for name in ("hostname", "ostype", "osrelease", "pid_max", "threads-max")]
        for _ in range(3):
            assert all(handles.read(path, missed) is not None for path in paths)
            handles.end()
        assert 5 <= opened() - before <= 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    handles.close()
    assert opened() == before and missed.counts == {}
