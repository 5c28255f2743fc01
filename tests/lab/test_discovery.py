# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The list of nodes that Prometheus is given, from a real sinfo."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from lab.cluster import Lab

FILE_SD = Path(__file__).parents[2] / "packaging/discovery/file_sd"


def test_every_node_is_a_target_once(lab: Lab, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{lab.bin}:{os.environ['PATH']}"}
    targets = tmp_path / "nodes.json"
    subprocess.run([FILE_SD, targets], env=environment, check=True)
    found = {one["labels"]["node"]: one["targets"] for one in json.loads(targets.read_text())}
    nodes = lab.run("sinfo", "-h", "-N", "-a", "-o", "%N").stdout.decode().split()
    # all of the lab's nodes are on this host; n3, which is drained, has an agent as well
    assert found == {node: ["127.0.0.1:9095"] for node in nodes} and "n3" in found
    assert list(tmp_path.iterdir()) == [targets]  # nothing is left beside it
    # a sinfo that fails leaves the list as it was
    before = targets.read_text()
    (tmp_path / "bin").mkdir()
    sinfo = tmp_path / "bin/sinfo"
    sinfo.write_text("#!/bin/sh\nexit 1\n")
    sinfo.chmod(0o755)
    broken = {**environment, "PATH": f"{sinfo.parent}:{os.environ['PATH']}"}
    failed = subprocess.run([FILE_SD, targets], env=broken, capture_output=True, check=False)
    assert targets.read_text() == before and failed.returncode != 0
