# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One thread for all long computing, so that pages are served meanwhile.

More threads would only wait for one another, and each would keep a heap of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "worker")


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    context = copy_context()  # so that the log knows what it is about
    return await asyncio.get_running_loop().run_in_executor(_thread, lambda: context.run(function, *args, **kwargs))


def give_back_memory() -> None:
    """A poll of a large cluster passes tens of megabytes through the heap, which glibc would keep."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
