# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the portal tells of: the clusters as they are now, what is kept of them, and the site's settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from slurmscope.life import Life
from slurmscope.metrics.pages import Edition, Pages
from slurmscope.metrics.view import Requests, View
from slurmscope.model import Snapshot
from slurmscope.reports.kept import Reports
from slurmscope.settings import Settings
from slurmscope.store import place
from slurmscope.store.protocol import Store, StoreError
from slurmscope.web.errors import NotFound
from slurmscope.web.memory import Memory

if TYPE_CHECKING:
    from slurmscope.web.cluster_report import Asked

T = TypeVar("T")

_SAME = 15  # seconds for which what reports have read of nodes may be used again
_SLOWLY = 600  # … and how jobs of a partition waited in the last weeks
_AGAIN = 3.0  # seconds after which a store that could not be opened is tried again
_LATELY = 900  # seconds for which somebody who has read a report may do so again


class Site:
    def __init__(
        self,
        settings: Settings,
        url: str,
        editions: Callable[[], Sequence[Edition]],
        clock: Callable[[], float],
        views: Callable[[], Sequence[View]] = list,
        script: Callable[[Life], str | None] = lambda life: None,
        served: Mapping[str, str] = {},
    ) -> None:
        """`url` is the store's; `editions` are the clusters as they were last seen, `views` what metrics tell of.

        `script` is that of a life, as Slurm gives it; it blocks, and raises NotNow. `served` are the pages of metrics.
        """
        self.served = served
        self.script = script
        self.settings = settings
        self.url = url
        self._editions = editions
        self._views = views
        self._memory = Memory()
        self._read: dict[Asked, float] = {}  # reports of whole clusters
        self._reading = threading.Lock()  # of its own: to open the store may take long
        self._clock = clock
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._closed = False
        self._failed: tuple[float, StoreError] | None = None
        self._own = threading.local()

    @property
    def now(self) -> int:
        return int(self._clock())

    def clock(self) -> float:
        return self._clock()

    @property
    def store(self) -> Store:
        """Opened when it is first needed, and again after it could not be. Raises StoreError."""
        with self._lock:
            if self._closed:
                raise StoreError("the portal has ended")
            if self._store is None:
                self._store = self._opened()
            return self._store

    def _opened(self) -> Store:
        """One that does not answer keeps whoever tries it waiting; the others are told at once."""
        if self._failed is not None and time.monotonic() - self._failed[0] < _AGAIN:
            raise type(self._failed[1])(*self._failed[1].args)
        try:
            return place.open_store(self.url)
        except StoreError as error:
            self._failed = time.monotonic(), error
            raise

    def reports(self, *, discreet: bool) -> Reports:
        """`discreet`: for one who may not know of all people. Each thread has its own: they learn as they are asked.
        Raises StoreError."""
        store, now = self.store, self.now
        own: dict[bool, tuple[int, Reports]] = self._own.__dict__.setdefault("reports", {})
        kept = own.get(discreet)
        if kept is None or now - kept[0] >= _SAME:
            made = Reports(store, self.settings, now, self._live, discreet=discreet, remember=self._slowly)
            kept = own[discreet] = now, made
        return kept[1]

    def _slowly(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is of weeks changes little in some minutes."""
        return self.for_a_while(("reports", key), _SLOWLY, make)

    def editions(self) -> list[Edition]:
        return [one for one in self._editions() if one.snapshot.cluster]

    def clusters(self) -> list[str]:
        """By name: those that are read, and those of which something is kept."""
        seen = {one.snapshot.cluster for one in self.editions()}
        return sorted(seen | set(self.store.clusters()))

    def edition(self, cluster: str) -> Edition | None:
        """None: it is not read any more, or has not answered yet."""
        return next((one for one in self.editions() if one.snapshot.cluster == cluster), None)

    def snapshot(self, cluster: str) -> Snapshot:
        found = self.edition(cluster)
        return Snapshot(cluster=cluster) if found is None else found.snapshot

    def views(self) -> list[View]:
        """Each cluster that is read; one may have no name yet."""
        return list(self._views()) or [self.view(one.snapshot.cluster) for one in self.editions()]

    def view(self, cluster: str) -> View:
        """A cluster as its metrics have it; of one that has none, what is known."""
        found = next((one for one in self._views() if one.snapshot.cluster == cluster), None)
        if found is not None:
            return found
        edition = self.edition(cluster) or Edition(Snapshot(cluster=cluster), up=False, clock=self._clock)
        return Pages(cluster=cluster, clock=edition.clock).view(edition, Requests(total={}))

    def read_report(self, one: Asked) -> None:
        """Somebody has, and may do so again."""
        now = self._clock()
        with self._reading:
            self._read = {other: when for other, when in self._read.items() if when > now - _LATELY and other != one}
            self._read[one] = now

    def reports_read(self) -> list[Asked]:
        """Lately, the last first."""
        since = self._clock() - _LATELY
        with self._reading:
            return [one for one, when in reversed(self._read.items()) if when > since]

    def remembered(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """What was made for that version, by whoever came first; of another version nothing is remembered."""
        return self._memory.of(key, version, make)

    def forget(self) -> None:
        """What nobody has asked for lately. That is done when something is made, too."""
        self._memory.forget()

    def until_polled(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made of the store: until a cluster is read anew, and for some seconds at most, for others write
        there, too."""
        seen = tuple((one.snapshot.cluster, one.snapshot.jobs.time) for one in self.editions())
        return self.remembered(key, (seen, self.turn(key, _SAME)), make)

    def for_a_while(self, key: Hashable, seconds: int, make: Callable[[], T]) -> T:
        """What was made, for so many seconds at most."""
        return self.remembered(key, self.turn(key, seconds), make)

    def turn(self, key: Hashable, seconds: int) -> int:
        """A number that is another after so many seconds at most, not at the same moment for all keys: else all would
        be made anew at once."""
        return (self.now + hash(key) % seconds) // seconds

    def _live(self, cluster: str) -> Snapshot | None:
        found = self.edition(cluster)
        return None if found is None else found.snapshot

    def must_know(self, cluster: str) -> None:
        """Raises NotFound."""
        if cluster not in self.clusters():
            raise NotFound("There is no cluster {cluster} here.", "These are", "/", cluster=repr(cluster))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._store is not None:
                self._store.close()
                self._store = None
