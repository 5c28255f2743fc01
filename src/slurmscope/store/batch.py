# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writing to the MongoDB store: what is to be written for one cluster, until the journal takes it as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pymongo.database import Database

from slurmscope.life import Life, document_id
from slurmscope.store import documents
from slurmscope.store.documents import CHANGES, JOBS, JUDGED, MEASURED, NODES, SERIES, SPANS, TOTALS, Document
from slurmscope.store.journal import some
from slurmscope.store.protocol import JobKey, KeptNode, Measured, NodeChange, Point, Span
from slurmscope.usage import AMOUNTS, Amounts, Key


class Batch:
    """A Writer: collects what is to be written, and lets it be read before it is."""

    def __init__(self, database: Database[Document], cluster: str, batch: int) -> None:
        self._db = database
        self._cluster = cluster
        self._batch = batch
        self._lives: dict[JobKey, Life] = {}
        self._findings: dict[JobKey, tuple[str, ...]] = {}
        self._put: dict[tuple[str, str], Document | None] = {}  # None: dropped
        self._clear: int | None = None
        self._usage: dict[Key, list[int]] = {}

    def operations(self) -> list[Document]:
        found: list[Document] = [] if self._clear is None else [{"clear": self._clear}]
        for life in self._lives.values():
            found.append({"in": JOBS, "put": documents.of_life(life, self._batch)})
        for job, rules in self._findings.items():
            found.append({"in": JOBS, "find": document_id(self._cluster, *job), "rules": list(rules)})
        for (name, id_), one in self._put.items():
            found.append({"in": name, "drop": id_} if one is None else {"in": name, "put": one})
        for key, amounts in self._usage.items():
            if any(amounts):
                found.append({"add": documents.of_usage(key, amounts, self._batch)})
        return found

    def lives(self, keys: Collection[JobKey]) -> dict[JobKey, Life]:
        found = {key: self._lives[key] for key in keys if key in self._lives}
        ids = [document_id(self._cluster, *key) for key in keys if key not in found]
        for few in some(ids):
            for one in self._db[JOBS].find({"_id": {"$in": list(few)}}):
                life = documents.to_life(one)
                found[life.key] = life
        return found

    def open_lives(self) -> list[Life]:
        there = [documents.to_life(one) for one in self._db[JOBS].find({"cluster": self._cluster, "open": True})]
        put = [one for one in self._lives.values() if not one.ended]
        return [one for one in there if one.key not in self._lives] + put

    def put_lives(self, lives: Sequence[Life]) -> None:
        self._lives.update((one.key, one) for one in lives)

    def put_findings(self, findings: Mapping[JobKey, tuple[str, ...]]) -> None:
        self._findings.update(findings)

    def put_judged(self, time: int) -> None:
        self._keep(JUDGED, [documents.of_judged(self._cluster, time, self._batch)])

    def put_measured(self, measured: Sequence[Measured]) -> None:
        self._keep(MEASURED, [documents.of_summary(self._cluster, one, self._batch) for one in measured])
        for one in measured:
            course = documents.of_course(self._cluster, one, self._batch)
            self._put[SERIES, document_id(self._cluster, *one.key)] = course

    def add_usage(self, deltas: Mapping[Key, Amounts]) -> None:
        for key, amounts in deltas.items():
            row = self._usage.setdefault(key, [0] * len(AMOUNTS))
            row[:] = [one + more for one, more in zip(row, amounts, strict=True)]

    def clear_usage(self, since: int) -> None:
        self._clear = since if self._clear is None else min(since, self._clear)
        self._usage = {key: amounts for key, amounts in self._usage.items() if key.day < since}

    def put_nodes(self, nodes: Sequence[KeptNode]) -> None:
        self._keep(NODES, [documents.of_node(one, self._batch) for one in nodes])

    def drop_nodes(self, names: Collection[str]) -> None:
        for name in names:
            self._put[NODES, documents.joined(self._cluster, name)] = None

    def add_node_changes(self, changes: Sequence[NodeChange]) -> None:
        self._keep(CHANGES, [documents.of_change(one, self._batch) for one in changes])

    def put_points(self, points: Sequence[Point]) -> None:
        self._keep(TOTALS, [documents.of_point(one, self._batch) for one in points])

    def put_spans(self, spans: Sequence[Span]) -> None:
        self._keep(SPANS, [documents.of_spans(self._cluster, spans, self._batch)])

    def _keep(self, name: str, found: Sequence[Document]) -> None:
        self._put.update({(name, one["_id"]): one for one in found})
