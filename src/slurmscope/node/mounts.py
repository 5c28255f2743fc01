# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where this host has its cgroups: version 1 with a tree for each controller, version 2 with one tree, or both."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

V2 = "v2"
"""The name of the one tree of version 2, beside those of the controllers of version 1."""

_CONTROLLERS = ("cpuacct", "memory", "cpuset", "freezer", "devices", "cpu", "blkio", "pids")
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mounts(msgspec.Struct, frozen=True):
    """The folders of the trees, by controller; V2 is that of version 2."""

    trees: dict[str, str]

    @property
    def version(self) -> str:
        """For people: v1, v2, v1+v2 or none."""
        found = ["v1"] if any(name != V2 for name in self.trees) else []
        return "+".join(found + (["v2"] if V2 in self.trees else [])) or "none"


def parse_mounts(text: str) -> Mounts:
    """From /proc/self/mountinfo. Of several mounts of one tree the first counts: later ones are others' copies."""
    trees: dict[str, str] = {}
    for line in text.split("\n"):  # a path may hold what else ends a line
        place, dash, rest = line.partition(" - ")
        fields, kinds = place.split(" "), rest.split(" ")
        if not dash or len(fields) < 5 or len(kinds) < 3:
            continue
        folder = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])
        if kinds[0] == "cgroup2":
            trees.setdefault(V2, folder)
        elif kinds[0] == "cgroup":
            for option in kinds[2].split(","):
                if option in _CONTROLLERS:
                    trees.setdefault(option, folder)
    return Mounts(trees)


def mounts(proc: Path = Path("/proc")) -> Mounts:
    return parse_mounts((proc / "self/mountinfo").read_text(errors="surrogateescape"))
