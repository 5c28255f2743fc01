# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A smaller GPU would do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from findings import cases, gpus
from findings.cases import EXEMPT, FINE, FIRES, GIB, NO_DATA, RAN

from slurmscope.findings.case import Case
from slurmscope.findings.judgement import judge
from slurmscope.findings.policy import Policy
from slurmscope.findings.rule import Change, Finding
from slurmscope.life import Life
from slurmscope.summary import Summary


def small(share: float = 0.1, **each: Any) -> Summary:
    return gpus.summary(share, each={"memory_peak": 5 * GIB} | each)


def of(of_life: Life | None = None, measured: Summary | None = None, **fields: Any) -> Case:
    """In a partition that has other GPUs too."""
    return gpus.of(of_life, measured, **({"nodes": [gpus.node(), gpus.node("n2", gpus={"t4": 4})]} | fields))


ELSEWHERE = gpus.node("n2", gpus={"t4": 4}, partitions=("other",))
LARGER = gpus.node("n2", gpus={"a100_80gb": 4})
TINY = gpus.node("n2", gpus={"1g.5gb": 7})

TABLE = [
    ("it needs little of it", of(measured=small()), FIRES),
    ("just little enough", of(measured=small(0.149, memory_peak=10 * GIB - 1)), FIRES),
    ("too busy", of(measured=small(0.15)), FINE),
    ("too much memory", of(measured=small(memory_peak=10 * GIB)), FINE),
    ("it is a small one", of(measured=small(memory_total=10 * GIB)), FINE),
    ("never used: that is another rule's", of(measured=small(0.0)), FINE),
    ("less than an hour of a GPU", of(gpus.life(ran=3900), small()), FINE),
    ("no GPU", cases.of(measured=cases.summary()), EXEMPT),
    ("several GPUs", of(gpus.life(2), small()), EXEMPT),
    ("many CPUs", of(gpus.life(cpus=5), small()), EXEMPT),
    ("a slice", of(measured=small(instance=3)), EXEMPT),
    ("a slice by its name", of(gpus.life(gpus={"a100_1g.5gb": 1}), small()), EXEMPT),
    ("there are no others", of(measured=small(), nodes=[gpus.node()]), EXEMPT),
    ("there is one type, and it asked for any", of(gpus.life(gpus={"": 1}), small(), nodes=[gpus.node()]), EXEMPT),
    ("all others are in another partition", of(measured=small(), nodes=[gpus.node(), ELSEWHERE]), EXEMPT),
    ("the others are larger", of(measured=small(), nodes=[gpus.node(), LARGER]), FINE),
    ("the others have too little memory", of(measured=small(), nodes=[gpus.node(), TINY]), FINE),
    ("nobody knows which there are", of(measured=small(), nodes=[]), NO_DATA),
    ("too short", of(gpus.life(ran=1700), small()), EXEMPT),
    ("interactive", of(gpus.life(name="jupyter"), small()), EXEMPT),
    ("nobody measured", of(), NO_DATA),
    ("nobody knows its memory", of(measured=small(memory_peak=None)), NO_DATA),
    ("nobody knows what it has", of(measured=small(memory_total=None)), NO_DATA),
    ("hardly measured", of(measured=msgspec.structs.replace(small(), coverage=0.4)), NO_DATA),
    # documented as a false positive: it needs what only this one has
    ("false positive: no smaller one has it", of(measured=small(model="NVIDIA H100")), FIRES),
]


def test_it_says_what_it_cost() -> None:
    found = cases.asked("small_gpu", of(measured=small()))
    assert isinstance(found, Finding)
    assert found.severity == "note"
    assert found.waste.gpu_seconds == pytest.approx(0.9 * RAN)
    assert found.headline == "a smaller GPU would do"
    assert "busy for 10 % of the time and had 5 GiB of 40 GiB in use at most, with 4 CPUs" in found.text
    assert found.changes == ()


def test_it_names_the_smallest_slice_with_enough_memory() -> None:
    sliced = gpus.node("n2", gpus={"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2})
    found = cases.asked("small_gpu", of(measured=small(), nodes=[gpus.node(), sliced]))
    assert isinstance(found, Finding)
    assert found.changes == (Change("--gpus-per-node", "a100:1", "2g.10gb:1", "5 GiB were used"),)


def test_slices_of_other_partitions_are_not_named() -> None:
    sliced = gpus.node("n2", gpus={"2g.10gb": 3}, partitions=("other",))
    other = gpus.node("n3", gpus={"t4": 4})
    found = cases.asked("small_gpu", of(measured=small(), nodes=[gpus.node(), other, sliced]))
    assert isinstance(found, Finding)
    assert found.changes == ()


def test_it_is_no_less_bad_than_what_it_hides() -> None:
    case = of(gpus.life(ran=36000), small(0.02), now=cases.START + 36000)
    found = cases.asked("small_gpu", case)
    assert isinstance(found, Finding) and found.severity == "note"
    assert [(one.rule, one.severity) for one in judge(case, Policy()).findings] == [("small_gpu", "bad")]
    alone = gpus.of(gpus.life(ran=36000), small(0.02), now=cases.START + 36000)
    assert cases.told(alone) == ["low_gpu"], "it has no smaller one to ask for"


def test_nothing_else_is_told_of_the_same_gpu() -> None:
    assert cases.told(of(measured=small())) == ["small_gpu"]


@pytest.mark.parametrize(("what", "case", "expected"), TABLE, ids=[one[0] for one in TABLE])
def test_table(what: str, case: Case, expected: type) -> None:
    assert isinstance(cases.asked("small_gpu", case), expected)
