# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are kept, and a document to tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from findings import cases, gpus
from msgspec.structs import replace

from slurmscope.life import Life
from slurmscope.reports.document import BAD, Document, Paragraph, Section, Verdict
from slurmscope.store.protocol import KeptNode, Measured
from slurmscope.store.sqlite import SqliteStore
from slurmscope.summary import Summary

CLUSTER = "c"
NEVER = gpus.summary(0.0, 0.0)
DOCUMENT = Document(
    kind="job",
    title="7 train",
    subtitle="of alice",
    made=cases.START + cases.RAN,
    verdict=Verdict(BAD, "7 train: its GPU was never used", "It held 1 GPU for 2 h."),
    sections=(Section("What to change", (Paragraph("Leave it out: π."),)),),
    data={},
)


def life(id_: int = 7, end: int | None = None, **fields: Any) -> Life:
    """A job with a GPU, of alice's, which ended then after two hours; without `end` it runs."""
    found = gpus.life(state="COMPLETED" if end is not None else "RUNNING", **fields)
    shift = 0 if end is None else end - (found.end_time or 0)
    return replace(
        found,
        id=id_,
        submit_time=(found.submit_time or 0) + shift,
        start_time=(found.start_time or 0) + shift,
        end_time=end,
        counted_time=end,
    )


def filled(path: Path, jobs: Sequence[tuple[Life, Summary | None]]) -> SqliteStore:
    store = SqliteStore(path)
    with store.writing(CLUSTER) as writer:
        writer.put_lives([one for one, _ in jobs])
        writer.put_measured(
            [Measured(one.id, one.submit_time or 0, summary, None) for one, summary in jobs if summary is not None]
        )
        writer.put_nodes([KeptNode(CLUSTER, cases.node(gpus={"a100": 4}), cases.START, cases.START)])
    return store
