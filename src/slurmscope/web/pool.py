# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Threads for what takes long, with a bound on who may wait for one: further ones are told to come again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._room = threading.BoundedSemaphore(threads + waiting)

    def submit(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T] | None:
        """None: there is no room."""
        if not self._room.acquire(blocking=False):
            return None
        found = self._threads.submit(work, *args, **kwargs)
        found.add_done_callback(lambda _: self._room.release())
        return found

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
