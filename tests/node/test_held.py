# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a job holds, and what it has of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.measure import Gpu, GpuProcess
from slurmscope.node.held import NAMES, held, parsed, use

UNCONSTRAINED = "a *:* rwm\n"
JOB = {"SLURM_JOB_ID": "1"}


def gpu(index: int, minor: int | None = None, *, pids: tuple[int, ...] | None = (), vendor: str = "nvidia") -> Gpu:
    return Gpu(
        uuid=f"GPU-{index}{index}{index}a-bcde",
        index=index,
        minor=index if minor is None else minor,
        vendor=vendor,
        memory_used=1000,
        memory_total=4000,
        processes=None if pids is None else tuple(GpuProcess(pid, 100) for pid in pids),
    )


def instance(parent: Gpu, number: int, *, pids: tuple[int, ...] = ()) -> Gpu:
    return Gpu(
        uuid=f"MIG-{parent.index}{number}-bcde",
        index=parent.index,
        minor=parent.minor,
        instance=number,
        vendor="nvidia",
        processes=tuple(GpuProcess(pid, 100) for pid in pids),
    )


FOUR = [gpu(0), gpu(1), gpu(2), gpu(3)]
TURNED = [gpu(0, 3), gpu(1, 2), gpu(2, 1), gpu(3, 0)]  # files in another order than the bus
WHOLE = gpu(1)
MIG = [gpu(0), WHOLE, instance(WHOLE, 3), instance(WHOLE, 5)]


def indices(found: tuple[Gpu, ...] | None) -> list[int] | None:
    return None if found is None else [one.index for one in found]


def names(found: tuple[Gpu, ...] | None) -> list[str] | None:
    return None if found is None else [one.uuid for one in found]


# --- what Slurm said --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"SLURM_JOB_GPUS": "0,2"}, [0, 2]),
        ({"SLURM_JOB_GPUS": "0-3"}, [0, 1, 2, 3]),
        ({"SLURM_JOB_GPUS": "0-1,3"}, [0, 1, 3]),
        ({"SLURM_STEP_GPUS": "1", "SLURM_JOB_GPUS": "0-3"}, [1]),
        ({"SLURM_STEP_GPUS": "rubbish", "SLURM_JOB_GPUS": "2"}, [2]),
        # that of CUDA is counted from 0 within a cgroup, and a user may change it
        ({"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}, [3]),
        ({"SLURM_JOB_GPUS": "7"}, None),
        ({"SLURM_JOB_GPUS": "NoDevFiles"}, []),
        ({}, None),
    ],
)
def test_numbers_that_slurm_told(environ: dict[str, str], expected: list[int] | None) -> None:
    assert indices(held(FOUR, environ, None, [])) == expected


def test_numbers_are_those_of_device_files_unless_something_speaks_for_the_bus() -> None:
    environ = {"SLURM_JOB_GPUS": "0"}
    assert indices(held(TURNED, environ, None, [])) == [3]
    assert indices(held(TURNED, environ, "c 195:3 rwm\nc 195:255 rwm\n", [])) == [0]
    assert indices(held(TURNED, environ, "c 195:0 rwm\nc 195:255 rwm\n", [])) == [3]
    assert indices(held(TURNED, environ | {"CUDA_VISIBLE_DEVICES": "GPU-000a-bcde"}, None, [])) == [0]
    busy = [gpu(0, 3, pids=(42,)), *TURNED[1:]]
    assert indices(held(busy, environ, None, {42})) == [0]


def test_gpu_that_is_lost_leaves_the_others_their_numbers() -> None:
    assert indices(held([FOUR[0], FOUR[2], FOUR[3]], {"SLURM_JOB_GPUS": "2-3"}, None, [])) == [2, 3]
    assert held([FOUR[0], FOUR[2], FOUR[3]], {"SLURM_JOB_GPUS": "1"}, None, []) is None


def test_numbers_of_amd_are_places_as_their_files_begin_at_128() -> None:
    cards = [gpu(0, 128, vendor="amd"), gpu(1, 129, vendor="amd")]
    assert indices(held(cards, {"SLURM_JOB_GPUS": "1"}, None, [])) == [1]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"])
def test_uuids_and_what_they_begin_with(key: str) -> None:
    assert indices(held(FOUR, {key: "GPU-111a-bcde,gpu-333"}, None, [])) == [1, 3]
    assert held(FOUR, {key: "GPU-"}, None, []) is None
    assert held(FOUR, {key: "GPU-9"}, None, []) is None


def test_prefix_of_two_uuids_names_neither() -> None:
    twins = [Gpu(uuid="GPU-abc1", index=0), Gpu(uuid="GPU-abc2", index=1)]
    assert held(twins, {"CUDA_VISIBLE_DEVICES": "GPU-abc"}, None, []) is None
    assert indices(held(twins, {"CUDA_VISIBLE_DEVICES": "GPU-abc2"}, None, [])) == [1]


def test_indices_of_cuda_tell_nothing() -> None:
    """They count the GPUs that the cgroup leaves, and Slurm's cgroup does not say that it leaves some out: it allows
    all, and then denies."""
    environ = {"CUDA_VISIBLE_DEVICES": "1,2"}
    assert held(FOUR, environ, UNCONSTRAINED, []) is None
    assert held(FOUR, environ, None, []) is None
    assert indices(held(FOUR, environ, "c 195:0 rwm\nc 195:3 rwm\n", [])) == [0, 3]


# --- cgroups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("c 1:3 rwm\nc 195:0 rwm\nc 195:2 rw\nc 195:254 rwm\nc 195:255 rwm\n", [0, 2]),
        ("c 1:3 rwm\nc 195:255 rwm\n", []),
        ("c *:* m\nb *:* m\nc 195:1 rwm\n", [1]),  # files of all may be made, and not opened
        ("c 195:* rwm\n", [0, 1, 2, 3]),
        ("c 195:3 m\n", []),
        (UNCONSTRAINED, None),
        ("c *:* rwm\n", None),
        ("", None),
        ("rubbish\n", None),
    ],
)
def test_device_cgroup(devices: str, expected: list[int] | None) -> None:
    assert indices(held(FOUR, None, devices, [])) == expected


def test_device_cgroup_of_amd() -> None:
    cards = [gpu(0, 128, vendor="amd"), gpu(1, 129, vendor="amd")]
    assert indices(held(cards, None, "c 226:129 rwm\nc 195:128 rwm\n", [])) == [1]


# --- processes, and nothing at all ------------------------------------------------------------------------------------


def test_process_on_a_gpu_holds_it() -> None:
    cards = [gpu(0), gpu(1, pids=(10, 11)), gpu(2, pids=(12,))]
    assert indices(held(cards, None, None, {11, 99})) == [1]
    assert indices(held(cards, {"SLURM_JOB_GPUS": "0"}, None, {12})) == [0, 2]
    assert indices(held(cards, JOB, None, {12})) == [2]
    assert held(cards, None, None, {99}) is None


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        (JOB, True),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, True),
        ({}, False),
        (JOB | {"SLURM_GPUS_ON_NODE": "1"}, False),
        (JOB | {"SLURM_SHARDS_ON_NODE": "1"}, False),
        (JOB | {"CUDA_VISIBLE_DEVICES": "0"}, False),
    ],
)
def test_job_without_gpus_is_known_where_slurm_would_have_told(environ: dict[str, str], known: bool) -> None:
    assert held(FOUR, environ, None, []) == (() if known else None)


# --- MIG --------------------------------------------------------------------------------------------------------------


def test_instances_stand_in_the_place_of_their_gpu() -> None:
    assert names(held(MIG, {"SLURM_JOB_GPUS": "0"}, None, [])) == ["GPU-000a-bcde"]
    assert names(held(MIG, {"SLURM_JOB_GPUS": "1,2"}, None, [])) == ["MIG-13-bcde", "MIG-15-bcde"]
    assert held(MIG, {"SLURM_JOB_GPUS": "3"}, None, []) is None


def test_instance_by_name_and_by_process_and_never_its_whole_gpu() -> None:
    assert names(held(MIG, {"CUDA_VISIBLE_DEVICES": "MIG-15-bcde"}, None, [])) == ["MIG-15-bcde"]
    busy = [gpu(0), gpu(1, pids=(7,)), instance(WHOLE, 3), instance(WHOLE, 5, pids=(7,))]
    assert names(held(busy, None, None, {7})) == ["MIG-15-bcde"]


def test_files_of_a_gpu_do_not_tell_which_of_its_instances() -> None:
    assert held(MIG, None, "c 195:1 rwm\nc 237:30 rwm\n", []) is None
    assert names(held(MIG, None, "c 195:0 rwm\n", [])) == ["GPU-000a-bcde"]


# --- whatever a user wrote --------------------------------------------------------------------------------------------

LISTS = st.one_of(
    st.text(), st.from_regex(r"\A[0-9,\- a-zA-Z:\[\]]*\Z"), st.from_regex(r"\A\d+(-\d+)?(,\d+(-\d+)?)*\Z")
)


@given(LISTS)
def test_no_text_is_too_odd_for_the_parser(text: str) -> None:
    found = parsed(text)
    assert found is None or len(set(found)) == len(found) <= 1024


@pytest.mark.parametrize("text", ["0-9999," * 18_000 + "0", "0-1023," * 500 + "0", "1024", "0-1024", "0," * 2048 + "0"])
def test_a_list_that_is_no_slurms_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    assert parsed(text) is None
    assert held(FOUR, {"SLURM_JOB_GPUS": text, "CUDA_VISIBLE_DEVICES": text}, None, []) is None
    assert time.process_time() - started < 0.1


def test_names_are_not_looked_up_by_the_thousand() -> None:
    assert held(FOUR, {"CUDA_VISIBLE_DEVICES": ",".join(["GPU-111a"] * 1000)}, None, []) is None


class Asked(dict[str, str]):
    """Remembers which names it was asked for."""

    def __init__(self, **told: str) -> None:
        super().__init__(told)
        self.names: set[object] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.names.add(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("names are asked for one by one")


def test_all_that_is_read_of_an_environment_is_named() -> None:
    environ = Asked(SLURM_JOB_ID="1")
    assert held(FOUR, environ, None, []) == ()
    assert environ.names == set(NAMES)


@given(st.sets(st.integers(0, 1023), min_size=1, max_size=8))
def test_a_list_is_read_back(numbers: set[int]) -> None:
    assert set(parsed(",".join(map(str, sorted(numbers)))) or ()) == numbers
    first, last = min(numbers), max(numbers)
    assert parsed(f"{first}-{last}") == tuple(range(first, last + 1))


@given(
    st.dictionaries(
        st.sampled_from(
            ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
        ),
        LISTS,
    ),
    st.none() | st.text() | st.from_regex(r"\A([abc] (\d+|\*):(\d+|\*) [rwm]{1,3}\n)*\Z"),
    st.sampled_from([FOUR, MIG, []]),
)
def test_no_environment_and_no_cgroup_is_too_odd(environ: dict[str, str], devices: str | None, gpus: list[Gpu]) -> None:
    found = held(gpus, environ, devices, [1])
    # a GPU that is divided is never given as a whole
    givable = {one.uuid for one in gpus} - ({WHOLE.uuid} if gpus is MIG else set())
    assert found is None or {one.uuid for one in found} <= givable


# --- what a job has of them -------------------------------------------------------------------------------------------


def test_use_is_of_the_jobs_own_processes() -> None:
    cards = (gpu(0, pids=(10, 11, 12)), gpu(1, pids=(12,)))
    mine = use(cards, {10, 11}, {cards[0].uuid: 2})
    assert [(one.memory_used, one.processes, one.shared) for one in mine] == [(200, 2, 2), (0, 0, 1)]
    assert (mine[0].uuid, mine[0].index, mine[0].memory_total) == (cards[0].uuid, 0, 4000)


def test_two_jobs_hold_the_same_gpu() -> None:
    shared = [gpu(0, pids=(10, 20))]
    one = held(shared, {"SLURM_JOB_GPUS": "0"}, None, {10})
    other = held(shared, {"SLURM_JOB_GPUS": "0"}, None, {20})
    assert one == other == (shared[0],)
    assert [use(found, pids, {shared[0].uuid: 2})[0].shared for found, pids in ((one, {10}), (other, {20}))] == [2, 2]


def test_memory_is_of_the_whole_where_the_driver_does_not_tell_whose_it_is() -> None:
    (secret,) = use([gpu(0, pids=None)], {10}, {})
    assert (secret.memory_used, secret.processes) == (1000, None)
    unknown = Gpu(uuid="GPU-1", index=0, memory_used=1000, processes=(GpuProcess(10, None), GpuProcess(11, 5)))
    (half,) = use([unknown], {10}, {})
    assert (half.memory_used, half.processes) == (1000, 1)


def test_a_job_is_told_its_own_share_of_a_gpu() -> None:
    """The first works, the second holds the same GPU without a process on it, the third has it with the first."""
    told = (GpuProcess(10, 100, 0.6), GpuProcess(30, 100, 0.3))
    card = Gpu(uuid="GPU-1", index=0, utilization=0.9, processes=told)
    shares = [use([card], pids, {"GPU-1": 3})[0].utilization for pids in ({10}, {20}, {30})]
    assert shares == [0.6, 0.0, 0.3]
    assert use([card], {10}, {"GPU-1": 1})[0].utilization == 0.9  # alone, and so all of it is its own
    vague = Gpu(uuid="GPU-1", index=0, utilization=0.9, processes=(GpuProcess(10, 100), GpuProcess(30, 100)))
    assert use([vague], {10}, {"GPU-1": 2})[0].utilization == 0.9
