# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of older exporters: their names, types and labels, and values that add up."""

import asyncio
import itertools
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from slurmscope.metrics import catalogue, health, traces
from slurmscope.metrics.book import Book
from slurmscope.metrics.compat.states import WORDS, long_word
from slurmscope.metrics.exposition import Topic, render
from slurmscope.metrics.pages import Pages
from slurmscope.metrics.tally import Tally
from slurmscope.metrics.view import Requests, View
from slurmscope.model import (
    NODE_BASE_STATES,
    NODE_FLAGS,
    PARTS,
    Backfill,
    Cost,
    Cycles,
    Job,
    License,
    Limit,
    Node,
    Part,
    Partition,
    Reservation,
    Rpc,
    Scheduler,
    Share,
    Snapshot,
)
from slurmscope.slurm.text import Marks, parse_nodes

NOW = 1_700_000_000.0
GIB = 2**30
MIB = 2**20

# What the originals serve: type, name, labels. Facts about them, copied from what they expose.
RIVOSINC = """
gauge slurm_partition_total_cpus partition
gauge slurm_partition_real_mem partition
gauge slurm_partition_free_mem partition
gauge slurm_partition_alloc_mem partition state
gauge slurm_partition_alloc_cpus partition state
gauge slurm_partition_node_count partition state
gauge slurm_partition_idle_cpus partition
gauge slurm_partition_weight partition
gauge slurm_partition_cpu_load partition
gauge slurm_cpus_total
gauge slurm_cpus_idle
gauge slurm_cpu_load
gauge slurm_cpus_per_state state
gauge slurm_node_count_per_state state
gauge slurm_mem_real
gauge slurm_mem_free
gauge slurm_mem_alloc
gauge slurm_node_scrape_duration
counter slurm_node_scrape_error
gauge slurm_user_state_total username state
gauge slurm_user_mem_alloc username state
gauge slurm_user_cpu_alloc username state
gauge slurm_partition_job_state_total partition state
gauge slurm_account_job_state_mem_alloc account state
gauge slurm_account_job_state_cpu_alloc account state
gauge slurm_account_job_state_total account state
gauge slurm_feature_mem_alloc feature
gauge slurm_feature_cpu_alloc feature
gauge slurm_feature_total feature
gauge slurm_pending_reason_total reason
gauge slurm_job_scrape_duration
counter job_scrape_errors
gauge slurm_rpc_user_count user
gauge slurm_rpc_user_total_time user
gauge slurm_rpc_msg_type_count type
gauge slurm_rpc_msg_type_avg_time type
gauge slurm_rpc_msg_type_total_time type
gauge slurm_daemon_thread_count
gauge slurm_dbd_agent_queue_size
gauge slurm_backfill_job_count
gauge slurm_backfill_cycle_count
gauge slurm_backfill_last_depth
gauge slurm_backfill_last_depth_try_sched
gauge slurm_backfill_cycle_counter
gauge slurm_diag_scrape_duration
counter slurm_diag_scrape_error
gauge slurm_lic_total name
gauge slurm_lic_used name
gauge slurm_lic_free name
gauge slurm_lic_reserved name
counter slurm_lic_scrape_error
gauge slurm_account_cpu_limit account
gauge slurm_account_mem_limit account
gauge slurm_account_job_alloc_limit account
gauge slurm_account_job_limit account
gauge slurm_limit_scrape_duration
counter slurm_account_collect_error
counter promhttp_metric_handler_requests_total code
gauge promhttp_metric_handler_requests_in_flight
counter process_cpu_seconds_total
gauge process_max_fds
gauge process_open_fds
gauge process_resident_memory_bytes
gauge process_start_time_seconds
gauge process_virtual_memory_bytes
gauge process_virtual_memory_max_bytes
"""
# Names that its README has and its code has not, or not any more.
RIVOSINC_README = """
gauge slurm_account_cpu_alloc account
gauge slurm_account_mem_alloc account
gauge slurm_job_count_per_state state
counter slurm_job_scrape_error
"""
VPENSO = """
gauge slurm_account_jobs_pending account
gauge slurm_account_jobs_running account
gauge slurm_account_cpus_running account
gauge slurm_account_jobs_suspended account
gauge slurm_cpus_alloc
gauge slurm_cpus_idle
gauge slurm_cpus_other
gauge slurm_cpus_total
gauge slurm_gpus_alloc
gauge slurm_gpus_idle
gauge slurm_gpus_total
gauge slurm_gpus_utilization
gauge slurm_node_cpu_alloc node status
gauge slurm_node_cpu_idle node status
gauge slurm_node_cpu_other node status
gauge slurm_node_cpu_total node status
gauge slurm_node_mem_alloc node status
gauge slurm_node_mem_total node status
gauge slurm_nodes_alloc
gauge slurm_nodes_comp
gauge slurm_nodes_down
gauge slurm_nodes_drain
gauge slurm_nodes_err
gauge slurm_nodes_fail
gauge slurm_nodes_idle
gauge slurm_nodes_maint
gauge slurm_nodes_mix
gauge slurm_nodes_resv
gauge slurm_partition_cpus_allocated partition
gauge slurm_partition_cpus_idle partition
gauge slurm_partition_cpus_other partition
gauge slurm_partition_jobs_pending partition
gauge slurm_partition_cpus_total partition
gauge slurm_queue_pending
gauge slurm_queue_pending_dependency
gauge slurm_queue_running
gauge slurm_queue_suspended
gauge slurm_queue_cancelled
gauge slurm_queue_completing
gauge slurm_queue_completed
gauge slurm_queue_configuring
gauge slurm_queue_failed
gauge slurm_queue_timeout
gauge slurm_queue_preempted
gauge slurm_queue_node_fail
gauge slurm_scheduler_threads
gauge slurm_scheduler_queue_size
gauge slurm_scheduler_dbd_queue_size
gauge slurm_scheduler_last_cycle
gauge slurm_scheduler_mean_cycle
gauge slurm_scheduler_cycle_per_minute
gauge slurm_scheduler_backfill_last_cycle
gauge slurm_scheduler_backfill_mean_cycle
gauge slurm_scheduler_backfill_depth_mean
gauge slurm_scheduler_backfilled_jobs_since_start_total
gauge slurm_scheduler_backfilled_jobs_since_cycle_total
gauge slurm_scheduler_backfilled_heterogeneous_total
gauge slurm_account_fairshare account
gauge slurm_user_jobs_pending user
gauge slurm_user_jobs_running user
gauge slurm_user_cpus_running user
gauge slurm_user_jobs_suspended user
"""
SINFO = """
gauge slurm_cpus_alloc reservation
gauge slurm_cpus_idle reservation
gauge slurm_cpus_drain reservation
gauge slurm_cpus_total reservation
gauge slurm_gpus_alloc type reservation
gauge slurm_gpus_idle type reservation
gauge slurm_gpus_drain type reservation
gauge slurm_gpus_total type reservation
gauge slurm_node_states name slurm_node_states
gauge slurm_job_states name
gauge slurm_login_nodes name
gauge slurm_partitions name
"""
ORIGINALS = {"rivosinc": RIVOSINC + RIVOSINC_README, "vpenso": VPENSO, "sinfo": SINFO}
COMPAT = tuple(ORIGINALS)


def original(profile: str) -> dict[str, tuple[str, frozenset[str]]]:
    rows = [line.split() for line in ORIGINALS[profile].split("\n") if line]
    return {name: (kind, frozenset(labels)) for kind, name, *labels in rows}


# --- a cluster ------------------------------------------------------------------------------------------------


def node_line(
    name: str, state: str, cpus: int, allocated: int, gres: str = "(null)", used: str = "", **more: str
) -> str:
    """A node as `scontrol show nodes --details --oneliner` prints it."""
    fields = {"free": "19993", "load": "1.73", "memory": "64000", "taken": "0", "partitions": "main"} | more
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc={allocated} CPUEfctv={cpus} CPUTot={cpus} "
        f"CPULoad={fields['load']} AvailableFeatures=(null) ActiveFeatures=(null) Gres={gres} GresDrain=N/A "
        f"{f'GresUsed={used} ' if used else ''}NodeAddr=10.0.0.1 NodeHostName={name} Version=24.11.5 "
        f"OS=Linux 6.1.0 #1 SMP  RealMemory={fields['memory']} AllocMem={fields['taken']} FreeMem={fields['free']} "
        f"Sockets=16 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=3 Owner=N/A MCS_label=N/A "
        f"Partitions={fields['partitions']}  BootTime=1794721295 SlurmdStartTime=1794724017 "
        f"LastBusyTime=1794724017 ResumeAfterTime=None CfgTRES=cpu={cpus} AllocTRES= CurrentWatts=0 AveWatts=0 "
    )


def nodes_of(*lines: str) -> tuple[Node, ...]:
    parsed = parse_nodes("\n".join(lines).encode(), Marks.random())
    assert not parsed.skipped, parsed.samples
    return parsed.value


A006 = node_line("cn-a006", "MIXED", 80, 32, "gpu:rtx8000:8(S:0-1)", "gpu:rtx8000:8(IDX:0-7),tpu:0", taken="48000")
NODES = nodes_of(
    A006,
    node_line("n1", "ALLOCATED", 16, 16, "gpu:a100:4", "gpu:a100:1(IDX:0)", taken="64000", partitions="main,gpu"),
    node_line("n2", "IDLE", 16, 0, "gpu:4", "gpu:(null):0(IDX:N/A)", partitions="main,gpu"),
    node_line("n3", "IDLE+DRAIN", 16, 0, "gpu:a100:2", load="N/A", free="N/A"),
    node_line("n4", "MIXED+DRAIN", 16, 5, taken="1000"),
    node_line("n5", "DOWN*+DRAIN", 16, 0),
    node_line("n6", "DOWN*", 16, 0),
    node_line("n7", "IDLE+PLANNED", 16, 0),
    node_line("n8", "IDLE+RESERVED", 16, 0),
    node_line("n9", "IDLE+MAINT", 16, 0),
    node_line("n10", "IDLE+CLOUD+POWERED_DOWN", 16, 0),
    node_line("n11", "IDLE*", 16, 0),
    node_line("n12", "MIXED+COMPLETING", 16, 3),
    node_line("n13", "ALLOCATED+FAIL", 16, 16),
    node_line("n14", "IDLE+NOVELTY", 16, 0),
    node_line("n15", "DOWN+INVALID_REG", 16, 0),
)
ids = itertools.count(1)


def job(state: str, user: str = "alice", account: str = "physics", **more: Any) -> Job:
    fields: dict[str, Any] = {
        "id": next(ids),
        "array_id": None,
        "array_tasks": None,
        "tasks": 1,
        "name": "a",
        "user": user,
        "account": account,
        "partition": "main",
        "qos": "normal",
        "state": state,
        "reason": None,
        "priority": 1,
        "submit_time": 1_699_990_000,
        "eligible_time": 1_699_990_000,
        "start_time": None,
        "end_time": None,
        "time_limit": None,
        "cpus": 2,
        "memory": 4 * GIB,
        "gpus": {},
        "nodes": 1,
        "node_list": "",
        "reservation": None,
        "dependency": None,
        "features": None,
        "licenses": None,
        "login_node": "login-1.example.org",
        "restarts": 0,
        "exit_code": None,
    }
    return Job(**(fields | more))


JOBS = (
    job("RUNNING", cpus=8, memory=16 * GIB, features="avx&gpu"),
    job("RUNNING", "bob", "bio", cpus=3, features="[avx|sse]", login_node="login-2"),
    job("PENDING", tasks=100, partition="main,gpu", reason="Priority", features="avx*2&ib"),
    job("PENDING", "bob", "bio", tasks=5, reason="Dependency", login_node="n1"),
    job("REQUEUE_HOLD", "carol", "bio", reason="JobHeldAdmin"),
    job("COMPLETING", "carol", "bio", cpus=7, partition="gpu"),
    job("RESIZING", "carol", "bio", cpus=1, login_node=None),
    job("SUSPENDED", "dan", "physics", cpus=4),
    job("COMPLETED", "dan", "physics", cpus=64, memory=None, features="avx"),
    job("OUT_OF_MEMORY", "dan", "physics"),
    job("TIMEOUT", "dan", "physics"),
)


def partition(name: str) -> Partition:
    return Partition(name, "UP", False, False, "", 0, 0, None, None, None, None, None, None, None, ())


def reservation(name: str, nodes: str, start: int, end: int) -> Reservation:
    return Reservation(name, "ACTIVE", start, end, nodes, 1, None, (), None, (), (), None, {})


CYCLES = Cycles(40, 0.0015, 0.01, 0.0004, 12.0, 7, 2.0, {})
SCHEDULER = Scheduler(
    time=1_700_000_000,
    since=1_699_990_000,
    threads=3,
    agent_queue=4,
    agents=1,
    agent_threads=2,
    dbd_queue=9,
    jobs={"submitted": 12},
    job_states={},
    job_states_time=None,
    main=CYCLES,
    backfill=msgspec.structs.replace(CYCLES, total=50, last_seconds=0.25, mean_seconds=0.125, mean_depth=33.0),
    backfill_more=Backfill(70, 30, 5, None, 21, 11, None, None, None, None),
    latency_seconds=None,
    rpcs=(Rpc("REQUEST_JOB_INFO", 2003, 4, 0.002), Rpc("REQUEST_PING", 1008, 0, 0.0)),
    rpc_users=(Rpc("root", 0, 25, 0.009528), Rpc("alice", 1000, 3, 0.004409), Rpc("bob", 1001, 2, 0.001)),
    rpcs_pending={},
)
SHARES = (
    Share("root", None, None, None, 0, None, None, None, None, None, None, None),
    Share("physics", None, None, "root", 1, 1, 0.5, 1.0, 0.1, 0.1, 0.25, 2.0),
    Share("lasers", None, None, "physics", 2, 1, 0.5, 1.0, 0.1, 0.1, 0.75, 2.0),
    Share("lasers", "alice", None, "lasers", 3, 1, 0.5, 1.0, 0.1, 0.1, 0.5, 2.0),
)
LIMITS = (
    Limit("association", "physics", None, None, None, "GrpTRES", "cpu", 100.0, 8.0),
    Limit("association", "physics", None, None, None, "GrpTRES", "mem", 10.0 * GIB, 0.0),
    Limit("association", "physics", None, None, None, "GrpJobs", None, 0.0, 0.0),
    Limit("association", "physics", None, None, None, "GrpSubmitJobs", None, 50.0, 0.0),
    Limit("association", "physics", "alice", None, None, "GrpTRES", "cpu", 1.0, 0.0),
    Limit("qos", None, None, None, "normal", "GrpTRES", "cpu", 7.0, 0.0),
)


def snapshot(**parts: Any) -> Snapshot:
    """A snapshot with these parts read, and no other."""
    return Snapshot(cluster="c1", **{name: Part(value, NOW, "test", 0.25) for name, value in parts.items()})


EVERYTHING: dict[str, Any] = {
    "nodes": NODES,
    "jobs": JOBS,
    "scheduler": SCHEDULER,
    "partitions": (partition("main"), partition("gpu"), partition("empty")),
    "reservations": (
        reservation("now", "n[1-2]", int(NOW) - 10, int(NOW) + 10),
        reservation("past", "n3", int(NOW) - 20, int(NOW) - 10),
        reservation("later", "n4", int(NOW) + 10, int(NOW) + 20),
    ),
    "licenses": (License("matlab", 10, 3, 6, 1, False), License("none", 0, 0, 0, 0, False)),
    "shares": SHARES,
    "limits": LIMITS,
}
FULL = snapshot(**EVERYTHING)


class Asked(msgspec.Struct):
    costs: dict[tuple[str, str], Cost] = {}
    fallbacks: dict[tuple[str, str], int] = {}


# every part was asked for twice: once in vain, and then another way
ASKED = Asked({(part, "json"): Cost(runs=1, failures=1) for part in PARTS})
ASKED.costs.update({(part, "text"): Cost(runs=1, rows_skipped=3) for part in PARTS})


def page(profile: str, shown: Snapshot, *, openmetrics: bool = False, top: int = 100) -> str:
    async def serve() -> list[bytes]:
        pages = Pages(top=top, clock=lambda: NOW)
        pages.source = ASKED
        book = Book([pages])
        book.requests.total[200] = 7
        await pages.publish(shown, frozenset(PARTS))
        return await book.body(profile, openmetrics=openmetrics, gzip=False)

    return b"".join(asyncio.run(serve())).decode()


def parsed(text: str, *, openmetrics: bool = False) -> Iterable[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each sample, the names as they are on the page: the parser of text appends `_total`
    to counters that have none."""
    parse: Callable[[str], Iterable[Any]] = parse_openmetrics if openmetrics else parse_text
    for family in parse(text):
        for one in family.samples:
            name = one.name if f"\n{one.name}{{" in text else one.name.removesuffix("_total")
            yield name, one.labels, one.value


Samples = dict[str, dict[tuple[str, ...], float]]


def samples(profile: str, shown: Snapshot, *, top: int = 100) -> Samples:
    """Values by name and label values, in the order in which the page has the labels."""
    found: Samples = {}
    for name, labels, value in parsed(page(profile, shown, top=top)):
        assert labels.pop("cluster") == "c1"
        series = found.setdefault(name, {})
        key = tuple(labels.values())
        assert key not in series, f"{name}{key} is there twice"
        series[key] = value
    return found


def view_of(shown: Snapshot, top: int = 100) -> View:
    return View(
        shown,
        Tally(from_zero=False),
        Asked(),
        Requests(total={}),
        NOW,
        up=True,
        top=top,
        queue=None,
        dropped={},
        failures={},
    )


def total(values: Iterable[float | None]) -> float:
    return sum(value for value in values if value is not None)


SHARED = ("process", "traces")  # with our own page

# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", COMPAT)
def test_families_are_the_originals(profile: str) -> None:
    served = {
        family.name: (family.type, frozenset(family.labels))
        for topic in catalogue.PROFILES[profile]
        if topic is not traces.TOPIC
        for family in topic.families
    }
    assert served == original(profile)


def test_families_of_traces_are_the_originals_with_the_host_and_the_user_on_all_that_processes_tell() -> None:
    told = ("cpu_usage", "mem_usage", "pid", "read_bytes", "threadcount", "write_bytes")
    expected: dict[str, tuple[str, tuple[str, ...]]]
    expected = {f"slurm_proc_{name}": ("gauge", ("jobid", "hostname", "username")) for name in told}
    expected |= {f"slurm_job_{name}_alloc": ("gauge", ("jobid",)) for name in ("cpu", "mem")}
    assert {family.name: (family.type, family.labels) for family in traces.TOPIC.families} == expected


@pytest.mark.parametrize("profile", COMPAT)
def test_every_family_is_on_the_page_with_the_labels_of_the_original(profile: str) -> None:
    for openmetrics in (False, True):
        names: dict[str, set[str]] = {}
        for name, labelled, _ in parsed(page(profile, FULL, openmetrics=openmetrics), openmetrics=openmetrics):
            first, *labels = labelled
            assert first == "cluster"
            names.setdefault(name, set()).update(labels)
        assert {name: frozenset(labels) for name, labels in names.items()} == {
            name: labels for name, (_, labels) in original(profile).items()
        }


@pytest.mark.parametrize("profile", catalogue.NAMES)
def test_no_name_is_twice_on_a_page(profile: str) -> None:
    names = [family.name for topic in catalogue.topics(profile) for family in topic.families]
    assert not [name for name, count in Counter(names).items() if count > 1]
    for openmetrics in (False, True):
        lines = page(profile, FULL, openmetrics=openmetrics).split("\n")
        types = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(types) == len(set(types))


def test_the_default_page_has_two_sets_of_names_that_do_not_meet() -> None:
    own, older = (
        {family.name for topic in catalogue.PROFILES[name] for family in topic.families}
        for name in ("slurmscope", "rivosinc")
    )
    shared = {family.name for topic in (health.PROCESS, traces.TOPIC) for family in topic.families}
    assert own & older == shared
    assert list(parsed(page("default", FULL, openmetrics=True), openmetrics=True))


def test_topics_have_names_of_their_own() -> None:
    topics = {id(topic): topic.name for topics in catalogue.PROFILES.values() for topic in topics}
    assert len(set(topics.values())) == len(topics)
    for profile in COMPAT:
        assert all(topic.name.startswith(profile) or topic.name in SHARED for topic in catalogue.PROFILES[profile])


TOPICS = [topic for profile in COMPAT for topic in catalogue.PROFILES[profile] if topic.name not in SHARED]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_needs_the_parts_that_it_says_and_no_other(topic: Topic[View]) -> None:
    needed = snapshot(**{part: EVERYTHING[part] for part in (topic.of, *topic.also) if part})
    assert render(topic, view_of(needed), "c1", openmetrics=False) == render(
        topic, view_of(FULL), "c1", openmetrics=False
    )


@pytest.mark.prometheus
@pytest.mark.parametrize("profile", (*COMPAT, "default"))
def test_promtool_reads_the_page(profile: str, promtool: str) -> None:
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page(profile, FULL).encode(), capture_output=True, check=False
    )
    # 3: it does not like names, which are what they are; 1 would be a page that cannot be read
    assert checked.returncode in (0, 3), checked.stderr


# --- states ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("IDLE", "idle"),
        ("MIXED", "mixed"),
        ("ALLOCATED", "allocated"),
        ("DOWN", "down"),
        ("DOWN NOT_RESPONDING", "down"),
        ("DOWN DRAIN", "drained"),
        ("IDLE DRAIN", "drained"),
        ("IDLE DRAIN MAINT", "drained"),
        ("MIXED DRAIN", "draining"),
        ("ALLOCATED DRAIN", "draining"),
        ("IDLE DRAIN COMPLETING", "draining"),
        ("ALLOCATED FAIL", "failing"),
        ("IDLE FAIL", "fail"),
        ("IDLE MAINT", "maint"),
        ("MIXED MAINT", "mixed"),
        ("DOWN MAINT", "down"),
        ("IDLE REBOOT_REQUESTED", "reboot"),
        ("DOWN DRAIN REBOOT_ISSUED", "reboot"),
        ("ALLOCATED REBOOT_REQUESTED", "allocated"),
        ("MIXED DRAIN REBOOT_REQUESTED", "draining"),
        ("ALLOCATED COMPLETING", "allocated"),
        ("MIXED COMPLETING", "completing"),
        ("IDLE COMPLETING", "completing"),
        ("DOWN COMPLETING", "down"),
        ("IDLE RESERVED", "reserved"),
        ("MIXED RESERVED", "mixed"),
        ("IDLE PLANNED", "planned"),
        ("MIXED PLANNED", "mixed"),
        ("IDLE PERFCTRS", "perfctrs"),
        ("IDLE BLOCKED", "blocked"),
        ("IDLE RESERVED NOT_RESPONDING", "idle"),
        ("IDLE CLOUD POWERED_DOWN", "idle"),
        ("ALLOCATED POWERING_UP", "allocated"),
        ("IDLE INVALID_REG", "inval"),
        ("DOWN INVALID_REG DRAIN", "inval"),
        ("FUTURE", "future"),
        ("UNKNOWN", "unknown"),
        ("ERROR", "error"),
        ("UNKNOWN NOVELTY", "unknown"),
    ],
)
def test_a_state_is_the_word_that_sinfo_prints(state: str, word: str) -> None:
    base, *flags = state.split()
    assert long_word(base, frozenset(flags)) == word


FLAGS = st.frozensets(st.sampled_from((*NODE_FLAGS, "NOVELTY")))


@given(st.sampled_from(NODE_BASE_STATES), FLAGS)
def test_every_state_has_a_word(base: str, flags: frozenset[str]) -> None:
    assert long_word(base, flags) in (*WORDS, "error")


@st.composite
def any_node(draw: Callable[[Any], Any]) -> Node:
    """A node with anything in it that Slurm could say."""
    cpus = draw(st.integers(0, 512))
    gpus = draw(st.dictionaries(st.sampled_from(["", "a100", "h100"]), st.integers(0, 8)))
    [template] = nodes_of(node_line("x", "IDLE", 1, 0))
    return msgspec.structs.replace(
        template,
        name=draw(st.sampled_from([f"n{i}" for i in range(9)])),
        state=draw(st.sampled_from(NODE_BASE_STATES)),
        flags=draw(FLAGS),
        cpus=cpus,
        cpus_effective=draw(st.integers(0, cpus)),
        cpus_allocated=draw(st.integers(0, cpus)),
        memory=draw(st.integers(0, GIB)),
        gpus=gpus,
        gpus_allocated={kind: draw(st.integers(0, count)) for kind, count in gpus.items()},
        load=draw(st.none() | st.floats(0, 1000)),
        memory_free=draw(st.none() | st.integers(0, GIB)),
    )


@given(st.lists(any_node(), unique_by=lambda node: node.name))
def test_whatever_the_nodes_are_the_numbers_add_up(nodes: list[Node]) -> None:
    shown = snapshot(nodes=tuple(nodes), reservations=EVERYTHING["reservations"])
    cpus, gpus = sum(node.cpus for node in nodes), sum(sum(node.gpus.values()) for node in nodes)

    sinfo = samples("sinfo", shown)
    for what in ("cpus", "gpus"):
        for key, all_there_is in sinfo.get(f"slurm_{what}_total", {}).items():
            uses = (sinfo[f"slurm_{what}_{use}"][key] for use in ("alloc", "idle", "drain"))
            assert sum(uses) == all_there_is
    assert sum(sinfo["slurm_cpus_total"].values()) == cpus
    assert sum(sinfo.get("slurm_gpus_total", {}).values()) == gpus
    states: Counter[str] = Counter()
    for (name, _), value in sinfo.get("slurm_node_states", {}).items():
        assert value in (0, 1)
        states[name] += int(value)
    assert states == {node.name: 1 for node in nodes}

    vpenso = {name: total(series.values()) for name, series in samples("vpenso", shown).items()}
    assert sum(vpenso[f"slurm_cpus_{use}"] for use in ("alloc", "idle", "other")) == vpenso["slurm_cpus_total"] == cpus
    assert vpenso["slurm_gpus_total"] == gpus >= vpenso["slurm_gpus_alloc"] + vpenso["slurm_gpus_idle"]

    rivosinc = samples("rivosinc", shown)
    assert sum(rivosinc["slurm_node_count_per_state"].values()) == len(nodes)
    assert sum(rivosinc["slurm_cpus_per_state"].values()) == rivosinc["slurm_cpus_total"][()] == cpus


# --- values ---------------------------------------------------------------------------------------------------


def test_the_node_of_the_first_readme() -> None:
    """32 of its 80 CPUs are allocated, so that 48 are idle; all of its 8 GPUs are, so that none is."""
    nodes = nodes_of(A006)
    shown = snapshot(nodes=nodes, reservations=())

    sinfo = samples("sinfo", shown)
    cpus = {use: sinfo[f"slurm_cpus_{use}"] for use in ("alloc", "idle", "drain", "total")}
    assert cpus == {use: {("None",): n} for use, n in {"alloc": 32, "idle": 48, "drain": 0, "total": 80}.items()}
    gpus = {use: sinfo[f"slurm_gpus_{use}"] for use in ("alloc", "idle", "drain", "total")}
    assert gpus == {use: {("rtx8000", "None"): n} for use, n in {"alloc": 8, "idle": 0, "drain": 0, "total": 8}.items()}
    assert sinfo["slurm_node_states"]["cn-a006", "mixed"] == 1

    vpenso = samples("vpenso", shown)
    assert [vpenso[f"slurm_cpus_{use}"][()] for use in ("alloc", "idle", "other", "total")] == [32, 48, 0, 80]
    assert [vpenso[f"slurm_gpus_{use}"][()] for use in ("alloc", "idle", "total", "utilization")] == [8, 0, 8, 1]
    there = ("cn-a006", "mixed")
    assert [vpenso[f"slurm_node_cpu_{use}"][there] for use in ("alloc", "idle", "other", "total")] == [32, 48, 0, 80]
    assert vpenso["slurm_node_mem_alloc"][there] == 48000
    assert vpenso["slurm_nodes_mix"][()] == 1

    rivosinc = samples("rivosinc", shown)
    assert rivosinc["slurm_cpus_total"][()] == 80
    assert rivosinc["slurm_cpus_idle"][()] == 48
    assert rivosinc["slurm_partition_alloc_cpus"]["main", "mixed"] == 32
    assert rivosinc["slurm_mem_alloc"][()] == 48000 * MIB

    own = samples("slurmscope", shown)
    uses = {use: own["slurm_node_cpus_by_use"]["cn-a006", use] for use in ("allocated", "idle", "other")}
    assert uses == {"allocated": 32, "idle": 48, "other": 0}
    uses = {use: n for (_, _, use), n in own["slurm_node_gpus_by_use"].items()}
    assert uses == {"allocated": 8, "idle": 0, "stranded": 0, "unavailable": 0}
    assert own["slurm_cluster_gpus"]["mixed", "", "", "rtx8000", "allocated"] == 8


def test_rivosinc_nodes() -> None:
    found = samples("rivosinc", FULL)
    assert found["slurm_node_count_per_state"] == {(word,): 0 for word in WORDS} | {
        ("mixed",): 1,
        ("allocated",): 1,
        ("idle",): 4,
        ("drained",): 2,
        ("draining",): 1,
        ("down",): 1,
        ("planned",): 1,
        ("reserved",): 1,
        ("maint",): 1,
        ("completing",): 1,
        ("failing",): 1,
        ("inval",): 1,
    }
    assert found["slurm_cpus_per_state"]["drained",] == 32
    assert found["slurm_cpus_total"][()] == 80 + 15 * 16
    # cn-a006, n2, n7, n8, n12 and n14: the others are full, drained, down, away or not answering
    assert found["slurm_cpus_idle"][()] == 48 + 16 + 16 + 16 + 16 + 13 + 16
    assert found["slurm_mem_real"][()] == 16 * 64000 * MIB
    assert found["slurm_mem_alloc"][()] == (48000 + 64000 + 1000) * MIB
    assert found["slurm_mem_free"][()] == 15 * 19993 * MIB  # one does not tell
    assert found["slurm_cpu_load"][()] == pytest.approx(15 * 1.73)
    assert found["slurm_partition_total_cpus"] == {("main",): 320, ("gpu",): 32, ("empty",): 0}
    assert found["slurm_partition_weight"]["gpu",] == 6
    assert found["slurm_partition_alloc_cpus"]["main", "draining"] == 5
    assert found["slurm_partition_alloc_mem"]["gpu", "allocated"] == 64000 * MIB
    assert found["slurm_partition_alloc_cpus"]["empty", "mixed"] == 0
    assert found["slurm_partition_node_count"]["gpu", "idle"] == 1


def test_rivosinc_jobs() -> None:
    found = samples("rivosinc", FULL)
    by_state: Counter[str] = Counter()
    for one in JOBS:
        by_state[one.state] += one.tasks
    assert {state: n for (state,), n in found["slurm_job_count_per_state"].items() if n} == by_state
    assert found["slurm_job_count_per_state"]["NODE_FAIL",] == 0
    for user in {one.user for one in JOBS}:
        for state in by_state:
            mine = [one for one in JOBS if (one.user, one.state) == (user, state)]
            for name, value in (
                ("slurm_user_state_total", sum(one.tasks for one in mine)),
                ("slurm_user_cpu_alloc", sum(one.tasks * one.cpus for one in mine)),
                ("slurm_user_mem_alloc", sum(one.tasks * (one.memory or 0) for one in mine)),
            ):
                assert found[name].get((user, state), 0) == value
    assert found["slurm_account_job_state_total"]["physics", "PENDING"] == 100
    assert found["slurm_account_job_state_cpu_alloc"]["bio", "PENDING"] == 12 - 2
    assert found["slurm_account_cpu_alloc"] == {("physics",): 8 + 4, ("bio",): 3 + 7 + 1}
    assert found["slurm_account_mem_alloc"] == {("physics",): 20 * GIB, ("bio",): 12 * GIB}
    jobs = found["slurm_partition_job_state_total"]
    assert (jobs["main", "PENDING"], jobs["gpu", "PENDING"], jobs["empty", "RUNNING"]) == (105, 100, 0)
    assert found["slurm_pending_reason_total"] == {("Priority",): 100, ("Dependency",): 5, ("JobHeldAdmin",): 1}
    assert found["slurm_feature_total"] == {("avx",): 103, ("gpu",): 1, ("sse",): 1, ("ib",): 100}
    assert found["slurm_feature_cpu_alloc"] == {("avx",): 11, ("gpu",): 8, ("sse",): 3, ("ib",): 0}
    assert found["slurm_feature_mem_alloc"]["avx",] == 20 * GIB


def test_rivosinc_the_rest() -> None:
    found = samples("rivosinc", FULL)
    assert found["slurm_rpc_user_total_time"] == {("root",): 9528, ("alice",): 4409, ("bob",): 1000}
    assert found["slurm_rpc_msg_type_avg_time"] == {("REQUEST_JOB_INFO",): 500}  # nobody asked the other
    assert found["slurm_rpc_msg_type_count"]["REQUEST_PING",] == 0
    assert found["slurm_backfill_cycle_count"] == found["slurm_backfill_cycle_counter"] == {(): 50}
    assert found["slurm_backfill_job_count"] == {(): 70}
    assert found["slurm_lic_free"] == {("matlab",): 6, ("none",): 0}
    assert found["slurm_account_cpu_limit"] == {("physics",): 100}
    assert found["slurm_account_mem_limit"] == {("physics",): 10 * GIB}
    assert found["slurm_account_job_alloc_limit"] == {("physics",): 0}  # none may run, which is a limit
    assert found["slurm_account_job_limit"] == {("physics",): 50}
    assert found["slurm_job_scrape_duration"] == found["slurm_diag_scrape_duration"] == {(): 250}
    assert found["job_scrape_errors"] == found["slurm_job_scrape_error"] == {(): 4}
    assert found["promhttp_metric_handler_requests_total"] == {("200",): 7, ("500",): 0, ("503",): 0}
    assert "How long the command [squeue --local --noheader" in page("rivosinc", FULL)


def test_vpenso() -> None:
    found = samples("vpenso", FULL)
    nodes = {name.removeprefix("slurm_nodes_"): value[()] for name, value in found.items() if "_nodes_" in name}
    assert nodes == {
        "alloc": 1,
        "comp": 1,
        "down": 1,
        "drain": 3,
        "err": 0,
        "fail": 1,
        "idle": 5,
        "maint": 1,
        "mix": 1,
        "resv": 1,
    }
    assert found["slurm_gpus_total"][()] == 8 + 4 + 4 + 2
    assert found["slurm_gpus_alloc"][()] == 9
    assert found["slurm_gpus_idle"][()] == 4  # three are stranded on n1, two are on a drained node
    assert found["slurm_gpus_utilization"][()] == 9 / 18
    queue = {
        name.removeprefix("slurm_queue_"): value[()] for name, value in found.items() if name.startswith("slurm_queue_")
    }
    assert {name: value for name, value in queue.items() if value} == {
        "pending": 106,
        "pending_dependency": 5,
        "running": 3,
        "suspended": 1,
        "completing": 1,
        "completed": 1,
        "timeout": 1,
    }
    assert found["slurm_partition_jobs_pending"] == {("main",): 106, ("gpu",): 100, ("empty",): 0}
    assert found["slurm_partition_cpus_other"]["gpu",] == 0
    assert found["slurm_account_jobs_pending"] == {("physics",): 100, ("bio",): 6}
    assert found["slurm_account_cpus_running"] == {("physics",): 8, ("bio",): 4}
    assert found["slurm_user_jobs_suspended"] == {("alice",): 0, ("bob",): 0, ("carol",): 0, ("dan",): 1}
    assert found["slurm_scheduler_queue_size"][()] == 4
    assert found["slurm_scheduler_last_cycle"][()] == 1500
    assert found["slurm_scheduler_backfill_last_cycle"][()] == 250_000
    assert found["slurm_scheduler_backfill_mean_cycle"][()] == 125_000
    assert found["slurm_scheduler_backfilled_jobs_since_cycle_total"][()] == 30
    assert found["slurm_account_fairshare"] == {("physics",): 0.25, ("lasers",): 0.75}


def test_sinfo() -> None:
    found = samples("sinfo", FULL)
    assert found["slurm_cpus_total"] == {("None",): 80 + 13 * 16, ("now",): 32}
    assert found["slurm_cpus_alloc"] == {("None",): 32 + 5 + 3 + 16, ("now",): 16}
    assert found["slurm_cpus_idle"] == {("None",): 48 + 4 * 16 + 13, ("now",): 16}
    assert found["slurm_gpus_drain"] == {
        ("rtx8000", "None"): 0,
        ("a100", "now"): 3,
        ("untyped", "now"): 0,
        ("a100", "None"): 2,
    }
    states = {name: state for (name, state), value in found["slurm_node_states"].items() if value}
    assert states["n4"] == "draining"
    assert states["n10"] == "power_down"
    assert states["n11"] == "not_responding"
    assert states["n7"] == "planned"  # which it had no word for
    assert len([key for key in found["slurm_node_states"] if key[0] == "n1"]) == 18
    assert found["slurm_job_states"]["pending",] == 105
    assert found["slurm_job_states"]["deadline",] == 0
    assert found["slurm_login_nodes"] == {("login-1",): 107, ("login-2",): 1}
    assert found["slurm_partitions"] == {("main",): 113, ("gpu",): 101, ("empty",): 0}


# --- the cap --------------------------------------------------------------------------------------------------


def test_names_beyond_the_cap_are_one() -> None:
    everyone, few = samples("rivosinc", FULL), samples("rivosinc", FULL, top=1)
    assert {user for user, _ in few["slurm_user_state_total"]} == {"alice", "other"}
    assert {account for (account,) in few["slurm_account_cpu_alloc"]} == {"physics", "other"}
    assert few["slurm_rpc_user_count"] == {("root",): 25, ("other",): 5}
    for name in ("slurm_user_cpu_alloc", "slurm_account_mem_alloc", "slurm_rpc_user_total_time"):
        assert total(few[name].values()) == total(everyone[name].values())
    assert {user for (user,) in samples("vpenso", FULL, top=2)["slurm_user_jobs_running"]} == {"alice", "dan", "other"}

    dropped = samples("default", FULL, top=1)["slurm_series_dropped"]
    assert dropped["slurm_user_state_total",] == 3
    assert dropped["slurm_rpc_user_count",] == 2


# --- little and nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", COMPAT)
def test_what_was_never_read_is_not_told(profile: str) -> None:
    found = samples(profile, Snapshot(cluster="c1"))
    assert all(name.startswith(("process_", "promhttp_")) or "scrape_" in name or "_error" in name for name in found)
    # partitions are known, what is in them is not
    found = samples(profile, snapshot(partitions=EVERYTHING["partitions"]))
    assert not [name for name in found if "partition" in name]


@pytest.mark.parametrize("profile", COMPAT)
@pytest.mark.parametrize("part", EVERYTHING)
def test_a_page_does_without_any_one_part(profile: str, part: str) -> None:
    parts = {name: value for name, value in EVERYTHING.items() if name != part}
    for openmetrics in (False, True):
        assert list(parsed(page(profile, snapshot(**parts), openmetrics=openmetrics), openmetrics=openmetrics))


@pytest.mark.parametrize("profile", COMPAT)
def test_an_empty_cluster_is_told_with_zeros(profile: str) -> None:
    found = samples(profile, snapshot(**EVERYTHING | {"nodes": (), "jobs": (), "partitions": (), "licenses": ()}))
    zeros = {
        "rivosinc": ["slurm_cpus_total", "slurm_mem_free", "slurm_job_count_per_state", "slurm_node_count_per_state"],
        "vpenso": ["slurm_cpus_total", "slurm_gpus_total", "slurm_queue_pending", "slurm_nodes_idle"],
        "sinfo": ["slurm_cpus_total", "slurm_job_states"],
    }[profile]
    for name in zeros:
        assert set(found[name].values()) == {0}
    assert "slurm_gpus_utilization" not in found


def test_nothing_was_run_yet() -> None:
    exporter = next(topic for topic in TOPICS if topic.name == "rivosinc exporter")
    text = render(exporter, view_of(Snapshot()), "", openmetrics=False).plain.decode()
    assert "scrape_duration" not in text
    assert 'job_scrape_errors{cluster=""} 0\n' in text
