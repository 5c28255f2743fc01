# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Work that is done again and again beside all that `serve` does, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

_LAST = 10.0  # seconds for what is being done when all ends


class Chore:
    """`work` goes on until it is told to `stop`. Its thread keeps nobody from ending: what takes too long,
    such as the last line of a mail for which a server takes minutes, is cut off."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.stop = threading.Event()
        self._thread = threading.Thread(target=work, name=name, daemon=True)

    async def run(self) -> None:
        """Until it is cancelled."""
        self._thread.start()
        try:
            await asyncio.Event().wait()
        finally:
            self.stop.set()

    async def end(self) -> bool:
        """Waits some seconds for what is being done. False: it still is."""
        self.stop.set()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, _LAST)
        return not self._thread.is_alive()
