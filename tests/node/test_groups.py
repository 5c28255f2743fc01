# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of cgroups: parsers, trees made by hand, and real groups of this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from node.real import groups, trees
from node.trees import files

from slurmscope.measure import Pressure
from slurmscope.node.groups import (
    Figures,
    Missed,
    figures,
    local,
    parse_blkio,
    parse_cpus,
    parse_io,
    parse_keyed,
    parse_limit,
    parse_number,
    parse_pressure,
    processes,
    read,
)
from slurmscope.node.mounts import V2

MIB = 1 << 20
NOBODY = 65534
COUNTERS = st.integers(0, 2**64 - 1)

# --- parsers ----------------------------------------------------------------------------------------------------------

PARSERS: list[Callable[[bytes], Any]] = [
    parse_number,
    parse_limit,
    parse_keyed,
    parse_cpus,
    parse_pressure,
    parse_io,
    parse_blkio,
]
ODD = b"some full total= rbytes= wbytes=8:0 Read Write\n 0123456789-,max"


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.binary() | st.lists(st.sampled_from([bytes([one]) for one in ODD]), max_size=60).map(b"".join))
@example(text=b"9" * 5000)  # more digits than Python makes a number of
@example(text=b"some total=" + b"9" * 5000)
@example(text=b"some total=" + b"9" * 400)  # a number, and more than a float can be
@example(text=b"8:0 rbytes=" + b"9" * 5000)
@example(text=b"a " + b"9" * 5000)
@example(text=b"8:0 Read " + b"9" * 5000)
@example(text=b"0-" + b"9" * 5000)
def test_no_parser_fails_over_anything(parse: Callable[[bytes], Any], text: bytes) -> None:
    parse(text)


@given(COUNTERS)
def test_numbers(number: int) -> None:
    assert parse_number(b"%d\n" % number) == number
    assert parse_limit(b"%d\n" % number) == (number if number < 1 << 60 else None)


@pytest.mark.parametrize("text", [b"max\n", b"", b"\n", b"1 2", b"0x10", b"1.5", b"nan", "٣".encode()])
def test_what_is_no_number(text: bytes) -> None:
    assert parse_number(text) is None
    assert parse_limit(text) is None


@pytest.mark.parametrize(
    "text", [b"9223372036854771712\n", b"9223372036854775807\n", b"9223372036854710272\n", b"-1\n"]
)
def test_how_version_1_writes_that_there_is_no_limit(text: bytes) -> None:
    """By the size of a page, 4 or 64 KiB; -1 is how it is asked for."""
    assert parse_limit(text) is None


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,30}", fullmatch=True), COUNTERS))
def test_names_and_numbers(stat: dict[str, int]) -> None:
    text = "".join(f"{name} {value}\n" for name, value in stat.items())
    assert parse_keyed(text.encode()) == stat
    assert parse_keyed(b"broken\nmore x\n\n \xff\n" + text.encode()) == stat


def ranges(cpus: set[int]) -> str:
    """As the kernel writes them."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus(cpus: set[int]) -> None:
    assert parse_cpus(f"{ranges(cpus)}\n".encode()) == sorted(cpus)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,7\n", [0, 1, 2, 3, 7]), ("\n", []), ("x", []), ("3-1,5", [5]), ("-1", []), ("0-99999999999,2", [2])],
)
def test_odd_lists_of_cpus(text: str, cpus: list[int]) -> None:
    assert parse_cpus(text.encode()) == cpus


@given(COUNTERS, st.none() | COUNTERS)
def test_pressure(some: int, full: int | None) -> None:
    text = f"some avg10=1.53 avg60=0.00 avg300=0.00 total={some}\n"
    if full is not None:
        text += f"full avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
    assert parse_pressure(text.encode()) == Pressure(some / 1e6, None if full is None else full / 1e6)


@pytest.mark.parametrize("text", [b"", b"full avg10=0.00 total=5\n", b"awesome total=5\n", b"some avg10=0.00\n"])
def test_no_pressure(text: bytes) -> None:
    assert parse_pressure(text) is None


@given(st.lists(st.tuples(COUNTERS, COUNTERS), max_size=5))
def test_bytes_of_devices_are_summed(devices: list[tuple[int, int]]) -> None:
    two = "".join(
        f"{8 + at}:0 rbytes={read} wbytes={written} rios=9 wios=9 dbytes=77 dios=9\n"
        for at, (read, written) in enumerate(devices)
    )
    one = "".join(
        f"{8 + at}:0 Read {read}\n{8 + at}:0 Write {written}\n{8 + at}:0 Sync 5\n{8 + at}:0 Async 5\n"
        f"{8 + at}:0 Discard 77\n{8 + at}:0 Total {read + written}\n"
        for at, (read, written) in enumerate(devices)
    )
    sums = sum(one for one, _ in devices), sum(one for _, one in devices)
    assert parse_io(two.encode()) == sums
    assert parse_blkio((one + f"Total {sum(sums)}\n").encode()) == (sums if devices else None)


def test_devices_that_tell_nothing() -> None:
    """A kernel lists a device without figures where another policy than that of counting uses it."""
    assert parse_io(b"253:0 \n8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n7:0 cost.usage=3\n") == (4096, 0)


# --- trees made by hand -----------------------------------------------------------------------------------------------

# Linux 6.1; of memory.stat some lines
STAT_V2 = """\
anon 104857600
file 73400320
kernel 1064960
kernel_stack 114688
pagetables 466944
sock 0
shmem 20971520
file_mapped 4096
file_dirty 0
swapcached 8192
anon_thp 0
inactive_anon 104857600
active_anon 20971520
slab_reclaimable 300000
workingset_refault_anon 0
pgfault 41000
"""
JOB_V2 = {
    "cpu.stat": (
        "usage_usec 12500000\nuser_usec 10000000\nsystem_usec 2500000\ncore_sched.force_idle_usec 0\n"
        "nr_periods 40\nnr_throttled 7\nthrottled_usec 350000\nnr_bursts 0\nburst_usec 0\n"
    ),
    "cpuset.cpus": "\n",
    "cpuset.cpus.effective": "0-3,8-11\n",
    "memory.current": "180355072\n",
    "memory.stat": STAT_V2,
    "memory.peak": "209715200\n",
    "memory.max": "1073741824\n",
    "memory.swap.current": "12288\n",
    "memory.events": "low 0\nhigh 0\nmax 31\noom 3\noom_kill 2\noom_group_kill 0\n",
    "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=0\n",
    "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=20\nfull avg10=0.00 total=10\n",
    "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 total=2000000\n",
    "io.stat": (
        "259:0 rbytes=1000 wbytes=200 rios=3 wios=1 dbytes=5 dios=1\n"
        "8:0 rbytes=30 wbytes=4 rios=1 wios=1 dbytes=0 dios=0\n"
    ),
}
FIGURES_V2 = Figures(
    cpus=8,
    cpu_seconds=12.5,
    user_seconds=10.0,
    system_seconds=2.5,
    throttled_seconds=0.35,
    throttled_periods=7,
    memory=180355072,
    anonymous=100 * MIB,
    file=50 * MIB,
    shared=20 * MIB,
    swap=12288,
    peak=200 * MIB,
    limit=1 << 30,
    oom_kills=2,
    cpu_pressure=Pressure(1.5, 0.0),
    memory_pressure=Pressure(2e-05, 1e-05),
    io_pressure=Pressure(3.0, 2.0),
    device_read_bytes=1030,
    device_written_bytes=204,
)
MEMORY_V1 = {
    "memory.usage_in_bytes": "190000000\n",
    "memory.max_usage_in_bytes": "200000000\n",
    "memory.limit_in_bytes": "1073741824\n",
    "memory.stat": (
        "cache 0\nrss 0\nrss_huge 0\nshmem 0\nmapped_file 0\nswap 0\npgfault 0\n"
        "hierarchical_memory_limit 1073741824\nhierarchical_memsw_limit 9223372036854771712\n"
        "total_cache 73400320\ntotal_rss 104857600\ntotal_rss_huge 0\ntotal_shmem 20971520\n"
        "total_mapped_file 4096\ntotal_swap 12288\ntotal_pgfault 41000\n"
    ),
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}
JOB_V1: dict[str, dict[str, str]] = {
    "cpuacct": {
        "cpuacct.usage": "12500000000\n",
        "cpuacct.stat": f"user {10 * os.sysconf('SC_CLK_TCK')}\nsystem {os.sysconf('SC_CLK_TCK') // 4}\n",
        "cpuacct.usage_percpu": "0 4000000000 8500000000 0 \n",
    },
    "memory": MEMORY_V1,
    "cpuset": {"cpuset.cpus": "1-3\n"},
    "cpu": {"cpu.stat": "nr_periods 40\nnr_throttled 7\nthrottled_time 350000000\n"},
    "blkio": {
        "blkio.throttle.io_service_bytes_recursive": "8:0 Read 1030\n8:0 Write 204\n8:0 Total 1234\nTotal 1234\n",
        "blkio.throttle.io_service_bytes": "Total 0\n",
    },
    "freezer": {"freezer.state": "THAWED\n"},
    "devices": {"devices.list": "a *:* rwm\n"},
    "pids": {"pids.current": "3\n"},
}
FIGURES_V1 = Figures(
    cpus=3,
    cpu_seconds=12.5,
    user_seconds=10.0,
    system_seconds=0.25,
    core_seconds={1: 4.0, 2: 8.5, 3: 0.0},
    throttled_seconds=0.35,
    throttled_periods=7,
    memory=190000000,
    anonymous=100 * MIB,
    file=50 * MIB,
    shared=20 * MIB,
    swap=12288,
    peak=200000000,
    limit=1 << 30,
    oom_kills=2,
    device_read_bytes=1030,
    device_written_bytes=204,
)


def looked(places: dict[str, str]) -> tuple[Figures, dict[str, int]]:
    missed = Missed()
    return figures(places, missed), missed.counts


def made_v1(root: Path, *controllers: str) -> dict[str, str]:
    return {name: str(files(root / name, JOB_V1[name])) for name in controllers or JOB_V1}


def test_all_of_version_2(tmp_path: Path) -> None:
    assert looked({V2: str(files(tmp_path, JOB_V2))}) == (FIGURES_V2, {})


def test_all_of_version_1(tmp_path: Path) -> None:
    assert looked(made_v1(tmp_path)) == (FIGURES_V1, {})


def test_version_2_without_controllers(tmp_path: Path) -> None:
    """Processor time and pressure are told of every group; all else needs its controller."""
    always = ("cpu.stat", "cpu.pressure", "memory.pressure", "io.pressure")
    texts = {name: JOB_V2[name] for name in always} | {"cpu.stat": "usage_usec 3\nuser_usec 2\nsystem_usec 1\n"}
    found = Figures(cpu_seconds=3e-06, user_seconds=2e-06, system_seconds=1e-06)
    for name in ("cpu_pressure", "memory_pressure", "io_pressure"):
        setattr(found, name, getattr(FIGURES_V2, name))
    assert looked({V2: str(files(tmp_path, texts))}) == (found, {})


@pytest.mark.parametrize(
    ("controller", "told"),
    [
        ("cpuacct", {"cpu_seconds", "user_seconds", "system_seconds", "core_seconds"}),
        ("memory", {"memory", "anonymous", "file", "shared", "swap", "peak", "limit", "oom_kills"}),
        ("cpuset", {"cpus"}),
        ("cpu", {"throttled_seconds", "throttled_periods"}),
        ("blkio", {"device_read_bytes", "device_written_bytes"}),
        ("freezer", set()),
    ],
)
def test_each_controller_of_version_1_tells_its_own(controller: str, told: set[str], tmp_path: Path) -> None:
    found, missed = looked(made_v1(tmp_path, controller))
    wanted = {name: getattr(FIGURES_V1, name) for name in told}
    if controller == "cpuacct":
        wanted["core_seconds"] = {1: 4.0, 2: 8.5}  # nobody tells of those that it may use and did not
    assert {name: value for name, value in msgspec.structs.asdict(found).items() if value is not None} == wanted
    assert missed == {}


@pytest.mark.parametrize(
    ("name", "text", "changed"),
    [
        ("memory.max", "max\n", {"limit": None}),
        ("memory.peak", "", {"peak": None}),
        (
            "memory.current",
            "",
            dict.fromkeys(("memory", "anonymous", "file", "shared", "swap", "peak", "limit", "oom_kills")),
        ),
        ("memory.stat", "anon 5\n", {"anonymous": 5, "shared": None, "file": None}),
        ("memory.stat", "file 5\n", {"anonymous": None, "shared": None, "file": 5}),
        # its counts are of each processor, and are not added up at one moment
        ("memory.stat", "file 4096\nshmem 8192\n", {"anonymous": None, "shared": 8192, "file": 0}),
        ("cpuset.cpus.effective", "\n", {"cpus": None}),
        ("io.stat", "", {"device_read_bytes": 0, "device_written_bytes": 0}),
        ("memory.events", "low 0\n", {"oom_kills": None}),  # before Linux 4.13
        ("cpu.pressure", "some avg10=0.00 total=5000000\n", {"cpu_pressure": Pressure(5.0)}),  # before Linux 5.13
    ],
)
def test_what_one_file_tells(name: str, text: str, changed: dict[str, Any], tmp_path: Path) -> None:
    found, missed = looked({V2: str(files(tmp_path, JOB_V2 | {name: text}))})
    assert found == msgspec.structs.replace(FIGURES_V2, **changed)
    assert missed == {}


def test_no_limit_in_version_1(tmp_path: Path) -> None:
    places = made_v1(tmp_path)
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert looked(places)[0].limit is None


def test_a_kernel_that_does_not_count_devices_in_version_1_tells_nothing(tmp_path: Path) -> None:
    places = {"blkio": str(files(tmp_path, {"blkio.throttle.io_service_bytes_recursive": "Total 0\n"}))}
    assert looked(places) == (Figures(), {})


def test_files_are_empty(tmp_path: Path) -> None:
    found, missed = looked({V2: str(files(tmp_path / "two", dict.fromkeys(JOB_V2, "")))})
    assert found == Figures(device_read_bytes=0, device_written_bytes=0)  # so a job has it that used no device
    assert missed == {}
    places = {name: str(files(tmp_path / name, dict.fromkeys(texts, ""))) for name, texts in JOB_V1.items()}
    found, missed = looked(places)
    assert found == Figures(core_seconds={})
    assert missed == {}


def test_the_folder_has_gone(tmp_path: Path) -> None:
    places = {name: str(tmp_path / "gone") for name in (V2, *JOB_V1)}
    assert looked(places) == (Figures(), {})


@pytest.mark.parametrize("name", sorted(set(JOB_V2) - {"cpuset.cpus", "memory.current"}))
def test_a_file_that_is_a_folder_costs_only_what_it_would_have_told(name: str, tmp_path: Path) -> None:
    places = {V2: str(files(tmp_path, JOB_V2))}
    whole, _ = looked(places)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    found, missed = looked(places)
    assert missed == {"error": 1}
    before, after = msgspec.structs.asdict(whole), msgspec.structs.asdict(found)
    lost = {key for key in before if before[key] != after[key]}
    assert lost
    assert all(after[key] is None for key in lost)


def as_nobody(look: Callable[[], Any]) -> Any:
    """What is found by one that has no privileges."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(writing, json.dumps(look()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = json.loads(told.read())
    os.waitpid(pid, 0)
    return found


def test_files_that_are_closed_to_us_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = ("memory.current", "io.pressure", "cgroup.procs")
    files(tmp_path, dict.fromkeys(closed, "5\n") | {"cpu.stat": "usage_usec 2000000\n"})
    for name in closed:
        (tmp_path / name).chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the folders above it are closed to others

    def look() -> Any:
        missed = Missed()
        found = figures({V2: "."}, missed)
        return found.cpu_seconds, found.memory, processes({V2: "."}, missed), missed.counts

    assert as_nobody(look) == [2.0, None, {}, {"permission": 3}]


def test_kills_of_version_1_are_told_by_each_folder(tmp_path: Path) -> None:
    files(tmp_path / "step_0", {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"})
    files(tmp_path / "step_1", {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"})
    missed = Missed()
    found = [local({"memory": str(tmp_path)}, name, missed) for name in ("step_0", "step_1", "gone")]
    assert [one.oom_kills for one in found] == [3, 0, 0]
    assert missed.counts == {}


# --- processes --------------------------------------------------------------------------------------------------------


def put(folder: Path, *pids: int) -> None:
    files(folder, {"cgroup.procs": "".join(f"{pid}\n" for pid in pids)})


def listed(places: dict[str, str]) -> tuple[dict[int, str], dict[str, int]]:
    missed = Missed()
    return processes(places, missed), missed.counts


def test_the_processes_of_a_job_and_where_they_are(tmp_path: Path) -> None:
    put(tmp_path)
    put(tmp_path / "step_0")
    put(tmp_path / "step_0/slurm", 10)
    put(tmp_path / "step_0/user/task_0", 11, 12)
    put(tmp_path / "step_0/user/task_1", 13)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "step_0")
    assert listed({V2: str(tmp_path)}) == (
        {10: "step_0/slurm", 11: "step_0/user/task_0", 12: "step_0/user/task_0", 13: "step_0/user/task_1"},
        {},
    )


def test_processes_of_another_namespace_are_missed(tmp_path: Path) -> None:
    put(tmp_path, 0, 5, 0)
    assert listed({V2: str(tmp_path)}) == ({5: ""}, {"namespace": 2})


def test_a_controller_without_processes_is_passed_over(tmp_path: Path) -> None:
    for name in ("memory", "freezer", "devices"):
        put(tmp_path / name / "step_0", *((7,) if name == "freezer" else ()))
    places = {name: str(tmp_path / name) for name in ("devices", "freezer", "memory")}
    assert listed(places) == ({7: "step_0"}, {})
    assert listed({"memory": places["memory"]}) == ({}, {})
    assert listed({}) == ({}, {})


def test_very_deep_groups_end_the_walk(tmp_path: Path) -> None:
    """Whoever may make groups may make them as deep as a path can be."""
    folder = tmp_path
    for depth in range(1, 40):
        put(folder, depth)
        folder /= "d"
    found, missed = listed({V2: str(tmp_path)})
    assert set(found) == set(range(1, 18))
    assert missed == {}


def test_many_lines_are_all_read(tmp_path: Path) -> None:
    put(tmp_path, *range(1, 30_000))
    assert set(listed({V2: str(tmp_path)})[0]) == set(range(1, 30_000))


def test_of_what_a_user_made_long_only_so_much_is_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(1 << 24))
    assert len(read(str(tmp_path / "long"), Missed(), 1 << 20) or b"") == 1 << 20


# --- real groups ------------------------------------------------------------------------------------------------------

MANY = """
import os, sys
for _ in range(700):
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("controller", [V2, "memory", "freezer"])
def test_hundreds_of_real_processes_in_one_group(controller: str) -> None:
    """The kernel gives them a page at a time."""
    where = trees(controller)
    with groups(where, "slurmscope-test-many") as made:
        process = made.start("step_0", [sys.executable, "-c", MANY], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found, missed = listed({controller: str(made.folder(controller, ""))})
        assert len(found) == 701
        assert found[process.pid] == "step_0"
        assert set(found.values()) == {"step_0"}
        assert missed == {}


def test_a_real_threaded_group_is_no_fault() -> None:
    """Its processes are those of the group above it, which tells of them; its own file cannot be read."""
    where = trees(V2)
    with groups(where, "slurmscope-test-threaded") as made:
        process = made.daemon("", "slurmscope-test-threaded")
        inner = made.folder(V2, "inner")
        inner.mkdir()
        try:
            (inner / "cgroup.type").write_text("threaded")
            with pytest.raises(OSError, match="not supported"):
                (inner / "cgroup.procs").read_text()
            assert listed({V2: str(made.folder(V2, ""))}) == ({process.pid: ""}, {})
        finally:
            inner.rmdir()


def test_figures_of_a_real_group_of_version_2() -> None:
    where = trees(V2)
    with groups(where, "slurmscope-test-figures") as made:
        _, used = made.work("", {}, cpu=0.3)
        found, missed = looked({V2: str(made.folder(V2, ""))})
        assert missed == {}
        assert found.cpu_seconds is not None
        assert found.user_seconds is not None
        assert found.system_seconds is not None
        assert found.cpu_seconds == pytest.approx(used["cpu"], abs=0.2)
        assert found.user_seconds + found.system_seconds == pytest.approx(found.cpu_seconds, abs=0.01)


def test_figures_of_a_real_group_of_version_1() -> None:
    where = trees("cpuacct", "memory", "cpuset", "cpu", "blkio")
    with groups(where, "slurmscope-test-figures") as made:
        made.make("")
        made.folder("memory", "memory.limit_in_bytes").write_text(str(256 * MIB))
        _, used = made.work("", {}, cpu=0.3)
        found, missed = looked({name: str(made.folder(name, "")) for name in where.trees})
        assert missed == {}
        assert found.limit == 256 * MIB
        assert found.cpus == len(parse_cpus(Path(where.trees["cpuset"], "cpuset.cpus").read_bytes()))
        assert found.cpu_seconds is not None
        assert found.cpu_seconds == pytest.approx(used["cpu"], abs=0.2)
        assert sum((found.core_seconds or {}).values()) == pytest.approx(found.cpu_seconds, abs=0.01)
        assert found.memory is not None
        assert found.peak is not None
        assert found.anonymous is not None
        assert MIB < found.anonymous <= found.peak <= 256 * MIB
        assert found.oom_kills == 0
