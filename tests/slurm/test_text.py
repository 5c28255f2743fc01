# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of squeue and scontrol: read whole, whatever is in them, and one bad row costs only itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.model import Job
from slurmscope.slurm import probe, text
from slurmscope.slurm.text import Marks

MARKS = Marks("@f1eld", "@theend")
FIELDS: dict[str, str] = {
    "JobID": "8",
    "JobArrayID": "4_1",
    "UserName": "carol",
    "Account": "bio",
    "Partition": "main",
    "QOS": "normal",
    "State": "RUNNING",
    "Reason": "None",
    "PriorityLong": "4294901757",
    "NumNodes": "2",
    "NumCPUs": "8",
    "tres-alloc": "cpu=8,mem=125G,node=2,billing=8,gres/gpu=2,gres/gpu:a100=2",
    "SubmitTime": "1794724150",
    "EligibleTime": "1794724150",
    "StartTime": "1794724151",
    "EndTime": "1794724751",
    "TimeLimit": "10:00",
    "NodeList": "n[1-2]",
    "Reservation": "(null)",
    "Dependency": "(null)",
    "Feature": "(null)",
    "Licenses": "(null)",
    "AllocNodes": "login1",
    "RestartCnt": "0",
    "exit_code": "0:0",
    "Name": "sweep",
}


def row(marks: Marks = MARKS, **changes: str) -> bytes:
    fields = {**FIELDS, **{key.replace("_", "-") if key == "tres_alloc" else key: v for key, v in changes.items()}}
    plain = "".join(f"{fields[name]}|" for name in probe.PLAIN_FIELDS)
    free = marks.field.join(fields[name] for name in probe.FREE_FIELDS)
    return (plain + free + marks.end + "\n").encode("utf-8", "surrogateescape")


def jobs(data: bytes, marks: Marks = MARKS) -> tuple[Job, ...]:
    parsed = text.parse_jobs(data, marks)
    assert parsed.skipped == 0, parsed.samples
    return parsed.value


def test_a_job_is_read_field_by_field() -> None:
    assert jobs(row()) == (
        Job(
            id=8,
            array_id=4,
            array_tasks="1",
            tasks=1,
            name="sweep",
            user="carol",
            account="bio",
            partition="main",
            qos="normal",
            state="RUNNING",
            reason=None,
            priority=4294901757,
            submit_time=1794724150,
            eligible_time=1794724150,
            start_time=1794724151,
            end_time=1794724751,
            time_limit=600,
            cpus=8,
            memory=125 * 2**30,
            gpus={"a100": 2},
            nodes=2,
            node_list="n[1-2]",
            reservation=None,
            dependency=None,
            features=None,
            licenses=None,
            login_node="login1",
            restarts=0,
            exit_code="0:0",
        ),
    )


def test_a_pending_array_stands_for_its_tasks() -> None:
    (job,) = jobs(row(JobArrayID="4_[2-6%2]", JobID="4", State="PENDING", StartTime="N/A", EndTime="N/A"))
    assert (job.array_id, job.array_tasks, job.tasks) == (4, "2-6%2", 5)
    assert job.start_time is None


def test_a_job_that_waits_in_two_partitions() -> None:
    (job,) = jobs(row(Partition="main,long", State="PENDING"))
    assert job.partitions == ["main", "long"]


# Anybody may put any byte but NUL into a job's name.
hostile = st.binary(max_size=300).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))


@given(st.lists(st.one_of(hostile, st.just(row().decode()), st.just("x@theen"), st.just("a|b\nc\x1fd=e")), max_size=8))
def test_no_name_adds_loses_or_changes_a_row(names: list[str]) -> None:
    marks = Marks.random()
    data = b"".join(row(marks, JobID=str(n), JobArrayID=str(n), Name=name) for n, name in enumerate(names, 1))
    found = jobs(data, marks)
    assert [job.id for job in found] == list(range(1, len(names) + 1))
    raw = [name.encode("utf-8", "surrogateescape") for name in names]
    assert [job.name for job in found] == [one.decode("utf-8", "backslashreplace") for one in raw]
    assert {(job.user, job.state, job.cpus) for job in found} <= {("carol", "RUNNING", 8)}


def test_marks_are_new_for_each_run_and_no_width() -> None:
    some = [Marks.random() for _ in range(100)]
    assert len({marks.end for marks in some}) == 100
    assert all(marks.field[0] == "@" and marks.end[0] == "@" and len(marks.end) >= 15 for marks in some)


@pytest.mark.parametrize(
    "bad",
    [
        row(JobID="eight"),
        row(NumCPUs="many"),
        row(tres_alloc="cpu=8,,"),
        row(TimeLimit="soon"),
        row(JobArrayID="4_[6-2]"),
        b"garbage@theend\n",
        row().replace(b"@f1eld", b"", 1),
        row().replace(b"|", b"", 1),
        row(UserName="a|b"),
        row(Name="guessed @f1eld mark"),
    ],
)
def test_a_bad_row_costs_only_itself(bad: bytes) -> None:
    parsed = text.parse_jobs(row(JobID="1") + bad + row(JobID="2"), MARKS)
    assert [job.id for job in parsed.value] == [1, 2]
    assert parsed.skipped == 1
    assert parsed.samples[0][1] in bad.decode().replace("@f1eld", "\0")


@pytest.mark.parametrize(
    "data",
    [row() + row()[:-20], b"sorry, maintenance\n", b"\0\xff" * 1000, b"garbage@theend\n", b"slurm_load_jobs error"],
)
def test_what_is_not_squeue_s_or_not_whole_is_refused(data: bytes) -> None:
    """What was known before is better than half of it, or than no jobs."""
    with pytest.raises(text.Malformed):
        text.parse_jobs(data, MARKS)


def test_an_empty_queue_is_an_answer() -> None:
    assert jobs(b"") == ()


def test_a_word_of_welcome_costs_no_row() -> None:
    assert [job.id for job in jobs(b"Welcome!\nBe kind.\n" + row(JobID="1") + row(JobID="2", Name="a\nb"))] == [1, 2]


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(anything: bytes) -> None:
    for parse in (text.parse_jobs, text.parse_nodes, text.parse_partitions, text.parse_controllers):
        try:
            parse(anything, MARKS)
        except text.Malformed as refused:
            assert str(refused)


def test_an_unchanged_row_is_not_read_again() -> None:
    """The very same object comes back, also when the run had other marks."""
    before = text.parse_jobs(row() + row(JobID="9"), MARKS)
    marks = Marks.random()
    after = text.parse_jobs(row(marks) + row(marks, JobID="9", State="COMPLETED"), marks, before.memo)
    assert after.value[0] is before.value[0]
    assert after.value[1].state == "COMPLETED"
    assert len(after.memo) == 2


NODE = (
    "NodeName=cn-a006 Arch=x86_64 CoresPerSocket=20  CPUAlloc=32 CPUEfctv=80 CPUTot=80 CPULoad=30.12 "
    "AvailableFeatures=x86_64,turing ActiveFeatures=x86_64,turing Gres=gpu:rtx8000:8(S:0-1) GresDrain=N/A "
    "GresUsed=gpu:rtx8000:8(IDX:0-7),tpu:0 NodeAddr=cn-a006 NodeHostName=cn-a006 Version=24.11.5 "
    "OS=Linux 6.1.0 #1 SMP State=DOWN RealMemory=386618 AllocMem=131072 FreeMem=1024 Sockets=2 Boards=1 "
    "State=MIXED ThreadsPerCore=2 TmpDisk=0 Weight=3 Owner=N/A MCS_label=N/A Partitions=main,long  "
    "BootTime=1794721294 SlurmdStartTime=1794723795 LastBusyTime=1794723795 ResumeAfterTime=None "
    "CfgTRES=cpu=80,mem=386618M,billing=80,gres/gpu=8 AllocTRES=cpu=32,mem=128G,gres/gpu=8 "
    "CurrentWatts=0 AveWatts=0"
)


def test_a_node_is_read_field_by_field() -> None:
    (node,) = text.parse_nodes(NODE.encode(), MARKS).value
    assert (node.name, node.state, node.flags) == ("cn-a006", "MIXED", frozenset())
    assert (node.cpus, node.cpus_allocated, node.cpus_idle, node.cpus_other) == (80, 32, 48, 0)
    assert node.gpu_use() == {"rtx8000": {"allocated": 8, "idle": 0, "stranded": 0, "unavailable": 0}}
    assert (node.memory, node.memory_allocated) == (386618 * 2**20, 131072 * 2**20)
    assert node.threads_per_core == 2
    assert node.memory_free == 1024 * 2**20
    assert (node.load, node.weight, node.version) == (30.12, 3, "24.11.5")
    assert node.partitions == ("main", "long")
    assert node.features == ("x86_64", "turing")
    assert node.reason is None


REASONS = [
    "bad dimm | slot 3",
    "State=IDLE CPUAlloc=0 Reason=none",
    "looks like [root@1] but goes on",
    "NodeName=other State=IDLE",
    "é ü 漢",
]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize(
    "comment", ["", " Comment=State=IDLE Reason=x [eve@1]", " Comment=a b Extra=NodeName=z State=UP"]
)
def test_no_reason_forges_a_field(reason: str, comment: str) -> None:
    line = NODE.replace("State=MIXED", "State=MIXED+DRAIN") + f" Reason={reason} [ops@1794723804]{comment}"
    (node,) = text.parse_nodes(line.encode(), MARKS).value
    assert (node.name, node.state, node.flags) == ("cn-a006", "MIXED", frozenset({"DRAIN"}))
    assert node.cpus_allocated == 32
    if "Reason=" not in comment:
        assert (node.reason, node.reason_user, node.reason_time) == (reason, "ops", 1794723804)


def test_a_reason_of_several_lines_is_one_reason() -> None:
    """scontrol puts who and when behind the first line and the others after it."""
    line = NODE + " Reason=a [root@1794728206]        second line Comment=c"
    (node,) = text.parse_nodes(line.encode(), MARKS).value
    assert (node.reason, node.reason_user) == ("a second line", "root")


def test_a_newline_in_a_comment_makes_no_node() -> None:
    data = f"{NODE} Comment=a\nNodeName=fake State=IDLE Extra=b\n{NODE.replace('State=MIXED', 'State=DOWN')}\n"
    parsed = text.parse_nodes(data.encode(), MARKS)
    assert [(node.name, node.state) for node in parsed.value] == [("cn-a006", "MIXED")]
    assert parsed.skipped == 2


@pytest.mark.parametrize(
    "parse", [text.parse_nodes, text.parse_partitions, text.parse_reservations, text.parse_licenses]
)
def test_an_answer_of_another_kind_is_refused(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(text.Malformed, match="Welcome"):
        parse(b"Welcome to the cluster!\nBe kind.\n", MARKS)


def test_no_reservations_are_an_empty_answer() -> None:
    assert text.parse_reservations(b"No reservations in the system\n", MARKS).value == ()
    assert text.parse_licenses(b"No licenses configured in Slurm.\n", MARKS).value == ()


def test_controllers_of_old_and_new() -> None:
    new = b"Slurmctld(primary) at a is UP\nSlurmctld(backup1) at b is DOWN\n"
    old = (
        b"Slurmctld(primary/backup) at a/b are UP/DOWN\n*****************\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n"
    )
    for data, backup in ((new, "backup1"), (old, "backup")):
        found = text.parse_controllers(data, MARKS)
        assert [(one.host, one.role, one.up) for one in found.value] == [("a", "primary", True), ("b", backup, False)]
        assert found.skipped == 0
