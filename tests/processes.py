# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which processes there are: for tests that nothing is left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def descendants(pid: int) -> Iterator[int]:
    """All that run below one, of whatever session."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        state, parent = _stat(int(stat.parent.name))
        if state != "Z":
            children.setdefault(parent, []).append(int(stat.parent.name))
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            yield child
            todo.append(child)


def gone(pid: int) -> bool:
    """Whether it ends within a while."""
    return until(lambda: _stat(pid)[0] == "Z")


def until(true: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something comes true within a while."""
    for _ in range(round(seconds * 50)):
        if true():
            return True
        time.sleep(0.02)
    return False


def _stat(pid: int) -> tuple[str, int]:
    """State and parent; one that has ended is as good as a zombie."""
    try:
        # its name may be any bytes: others' tests run beside
        state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
    except OSError:
        return "Z", 0
    return state.decode(), int(parent)


async def written(path: Path) -> int:
    """A process's number, when it has written it down."""
    for _ in range(1000):
        if (words := _words(path)).endswith("\n"):
            return int(words)
        await asyncio.sleep(0.02)
    raise AssertionError(f"nothing was written to {path}")


def _words(path: Path) -> str:
    return path.read_text() if path.exists() else ""
