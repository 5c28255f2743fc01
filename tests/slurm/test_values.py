# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The small languages: what is written by the rules is read back whole, and nothing else gets through unnoticed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.model import NODE_BASE_STATES, NODE_FLAGS
from slurmscope.slurm import values

# --- times, durations, sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", ["N/A", "NONE", "None", "Unknown", "0", "4294967294", "4294967295", "", "(null)"])
def test_an_absent_time_is_unknown(absent: str) -> None:
    assert values.epoch(absent) is None


def test_a_time_is_epoch_seconds() -> None:
    assert values.epoch("1794723804") == 1794723804


@given(st.integers(0, 10**6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_durations_with_days(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    assert values.duration(f"{days}-{hours:02}:{minutes:02}:{seconds:02}") == total


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_durations_without_days(hours: int, minutes: int, seconds: int) -> None:
    assert values.duration(f"{hours}:{minutes:02}:{seconds:02}") == hours * 3600 + minutes * 60 + seconds
    assert values.duration(f"{minutes:02}:{seconds:02}") == minutes * 60 + seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30", 1800), ("2-12", 216000), ("1-02:30", 95400), ("UNLIMITED", None), ("INFINITE", None), ("NOT_SET", None)],
)
def test_other_durations(written: str, seconds: int | None) -> None:
    assert values.duration(written) == seconds


@pytest.mark.parametrize("nonsense", ["1:2:3:4", "x", "1-x", "--", "-5"])
def test_what_is_no_duration_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError):
        values.duration(nonsense)


@given(st.integers(0, 2**40), st.sampled_from("KMGTP"))
def test_sizes(amount: int, unit: str) -> None:
    assert values.size(f"{amount}{unit}") == amount * 1024 ** ("KMGTP".index(unit) + 1)


@pytest.mark.parametrize(
    ("written", "size"), [("62.50G", 64000 * 2**20), ("4000M", 4000 * 2**20), ("64000", 64000 * 2**20), ("0", 0)]
)
def test_sizes_as_slurm_writes_them(written: str, size: int) -> None:
    assert values.size(written) == size


# --- TRES and GRES --------------------------------------------------------------------------------------------

kinds = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.-", min_size=1, max_size=12).filter(
    lambda kind: not kind[0].isdigit() and kind != "no_consume"
)


@given(st.integers(0, 10**6), st.integers(0, 2**30), st.dictionaries(kinds, st.integers(1, 999), max_size=4))
def test_tres(cpus: int, megabytes: int, gpus: dict[str, int]) -> None:
    typed = "".join(f",gres/gpu:{kind}={count}" for kind, count in gpus.items())
    found = values.tres(f"cpu={cpus},mem={megabytes}M,node=1,gres/gpu={sum(gpus.values())}{typed}")
    assert found["cpu"] == cpus
    assert found["mem"] == megabytes * 2**20
    assert values.gpus_of_tres(found) == gpus


def test_gpus_asked_for_without_a_type_are_kept_apart() -> None:
    assert values.gpus_of_tres(values.tres("cpu=3,gres/gpu=3")) == {"": 3}
    assert values.gpus_of_tres(values.tres("gres/gpu=3,gres/gpu:a100=2")) == {"a100": 2, "": 1}
    # where only the types are accounted for
    assert values.gpus_of_tres(values.tres("gres/gpu:a100=2")) == {"a100": 2}


@pytest.mark.parametrize("nonsense", ["cpu", "=4", "cpu=x", "cpu=4,,mem=1G"])
def test_what_is_no_tres_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError):
        values.tres(nonsense)


sockets = st.sampled_from(["", "(S:0)", "(S:0-1)", "(IDX:0-7)", "(IDX:0,2-3)", "(IDX:N/A)", "(CNT:4)", "(1/4,2/4)"])


@given(
    st.lists(st.tuples(st.sampled_from(["gpu", "shard", "mps", "tpu"]), kinds, st.integers(0, 99), sockets), max_size=6)
)
def test_gres(items: list[tuple[str, str, int, str]]) -> None:
    written = ",".join(f"{name}:{kind}:{count}{where}" for name, kind, count, where in items) or "(null)"
    assert values.gres(written) == tuple((name, kind, count) for name, kind, count, _ in items)
    gpus: dict[str, int] = {}
    for name, kind, count, _ in items:
        if name == "gpu" and count:
            gpus[kind] = gpus.get(kind, 0) + count
    assert values.gpus_of_gres(written) == gpus


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        ("gpu:rtx8000:8(S:0-1)", {"rtx8000": 8}),
        ("gpu:rtx8000:8(IDX:0-7),tpu:0", {"rtx8000": 8}),
        ("gpu:1(S:0)", {"": 1}),
        ("gpu:4", {"": 4}),
        ("gpu:a100_3g.20gb:4(S:0)", {"a100_3g.20gb": 4}),
        ("gpu:1g.5gb:7(IDX:0-6)", {"1g.5gb": 7}),
        ("gpu:(null):0(IDX:N/A)", {}),
        ("gpu:a100:no_consume:4", {"a100": 4}),
        ("shard:a100:32(S:0),gpu:a100:4(S:0)", {"a100": 4}),
        ("gres/gpu:a100:2", {"a100": 2}),
        ("N/A", {}),
        ("(null)", {}),
    ],
)
def test_gpus_as_slurm_writes_them(written: str, gpus: dict[str, int]) -> None:
    assert values.gpus_of_gres(written) == gpus


# --- node states ----------------------------------------------------------------------------------------------


@given(st.sampled_from(NODE_BASE_STATES), st.sets(st.sampled_from(NODE_FLAGS)), st.sets(st.sampled_from("*~#!%$@^-")))
def test_node_states(base: str, flags: set[str], suffixes: set[str]) -> None:
    meaning = {
        "*": "NOT_RESPONDING",
        "~": "POWERED_DOWN",
        "#": "POWERING_UP",
        "!": "POWER_DOWN",
        "%": "POWERING_DOWN",
        "$": "MAINT",
        "@": "REBOOT_REQUESTED",
        "^": "REBOOT_ISSUED",
        "-": "PLANNED",
    }
    written = "+".join([base + "".join(sorted(suffixes)), *sorted(flags)])
    assert values.node_state(written) == (base, frozenset(flags | {meaning[suffix] for suffix in suffixes}))
    assert values.node_state(written.lower()) == values.node_state(written)


@pytest.mark.parametrize(
    ("written", "base", "flags"),
    [
        ("MIXED+DRAIN", "MIXED", {"DRAIN"}),
        ("DOWN*+DRAIN", "DOWN", {"DRAIN", "NOT_RESPONDING"}),
        ("drained*", "IDLE", {"DRAIN", "NOT_RESPONDING"}),
        ("draining", "ALLOCATED", {"DRAIN"}),
        ("mix-", "MIXED", {"PLANNED"}),
        ("mixed$", "MIXED", {"MAINT"}),
        ("inval", "DOWN", {"INVALID_REG"}),
        ("RESERVED+DRAIN", "IDLE", {"RESERVED", "DRAIN"}),
        ("IDLE+CLOUD+POWERED_DOWN", "IDLE", {"CLOUD", "POWERED_DOWN"}),
        ("IDLE+QUANTUM", "IDLE", {"QUANTUM"}),
        ("QUANTUM", "UNKNOWN", {"QUANTUM"}),
    ],
)
def test_node_states_as_slurm_writes_them(written: str, base: str, flags: set[str]) -> None:
    assert values.node_state(written) == (base, frozenset(flags))


# --- hostlists ------------------------------------------------------------------------------------------------

prefixes = st.text("abcxyz-", min_size=1, max_size=5)


@given(prefixes, st.integers(0, 500), st.integers(0, 300), st.integers(1, 5), st.sampled_from(["", "-ib", "x"]))
def test_hostlists(prefix: str, first: int, more: int, width: int, suffix: str) -> None:
    written = f"{prefix}[{first:0{width}}-{first + more:0{width}}]{suffix}"
    expected = tuple(f"{prefix}{n:0{width}}{suffix}" for n in range(first, first + more + 1))
    assert values.hosts(written) == expected
    assert values.host_count(written) == len(expected)


@given(st.lists(st.tuples(prefixes, st.lists(st.integers(0, 99), min_size=1, max_size=4)), min_size=1, max_size=4))
def test_hostlists_of_several(items: list[tuple[str, list[int]]]) -> None:
    written = ",".join(f"{prefix}[{','.join(map(str, numbers))}]" for prefix, numbers in items)
    assert values.hosts(written) == tuple(f"{prefix}{n}" for prefix, numbers in items for n in numbers)
    assert values.host_count(written) == sum(len(numbers) for _, numbers in items)


def test_hostlists_of_two_dimensions() -> None:
    assert values.hosts("r[1-2]n[08-10]") == ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")
    assert values.hosts("(null)") == () == values.hosts("")


@pytest.mark.parametrize("nonsense", ["n[1-", "n[1-2", "n[a-b]", "n[3-1]", "n[]", "n]1["])
def test_what_is_no_hostlist_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError):
        values.hosts(nonsense)


def test_a_hostlist_cannot_fill_the_memory() -> None:
    assert values.host_count("n[1-4000000000]") == 4_000_000_000
    with pytest.raises(values.TooMany):
        values.hosts("n[1-4000000000]")


# --- array ids ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(1, 50)), min_size=1, max_size=8),
    st.none() | st.integers(1, 500),
)
def test_array_sizes(items: list[tuple[int, int, int]], at_once: int | None) -> None:
    spans = [f"{low}-{low + more}:{step}" if step > 1 else f"{low}-{low + more}" for low, more, step in items]
    written = ",".join(spans) + (f"%{at_once}" if at_once else "")
    count = sum(len(range(low, low + more + 1, step)) for low, more, step in items)
    assert values.array_size(f"[{written}]") == (count, True)
    assert values.array_size(written) == (count, True)


@pytest.mark.parametrize(
    ("written", "id_", "count", "whole"),
    [
        ("4_[2-6%2]", 4, 5, True),
        ("1_[1-100000:7%50]", 1, 14286, True),
        ("4_2", 4, 1, True),
        ("4_[1-3,7,9-...]", 4, 5, False),
        ("4_[1-3,7,...]", 4, 4, False),
        ("20003_[1-9,11,13,17,19,23,29,31", 20003, 16, False),
    ],
)
def test_array_ids_as_slurm_writes_them(written: str, id_: int, count: int, whole: bool) -> None:
    found, spec = values.job_id(written)
    assert found == id_
    assert spec is not None
    assert values.array_size(spec) == (count, whole)


def test_ids_that_are_no_array() -> None:
    assert values.job_id("12") == (12, None)
    assert values.job_id("12+1") == (12, None)


@pytest.mark.parametrize(
    ("written", "code"), [("0:0", "0:0"), ("3:0", "3:0"), ("768", "3:0"), ("9", "0:9"), ("0", "0:0"), ("N/A", None)]
)
def test_exit_codes_of_old_and_new(written: str, code: str | None) -> None:
    assert values.exit_code(written) == code


@pytest.mark.parametrize(
    ("cpus", "sockets", "cores", "threads", "found"),
    [
        (64, 2, 16, 2, 2),
        (32, 2, 16, 2, 1),  # slurm.conf counts cores
        (128, 1, 32, 4, 4),
        (16, 16, 1, 1, 1),
        (4, 2, 16, 2, 1),  # a node that is not what slurm.conf says
        (64, None, None, 2, 2),
        (64, 2, 16, None, None),
        (64, 2, 16, 0, None),
    ],
)
def test_threads_of_a_core(
    cpus: int, sockets: int | None, cores: int | None, threads: int | None, found: int | None
) -> None:
    assert values.threads_per_core(cpus, sockets, cores, threads) == found


@pytest.mark.parametrize("nonsense", ["", "x", "1_", "_1"])
def test_what_is_no_job_id_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError):
        values.job_id(nonsense)


@pytest.mark.parametrize("nonsense", ["x", "3-1", "1-5:0", "1-", "-", "1-99999999999"])
def test_what_is_no_array_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError):
        values.array_size(nonsense)


# --- none of them does anything but answer or refuse ----------------------------------------------------------


@given(st.text(max_size=40))
def test_any_text_is_answered_or_refused(anything: str) -> None:
    for read in (
        values.duration,
        values.size,
        values.tres,
        values.gres,
        values.gpus_of_gres,
        values.node_state,
        values.hosts,
        values.host_count,
        values.array_size,
        values.job_id,
        values.epoch,
        values.number,
        values.decimal,
    ):
        try:
            read(anything)
        except (ValueError, OverflowError) as refused:
            assert isinstance(refused, ValueError), (read, anything)


def test_infinity_is_a_number_and_nan_is_none() -> None:
    assert values.decimal("inf") == math.inf
    assert values.decimal("nan") is None


@given(st.sets(st.integers(0, 300), min_size=1))
def test_tasks_as_bits(tasks: set[int]) -> None:
    """As `sacct --json` tells the tasks of an array that never ran."""
    text = values.tasks_of_bits(hex(sum(1 << task for task in tasks)))
    assert values.array_size(text) == (len(tasks), True)
    assert {int(end) for span in text.split(",") for end in span.split("-")} <= tasks
    assert values.tasks_of_bits("0x76") == "1-2,4-6"
