# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Slurm's JSON, of every generation, read as the text is; and what is no such JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
from typing import Any

import agreement
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import GENERATIONS, RECORDINGS

from slurmscope.model import CRUCIAL_JOB_FIELDS, CRUCIAL_NODE_FIELDS, Rpc, Snapshot
from slurmscope.poll import Poll
from slurmscope.settings import Cluster
from slurmscope.settings import Poll as PollSettings
from slurmscope.slurm import bundle
from slurmscope.slurm.bundle import Recorded
from slurmscope.slurm.choice import Choice
from slurmscope.slurm.commands import BY_WAY, COMMANDS, REST, Command
from slurmscope.slurm.openapi import jobs, nodes, reports
from slurmscope.slurm.openapi.reader import Boxed, amount, count, whole
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.source import Way
from slurmscope.slurm.text import Malformed, Marks
from slurmscope.slurm.transport import Output, TransportError

MARKS = Marks("@f", "@e")
# slurmctld counts the questions themselves: a few seconds apart they differ
_MOVING = ("scheduler", "accounting")


def recording(generation: str) -> bundle.Bundle:
    return bundle.load(RECORDINGS / generation / "bundle.json.gz")


def answers(generation: str, way: str) -> dict[str, bundle.Answer]:
    return {one.part: one for one in recording(generation).answers if one.way == way and not one.error}


def test_what_each_generation_answers_by_json_and_by_slurmrestd() -> None:
    told = {(one, way): set(answers(one, way)) for one in GENERATIONS for way in (JSON, REST)}
    by_json, by_rest = set(BY_WAY[JSON]), set(BY_WAY[REST])
    assert told == {
        ("22.05", JSON): {"jobs", "nodes", "history", "controllers"},  # the last is an empty answer that exits with 1
        ("24.11", JSON): by_json,
        ("26.05", JSON): by_json,
        ("22.05", REST): by_rest - {"shares", "accounting"},
        ("24.11", REST): by_rest - {"accounting"},
        ("26.05", REST): by_rest - {"accounting"},
    }


@pytest.mark.parametrize("way", [JSON, REST])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_field_is_as_the_text_has_it_or_in_the_list_of_what_is_not_told(generation: str, way: str) -> None:
    transport = Recorded(recording(generation))
    text, other = Way(TEXT, transport), Way(way, transport)
    compared = 0
    for part in answers(generation, way):
        if part in _MOVING or (generation == "22.05" and way == JSON and part == "controllers"):
            continue
        ours, theirs = asyncio.run(text.read(part)), asyncio.run(other.read(part))
        assert theirs.rows_skipped == 0
        assert agreement.differences(ours.value, theirs.value, other.commands[part].lacks) == [], part
        compared += agreement.fields(ours.value)
    assert compared > 800


@pytest.mark.parametrize("way", [TEXT, JSON, REST])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_crucial_fields_are_filled_whatever_the_way(generation: str, way: str) -> None:
    source = Way(way, Recorded(recording(generation)))
    for part, fields in (("jobs", CRUCIAL_JOB_FIELDS), ("nodes", CRUCIAL_NODE_FIELDS)):
        for record in asyncio.run(source.read(part)).value:
            assert all(getattr(record, field) is not None for field in fields), record


@pytest.mark.parametrize("part", ["scheduler", "accounting"])
def test_counters_are_of_the_same_moment_within_what_the_recording_itself_asked(part: str) -> None:
    for generation in ("24.11", "26.05"):
        transport = Recorded(recording(generation))
        ours, theirs = (asyncio.run(Way(way, transport).read(part)).value for way in (TEXT, JSON))
        assert theirs.since == ours.since
        before = {rpc.name: rpc for rpc in ours.rpcs}
        assert before.keys() <= {rpc.name for rpc in theirs.rpcs}
        for rpc in theirs.rpcs:
            ago = before.get(rpc.name, Rpc(rpc.name, None, 0, 0.0))
            assert 0 <= rpc.calls - ago.calls <= 20, rpc.name
            assert rpc.seconds >= ago.seconds


def test_numbers_of_every_form() -> None:
    assert [amount(one) for one in (5, 1.5, None, "7", Boxed(True, False, 3), Boxed(False, False, 9))] == [
        5,
        1.5,
        None,
        7.0,
        3,
        None,
    ]
    assert amount(Boxed(True, True, 0)) is None
    assert [whole(one) for one in (4294967294, 4294967295, 2**64 - 2, -1, 2.0, "12")] == [None] * 4 + [2, 12]
    with pytest.raises(ValueError, match="expected a number"):
        count(Boxed(False, False, 0))


def job(**fields: Any) -> bytes:
    record = {
        "job_id": 7,
        "job_state": ["RUNNING"],
        "user_name": "alice",
        "cpus": {"set": True, "infinite": False, "number": 4},
        "node_count": 1,
        **fields,
    }
    return json.dumps({"jobs": [record]}).encode()


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("RUNNING", "RUNNING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["COMPLETED", "COMPLETING"], "COMPLETING"),
        (["PENDING", "REQUEUED", "UPDATE_DB"], "REQUEUED"),
        (["SUSPENDED"], "SUSPENDED"),
        (["RUNNING", "SOMETHING_OF_TOMORROW"], "RUNNING"),
    ],
)
def test_states_are_what_squeue_would_print(said: Any, state: str) -> None:
    (found,) = jobs.parse_jobs(job(job_state=said), MARKS).value
    assert found.state == state


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (0, "0:0"),
        (768, "3:0"),
        (9, "0:9"),
        (None, None),
        ({"return_code": {"set": True, "infinite": False, "number": 3}, "signal": {"id": {"set": False}}}, "3:0"),
        ({"return_code": 0, "signal": {"signal_id": 15, "name": "TERM"}}, "0:15"),  # v0.0.39
    ],
)
def test_exit_codes_of_every_form(said: Any, code: str | None) -> None:
    (found,) = jobs.parse_jobs(job(exit_code=said), MARKS).value
    assert found.exit_code == code


def test_a_name_that_is_not_utf_8_is_as_the_text_has_it() -> None:
    data = job(name="NAME").replace(b"NAME", b'evil\xff\\n\\"\\\\')
    (found,) = jobs.parse_jobs(data, MARKS).value
    assert found.name == 'evil\\xff\n"\\'


def test_numbers_that_are_no_json_are_mended_and_names_are_not() -> None:
    """As v0.0.40 writes a share that nobody used."""
    share = {
        "name": "root",
        "type": ["USER"],
        "parent": "root",
        "shares": 1,
        "usage": "NAN",
        "fairshare": {"level": "INF"},
    }
    odd = {**share, "name": 'an": Infinity, "odd', "partition": "nan"}
    data = json.dumps({"shares": {"shares": [share, odd]}}).encode()
    data = data.replace(b'"NAN"', b"-nan").replace(b'"INF"', b"Infinity")
    first, second = reports.parse_shares(data, MARKS).value
    assert (first.raw_usage, first.level_fs) == (None, math.inf)
    assert (second.user, second.partition) == ('an": Infinity, "odd', "nan")


def test_a_record_that_cannot_be_read_costs_one_row() -> None:
    record = json.loads(job())["jobs"][0]
    data = json.dumps({"jobs": [record, {**record, "cpus": "many"}, {"job_id": 1}, {**record, "job_id": 9}]}).encode()
    parsed = jobs.parse_jobs(data, MARKS)
    assert [found.id for found in parsed.value] == [7, 9]
    assert parsed.skipped == 2
    assert len(parsed.samples) == 2


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not Slurm's JSON"),
        (b"welcome to the cluster", "not Slurm's JSON"),
        (job()[:-9], "not Slurm's JSON"),
        (b"[]", "not Slurm's JSON"),
        (b"null", "not Slurm's JSON"),
        (b'{"meta": {}}', "no jobs in it"),
        (b'{"jobs": null}', "no jobs in it"),
        (b'{"jobs": {"1": {}}}', "not Slurm's JSON"),
        (b'{"jobs": [1, 2]}', "no row could be read"),
        (b'{"jobs": [], "errors": [{"error": "denied", "description": "of old"}]}', "Slurm says: denied of old"),
        (b"\xff\xfe" + job(), "not Slurm's JSON"),
        (b"[" * 100_000, "not Slurm's JSON"),
        (b'{"jobs": ' + b"[" * 100_000, "not Slurm's JSON"),
    ],
)
def test_what_is_no_such_json_is_none(data: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        jobs.parse_jobs(data, MARKS)


class Breaking(Recorded):
    """A recording whose jobs turn into something else."""

    broken: bytes | None = None

    async def run(self, command: Command) -> Output:
        output = await super().run(command)
        if command.part == "jobs" and self.broken is not None:
            output.data = self.broken
        return output


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (b"", "not Slurm's JSON"),
        (b'{"jobs": [{"job_id": 1, "job_st', "not Slurm's JSON"),
        (b'{"jobs": [{"job_id": 1, "na\xffme": "\xff\xfe"}]}', "no row could be read"),
        (b'{"jobs": [' + b"0," * 300_000 + b"0]}", "no row could be read"),
        (b'{"meta": {"plugin": {"data_parser": "data_parser/v9.9.9"}}, "work": [{"id": 1}]}', "no jobs in it"),
    ],
    ids=["empty", "truncated", "not UTF-8", "huge", "of another version"],
)
def test_jobs_that_turn_into_something_else_keep_their_last_good_value(broken: bytes, words: str) -> None:
    async def polls() -> None:
        transport = Breaking(recording("26.05"))
        snapshots: list[Snapshot] = []

        async def publish(snapshot: Snapshot, fresh: frozenset[str]) -> None:
            snapshots.append(snapshot)

        poll = Poll(Choice([Way(JSON, transport)]), Cluster(poll=PollSettings(interval=1, slow_interval=1)), publish)
        await poll.once()
        good = poll.snapshot.jobs
        assert good.good and good.value
        transport.broken = broken
        await asyncio.sleep(1)  # until they are due again
        await poll.once()
        after = poll.snapshot
        assert after.jobs.value == good.value and after.jobs.time == good.time
        assert after.jobs.error is not None and words in after.jobs.error and len(after.jobs.error) < 1000
        assert after.nodes.good  # which is another part

    asyncio.run(polls())


def test_an_empty_queue_is_an_answer() -> None:
    assert jobs.parse_jobs(b'{"jobs": [], "meta": {}}', MARKS).value == ()


def test_a_partition_of_every_version_is_the_same() -> None:
    old = {
        "name": "p",
        "flags": ["default"],
        "nodes": "n[1-2]",
        "total_nodes": 2,
        "total_cpus": 32,
        "max_time_limit": -1,
        "default_time_limit": 30,
        "maximum_nodes_per_job": 2,
        "priority_tier": 5,
        "priority_job_factor": 3,
        "preemption_mode": ["disabled"],
        "allowed_accounts": "a,b",
        "qos": "",
        "state": "UP",
    }
    new = {
        "name": "p",
        "flags": ["DEFAULT"],
        "nodes": {"configured": "n[1-2]", "total": 2},
        "cpus": {"total": 32},
        "maximums": {"time": {"set": False, "infinite": True, "number": 0}, "nodes": {"set": True, "number": 2}},
        "defaults": {"time": {"set": True, "infinite": False, "number": 30}},
        "priority": {"tier": 5, "job_factor": 3},
        "preempt_mode": ["OFF"],
        "accounts": {"allowed": "a,b"},
        "qos": {"assigned": ""},
        "partition": {"state": ["UP"]},
    }
    one, other = (nodes.parse_partitions(json.dumps({"partitions": [it]}).encode(), MARKS).value for it in (old, new))
    assert one == other
    assert (one[0].max_time, one[0].default_time, one[0].preempt_mode) == (None, 1800, "OFF")


def test_backup_controllers_have_their_roles() -> None:
    pings = [{"hostname": host, "responding": up, "primary": host == "a"} for host, up in (("a", True), ("b", False))]
    found = reports.parse_controllers(json.dumps({"pings": [*pings, {"hostname": "c"}]}).encode(), MARKS).value
    assert [(one.host, one.role, one.up) for one in found] == [
        ("a", "primary", True),
        ("b", "backup", False),
        ("c", "backup2", False),
    ]


@given(st.binary(max_size=400), st.sampled_from([command for command in COMMANDS if command.way in (JSON, REST)]))
def test_any_bytes_are_malformed_or_read(data: bytes, command: Command) -> None:
    with contextlib.suppress(ValueError):
        command.parse(data, MARKS, {})


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(jobs._Record.__struct_fields__), _VALUES))
def test_a_record_of_any_values_is_read_or_skipped(record: dict[str, Any]) -> None:
    with contextlib.suppress(Malformed):
        jobs.parse_jobs(json.dumps({"jobs": [record]}).encode(), MARKS)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One of the accidents that befall an answer."""
    at, length = chance.randrange(len(data) + 1), chance.choice([1, 1, 2, 8, 200, 5000])
    match chance.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return data[at:]
        case 2:
            return data[:at] + chance.randbytes(length) + data[at + length :]
        case 3:
            return data[:at] + data[at + length :]
        case 4:
            return data[:at] + data[at : at + length] * 2 + data[at + length :]
        case 5:
            word = chance.choice([b"null", b"-1", b'""', b"[]", b"{}", b"1e999", b"\x00", b"\xff", b"\n", b"|", b"="])
            return data[:at] + word + data[at:]
        case _:
            old, new = chance.choice([(b"0", b"9" * 30), (b"true", b"null"), (b'"', b""), (b",", b""), (b"1", b"x")])
            return data.replace(old, new, chance.randrange(1, 4))


def test_ten_thousand_mutated_recordings_through_every_parser() -> None:
    """Each is read, or is malformed: nothing else comes out of any parser."""
    chance = random.Random(1)
    known = [
        (BY_WAY[one.way][one.part], Marks(*one.marks), one.data)
        for generation in GENERATIONS
        for one in recording(generation).answers
        if not one.error
    ]
    for path in sorted((RECORDINGS / "pyslurm").glob("*/*.json")):
        if (part := path.stem.partition("-")[2]) in BY_WAY[PYSLURM]:
            known.append((BY_WAY[PYSLURM][part], MARKS, path.read_bytes()))
    assert {(command.way, command.part) for command, _, _ in known} >= {
        (command.way, command.part) for command in COMMANDS if (command.way, command.part) != (REST, "accounting")
    }
    read = malformed = 0
    for number in range(10_000):
        command, marks, answer = known[number % len(known)]
        try:
            command.parse(mutated(answer, chance), marks, {})
            read += 1
        except (ValueError, TransportError):
            malformed += 1
    assert read > 1000 and malformed > 1000


def test_the_threads_of_a_core_are_those_that_are_cpus() -> None:
    one = {"name": "n1", "state": ["IDLE"], "real_memory": 1000, "alloc_cpus": 0, "alloc_memory": 0}
    made = {"sockets": 2, "cores": 16, "threads": 2}
    for cpus, threads in ((64, 2), (32, 1)):
        (node,) = nodes.parse_nodes(json.dumps({"nodes": [one | made | {"cpus": cpus}]}).encode(), MARKS).value
        assert node.threads_per_core == threads
