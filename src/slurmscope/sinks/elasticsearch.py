# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Elasticsearch 7.9 to 9, and OpenSearch: jobs and nodes as documents, what happens to them as events.

All clusters share the indices. Every document has an `_id` that follows from what it is about, and a version that only
grows: what is sent twice, or comes late, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from slurmscope.life import Life, Transition
from slurmscope.model import Node
from slurmscope.settings import Elasticsearch
from slurmscope.sinks import documents
from slurmscope.sinks.documents import HISTORY, JOBS, NODES
from slurmscope.sinks.http import Server, words
from slurmscope.sinks.sender import Batch, Receipt, Sender
from slurmscope.sinks.sink import SendError, Tally
from slurmscope.sinks.spool import Spool
from slurmscope.store.protocol import NodeChange
from slurmscope.worker import compute

_MOST_ITEMS = 1000
_MOST_BYTES = 5_000_000
_AT_ONCE = 5000  # documents that are in memory: the first poll of a large cluster has a hundred thousand jobs
_FLUSH_SECONDS = 5.0
_ONLY = "filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
# 400 is said of what is wrong with a document, and of these, which are wrong with the index
_OF_THE_INDEX = ("index_closed_exception", "validation_exception")

_json = msgspec.json.Encoder()


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Fault(msgspec.Struct):
    type: str = "unknown"
    reason: str | None = None
    caused_by: _Cause | None = None

    def __str__(self) -> str:
        found = [self.reason, self.caused_by.reason if self.caused_by else None]
        return ": ".join([self.type, *(" ".join(one.split())[:300] for one in found if one)])


class _Item(msgspec.Struct):
    status: int = 0
    error: _Fault | None = None


class _Bulk(msgspec.Struct):
    items: list[dict[str, _Item]]
    errors: bool = False


class ElasticsearchSink:
    name = "elasticsearch"

    def __init__(self, settings: Elasticsearch, folder: Path) -> None:
        self._settings = settings
        self._server = Server(self.name, settings)
        spool = Spool(folder / "elasticsearch.db", settings.spool_megabytes << 20)
        self._sender = Sender(self.name, spool, self._send, most_items=_MOST_ITEMS, most_bytes=_MOST_BYTES)
        self._version = spool.mark
        self._ready = False  # the templates are there
        self._nodes: dict[tuple[str, str], Node] = {}  # as they were last sent
        self._told: dict[str, tuple[Transition, ...]] = {}  # of lives that have not ended: what was sent as events

    @property
    def tally(self) -> Tally:
        return self._sender.tally

    async def run(self) -> None:
        await self._sender.run()

    async def close(self) -> None:
        await self._sender.flush(_FLUSH_SECONDS)
        await self._server.close()
        self._sender.close()

    async def take(
        self,
        jobs: Sequence[Life],
        nodes: Sequence[tuple[str, Node, int]] = (),
        changes: Sequence[NodeChange] = (),
    ) -> None:
        """Sends lives that have changed, nodes as they were seen (cluster, node, when), and changes of nodes.

        Returns when it is on the disk. Call it for one poll after the other: later is newer.
        """
        made = self._items(jobs, nodes, changes)
        while items := await compute(lambda: list(islice(made, _AT_ONCE))):
            await self._sender.add(items, self._version)

    # --- what is sent -------------------------------------------------------------------------------------------------

    def _items(
        self, jobs: Sequence[Life], nodes: Sequence[tuple[str, Node, int]], changes: Sequence[NodeChange]
    ) -> Iterator[bytes]:
        for life in jobs:
            yield self._document(JOBS, life.document_id, documents.job(life))
            if self._settings.history:
                yield from self._events(life)
        for cluster, node, at in nodes:
            if self._due(cluster, node):
                yield self._document(NODES, f"{cluster}.{node.name}", documents.node(cluster, node, at))
        if self._settings.history:
            for change in changes:
                yield self._event(documents.change_id(change), documents.change(change))

    def _due(self, cluster: str, node: Node) -> bool:
        """While the server is away only what differs is worth its place in the spool."""
        before = self._nodes.get((cluster, node.name))
        due = before is None or self.tally.up is not False or not _alike(before, node)
        if due:
            self._nodes[cluster, node.name] = node
        return due

    def _events(self, life: Life) -> Iterator[bytes]:
        told = self._told.pop(life.document_id, ())
        if not life.ended:
            self._told[life.document_id] = life.transitions
        for one in life.transitions:
            if one not in told:
                yield self._event(documents.transition_id(life, one), documents.transition(life, one))

    def _document(self, kind: str, id_: str, document: dict[str, Any]) -> bytes:
        # microseconds: they grow over a restart too, and if the clock was set back they are counted on
        self._version = max(self._version + 1, time.time_ns() // 1000)
        action = {
            "_index": f"{self._settings.prefix}-{kind}",
            "_id": documents.bounded(id_),
            "version": self._version,
            "version_type": "external",
        }
        return _lines({"index": action}, document)

    def _event(self, id_: str, document: dict[str, Any]) -> bytes:
        action = {"_index": f"{self._settings.prefix}-{HISTORY}", "_id": documents.bounded(id_)}
        return _lines({"create": action}, document)

    # --- how it is sent -----------------------------------------------------------------------------------------------

    async def _send(self, batch: Batch) -> Receipt:
        try:
            if not self._ready:
                await self._install()
            content = b"".join(item for _, item in batch)
            answer = await self._server.request(
                "POST", f"/_bulk?{_ONLY}", content, {"Content-Type": "application/x-ndjson"}
            )
            if answer.status != 200:
                raise SendError(f"_bulk was answered with {answer.status}: {words(answer.body)}")
            return _receipt(batch, answer.body)
        except SendError:
            # who comes back may be a new one, that knows nothing of us
            self._ready = False
            raise

    async def _install(self) -> None:
        """The templates, from which indices are made when the first document comes."""
        prefix = self._settings.prefix
        for kind in (JOBS, NODES, HISTORY) if self._settings.history else (JOBS, NODES):
            path = f"/_index_template/{prefix}-{kind}"
            body = _json.encode(documents.template(prefix, kind))
            answer = await self._server.request("PUT", path, body, {"Content-Type": "application/json"})
            if answer.status != 200:
                raise SendError(f"PUT {path} was answered with {answer.status}: {words(answer.body)}")
        self._ready = True


def _alike(one: Node, other: Node) -> bool:
    """They differ in what always changes, if at all."""
    return one == msgspec.structs.replace(other, load=one.load, memory_free=one.memory_free)


def _lines(action: dict[str, Any], document: dict[str, Any]) -> bytes:
    try:
        return _json.encode_lines((action, document))
    except UnicodeEncodeError:
        return _json.encode_lines((documents.clean(action), documents.clean(document)))


def _receipt(batch: Batch, body: bytes) -> Receipt:
    try:
        found = msgspec.json.decode(body, type=_Bulk).items
    except ValueError:
        raise SendError(f"_bulk was answered with what is none: {words(body)}") from None
    if len(found) != len(batch):
        raise SendError(f"_bulk was answered for {len(found)} items, and had {len(batch)}")
    receipt = Receipt([], [])
    waiting: list[_Item] = []
    for (seq, _), one in zip(batch, found, strict=True):
        item = next(iter(one.values()), _Item())
        if 200 <= item.status < 300 or item.status == 409:  # 409: the same, or a later one, is there already
            receipt.arrived.append(seq)
        elif item.status == 400 and item.error is not None and item.error.type not in _OF_THE_INDEX:
            receipt.rejected.append((seq, str(item.error)))
        else:
            waiting.append(item)
    if waiting:
        receipt.why = f"{len(waiting)} of {len(batch)} items not now, {waiting[0].status}: {waiting[0].error}"
    return receipt
