# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All GPUs of this node, whatever their make.

A driver may hang for minutes: a card that fell off its bus, a reset, a module that is being replaced. So each is called
in a thread of its own which nobody waits for longer than the deadline, which is never started a second time while the
first call is out, and which does not keep the process from ending. What a driver told before is not told again as if it
were new: while it hangs its GPUs are absent, and `problems` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from slurmscope.logs import fields
from slurmscope.measure import Gpu
from slurmscope.node.amd import Amd
from slurmscope.node.driver import AbsentError, Driver, DriverError
from slurmscope.node.nvidia import Nvidia

__all__ = ["AbsentError", "Driver", "DriverError", "Gpus"]

log = logging.getLogger(__name__)
T = TypeVar("T")

DEADLINE = 5.0
_CLOSING = 1.0
_FIRST_REST = 10.0  # after a failure; twice as long after each further one
_LONGEST_REST = 300.0
_ABSENT_REST = 60.0  # a driver may be loaded after us, at boot; looking for it costs a few file lookups


class Gpus:
    """Reads all drivers side by side. One that is absent is no problem; one that fails or hangs costs its own GPUs."""

    def __init__(
        self,
        drivers: Sequence[Driver] | None = None,
        deadline: float = DEADLINE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        found = (Nvidia(), Amd()) if drivers is None else drivers
        self._readers = [_Reader(driver, deadline, clock) for driver in found]

    @property
    def problems(self) -> dict[str, str]:
        """By driver: what is wrong with it, or with some of its GPUs, and what to do."""
        return {one.driver.name: one.problem for one in self._readers if one.problem}

    async def read(self) -> tuple[Gpu, ...]:
        answers = await asyncio.gather(*(one.read() for one in self._readers))
        return tuple(gpu for answer in answers for gpu in answer)

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._readers))


class _Call(Generic[T]):
    """One call in a thread that may never come back."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._future: Future[T] = Future()
        self._function = function
        # a daemon, so that a process whose driver hangs can end; those of an executor are waited for
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._function())
        except BaseException as error:  # whoever asks for the result gets it
            self._future.set_exception(error)

    @property
    def over(self) -> bool:
        return self._future.done()

    async def wait(self, seconds: float) -> bool:
        """Whether it was over within so many seconds."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended before the call
                loop.call_soon_threadsafe(over.set)

        self._future.add_done_callback(tell)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), seconds)
        return self.over

    def result(self) -> T:
        return self._future.result(timeout=0)


class _Reader:
    """One driver: when it is called, how long it is waited for, and what is wrong with it."""

    def __init__(self, driver: Driver, deadline: float, clock: Callable[[], float]) -> None:
        self.driver = driver
        self.problem = ""
        self._deadline = deadline
        self._clock = clock
        self._call: _Call[list[Gpu]] | None = None
        self._until = 0.0  # when the call that is out is too late
        self._failures = 0
        self._rest_until = 0.0
        self._closed = False

    async def read(self) -> list[Gpu]:
        now = self._clock()
        call = self._call
        if call is not None and now >= self._until:
            if not call.over:
                return []
            # it hung and has come back; what it brought is old
            call = self._call = None
        if call is None:
            if self._closed or now < self._rest_until:
                return []
            call = self._call = _Call(self.driver.read, f"gpu-{self.driver.name}")
            self._until = now + self._deadline
        # a call that is out in good time is somebody else's, or of a reader who was cancelled: it serves us as well
        if not await call.wait(self._until - now):
            self._until = min(self._until, self._clock())
            self._say(f"has not answered for {self._deadline:g} s and is not asked again until it does")
            return []
        if self._call is call:
            self._call = None
        return self._answer(call)

    async def close(self) -> None:
        self._closed = True
        if self._call is None or self._call.over:
            closing = _Call(self.driver.close, f"gpu-{self.driver.name}-close")
            if await closing.wait(_CLOSING):
                with contextlib.suppress(DriverError):
                    closing.result()

    def _answer(self, call: _Call[list[Gpu]]) -> list[Gpu]:
        try:
            gpus = call.result()
        except AbsentError:
            self._failures = 0
            self._rest(_ABSENT_REST)
            self._say("")
            return []
        except Exception as error:  # whatever a vendor's library does, it must cost its own GPUs only
            self._rest(min(_LONGEST_REST, _FIRST_REST * 2 ** min(self._failures, 10)))
            self._failures += 1
            self._say(str(error) if isinstance(error, DriverError) else f"{type(error).__name__}: {error}")
            return []
        self._failures = 0
        self._say(self.driver.trouble)
        return gpus

    def _rest(self, seconds: float) -> None:
        self._rest_until = self._clock() + seconds

    def _say(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            log.warning("GPUs cannot be read", extra=fields(driver=self.driver.name, error=problem))
        else:
            log.info("GPUs can be read again", extra=fields(driver=self.driver.name))
