# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was made for one reader and is the same for the next, until what it is made of changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

MOST = 256
LONGEST = 600  # seconds that something is kept of which nobody asks


class Same:
    """A version that is the very things that something is made of, which cost too much to compare."""

    def __init__(self, *things: object) -> None:
        self._things = things

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids)

    @property
    def _ids(self) -> tuple[int, ...]:
        # they are held, so that no other thing can have their place
        return tuple(map(id, self._things))


class _Making:
    """Something that is being made, how many wait for it, and for which version it could not be made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.failed: tuple[Hashable, Exception] | None = None


class _Kept(NamedTuple):
    version: Hashable
    value: Any
    asked: float


class Memory:
    """Of each key its latest version; of all keys those that were asked for last, and not long ago."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """What was made for that version, by whoever came first."""
        with self._lock:
            found = self._found(key, version)
            if found is None:
                making = self._making.setdefault(key, _Making())
                making.users += 1
        if found is None:
            try:
                # the others wait for it: made twice at once, it would take twice as long
                with making.lock:
                    found = self._made(key, version, make, making)
            finally:
                self._left(key, making)
        value: T = found.value
        return value

    def _found(self, key: Hashable, version: Hashable) -> _Kept | None:
        found = self._kept.get(key)
        return self._keep(key, version, found.value) if found is not None and found.version == version else None

    def _keep(self, key: Hashable, version: Hashable, value: Any) -> _Kept:
        self._kept[key] = found = _Kept(version, value, self._clock())
        self._kept.move_to_end(key)
        return found

    def _made(self, key: Hashable, version: Hashable, make: Callable[[], Any], making: _Making) -> _Kept:
        with self._lock:
            found = self._found(key, version)
        if found is not None:
            return found
        if making.failed is not None and making.failed[0] == version:
            raise making.failed[1]  # who waited for it does not wait as long again
        try:
            value = make()
        except Exception as error:
            making.failed = version, error
            raise
        with self._lock:
            found = self._keep(key, version, value)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self.forget()
        return found

    def forget(self) -> None:
        """What nobody has asked for in a while."""
        with self._lock:
            while self._kept and next(iter(self._kept.values())).asked < self._clock() - LONGEST:
                self._kept.popitem(last=False)

    def _left(self, key: Hashable, making: _Making) -> None:
        with self._lock:
            making.users -= 1
            if not making.users:
                del self._making[key]
