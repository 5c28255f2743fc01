# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's beginning: a store with a past, and the story that goes on from there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from slurmscope.demo import measured, past
from slurmscope.demo.cluster import HOUR
from slurmscope.demo.reports import CLUSTER
from slurmscope.demo.source import DemoSource, begins
from slurmscope.model import Snapshot
from slurmscope.store.private import make_folder
from slurmscope.store.protocol import Store
from slurmscope.store.recorder import Recorder
from slurmscope.store.sqlite import SqliteStore

_MEASURED = 3 * HOUR  # before now: of jobs that ended since then, or run, it is told what agents saw
_SEEN = frozenset({"jobs", "nodes"})


def begin(
    folder: Path, seed: int, progress: Callable[[int, int], None], clock: Callable[[], float] = time.time
) -> tuple[str, DemoSource]:
    """The URL of the store, and the source. The past is made where there is none, or one of another story.

    Raises StoreError.
    """
    path = folder / f"demo-{seed}.db"
    end = begins(clock())
    with suppress(OSError):  # which is told when the store is opened
        make_folder(folder)
    store = SqliteStore(path)
    try:
        if past.needed(store, CLUSTER, end):
            if store.clusters():
                store.close()
                for end_ in ("", "-wal", "-shm"):
                    path.with_name(path.name + end_).unlink(missing_ok=True)
                store = SqliteStore(path)
            past.make(store, CLUSTER, seed, end, progress)
        source = DemoSource(seed=seed, clock=clock, watch=_Watch(store).see)
        found = [measured.of(one) for one in source.lately(_MEASURED)]
        with store.writing(CLUSTER) as writer:
            writer.put_measured([one for one in found if one is not None])
    finally:
        store.close()
    return f"sqlite:{path}", source


class _Watch:
    """Writes down what happened between the past's end and now, as polls would have."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recorder = Recorder()

    def see(self, snapshot: Snapshot) -> None:
        self._recorder.notice(snapshot, _SEEN)
        self._recorder.write(self._store)
