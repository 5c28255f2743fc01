# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Real processes in this host's real cgroups, in folders that are named as Slurm names them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from processes import until

from slurmscope.node.mounts import V2, Mounts, mounts

WORK = Path(__file__).parent / "work.py"
V1 = ("cpuacct", "memory", "cpuset", "freezer")


def trees(*wanted: str) -> Mounts:
    """The host's own hierarchies of these controllers; the test is skipped where it may not, or cannot, use them."""
    if os.geteuid() != 0:
        pytest.skip("to make cgroups needs root")
    found = mounts()
    if missing := [name for name in wanted if name not in found.trees]:
        pytest.skip(f"this host has no cgroups of {', '.join(missing)} (it has {found.version})")
    return Mounts({name: found.trees[name] for name in wanted})


class Groups:
    """The same folder below each tree, made and removed."""

    def __init__(self, where: Mounts, top: str) -> None:
        self.where = where
        self.top = top
        self._made: list[Path] = []
        self._running: list[subprocess.Popen[bytes]] = []

    def folder(self, name: str, inside: str) -> Path:
        return Path(self.where.trees[name]) / self.top / inside

    def make(self, inside: str) -> None:
        for name, tree in self.where.trees.items():
            path = Path(tree)
            for part in Path(self.top, inside).parts:
                path /= part
                if not path.exists():
                    path.mkdir()
                    self._made.append(path)
                    if name == "cpuset":  # without these nobody may be in it
                        for file in ("cpuset.cpus", "cpuset.mems"):
                            (path / file).write_text((path.parent / file).read_text())

    def start(self, inside: str, argv: Sequence[str], user: int | None = None, **more: Any) -> subprocess.Popen[bytes]:
        """A process that is in the group before it begins."""
        self.make(inside)
        places = [str(self.folder(name, inside) / "cgroup.procs") for name in self.where.trees]

        def enter() -> None:
            for place in places:
                handle = os.open(place, os.O_WRONLY)
                os.write(handle, b"0")
                os.close(handle)
            if user is not None:  # only now, for the groups are root's
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)

        # nor has it any file open but those that it opens itself
        options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        found = subprocess.Popen(argv, preexec_fn=enter, stdin=subprocess.PIPE, **options)  # noqa: PLW1509
        self._running.append(found)
        return found

    def work(
        self, inside: str, environ: Mapping[str, str], **asked: Any
    ) -> tuple[subprocess.Popen[bytes], dict[str, float]]:
        """Work of which it is known what it uses, from the moment that it has used it."""
        argv = [sys.executable, str(WORK), json.dumps(asked)]
        found = self.start(inside, argv, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], **environ})
        assert found.stdout is not None
        word, _, told = found.stdout.readline().decode().partition(" ")
        assert word == "READY"
        return found, json.loads(told)

    def daemon(self, inside: str, title: str) -> subprocess.Popen[bytes]:
        """One that calls itself so, as slurmstepd does, from the moment that it does."""
        found = self.start(inside, ["bash", "-c", f"exec -a '{title}' sleep 1000"])
        line = Path(f"/proc/{found.pid}/cmdline")
        assert until(lambda: line.read_bytes().startswith(title.encode() + b"\0"))
        return found

    def clear(self) -> None:
        for one in self._running:
            if one.stdin is not None:
                one.stdin.close()
            one.kill()
            one.wait()
            if one.stdout is not None:
                one.stdout.close()
        for path in reversed(self._made):
            self._empty(path)
            for _ in range(1200):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)

    def _empty(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # it has gone, or tells of threads only
            for pid in (path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)


@contextlib.contextmanager
def groups(where: Mounts, top: str) -> Iterator[Groups]:
    made = Groups(where, top)
    try:
        yield made
    finally:
        made.clear()


def told(job: int, **more: str) -> dict[str, str]:
    """What Slurm puts into the environment of a job's processes."""
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_ACCOUNT": "physics",
        "SLURM_JOB_START_TIME": "1700000000",
        **more,
    }


__all__ = ["V1", "V2", "Groups", "groups", "told", "trees"]
