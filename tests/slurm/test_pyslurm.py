# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What PySlurm told of two real clusters must be what Slurm's own commands told within the same seconds.

recordings/pyslurm/ has, by generation, the probe's answers by the old API and by the new, as far as PySlurm gave any
(22.5.3: not the new Jobs, which raised; 24.11.0: not the old partition, which raised; neither: the new Reservations,
Statistics and Config, which are of later releases), and the text of the commands beside them.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from recorded import RECORDINGS

from slurmscope.model import CRUCIAL_JOB_FIELDS, CRUCIAL_NODE_FIELDS, Job, Node, Reservation, Rpc
from slurmscope.slurm import probe, pyslurm, text
from slurmscope.slurm.commands import BY_WAY
from slurmscope.slurm.probe import PYSLURM, TEXT
from slurmscope.slurm.text import Malformed, Marks

FOLDER = RECORDINGS / "pyslurm"
MARKS = Marks("@field", "@end")
RECORDED = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.json"))

# See test_an_api_that_does_not_tell_taken_gpus_is_no_answer.
REFUSED = "22.05/new-nodes.json"

# What moves in the second or two between the commands and PySlurm, and by how much at most: the clock, and the RPCs,
# which only grow. The recording itself was a score of questions.
MOVED = {"scheduler": {"time": 2, "rpcs": 20, "rpc_users": 20}}


def read(name: str) -> Any:
    """The part that a recording of the probe's answer has, in the model."""
    return BY_WAY[PYSLURM][part_of(name)].parse((FOLDER / name).read_bytes(), MARKS, {})


def as_squeue(row: str) -> str:
    """A row of `scontrol show jobs --oneliner` as the row of our own squeue that says the same."""
    name = re.search(r" JobName=(.*) UserId=(\S+)\(\d+\) ", row)
    assert name
    pairs = dict(re.findall(r"(\S+?)=(\S*)", row.replace(name[0], " ")))
    tres = pairs.get("TRES") or pairs["AllocTRES"]
    if tres == "(null)":
        tres = pairs["ReqTRES"]
    array = f"{pairs['ArrayJobId']}_[{pairs['ArrayTaskId']}]" if "ArrayJobId" in pairs else pairs["JobId"]
    said = {
        **{field: pairs.get(field, "") for field in (*probe.PLAIN_FIELDS, *probe.FREE_FIELDS)},
        "JobID": pairs["JobId"],
        "JobArrayID": array,
        "UserName": name[2],
        "State": pairs["JobState"],
        "PriorityLong": pairs["Priority"],
        "tres-alloc": tres,
        "AllocNodes": pairs["AllocNode:Sid"].partition(":")[0],
        "RestartCnt": pairs["Restarts"],
        "exit_code": pairs["ExitCode"],
        "Feature": pairs["Features"],
        "Name": name[1],
    }
    plain = "".join(f"{said[field]}|" for field in probe.PLAIN_FIELDS)
    return plain + MARKS.field.join(said[field] for field in probe.FREE_FIELDS) + MARKS.end + "\n"


def by_text(generation: str, part: str) -> Any:
    """The same part by the text of the commands."""
    command = BY_WAY[TEXT][part]
    if part != "jobs":
        return command.parse((FOLDER / generation / command.recording).read_bytes(), MARKS, {}).value
    rows = (FOLDER / generation / "scontrol-jobs.txt").read_text().splitlines()
    return text.parse_jobs("".join(as_squeue(row) for row in rows if row).encode(), MARKS).value


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """A struct's fields by their dotted names; RPCs by theirs, for they have no order."""
    found: dict[str, Any] = {}
    for name in value.__struct_fields__:
        one = getattr(value, name)
        if isinstance(one, msgspec.Struct):
            found.update(flat(one, f"{path}{name}."))
        else:
            found[path + name] = rpcs(one) if name in ("rpcs", "rpc_users") else one
    return found


def rpcs(found: tuple[Rpc, ...]) -> dict[str, float]:
    each = [(rpc.name, rpc) for rpc in found]
    return {
        **{f"{name} calls": rpc.calls for name, rpc in each},
        **{f"{name} seconds": round(rpc.seconds, 6) for name, rpc in each},
        **{f"{name} id": rpc.id or 0 for name, rpc in each},
    }


def grew(mine: Any, theirs: Any, most: float) -> bool:
    """PySlurm was asked after the commands: what it tells is the same, or a little more."""
    if isinstance(mine, dict):
        if any(mine[key] != theirs[key] for key in theirs if key.endswith(" id")):
            return False
        gains = {key: mine[key] - theirs.get(key, 0) for key in mine if not key.endswith(" id")}
        return theirs.keys() <= mine.keys() and all(0 <= gain <= most for gain in gains.values())
    return bool(0 <= mine - theirs <= most)


def verdicts(part: str, mine: Any, theirs: Any) -> dict[tuple[str, str], str]:
    """For each record and field: same, moved, lacks, or what is wrong."""
    lacks, moved = BY_WAY[PYSLURM][part].lacks, MOVED.get(part, {})
    if not isinstance(mine, tuple):
        mine, theirs = (mine,), (theirs,)
    identity = "id" if part == "jobs" else "name"
    those = {getattr(one, identity, part): flat(one) for one in theirs}
    these = {getattr(one, identity, part): flat(one) for one in mine}
    assert these.keys() == those.keys()
    found = {}
    for key, fields in these.items():
        for field, value in fields.items():
            other = those[key][field]
            if value == other:
                found[str(key), field] = "same"
            elif field in moved and grew(value, other, moved[field]):
                found[str(key), field] = "moved"
            elif field in lacks and (
                value in (None, {}) or (isinstance(value, dict) and value.items() <= other.items())
            ):
                found[str(key), field] = "lacks"
            else:
                found[str(key), field] = f"PySlurm {value!r}, text {other!r}"
    return found


def wrong(found: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return {at: verdict for at, verdict in found.items() if verdict not in ("same", "moved", "lacks")}


def part_of(name: str) -> str:
    return name.rpartition("-")[2].removesuffix(".json")


@pytest.mark.parametrize("name", [name for name in RECORDED if name != REFUSED])
def test_pyslurm_says_what_the_commands_say_or_the_table_says_why_not(name: str) -> None:
    part = part_of(name)
    parsed = read(name)
    assert not parsed.skipped
    found = verdicts(part, parsed.value, by_text(name[:5], part))
    by_field: dict[str, set[str]] = {}
    for (_, field), verdict in found.items():
        by_field.setdefault(field, set()).add(verdict)
    print(f"{name}: {len(found)} values")
    for field, seen in by_field.items():
        print(f"  {field:40} {', '.join(sorted(seen))}")
    assert not wrong(found)
    assert sum(verdict == "same" for verdict in found.values()) > len(found) / 2


def test_every_field_that_the_table_calls_lacking_is_one() -> None:
    for part, command in BY_WAY[PYSLURM].items():
        value = by_text("24.11", part)
        known = flat(value[0] if isinstance(value, tuple) else value)
        assert command.lacks.keys() <= known.keys(), part
        assert all(command.lacks.values())


def test_a_difference_that_the_table_does_not_name_is_seen() -> None:
    nodes = read("24.11/old-nodes.json").value
    odd = (msgspec.structs.replace(nodes[0], weight=nodes[0].weight + 1), *nodes[1:])
    assert wrong(verdicts("nodes", odd, by_text("24.11", "nodes"))) == {("g1", "weight"): "PySlurm 2, text 1"}


def changed(name: str, **to: Any) -> bytes:
    """A recording with some fields of all records changed."""
    document = json.loads((FOLDER / name).read_bytes())
    for one in document["records"].values():
        one.update(to)
    return json.dumps(document).encode()


def test_an_api_that_does_not_tell_taken_gpus_is_no_answer() -> None:
    """All of them would be free. Without GPUs the rest of what it tells is right, but that MIXED is ALLOCATED."""
    with pytest.raises(Malformed, match="does not tell which GPUs are taken"):
        read(REFUSED)
    parsed = pyslurm.parse_nodes(changed(REFUSED, configured_gres={}), MARKS)
    found = verdicts("nodes", parsed.value, by_text("22.05", "nodes"))
    assert {field for _, field in wrong(found)} == {"gpus", "gpus_allocated"}
    assert {node.state for node in parsed.value} == {"MIXED", "IDLE"}


@pytest.mark.parametrize("name", [name for name in RECORDED if name.endswith("-jobs.json")])
def test_every_job_has_the_crucial_fields(name: str) -> None:
    jobs = read(name).value
    assert jobs
    assert not [(job.id, field) for job in jobs for field in CRUCIAL_JOB_FIELDS if getattr(job, field) in (None, "")]


@pytest.mark.parametrize("name", [name for name in RECORDED if name.endswith("-nodes.json") and name != REFUSED])
def test_every_node_has_the_crucial_fields(name: str) -> None:
    nodes = read(name).value
    assert nodes
    empty = [
        (node.name, field) for node in nodes for field in CRUCIAL_NODE_FIELDS if getattr(node, field) in (None, ())
    ]
    assert not empty


def test_the_crucial_fields_are_fields_that_no_way_lacks() -> None:
    assert set(CRUCIAL_JOB_FIELDS) <= set(Job.__struct_fields__)
    assert set(CRUCIAL_NODE_FIELDS) <= set(Node.__struct_fields__)
    for way in BY_WAY.values():
        assert not set(CRUCIAL_JOB_FIELDS) & way["jobs"].lacks.keys()
        assert not set(CRUCIAL_NODE_FIELDS) & way["nodes"].lacks.keys()


def job(name: str, **to: Any) -> Job:
    return pyslurm.parse_jobs(changed(name, **to), MARKS).value[0]


OLD, NEW = "24.11/old-jobs.json", "24.11/new-jobs.json"


def test_what_the_two_apis_write_in_their_own_ways() -> None:
    licences = {"matlab": "2", "fluent": 1}
    assert job(OLD, licenses=licences).licenses == "matlab:2,fluent"
    assert job(NEW, licenses=["matlab:2", "fluent"]).licenses == "matlab:2,fluent"
    assert job(OLD, features=["a100", "ib&ssd"]).features == "a100,ib&ssd"
    assert job(NEW, constraints=["a100", "ib&ssd"]).features == "a100,ib&ssd"
    assert job(OLD, user_id=4711).user == "4711"
    assert job(NEW, user_id=4711, user_name=None).user == "4711"
    assert job(OLD, time_limit="Partition_Limit").time_limit is None
    # a limit that is there, and an end that has come, are told; an end that nobody knows is not
    assert job(OLD, time_limit=10, end_time=6089691944).end_time == 6089691944
    assert job(OLD, time_limit="UNLIMITED", end_time=1794724000).end_time == 1794724000
    assert job(OLD, time_limit="UNLIMITED", end_time=6089691944).end_time is None
    assert job(NEW, time_limit=None, end_time=6089691944).end_time is None


def test_task_0_of_an_array_which_the_new_api_takes_for_none() -> None:
    for found in (
        job(NEW, array_id=7, array_task_id=None, array_tasks_waiting=None, array_tasks_parallel=None),
        job(OLD, array_job_id=7, array_task_id=0, array_task_str=None),
    ):
        assert (found.array_id, found.array_tasks, found.tasks) == (7, "0", 1)
    waiting = job(NEW, array_id=7, array_task_id=None, array_tasks_waiting="0-9:3", array_tasks_parallel=None)
    assert (waiting.array_tasks, waiting.tasks) == ("0-9:3", 4)


def test_the_new_api_tells_what_a_job_holds_by_node() -> None:
    layout = {
        "g1": {"cpu_ids": "0-3", "memory": 1000, "gres": {"gpu:a100": {"count": 2, "indexes": "0-1"}}},
        "g2": {"cpu_ids": "0", "memory": 500, "gres": {"gpu:a100": 1, "gpu:h100": 1}},
    }
    found = job(NEW, get_resource_layout_per_node=layout)
    assert (found.memory, found.gpus) == (1500 << 20, {"a100": 3, "h100": 1})
    asked = job(NEW, get_resource_layout_per_node={}, gres_per_node={"gres/gpu:a100": 2}, num_nodes=3, memory=None)
    assert (asked.memory, asked.gpus) == (None, {"a100": 6})


def test_an_exit_status_that_the_new_api_may_have_changed_is_unknown() -> None:
    assert job(NEW, exit_code=15).exit_code is None
    assert job(NEW, exit_code=0, exit_code_signal=9).exit_code == "0:9"
    assert job(OLD, exit_code="143:0").exit_code == "143:0"


def node(name: str, **to: Any) -> Node:
    return pyslurm.parse_nodes(changed(name, **to), MARKS).value[0]


def test_nodes_of_which_little_is_known() -> None:
    old, new = "24.11/old-nodes.json", "24.11/new-nodes.json"
    nothing = 0xFFFFFFFE
    silent = node(old, state="DOWN*+CLOUD", cpu_load=nothing, free_mem=None, boot_time=0, gres=None, version=None)
    assert (silent.state, silent.flags) == ("DOWN", frozenset({"NOT_RESPONDING", "CLOUD"}))
    assert (silent.load, silent.memory_free, silent.boot_time, silent.gpus) == (None, None, None, {})
    silent = node(new, state="IDLE", cpu_load=None, free_memory=None, boot_time=None, configured_gres=None)
    assert (silent.load, silent.memory_free, silent.boot_time, silent.gpus) == (None, None, None, {})
    kept = node(old, cpus=64, core_spec_cnt=2, threads=2, mem_spec_limit=1024)
    assert (kept.cpus_effective, kept.memory_reserved) == (60, 1 << 30)
    assert node(old, cpus=64, sockets=2, cores_per_socket=16, threads=2).threads_per_core == 2
    assert node(new, total_cpus=64, sockets=2, cores_per_socket=16, threads_per_core=2).threads_per_core == 2
    assert node(new, threads_per_core=None).threads_per_core is None
    # taken apart at every comma, and put together again
    taken = node(old, gres_used=["gpu:a100:2(IDX:0", "2)", "gpu:h100:1(IDX:4)"])
    assert taken.gpus_allocated == {"a100": 2, "h100": 1}
    untyped = node(new, configured_gres={"gpu": 4}, allocated_gres={"gpu": 1})
    assert (untyped.gpus, untyped.gpus_allocated) == ({"": 4}, {"": 1})


def test_an_inactive_partition_and_one_with_limits() -> None:
    old, new = "22.05/old-partitions.json", "24.11/new-partitions.json"
    to = {"max_time": 3600, "default_time": 60, "allow_accounts": ["bio", "physics"], "preempt_mode": "REQUEUE"}
    found = pyslurm.parse_partitions(changed(old, state="", **to), MARKS).value[0]
    assert (found.state, found.max_time, found.default_time) == ("INACTIVE", 3600, 60)
    assert (found.allow_accounts, found.preempt_mode) == (("bio", "physics"), "REQUEUE")
    limits = {"max_time": 60, "default_time": 1, "allowed_accounts": ["bio", "physics"]}
    found = pyslurm.parse_partitions(changed(new, **limits), MARKS).value[0]
    assert (found.max_time, found.default_time, found.allow_accounts) == (3600, 60, ("bio", "physics"))


def test_a_reservation_is_active_in_its_window() -> None:
    name = "24.11/old-reservations.json"
    for start, end, state in ((0, 1, "INACTIVE"), (0, 1 << 32, "ACTIVE"), (1 << 32, 1 << 33, "INACTIVE")):
        assert pyslurm.parse_reservations(changed(name, start_time=start, end_time=end), MARKS).value[0].state == state


# What the API of later releases has, in the words of its documentation: there is no recording of it.
LATER = {"api": "new", "pyslurm": "25.11.0", "slurm": "25.11.2", "time": 1000.0, "users": {}, "tried": ""}


def later(records: dict[str, Any]) -> bytes:
    return json.dumps({**LATER, "records": records}).encode()


def test_reservations_of_the_new_api_as_it_is_documented() -> None:
    record = {
        "name": "weekly",
        "start_time": 900,
        "end_time": 1100,
        "node_count": 2,
        "nodes": "n[1-2]",
        "cpus": 32,
        "flags": ["MAINTENANCE", "SPECIFIC_NODES", "FLEX"],
        "reoccurrence": "WEEKLY",
        "users": ["root", "alice"],
        "accounts": [],
        "licenses": ["matlab:2"],
        "tres": {"cpu": 32, "mem": "2G"},
    }
    (found,) = pyslurm.parse_reservations(later({"weekly": record}), MARKS).value
    assert found == Reservation(
        name="weekly",
        state="ACTIVE",
        start_time=900,
        end_time=1100,
        node_list="n[1-2]",
        nodes=2,
        cores=32,
        flags=("MAINT", "SPEC_NODES", "FLEX", "WEEKLY"),
        partition=None,
        users=("root", "alice"),
        accounts=(),
        licenses="matlab:2",
        tres={"cpu": 32, "mem": 2 << 30},
    )


def test_config_and_private_data() -> None:
    record = {"cluster_name": "c", "version": "25.11.2", "slurmctld_boot_time": 5, "private_data": ["users", "jobs"]}
    found = pyslurm.parse_config(later({**record, "accounting_storage_type": None}), MARKS).value
    assert (found.cluster, found.version, found.boot_time) == ("c", "25.11.2", 5)
    assert found.settings == {"AccountingStorageType": "(null)", "PrivateData": "jobs,users"}
    old = json.loads((FOLDER / "24.11/old-config.json").read_bytes())
    old["records"]["private_data"] = 0x1 | 0x2 | 0x80 | 0x100
    settings = pyslurm.parse_config(json.dumps(old).encode(), MARKS).value.settings
    assert settings["PrivateData"] == "cloud,events,jobs,nodes"


def test_statistics_of_the_new_api_as_it_is_documented() -> None:
    """The figures of the recording of 22.05 under the names of the new API give the same."""
    old = json.loads((FOLDER / "22.05/old-scheduler.json").read_bytes())["records"]
    names = {"bf_backfilled_jobs": "backfilled_jobs", "bf_last_backfilled_jobs": "last_backfilled_jobs"}
    names |= {"req_time": "request_time", "req_time_start": "data_since", "schedule_queue_len": "schedule_queue_length"}
    names |= {"bf_when_last_cycle": "backfill_cycle_last_when"}
    names |= {"bf_queue_len": "backfill_queue_length", "bf_queue_len_sum": "backfill_queue_length_sum"}
    new = {names.get(key, key.replace("bf_", "backfill_")): value for key, value in old.items()}
    new["schedule_cycle_mean_depth"] = old["schedule_cycle_depth"] // old["schedule_cycle_counter"]
    new |= {"agent_count": 0, "agent_thread_count": 0, "dbd_agent_queue_size": 0, "backfilled_het_jobs": 0}
    new |= {"backfill_table_size": 2, "backfill_table_size_sum": 44, "gettimeofday_latency": 22}
    each = old["rpc_type_stats"].items()
    new["rpcs_by_type"] = {
        name: {"id": rpc["id"], "count": rpc["count"], "time": rpc["total_time"]} for name, rpc in each
    }
    each = old["rpc_user_stats"].items()
    new["rpcs_by_user"] = {
        name: {"user_id": rpc["id"], "count": rpc["count"], "time": rpc["total_time"]} for name, rpc in each
    }
    new["rpcs_pending"] = {"REQUEST_PING": {"id": 1008, "count": 3}}
    new["schedule_exit"] = dict.fromkeys(
        (
            "end_of_job_queue",
            "default_queue_depth",
            "max_job_start",
            "blocked_on_licenses",
            "max_rpc_count",
            "max_time",
        ),
        4,
    )
    found = pyslurm.parse_scheduler(later(new), MARKS).value
    assert found.rpcs_pending == {"REQUEST_PING": 3}
    assert found.main.exits.keys() == by_text("24.11", "scheduler").main.exits.keys()
    alike = msgspec.structs.replace(found, rpcs_pending={}, main=msgspec.structs.replace(found.main, exits={}))
    assert not wrong(verdicts("scheduler", alike, by_text("22.05", "scheduler")))


def test_a_record_that_cannot_be_read_costs_one_row() -> None:
    document = json.loads((FOLDER / OLD).read_bytes())
    document["records"]["2"]["num_cpus"] = "many"
    del document["records"]["3"]["submit_time"]
    document["records"]["4"] = None
    parsed = pyslurm.parse_jobs(json.dumps(document).encode(), MARKS)
    assert parsed.skipped == 3
    assert {job.id for job in parsed.value} == {1, 5, 6, 7, 8}
    assert "num_cpus" in parsed.samples[0][0] and '"vit | large"' in parsed.samples[0][1]


@pytest.mark.parametrize("part", sorted(BY_WAY[PYSLURM]))
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Segmentation fault",
        b"[]",
        b"{}",
        b'{"api": "old"',
        json.dumps({**LATER, "api": "third", "records": {}}).encode(),
        json.dumps({**LATER, "records": ["a"]}).encode(),
        json.dumps({**LATER, "records": {"a": 1}}).encode(),
    ],
)
def test_garbage_is_no_answer(part: str, data: bytes) -> None:
    with pytest.raises(Malformed):
        BY_WAY[PYSLURM][part].parse(data, MARKS, {})


def test_a_cluster_without_jobs_is_no_garbage() -> None:
    assert pyslurm.parse_jobs(later({}), MARKS).value == ()
