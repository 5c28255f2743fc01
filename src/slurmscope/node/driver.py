# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of the driver of a make of GPUs, and what may go wrong."""

from __future__ import annotations

from typing import Protocol

from slurmscope.measure import Gpu


class DriverError(Exception):
    """Nothing can be read of a driver's GPUs now; the message says what is wrong, and what to do."""


class AbsentError(DriverError):
    """There is no such driver on this machine, or no GPU of its make: nothing is wrong."""


class Driver(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def trouble(self) -> str:
        """What was wrong with some of the GPUs at the last `read()`, which are not among its answer; or nothing."""
        ...

    def read(self) -> list[Gpu]:
        """All GPUs that answer. It may take as long as it likes: it is called in a thread, once at a time."""
        ...

    def close(self) -> None: ...
