# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Lives, nodes and what happens to them as documents, and how Elasticsearch is to index each field.

Fields that are not in these tables are stored and not indexed (`dynamic: false`): nothing that a user writes into a
job can add a field to an index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from slurmscope.life import Life, Transition, document
from slurmscope.model import Node
from slurmscope.store.protocol import NodeChange

JOBS, NODES, HISTORY = "jobs", "nodes", "history"

TIMESTAMP = "@timestamp"
_UNTYPED = "untyped"  # as in the metrics: a GPU that was configured or asked for without a type
_MOST_ID = 512  # bytes, which is all that Elasticsearch takes

# --- how fields are indexed -------------------------------------------------------------------------------------------

_DATE = {"type": "date", "format": "epoch_second"}
# Slurm takes names of up to about 1 kB; what is longer is kept, and cannot be searched for
_KEYWORD = {"type": "keyword", "ignore_above": 1024}
_LONG = {"type": "long"}
_DOUBLE = {"type": "double"}
_BOOLEAN = {"type": "boolean"}
_KEPT = {"type": "object", "enabled": False}


def _fields(names: str, kind: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    return dict.fromkeys(names.split(), kind)


def _gpus(*counts: str) -> dict[str, Mapping[str, object]]:
    return {"gpus": {"properties": {"type": _KEYWORD, **dict.fromkeys(counts, _LONG)}}}


MAPPINGS: dict[str, dict[str, Mapping[str, object]]] = {
    JOBS: {
        **_fields(f"{TIMESTAMP} submit_time eligible_time start_time end_time", _DATE),
        **_fields("changed_time counted_time gone_time", _DATE),
        **_fields("cluster name user account partition qos state reason exit_code derived_exit_code", _KEYWORD),
        **_fields("array_tasks node_list reservation dependency features licenses login_node", _KEYWORD),
        **_fields("cancelled_by gpu_types submit_line work_dir", _KEYWORD),
        **_fields("id array_id tasks priority time_limit cpus memory nodes restarts gpu_count", _LONG),
        **_fields("suspended_seconds max_rss memory_used energy", _LONG),
        **_fields("cpu_seconds gpu_share", _DOUBLE),
        **_fields("ended accounted", _BOOLEAN),
        **_gpus("count"),
        **_fields("transitions steps guess", _KEPT),
    },
    NODES: {
        **_fields(f"{TIMESTAMP} boot_time reason_time", _DATE),
        **_fields("cluster name state flags partitions features version reason reason_user gpu_types", _KEYWORD),
        **_fields(
            "cpus cpus_effective cpus_allocated cpus_idle threads_per_core weight gpu_count gpu_allocated", _LONG
        ),
        **_fields("memory memory_reserved memory_allocated memory_free memory_idle", _LONG),
        **_fields("load", _DOUBLE),
        **_fields("usable", _BOOLEAN),
        **_gpus("count", "allocated", "idle", "stranded", "unavailable"),
    },
    HISTORY: {
        **_fields(f"{TIMESTAMP} submit_time reason_time", _DATE),
        **_fields("kind cluster node state flags reason reason_user", _KEYWORD),
        **_fields("job name user account partition qos", _KEYWORD),
        **_fields("id array_id tasks", _LONG),
    },
}


def template(prefix: str, kind: str) -> dict[str, Any]:
    """The index template of one of the kinds."""
    found: dict[str, Any] = {
        "index_patterns": [f"{prefix}-{kind}"],
        "priority": 200,
        "template": {"mappings": {"dynamic": False, "properties": MAPPINGS[kind]}},
    }
    if kind == HISTORY:
        found["data_stream"] = {}
    return found


# --- documents --------------------------------------------------------------------------------------------------------


def job(life: Life) -> dict[str, Any]:
    kinds = {kind or _UNTYPED: count for kind, count in life.gpus.items()}
    return {
        TIMESTAMP: life.changed_time if life.submit_time is None else life.submit_time,
        **_known(document(life)),
        "ended": life.ended,
        "gpus": [{"type": kind, "count": count} for kind, count in kinds.items()],
        "gpu_types": list(kinds),
        "gpu_count": sum(kinds.values()),
    }


def node(cluster: str, one: Node, time: int) -> dict[str, Any]:
    uses = {kind or _UNTYPED: use for kind, use in one.gpu_use().items()}
    found = _known(asdict(one))
    del found["gpus_allocated"]
    return {
        TIMESTAMP: time,
        "cluster": cluster,
        **found,
        "flags": sorted(one.flags),
        "gpus": [{"type": kind, "count": sum(use.values()), **use} for kind, use in uses.items()],
        "gpu_types": list(uses),
        "gpu_count": sum(one.gpus.values()),
        "gpu_allocated": sum(use["allocated"] for use in uses.values()),
    }


def transition(life: Life, one: Transition) -> dict[str, Any]:
    """A job came into a state."""
    of_job = ("cluster", "id", "array_id", "tasks", "name", "user", "account", "partition", "qos", "submit_time")
    return _known(
        {
            TIMESTAMP: one.time,
            "kind": "job",
            "job": life.document_id,
            **{name: getattr(life, name) for name in of_job},
            "state": one.state,
            "reason": one.reason,
        }
    )


def transition_id(life: Life, one: Transition) -> str:
    reason = "" if one.reason is None else f".{_hash(one.reason)}"
    return f"{life.document_id}.{one.time}.{one.state}{reason}"


def change(one: NodeChange) -> dict[str, Any]:
    """A node came into a condition."""
    found = _known(asdict(one))
    time = found.pop("time")
    return {TIMESTAMP: time, "kind": "node", **found}


def change_id(one: NodeChange) -> str:
    return f"{one.cluster}.{one.node}.{one.time}"


def bounded(id_: str) -> str:
    """An `_id` that every server takes: a whole batch is refused for one that is too long."""
    return id_ if len(id_.encode("utf-8", "backslashreplace")) <= _MOST_ID else _hash(id_)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _known(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is unknown is left out."""
    return {name: value for name, value in found.items() if value is not None}


def clean(value: Any) -> Any:
    """The same without lone surrogates, which have no UTF-8."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case Mapping():
            return {clean(name): clean(one) for name, one in value.items()}
        case list() | tuple() | frozenset():
            return [clean(one) for one in value]
        case _:
            return value
