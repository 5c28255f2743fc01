# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of jobs: Slurm is asked for one when somebody who may see the job wants to read it, and once."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from slurmscope.life import Life
from slurmscope.web.errors import NotNow

Read = Callable[[Life], Coroutine[Any, Any, str | None] | None]
"""Asks the cluster of a life for its script; None where that cluster is not read here."""

_MOST = 200  # that are remembered
_LONG = 64 << 10  # characters of one that is
_AT_ONCE = 2  # questions, so that readers cannot keep slurmctld busy
_PATIENCE = 20.0


class Scripts:
    def __init__(self, read: Read, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is the one in which Slurm is asked; readers come from threads."""
        self._read = read
        self._loop = loop
        self._turns = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, str] = OrderedDict()

    def of(self, life: Life) -> str | None:
        """None: there is none, or it may not be read. Raises NotNow."""
        with self._lock:
            if life.document_id in self._known:
                return self._known[life.document_id]
        question = self._read(life)
        if question is None:
            return None
        if not self._turns.acquire(blocking=False):
            question.close()
            raise NotNow("Others are reading scripts just now.", "Try again in a moment.")
        try:
            asked = asyncio.run_coroutine_threadsafe(question, self._loop)
            try:
                found = asked.result(_PATIENCE)
            except TimeoutError:
                asked.cancel()
                raise NotNow("Slurm takes long to tell the script.", "Try again in a moment.") from None
        finally:
            self._turns.release()
        if found is not None and len(found) <= _LONG:
            with self._lock:
                self._known[life.document_id] = found
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        return found
