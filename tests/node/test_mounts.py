# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where cgroups are, from mountinfo."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope.node.mounts import Mounts, mounts, parse_mounts

REST = """\
23 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
24 23 0:22 / /proc rw,nosuid - proc proc rw
25 23 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw
"""
V1 = (
    REST
    + """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:12 master:3 - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/freezer rw,nosuid - cgroup cgroup rw,freezer
35 30 0:31 / /sys/fs/cgroup/net_cls rw,nosuid - cgroup cgroup rw,net_cls
"""
)
V2_ALONE = REST + "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = V1 + "42 30 0:40 / /sys/fs/cgroup/unified rw,nosuid shared:20 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("text", "version", "trees"),
    [
        (
            V1,
            "v1",
            {
                "cpu": "/sys/fs/cgroup/cpu,cpuacct",
                "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
                "memory": "/sys/fs/cgroup/memory",
                "freezer": "/sys/fs/cgroup/freezer",
            },
        ),
        (V2_ALONE, "v2", {"v2": "/sys/fs/cgroup"}),
        (REST, "none", {}),
        ("", "none", {}),
    ],
)
def test_trees_by_controller(text: str, version: str, trees: dict[str, str]) -> None:
    found = parse_mounts(text)
    assert found.trees == trees
    assert found.version == version


def test_both_versions_at_once() -> None:
    found = parse_mounts(HYBRID)
    assert found.version == "v1+v2"
    assert found.trees == parse_mounts(V1).trees | {"v2": "/sys/fs/cgroup/unified"}


def test_of_several_mounts_of_one_tree_the_first_counts() -> None:
    copies = (HYBRID.replace("/sys/fs/cgroup", "/var/lib/container/rootfs/sys/fs/cgroup")).removeprefix(REST)
    assert parse_mounts(HYBRID + copies) == parse_mounts(HYBRID)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (r"/my\040cgroups", "/my cgroups"),
        (r"/tab\011line\012back\134slash", "/tab\tline\nback\\slash"),
        (r"/no\08octal", r"/no\08octal"),
        ("/kéö/\u2028/\x0c", "/kéö/\u2028/\x0c"),  # ends a line for some, and not for the kernel
    ],
)
def test_a_path_is_as_it_was_before_the_kernel_escaped_it(written: str, path: str) -> None:
    assert parse_mounts(f"30 25 0:26 / {written} rw - cgroup2 cgroup2 rw\n").trees == {"v2": path}


@pytest.mark.parametrize(
    "line",
    [
        "30 25 0:26 / /a rw cgroup2 cgroup2 rw",  # no mark between the halves
        "30 25 0:26 / - cgroup2 cgroup2 rw",
        "30 25 0:26 / /a rw - cgroup2",
        "30 25 0:26 / /a rw - cgroup22 cgroup2 rw",
        "30 25 0:26 / /a/cgroup2 rw - tmpfs cgroup2 rw,memory",
        " - ",
        "\0",
    ],
)
def test_what_is_no_cgroup_is_passed_over(line: str) -> None:
    assert parse_mounts(f"{line}\n{V2_ALONE}").trees == {"v2": "/sys/fs/cgroup"}


@given(st.text() | st.text(alphabet=f"{string.digits}/ -\\\ncgroup2,memory"))
def test_anything_can_be_read(text: str) -> None:
    assert isinstance(parse_mounts(text), Mounts)


@given(st.lists(st.sampled_from(HYBRID.splitlines()), max_size=20))
def test_each_tree_that_there_is_is_found_in_any_order(lines: list[str]) -> None:
    found, whole = parse_mounts("\n".join(lines)), parse_mounts(HYBRID).trees
    assert found.trees == {name: folder for name, folder in whole.items() if any(f" {folder} " in one for one in lines)}


def test_this_host(tmp_path: Path) -> None:
    for folder in mounts().trees.values():
        assert (Path(folder) / "cgroup.procs").exists()
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_bytes(b"30 25 0:26 / /a\xff rw - cgroup2 cgroup2 rw\n")
    assert mounts(tmp_path).trees == {"v2": "/a\udcff"}  # a path that the system can open
