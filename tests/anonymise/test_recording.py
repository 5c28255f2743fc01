# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A recording without names: read as the one that it was made of, and nobody is in it any more."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from typing import Any

import pytest
from recorded import GENERATIONS, MARKS, RECORDINGS
from sameness import compared, shape

from slurmscope.anonymise.recording import NameLeft, anonymise
from slurmscope.slurm import bundle, probe, values
from slurmscope.slurm.bundle import Answer, Bundle
from slurmscope.slurm.commands import BY_WAY
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.transport import Unanswered, error_of

NAMES = ["alice", "bob", "carol", "dana.o-neil", "physics", "bio", "alice1", "maint1", "sweep", "typeless", "more-gpus"]
CLUSTERS = {"22.05": "lab22", "24.11": "lab24", "26.05": "lab26"}


def of(*answers: Answer) -> Bundle:
    return Bundle(probe.FORMAT, probe.VERSION, 1794734407.0, "vm", "3.11.2", "1.0", answers=list(answers))


def by_text(part: str, text: str | bytes) -> Answer:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    argv = tuple(probe.arguments(BY_WAY[TEXT][part].argv, MARKS.field, MARKS.end))
    packed = base64.b64encode(data).decode()
    return Answer(TEXT, part, 1794734407.0, argv, marks=(MARKS.field, MARKS.end), base64=packed)


def by_json(part: str, document: Any, way: str = JSON) -> Answer:
    text = document if isinstance(document, str) else json.dumps(document)
    return Answer(way, part, 1794734407.0, BY_WAY[way][part].argv, text=text)


def row(name: str, user: str = "u", account: str = "a", cpus: str = "1") -> str:
    """One of squeue's."""
    plain = f"1|1|{user}|{account}|main|normal|RUNNING|None|1|1|{cpus}|cpu=1|1|1|1|1|10:00|n1|(null)|vm|0|0:0|"
    return plain + MARKS.field.join(["(null)", "(null)", "(null)", name]) + MARKS.end + "\n"


def recorded(generation: str) -> Bundle:
    """What there is of a generation, by every way."""
    folder = RECORDINGS / generation
    found = [by_text(part, (folder / command.recording).read_bytes()) for part, command in BY_WAY[TEXT].items()]
    if (folder / "bundle.json.gz").exists():
        found += [answer for answer in bundle.load(folder / "bundle.json.gz").answers if answer.way != TEXT]
    return of(*found)


def text_of(found: Bundle) -> str:
    return gzip.decompress(bundle.dump(found)).decode()


def said(found: Bundle) -> str:
    """All that stands in it, as it was printed."""
    data = [
        answer.data.decode("utf-8", "surrogateescape").replace(answer.marks[0] or "\0", " ") for answer in found.answers
    ]
    return "\n".join([found.host, *data])


def one(found: Bundle) -> str:
    (answer,) = found.answers
    return answer.data.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_recording_is_the_same_but_for_names(generation: str) -> None:
    before = recorded(generation)
    after = anonymise(before)
    found = compared(before, after)
    assert {"alice", "dana.o-neil", "physics", "alice1", CLUSTERS[generation]} <= found.names.there.keys()
    assert {"sweep", "étude π=3", "vit | large"} <= found.jobs.there.keys()
    assert {"n1", "n4", "g2", "vm"} <= found.hosts.there.keys()
    for name, other in {**found.names.there, **found.hosts.there, **found.jobs.there}.items():
        if name.isascii():
            assert shape(other) == shape(name)
        assert len(other) == len(name)
    assert after.anonymised and after.host == found.hosts.there["vm"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_no_name_is_left_in_a_recording(generation: str) -> None:
    before = recorded(generation)
    after = anonymise(before)
    for name in [*NAMES, CLUSTERS[generation], "vm", "n1", "n3", "g1", "6410[1-4]", "6.18.44", "bad dimm"]:
        word = rf"(?<!\w){name}(?!\w)"
        assert re.search(word, said(before)), name
        assert not re.search(word, said(after)), name
    assert not any(name in text_of(after) for name in NAMES if len(name) > 6)


@pytest.mark.parametrize("path", sorted((RECORDINGS / "pyslurm").glob("*/*.json")), ids=lambda path: f"{path}"[-24:])
def test_what_pyslurm_told_is_the_same_but_for_names(path: Any) -> None:
    before = of(by_json(path.stem.partition("-")[2], path.read_text(), PYSLURM))
    after = anonymise(before)
    compared(before, after)
    for name in [*NAMES, "lab22", "lab24", "vm", "n1", "g1", "bad dimm", "/home/alice"]:
        assert not re.search(rf"(?<!\w){name}(?!\w)", said(after)), name


def test_names_are_one_over_all_ways() -> None:
    document = {
        "jobs": [
            {
                "job_id": 1,
                "job_state": ["RUNNING"],
                "name": "fold",
                "user_name": "erin",
                "user_id": 4711,
                "group_name": "erin",
                "account": "chem",
                "mail_user": "erin@chem.example.org",
                "current_working_directory": "/home/erin/runs",
                "nodes": "node[1-2]",
                "batch_host": "node1",
            }
        ],
        "meta": {"slurm": {"cluster": "north"}},
    }
    after = anonymise(
        of(
            by_json("jobs", document),
            by_text("shares", "root||||0.000000|0||1.000000||\n chem|erin||1|0.5|0||0.0|0.0|0.0\n"),
            by_text("limits", "Current Association Manager state\nUserName=erin(4711) DefAccount=chem\n"),
            by_text("controllers", "Slurmctld(primary) at node1 is UP\n"),
        )
    )
    job = json.loads(after.answers[0].data)["jobs"][0]
    user, account, id_ = job["user_name"], job["account"], job["user_id"]
    assert job["group_name"] == user and job["mail_user"].startswith(f"{user}@")
    assert job["current_working_directory"].startswith(f"/home/{user}/")
    assert after.answers[1].text is not None and f" {account}|{user}||1" in after.answers[1].text
    assert after.answers[2].text is not None and f"UserName={user}({id_}) DefAccount={account}" in after.answers[2].text
    assert after.answers[3].text == f"Slurmctld(primary) at {job['batch_host']} is UP\n"
    assert job["batch_host"] in values.hosts(job["nodes"]) and len(values.hosts(job["nodes"])) == 2
    for name in ("erin", "chem", "fold", "4711", "north", "node1", "example"):
        assert name not in text_of(after)


def test_each_run_draws_other_names() -> None:
    row = " physics|alice||1|0.5|0||0.0|0.0|0.0\n"
    assert len({one(anonymise(of(by_text("shares", row)))) for _ in range(20)}) == 20


def test_a_name_that_is_also_slurms_or_a_partitions_is_replaced_where_it_is_a_name() -> None:
    rows = [row(name, user="main", account="gpu") for name in ("RUNNING", "cpu=1", "root")]
    before = of(by_text("jobs", "".join(rows)))
    after = anonymise(before)
    found = compared(before, after)
    assert {"main", "gpu"} == found.names.there.keys()
    assert {"RUNNING", "cpu=1", "root"} == found.jobs.there.keys()
    assert one(after).count("|main|normal|RUNNING|") == 3


def test_hostile_names_stay_hostile() -> None:
    names = [
        "a|b;c",
        "tab\there",
        "line\nbreak",
        "'q' \"d\" `b`",
        "x" * 500,
        "漢字 é 🧪",
        "\\n\\0",
        "JobId=1 State=DOWN",
    ]
    raw = [name.encode() for name in names] + [b"inv\xff\xfelid", b" lead and trail "]
    before = by_text("jobs", "".join(row(os.fsdecode(name)) for name in raw))
    found = compared(of(before), anonymise(of(before))).jobs.there
    for name in (one.decode("utf-8", "backslashreplace") for one in raw):
        assert re.sub(r"[^\W_]", "*", shape(found[name])) == re.sub(r"[^\W_]", "*", shape(name))
        assert len(found[name].encode()) == len(name.encode())


def test_a_row_that_cannot_be_read_is_still_one_that_cannot() -> None:
    rows = [row("x"), row("x", cpus="Marguerite"), f"Marguerite was here{MARKS.end}\n"]
    before = of(by_text("jobs", "".join(rows)))
    after = anonymise(before)
    compared(before, after)
    assert "Marguerite" not in text_of(after)


def test_what_is_not_known_is_left_out() -> None:
    secret, head = "Marguerite", "sdiag output at Sun Nov 15 09:20:07 2026 (1)\nData since  Unknown (2)\n"
    after = anonymise(
        of(
            by_json("jobs", {"jobs": [{"job_id": 1, "novelty": secret, "deep": {"er": [secret]}, secret + "'s": 1}]}),
            by_text("partitions", f"PartitionName=main Novelty={secret} State=UP {secret} Nodes=n1\n{secret}\n"),
            by_text(
                "config", f"ClusterName = north\nSLURM_VERSION = 24.11.5\nMailProg = /opt/{secret}\nEpilog={secret}\n"
            ),
            by_text("scheduler", f"{head}{secret}\nPending RPCs\n\t 1: REQUEST_PING {secret}\nSince {secret} (3)\n"),
            by_text("nodes", f"NodeName=n1 OS=Linux {secret} State=IDLE AllocTRES= Comment={secret} Extra={secret}\n"),
            by_text("controllers", f"Slurmctld(primary) at n1 is UP\n{secret} said so\n"),
            by_text("licenses", f"LicenseName=matlab@{secret} Total=1\n"),
        )
    )
    assert secret not in text_of(after)
    assert all(answer.text for answer in after.answers)
    assert after.answers[1].text is not None
    assert after.answers[1].text.startswith("PartitionName=main State=UP Nodes=")


def test_of_a_failure_only_what_is_harmless_is_told() -> None:
    complaint = "squeue exited with 1: error: Unable to contact slurm controller (connect failure), says /home/erin"
    after = anonymise(
        of(Answer(TEXT, "jobs", 1.0, ("/opt/erin/squeue",), error=complaint, kind=probe.FAILED, warnings="erin"))
    )
    (answer,) = after.answers
    assert "erin" not in text_of(after) and "/" not in answer.argv[0] and answer.warnings == ""
    assert isinstance(error_of(answer.kind, answer.error), Unanswered), "the reader can still tell what went wrong"
    assert "exited with 1" in answer.error


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("jobs", "We are down for maintenance, says Marguerite\n"),
        ("jobs", "1|2|Marguerite"),
        ("nodes", "Marguerite NodeName=n1\n"),
        ("partitions", "Marguerite\n"),
        ("limits", "Marguerite\n"),
        ("shares", "Marguerite\n"),
        ("scheduler", "Marguerite\n"),
        ("accounting", "Marguerite\n"),
        ("controllers", "Marguerite\n"),
        ("config", "Marguerite = 1\n"),
    ],
)
def test_an_answer_that_is_none_is_left_out_whole(part: str, text: str) -> None:
    after = anonymise(of(by_text(part, text)))
    (answer,) = after.answers
    assert answer.text is None and answer.error and answer.kind == probe.FAILED
    assert "Marguerite" not in text_of(after)


@pytest.mark.parametrize("text", ["", "Marguerite", "[]", '"Marguerite"', '{"jobs": [', "[" * 100_000])
def test_json_that_is_none_is_left_out_whole(text: str) -> None:
    for way in (JSON, PYSLURM):
        after = anonymise(of(by_json("jobs", text, way)))
        assert after.answers[0].error and "Marguerite" not in text_of(after)


def test_a_name_that_would_stay_is_told_of_without_being_told() -> None:
    leaky = by_text("config", "ClusterName = north\nSLURM_VERSION = 24.11.5 marguerite\n")
    with pytest.raises(NameLeft, match="config by text") as raised:
        anonymise(of(by_text("jobs", row("x", user="marguerite")), leaky))
    assert "marguerite" not in str(raised.value)


def test_addresses_and_numbers_of_users() -> None:
    text = "NodeName=n1 NodeAddr=192.168.7.9 NodeHostName=10.2.3.4 State=IDLE AllocTRES= Owner=erin(4711)\n"
    after = one(anonymise(of(by_text("nodes", text))))
    assert not re.search(r"192\.168|10\.2\.3\.4|erin|4711", after)
    assert re.search(r"NodeAddr=10\.\d+\.\d+\.\d+ NodeHostName=10\.\d+\.\d+\.\d+ .* Owner=[a-z]{4}\(\d{4}\)", after)


def test_who_is_nobody_in_particular_stays() -> None:
    text = "ReservationName=r StartTime=1 EndTime=2 Nodes=ALL NodeCnt=1 Users=root,-nobody Accounts=ALL TRES=cpu=1\n"
    assert "Nodes=ALL NodeCnt=1 Users=root,-nobody Accounts=ALL" in one(anonymise(of(by_text("reservations", text))))
