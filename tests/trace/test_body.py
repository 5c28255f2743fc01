# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which bodies are taken, and what is said of those that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.trace import body

NOW = 1_800_000_000.0
# what rivosinc's wrapper posts, a field among it that we do not know
GOOD: dict[str, Any] = {
    "pid": 35642,
    "cpus": 0.5,
    "threads": 1,
    "mem": 1032192,
    "read_bytes": 20,
    "write_bytes": 10.0,
    "username": "abdh",
    "io_wait": 0,
    "hostname": "somehost",
    "job_id": 10,
}


def read(value: object) -> list[body.Body]:
    return body.read(json.dumps(value).encode(), NOW)


def test_what_rivosincs_wrapper_posts_is_taken() -> None:
    (found,) = read(GOOD)
    assert (found.job_id, found.pid, found.cpus, found.threads, found.mem) == (10, 35642, 0.5, 1, 1032192)
    assert (found.read_bytes, found.write_bytes, found.username, found.hostname) == (20, 10, "abdh", "somehost")
    assert (found.time, found.cluster, found.cpu_seconds) == (None, None, None)


def test_a_list_comes_oldest_first_and_may_be_empty() -> None:
    times = [NOW - 5, NOW - 3600, NOW + 60, NOW - 10]
    assert [one.time for one in read([{**GOOD, "time": at} for at in times])] == sorted(times)
    assert read([]) == []


def test_what_is_unknown_may_be_null_or_left_out() -> None:
    (found,) = read({**GOOD, "read_bytes": None, "time": None, "cluster": None})
    assert found.read_bytes is None and found.time is None
    (found,) = read({key: value for key, value in GOOD.items() if key not in ("read_bytes", "username")})
    assert found.read_bytes is None and found.username == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cpus": -1}, "cpus: expected a number of at least 0 and at most 10000000, found -1"),
        ({"cpus": "much"}, 'cpus: expected a number of at least 0 and at most 10000000, found "much"'),
        ({"cpus": True}, "cpus: expected a number of at least 0 and at most 10000000, found true"),
        ({"cpus": 1e300}, "cpus: expected a number of at least 0 and at most 10000000, found 1e300"),
        ({"job_id": 0}, "job_id: expected a whole number of at least 1 and at most 4294967294, found 0"),
        (
            {"job_id": 2**32 - 1},
            "job_id: expected a whole number of at least 1 and at most 4294967294, found 4294967295",
        ),
        ({"job_id": "1"}, 'job_id: expected a whole number of at least 1 and at most 4294967294, found "1"'),
        ({"pid": 2**22 + 1}, "pid: expected a whole number of at least 1 and at most 4194304, found 4194305"),
        ({"hostname": "a b"}, 'hostname: expected a host\'s name of at most 253 characters, found "a b"'),
        ({"hostname": "a\n"}, 'hostname: expected a host\'s name of at most 253 characters, found "a\\n"'),
        ({"hostname": "<script>"}, 'hostname: expected a host\'s name of at most 253 characters, found "<script>"'),
        ({"hostname": ""}, 'hostname: expected a host\'s name of at most 253 characters, found ""'),
        ({"mem": None}, "mem: expected a number of at least 0 and at most 9223372036854775808, found null"),
        ({"mem": {"a": 1}}, 'mem: expected a number of at least 0 and at most 9223372036854775808, found {"a":1}'),
        ({"cluster": 5}, "cluster: expected text of at most 255 characters or null, found 5"),
        (
            {"username": "a\0b"},
            'username: expected text of at most 64 characters, without control characters, found "a\\u0000b"',
        ),
        ({"time": NOW + 61}, "time: 61 s in the future: set the clock of the host that sent it, or of this one"),
        ({"time": NOW - 3601}, "time: 3601 s in the past, and 3600 s are the most that is taken"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(changes: dict[str, Any], said: str) -> None:
    for value, place in (({**GOOD, **changes}, ""), ([GOOD, {**GOOD, **changes}], "[1].")):
        with pytest.raises(body.WrongBody) as error:
            read(value)
        assert str(error.value) == place + said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not JSON: Input data was truncated"),
        (b"\xff\xfe", "not JSON: JSON is malformed"),
        (b'{"job_id": NaN}', "not JSON: JSON is malformed"),
        (b"5", "body: expected an object, or a list of at most 500 objects, found 5"),
        (b"[1]", "[0]: expected an object, found 1"),
        (b"{}", "job_id: expected a whole number of at least 1 and at most 4294967294, found nothing"),
        (json.dumps([GOOD] * 501).encode(), "body: expected an object, or a list of at most 500 objects, found [{"),
        (b'{"x":' * 10_000, "not taken: it is nested too deep"),
        (b'{"job_id":' + b"[" * 60_000, "job_id: expected a whole number"),
        (b'{"job_id": 1e999}', "job_id: expected a whole number"),
    ],
)
def test_what_is_no_body_at_all(raw: bytes, said: str) -> None:
    with pytest.raises(body.WrongBody) as error:
        body.read(raw, NOW)
    assert str(error.value).startswith(said)


@given(st.binary(max_size=200) | st.text(max_size=300).map(lambda text: json.dumps({**GOOD, "cpus": text}).encode()))
def test_nothing_else_is_raised_and_little_of_it_is_told_again(raw: bytes) -> None:
    try:
        body.read(raw, NOW)
    except body.WrongBody as error:
        assert len(str(error)) < 250 and str(error).isprintable()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "time", "cluster", "cpu_seconds", "other"]), _json))
def test_whatever_is_taken_is_within_bounds(changes: dict[str, Any]) -> None:
    try:
        (found,) = read({**GOOD, **changes})
    except body.WrongBody:
        return
    assert 1 <= found.job_id < 2**32 - 1 and 1 <= found.pid <= 2**22
    assert 0 <= found.cpus <= 10_000_000 and 0 <= found.mem <= 2**63
    assert len(found.hostname) <= 253 and len(found.username) <= 64 and "\0" not in found.username


def test_the_schema_says_what_is_needed() -> None:
    (struct,) = body.schema()["$defs"].values()
    assert set(struct["required"]) == {"job_id", "pid", "cpus", "threads", "mem", "hostname"}
    assert all(field["description"] for field in struct["properties"].values())
