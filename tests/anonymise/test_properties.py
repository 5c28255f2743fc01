# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever names there are and whatever is printed, no name comes through and nothing breaks."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from recorded import GENERATIONS, MARKS, RECORDINGS
from sameness import compared

from slurmscope.anonymise.pseudonyms import Pseudonyms, Seen
from slurmscope.anonymise.recording import NameLeft, anonymise
from slurmscope.slurm import probe
from slurmscope.slurm.bundle import Answer, Bundle
from slurmscope.slurm.commands import BY_WAY
from slurmscope.slurm.probe import JSON, TEXT
from slurmscope.slurm.values import ABSENT

words = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20),
    st.text("abcdefgh", min_size=1, max_size=3),
    st.sampled_from(["main", "RUNNING", "root", "cpu=1", "partition", "x y", "1001", "jobs", "None"]),
)
# what useradd and sacctmgr would take, more or less
plain = st.one_of(st.from_regex(r"[a-z][a-z0-9_.-]{0,12}", fullmatch=True), st.sampled_from(["main", "normal", "n1"]))
people = st.tuples(plain, plain, words)


def bundle_of(way: str, part: str, data: bytes) -> Bundle:
    packed = base64.b64encode(data).decode()
    marks = (MARKS.field, MARKS.end)
    return Bundle(
        probe.FORMAT, 1, 1.0, "vm", answers=[Answer(way, part, 1.0, BY_WAY[way][part].argv, marks=marks, base64=packed)]
    )


def row(number: int, user: str, account: str, name: str) -> bytes:
    fields = dict.fromkeys(probe.PLAIN_FIELDS, "1")
    fields |= {"JobID": str(number), "JobArrayID": str(number), "UserName": user, "Account": account}
    fields |= {"Partition": "main", "State": "RUNNING", "Reason": "None", "tres-alloc": "cpu=1", "NodeList": "n1"}
    fields |= {"AllocNodes": "vm", "Reservation": "(null)"}
    free = MARKS.field.join(["(null)", "(null)", "(null)", name])
    return ("".join(f"{fields[key]}|" for key in probe.PLAIN_FIELDS) + free + MARKS.end + "\n").encode()


@given(st.lists(people, max_size=8))
def test_rows_of_any_names(some: list[tuple[str, str, str]]) -> None:
    rows = [row(number, *names) for number, names in enumerate(some, 1) if "@" not in names[2]]
    before = bundle_of(TEXT, "jobs", b"".join(rows))
    found = compared(before, anonymise(before))
    assert len(found.jobs.there) == len({name for _, _, name in some if "@" not in name})


@given(st.lists(people, max_size=8))
def test_json_of_any_names(some: list[tuple[str, str, str]]) -> None:
    jobs: list[dict[str, Any]] = [
        {"job_id": at, "job_state": ["RUNNING"], "name": name, "user_name": user, "account": account, "user_id": 1}
        | {"cpus": 1, "node_count": 1, "comment": name, "submit_line": name, "nodes": "n1", "partition": "main"}
        for at, (user, account, name) in enumerate(some, 1)
    ]
    before = bundle_of(JSON, "jobs", json.dumps({"jobs": jobs}).encode())
    after = anonymise(before)
    compared(before, after)
    for one, other in zip(jobs, json.loads(after.answers[0].data)["jobs"], strict=True):
        assert one.keys() == other.keys()
        assert other["comment"] == other["submit_line"] == other["name"] or one["name"] in ABSENT | {"root"}


@given(
    st.sampled_from(GENERATIONS),
    st.sampled_from(sorted(BY_WAY[TEXT])),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=20)), min_size=1, max_size=4),
)
def test_what_is_cut_or_mixed_up_does_no_harm(
    generation: str, part: str, changes: list[tuple[float, int, bytes]]
) -> None:
    data = (RECORDINGS / generation / BY_WAY[TEXT][part].recording).read_bytes()
    for where, cut, put in changes:
        at = int(where * len(data))
        data = data[:at] + put + data[at + cut :]
    try:
        after = anonymise(bundle_of(TEXT, part, data))
    except NameLeft:
        return
    assert b"dana.o-neil" not in after.answers[0].data
    assert b"physics" not in after.answers[0].data


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.one_of(st.text(max_size=8), st.sampled_from(["jobs", "name", "user_id", "nodes", "records"])),
                inner,
                max_size=3,
            ),
        ),
        max_leaves=20,
    )
)
def test_any_json_is_taken(tree: Any) -> None:
    for way in (JSON, "rest", "pyslurm"):
        try:
            (answer,) = anonymise(bundle_of(way, "jobs", json.dumps(tree).encode())).answers
        except NameLeft:
            continue
        assert answer.error or json.loads(answer.data) is not None


@given(st.sets(words, max_size=60))
def test_pseudonyms_are_as_many_as_names_and_none_is_a_name(names: set[str]) -> None:
    seen = Seen()
    for name in names:
        seen.name(name)
    pseudonyms = Pseudonyms(seen)
    found = {name: pseudonyms.name(name) for name in names}
    assert len(set(found.values())) == len(names)
    assert {name: pseudonyms.name(name) for name in names} == found
    assert all(other not in names for name, other in found.items() if any(map(str.isalnum, name)))


def test_more_short_names_than_there_are_letters() -> None:
    seen = Seen()
    names = [*"abcdefghijklmnopqrstuvwxyz", *(str(digit) for digit in range(10))]
    for name in names:
        seen.name(name)
    pseudonyms = Pseudonyms(seen)
    found = {pseudonyms.name(name) for name in names}
    assert len(found) == len(names) and found.isdisjoint(names)
