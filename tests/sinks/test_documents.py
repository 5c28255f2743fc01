# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest
from sinks import made
from sinks.made import NOW

from slurmscope.life import Life
from slurmscope.model import Node
from slurmscope.sinks import documents
from slurmscope.sinks.documents import HISTORY, JOBS, MAPPINGS, NODES
from slurmscope.store.protocol import NodeChange

CHANGE = NodeChange("alpha", "n1", NOW, "DOWN", ("DRAIN",), "broken", "root", NOW)


def test_every_field_is_indexed_or_kept_on_purpose() -> None:
    assert set(Life.__struct_fields__) - set(MAPPINGS[JOBS]) == set()
    assert set(Node.__struct_fields__) - set(MAPPINGS[NODES]) == {"gpus_allocated"}  # which is in gpus
    assert set(NodeChange.__struct_fields__) - set(MAPPINGS[HISTORY]) == {"time"}  # which is @timestamp


def test_a_document_has_no_field_beyond_its_mapping() -> None:
    life = made.ended(made.started(made.pending(1)))
    assert set(documents.job(life)) <= set(MAPPINGS[JOBS])
    assert set(documents.node("alpha", made.NODE, NOW)) <= set(MAPPINGS[NODES])
    assert set(documents.transition(life, life.transitions[0])) <= set(MAPPINGS[HISTORY])
    assert set(documents.change(CHANGE)) <= set(MAPPINGS[HISTORY])


def test_a_job() -> None:
    found = documents.job(made.started(made.pending(7)))
    assert found["@timestamp"] == found["submit_time"] == NOW
    assert (found["cluster"], found["id"], found["state"], found["ended"]) == ("alpha", 7, "RUNNING", False)
    assert found["gpus"] == [{"type": "a100", "count": 2}, {"type": "untyped", "count": 1}]
    assert (found["gpu_types"], found["gpu_count"]) == (["a100", "untyped"], 3)
    assert [one["state"] for one in found["transitions"]] == ["PENDING", "RUNNING"]
    assert "exit_code" not in found  # unknown, and not null
    without = documents.job(made.pending(8, gpus={}, submit_time=None))
    assert (without["gpus"], without["gpu_types"], without["gpu_count"]) == ([], [], 0)
    assert without["@timestamp"] == NOW + 1


def test_a_node() -> None:
    found = documents.node("alpha", made.NODE, NOW)
    assert found["@timestamp"] == NOW
    assert found["flags"] == ["CLOUD", "PLANNED"]
    assert found["gpus"] == [
        {"type": "a100", "count": 4, "allocated": 2, "idle": 2, "stranded": 0, "unavailable": 0},
    ]
    assert (found["gpu_count"], found["gpu_allocated"], found["cpus_idle"]) == (4, 2, 54)


def test_events_have_ids_of_their_own() -> None:
    life = made.ended(made.started(made.pending(1)))
    ids = [documents.transition_id(life, one) for one in life.transitions]
    assert len(set(ids)) == len(ids) == 3
    assert ids[1] == f"alpha.1.{NOW}.{NOW + 60}.RUNNING"
    assert documents.change_id(CHANGE) == f"alpha.n1.{NOW}"


@pytest.mark.parametrize("id_", ["x", "x" * 512, "é" * 256])
def test_short_ids_stay(id_: str) -> None:
    assert documents.bounded(id_) == id_


@pytest.mark.parametrize("id_", ["x" * 513, "é" * 257, "\ud800" * 600])
def test_long_ids_are_hashed(id_: str) -> None:
    assert len(documents.bounded(id_)) == 32


def test_lone_surrogates() -> None:
    document = documents.job(made.pending(1, name="\ud800", gpus={"\udcff": 1}))
    cleaned = documents.clean(document)
    assert msgspec.json.decode(msgspec.json.encode(cleaned))["name"] == "\\ud800"
    assert cleaned["gpu_types"] == ["\\udcff"]
