# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job's work of which it is known what it uses: `work.py '{"cpu": 1.5, "memory": 64, …}'`, then READY, then it waits.

It prints what it used, by its own account, and goes when its standard input ends.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any


def main(asked: dict[str, Any]) -> None:
    kept: list[Any] = []
    for _ in range(asked.get("threads", 0)):
        thread = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
        thread.start()
    if size := asked.get("memory", 0) << 20:
        block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, size, mmap.PAGESIZE):
            block[at] = 1
        kept.append(block)
    folder = Path(asked.get("folder", "."))
    for number in range(asked.get("files", 0)):
        kept.append((folder / f"file{os.getpid()}.{number}").open("w"))
    for _ in range(asked.get("children", 0)):
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
    if size := asked.get("write", 0) << 20:
        path = folder / f"written{os.getpid()}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT)
        for _ in range(asked.get("writes", 1)):
            os.write(handle, b"x" * (size // asked.get("writes", 1)))
        os.fsync(handle)
        os.close(handle)
    _burn(asked.get("cpu", 0.0))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("READY", json.dumps({"cpu": used.ru_utime + used.ru_stime}), flush=True)
    sys.stdin.read()


def _burn(seconds: float) -> None:
    while time.process_time() < seconds:
        sum(range(10_000))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
