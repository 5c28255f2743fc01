# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers against what squeue, sinfo and scontrol say, computed here and independently."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import pytest
from lab.cluster import Lab
from lab.page import Page, at_one_moment, page_of

MIB = 2**20
PROFILES = ["default", "slurmscope", "rivosinc", "vpenso", "sinfo"]


def ask(lab: Lab, *argv: str) -> list[str]:
    return lab.run(*argv).stdout.decode().splitlines()


def fields(lab: Lab, *argv: str) -> list[list[str]]:
    return [line.split("|") for line in ask(lab, *argv)]


@pytest.mark.parametrize("profile", PROFILES)
def test_promtool_can_read_every_page(lab: Lab, profile: str, promtool: str) -> None:
    page = page_of(lab.bin, profile)
    done = subprocess.run([promtool, "check", "metrics"], input=page.text.encode(), capture_output=True, check=False)
    if profile == "slurmscope":
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    else:  # the older names are not what it would choose, but they must parse
        assert b"error while linting" not in done.stderr
        assert done.returncode in (0, 3)
    assert page.samples


def test_every_series_has_the_cluster(lab: Lab) -> None:
    page = page_of(lab.bin, "default")
    for name, samples in page.samples.items():
        assert {labels["cluster"] for labels, _ in samples} == {lab.cluster}, name


SEA = range(1, 3001, 7)  # the tasks of the lab's large array
SQUEUE = ("squeue", "-r", "-a", "-h", "-t", "all", "-o")


def queue_counts(lab: Lab) -> list[list[str]]:
    """State, partition, account, QOS, user, reason, CPUs, nodes of every task."""
    return sorted(with_last_of_sea(fields(lab, *SQUEUE, "%T|%P|%a|%q|%u|%r|%C|%D|%F")))


def with_last_of_sea(rows: list[list[str]]) -> list[list[str]]:
    """`squeue -r` loses the last task of the array 1-3000:7, which slurmctld and `squeue` without -r have."""
    ((id_, _),) = Counter(row[-1] for row in rows).most_common(1)
    sea = [row for row in rows if row[-1] == id_]
    assert len(sea) in (len(SEA), len(SEA) - 1)
    return rows + [sea[0]] * (len(SEA) - len(sea))


def test_jobs_by_state_partition_account_qos_and_user(lab: Lab) -> None:
    rows, page = at_one_moment(lambda: queue_counts(lab), lambda: page_of(lab.bin))
    assert len(rows) > 400, "the large array is there, task by task"
    assert page.by("slurm_queue_jobs", "state") == Counter((row[0].lower(),) for row in rows)
    assert page.by("slurm_partition_queue_jobs", "partition", "state") == Counter(
        (partition, row[0].lower()) for row in rows for partition in row[1].split(",")
    )
    for at, label in ((2, "account"), (3, "qos"), (4, "user")):
        expected = Counter((row[at], row[0].lower()) for row in rows)
        assert page.by(f"slurm_{label}_queue_jobs", label, "state") == expected
    for at, quantity in ((6, "cpus"), (7, "nodes")):
        held: Counter[tuple[str, ...]] = Counter()
        for row in rows:
            held[row[0].lower(),] += int(row[at])
        assert page.by(f"slurm_queue_{quantity}", "state") == +held
    assert page.by("slurm_queue_pending_jobs", "partition", "reason") == Counter(
        (partition, re.split("[,:]", row[5])[0])
        for row in rows
        if row[0] == "PENDING"
        for partition in row[1].split(",")
    )
    assert "dana.o-neil" in {user for user, _ in page.by("slurm_user_queue_jobs", "user", "state")}


def job_tres(lab: Lab) -> list[list[str]]:
    rows = fields(lab, "squeue", "-r", "-a", "-h", "-t", "all", "-O", "State:|,UserName:|,tres-alloc:|,ArrayJobID:")
    return sorted(with_last_of_sea(rows))


def amount(tres: str, name: str) -> int:
    found = re.search(rf"(?:^|,){re.escape(name)}=([0-9.]+)([KMGT]?)", tres)
    if not found:
        return 0
    scale = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}[found[2]]
    return round(float(found[1]) * scale)


def test_memory_and_gpus_of_jobs(lab: Lab) -> None:
    rows, page = at_one_moment(lambda: job_tres(lab), lambda: page_of(lab.bin))
    memory: Counter[tuple[str, ...]] = Counter()
    gpus: Counter[tuple[str, ...]] = Counter()
    for state, user, tres, *_ in rows:
        memory[user, state.lower()] += amount(tres, "mem")
        gpus[user, state.lower()] += amount(tres, "gres/gpu")
    assert page.by("slurm_user_queue_memory_bytes", "user", "state") == +memory
    assert page.by("slurm_user_queue_gpus", "user", "state") == +gpus
    assert sum(gpus.values()) >= 5, "the lab's GPU jobs are there"


def sinfo_nodes(lab: Lab) -> list[list[str]]:
    """Name, partitions' state word, CPUs A/I/O/T, memory, allocated memory, GPUs, used GPUs of each node."""
    rows = fields(
        lab,
        "sinfo",
        "-a",
        "-N",
        "-h",
        "-O",
        "NodeList:|,CPUsState:|,Memory:|,AllocMem:|,Gres:|,GresUsed:|,StateLong:|,Weight:|",
    )
    return sorted({row[0]: row for row in rows}.values())


def gpu_count(gres: str) -> int:
    return sum(int(found) for found in re.findall(r"gpu:(?:[^:,(]+:)?(\d+)", gres))


def test_cpus_memory_and_gpus_of_nodes(lab: Lab) -> None:
    rows, page = at_one_moment(lambda: sinfo_nodes(lab), lambda: page_of(lab.bin))
    assert len(rows) == 6
    for name, cpus, memory, allocated_memory, gres, used, _, weight, *_ in rows:
        allocated, idle, other, total = map(int, cpus.split("/"))
        found = page.by("slurm_node_cpus_by_use", "use", node=name)
        assert [found.get((use,), 0) for use in ("allocated", "idle", "other")] == [allocated, idle, other], name
        assert sum(found.values()) == total
        found = page.by("slurm_node_memory_by_use_bytes", "use", node=name)
        assert sum(found.values()) == int(memory) * MIB
        assert found.get(("allocated",), 0) == int(allocated_memory) * MIB
        found = page.by("slurm_node_gpus_by_use", "type", "use", node=name)
        assert sum(found.values()) == gpu_count(gres)
        assert found.get(("rtx8000", "allocated"), 0) == gpu_count(used)
        assert page.sum("slurm_node_weight", node=name) == int(weight)
    totals = [sum(int(row[1].split("/")[at]) for row in rows) for at in range(3)]
    assert [page.sum("slurm_cluster_cpus", use=use) for use in ("allocated", "idle", "other")] == totals


def node_states(lab: Lab) -> dict[str, str]:
    """Each node's state, of `scontrol show node NAME`."""
    names = sorted({row[0] for row in fields(lab, "sinfo", "-a", "-N", "-h", "-o", "%N|")})
    found = {}
    for name in names:
        text = lab.run("scontrol", "show", "node", name).stdout.decode()
        state = re.search(r"^\s*State=(\S+)", text, re.MULTILINE)
        assert state
        found[name] = state[1]
    return found


def test_states_flags_and_reasons_of_nodes(lab: Lab) -> None:
    states, page = at_one_moment(lambda: node_states(lab), lambda: page_of(lab.bin))
    for name, written in states.items():
        base, *flags = written.lower().split("+")
        assert page.by("slurm_node_state", "node", "state", node=name) == {(name, base): 1}
        assert page.by("slurm_node_flag", "flag", node=name) == {(flag,): 1 for flag in flags}
    together = Counter(tuple(written.lower().partition("+")[::2]) for written in states.values())
    assert page.by("slurm_cluster_nodes", "state", "flags") == together
    assert page.sum("slurm_cluster_nodes") == len(states) == 6
    assert page.by("slurm_node_reason_info", "node", "reason", "user") == {("n3", "bad dimm | slot 3", "root"): 1}


def test_partitions(lab: Lab) -> None:
    def ask_partitions() -> list[list[str]]:
        return sorted(fields(lab, "sinfo", "-a", "-h", "-o", "%R|%a|%C|%D|%T"))

    rows, page = at_one_moment(ask_partitions, lambda: page_of(lab.bin))
    uses: dict[str, list[int]] = {}
    nodes: Counter[str] = Counter()
    for name, up, cpus, count, _ in rows:
        assert page.sum("slurm_partition_state", partition=name, state=up) == 1
        parts = [int(part) for part in cpus.split("/")]
        uses[name] = [a + b for a, b in zip(uses.get(name, [0] * 4), parts, strict=True)]
        nodes[name] += int(count)
    assert set(uses) == {"main", "gpu", "all", "night"}
    for name, (allocated, idle, other, _) in uses.items():
        found = page.by("slurm_partition_cpus_by_use", "use", partition=name)
        assert [found.get((use,), 0) for use in ("allocated", "idle", "other")] == [allocated, idle, other], name
        assert page.sum("slurm_partition_nodes_by_state", partition=name) == nodes[name]


def test_what_could_start_now(lab: Lab) -> None:
    """By hand: nodes that sinfo calls idle or mixed, less the reserved one, with memory to spare."""
    rows, page = at_one_moment(lambda: sinfo_nodes(lab), lambda: page_of(lab.bin))
    free = {}
    for name, cpus, memory, allocated_memory, gres, used, state, *_ in rows:
        idle = int(cpus.split("/")[1])
        if state in ("idle", "mixed", "planned") and name != "n2" and idle and int(memory) > int(allocated_memory):
            free[name] = idle, gpu_count(gres) - gpu_count(used)
    for partition, first in (("main", "n"), ("gpu", "g"), ("all", "")):
        here = [amounts for name, amounts in free.items() if name.startswith(first)]
        assert page.sum("slurm_partition_startable_cpus", partition=partition) == sum(cpus for cpus, _ in here)
        assert page.sum("slurm_partition_startable_gpus", partition=partition) == sum(gpus for _, gpus in here)
        assert page.sum("slurm_partition_largest_cpus", partition=partition) == max(
            (cpus for cpus, _ in here), default=0
        )
        assert page.sum("slurm_partition_startable_nodes", partition=partition) == len(here)


def test_licenses_and_reservations(lab: Lab) -> None:
    rows, page = at_one_moment(lambda: ask(lab, "scontrol", "show", "lic", "-o"), lambda: page_of(lab.bin))
    for row in rows:
        pairs = dict(re.findall(r"(\w+)=(\S*)", row))
        name = pairs["LicenseName"]
        assert page.sum("slurm_license_capacity", license=name) == int(pairs["Total"])
        assert page.sum("slurm_license_seats", license=name, use="used") == int(pairs["Used"])
        assert page.sum("slurm_license_seats", license=name, use="free") == int(pairs["Free"])
    active = {line.split()[0] for line in ask(lab, "sinfo", "-T", "-h") if " ACTIVE " in line}
    assert active
    assert {name for (name,) in page.by("slurm_reservation_active", "reservation")} == active
    assert page.sum("slurm_cluster_nodes") == 6


def test_fair_shares(lab: Lab) -> None:
    def ask_shares() -> list[list[str]]:
        return fields(lab, "sshare", "-a", "-P", "-n", "-o", "Account,User,RawShares,NormShares,RawUsage,FairShare")

    rows, page = at_one_moment(ask_shares, lambda: page_of(lab.bin))
    assert len(rows) > 6
    for account, user, raw, norm, usage, factor in rows:
        labels = {"account": account.strip(), "user": user}
        if raw:
            assert page.sum("slurm_share_raw_shares", **labels) == int(raw)
        assert page.sum("slurm_share_norm_shares", **labels) == float(norm or 0)
        assert page.sum("slurm_share_raw_usage", **labels) == float(usage)
        assert page.sum("slurm_share_factor", **labels) == float(factor or 0)


def test_limits_with_usage(lab: Lab) -> None:
    def ask_physics() -> str:
        return lab.run("scontrol", "show", "assoc_mgr", "flags=assoc", "accounts=physics", "users=''").stdout.decode()

    text, page = at_one_moment(ask_physics, lambda: page_of(lab.bin))
    found = re.search(r"Account=physics UserName= .*?GrpTRES=cpu=(\d+)\((\d+)\)", text, re.DOTALL)
    assert found, text
    labels = {"kind": "association", "account": "physics", "user": "", "name": "GrpTRES", "tres": "cpu"}
    assert page.sum("slurm_limit", **labels) == int(found[1])
    assert page.sum("slurm_limit_used", **labels) == int(found[2])
    assert page.sum("slurm_limit_headroom", **labels) == int(found[1]) - int(found[2])


def sdiag_numbers(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"^(Jobs \w+):\s+(\d+)$", text, re.MULTILINE)}


def test_scheduler_statistics(lab: Lab) -> None:
    found, page = at_one_moment(lambda: sdiag_numbers(lab.run("sdiag").stdout.decode()), lambda: page_of(lab.bin))
    for event in ("submitted", "started", "completed", "canceled", "failed"):
        assert page.sum("slurm_scheduler_job_events_total", event=event) == found[f"Jobs {event}"]
    assert page.sum("slurm_user_rpcs_total", user="dana.o-neil") > 0, "a name with a dot stays whole"


def test_controllers_and_version(lab: Lab) -> None:
    page = page_of(lab.bin)
    assert page.sum("slurm_up") == 1
    assert page.sum("slurm_controller_up", role="primary") == 1
    assert page.sum("slurm_dbd_up") == 1
    ((version,),) = page.by("slurm_version_info", "version")
    assert version.startswith(lab.generation)
    assert {part for (part,) in page.by("slurm_part_up", "part")} >= {"jobs", "nodes", "shares", "limits", "accounting"}
    assert page.sum("slurm_part_rows_skipped") == 0


def test_the_older_pages_agree_with_ours(lab: Lab) -> None:
    def look() -> Page:
        return Page(page_of(lab.bin, "default").text)

    rows, page = at_one_moment(lambda: sinfo_nodes(lab), look)
    assert (
        page.sum("slurm_cpus_total") == page.sum("slurm_cluster_cpus") == sum(int(row[1].split("/")[3]) for row in rows)
    )
    assert page.sum("slurm_cpus_idle") == page.sum("slurm_cluster_cpus", use="idle")
    assert page.sum("slurm_mem_real") == page.sum("slurm_cluster_memory_bytes")
    assert page.sum("slurm_partition_job_state_total", state="RUNNING") == page.sum(
        "slurm_partition_queue_jobs", state="running"
    )
