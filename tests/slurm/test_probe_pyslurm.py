# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How the probe asks PySlurm. PySlurm is built against one Slurm and cannot be had here, so that a module of that name
stands in for it; what a real one answered is in test_pyslurm.py."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import RECORDINGS

from slurmscope.slurm import probe, pyslurm
from slurmscope.slurm.commands import BY_WAY
from slurmscope.slurm.local import Local
from slurmscope.slurm.probe import PYSLURM
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import NotFound

MARKS = Marks("@field", "@end")

# What a module has that gives again what was recorded. `missing` is what the release does not have.
REPLAY = """
import json, pathlib
__version__ = {version!r}
FOLDER = pathlib.Path({folder!r})

def recorded(name):
    return json.loads((FOLDER / name).read_text())["records"]

class Thing:
    def __init__(self, fields):
        self.__dict__.update(fields)

class Map:
    "Not a dict: keys are clusters, and the values those of all."
    def __init__(self, records):
        self._records = records
    def values(self):
        return [Thing(one) for one in self._records.values()]
"""
OLD = """
class job:
    def get(self):
        return {int(key): one for key, one in recorded("old-jobs.json").items()}
class node:
    def get(self):
        return recorded("old-nodes.json")
class statistics:
    def get(self):
        return recorded("old-scheduler.json")
class config:
    def get(self):
        return recorded("old-config.json")
"""
NEW = """
class Jobs:
    @staticmethod
    def load():
        return Map(recorded("new-jobs.json"))
class Nodes:
    @staticmethod
    def load():
        return Map(recorded("new-nodes.json"))
class Partitions:
    @staticmethod
    def load():
        return Map(recorded("new-partitions.json"))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with a scontrol of Slurm 24.11, and room for a pyslurm."""
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho slurm-wlm 24.11.5\n")
    program.chmod(0o755)
    return tmp_path


def write(cluster: Path, *source: str, version: str = "24.11.0") -> None:
    folder = str(RECORDINGS / "pyslurm" / "24.11")
    (cluster / "pyslurm.py").write_text(
        "".join(source).replace("{version!r}", repr(version)).replace("{folder!r}", repr(folder))
    )


def run(cluster: Path, *options: str, python: str = sys.executable) -> dict[str, Any]:
    """The answers of the probe, run as a file, by part."""
    done = subprocess.run(
        [python, probe.__file__, "--ways", PYSLURM, "--bin-dir", str(cluster), *options],
        env={**os.environ, "PYTHONPATH": str(cluster)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = json.loads(done.stdout)["answers"]
    assert done.returncode == (0 if any("error" not in one for one in answers) else 1), done.stderr
    return {one["part"]: one for one in answers}


def test_the_old_api_alone_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(cluster, REPLAY, OLD)
    answers = run(cluster)
    assert answers["jobs"]["argv"] == ["job().get()"]
    document = json.loads(answers["jobs"]["text"])
    recorded = json.loads((RECORDINGS / "pyslurm/24.11/old-jobs.json").read_text())
    assert document["records"] == recorded["records"]
    assert (document["api"], document["pyslurm"], document["slurm"]) == ("old", "24.11.0", "24.11.5")
    assert document["tried"] == ""
    assert len(pyslurm.parse_jobs(answers["jobs"]["text"].encode(), MARKS).value) == 8
    for part in ("nodes", "scheduler", "config"):
        assert "error" not in answers[part]
    # neither API has them, and both are named
    assert "Partitions.load() raised AttributeError" in answers["partitions"]["error"]
    assert "partition().get() raised AttributeError" in answers["partitions"]["error"]
    assert answers["partitions"]["kind"] == probe.FAILED


def test_the_new_api_alone_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(cluster, REPLAY, NEW)
    answers = run(cluster, "--parts", "jobs,nodes,partitions")
    for part, call in (("jobs", "Jobs.load()"), ("nodes", "Nodes.load()"), ("partitions", "Partitions.load()")):
        document = json.loads(answers[part]["text"])
        assert (answers[part]["argv"], document["api"]) == ([call], "new")
        recorded = json.loads((RECORDINGS / f"pyslurm/24.11/new-{part}.json").read_text())
        assert document["records"] == recorded["records"]
        assert BY_WAY[PYSLURM][part].parse(answers[part]["text"].encode(), MARKS, {}).value
    # what was tried in vain is said, and logged as a warning
    assert "job().get() raised AttributeError" in json.loads(answers["jobs"]["text"])["tried"]
    assert "job().get() raised AttributeError" in answers["jobs"]["warnings"]


def test_one_odd_job_with_a_mock_of_pyslurm(cluster: Path) -> None:
    """The old API raises for all when one job is odd; the new one is then asked, and loses one field of it."""
    odd = """
class job:
    def get(self):
        raise OverflowError("value too large to convert to uint16_t")
class Odd(Thing):
    @property
    def memory(self):
        raise AttributeError("no attribute 'min_nodes'")
class Jobs:
    @staticmethod
    def load():
        records = recorded("new-jobs.json")
        del records["1"]["memory"]
        found = Map(records)
        found.values = lambda: [(Odd if one["id"] == 1 else Thing)(one) for one in records.values()]
        return found
"""
    write(cluster, REPLAY, odd)
    answer = run(cluster, "--parts", "jobs")["jobs"]
    tried = json.loads(answer["text"])["tried"]
    assert "job().get() raised OverflowError: value too large to convert to uint16_t" in tried
    assert "Jobs.load() has no memory: AttributeError: no attribute 'min_nodes'" in tried
    jobs = {one.id: one for one in pyslurm.parse_jobs(answer["text"].encode(), MARKS).value}
    assert len(jobs) == 8
    assert (jobs[1].memory, jobs[3].memory) == (None, 3000 << 20)


def test_users_get_their_names_where_the_probe_is_with_a_mock_of_pyslurm(cluster: Path) -> None:
    nobody = 4_000_000_000
    owned = f"""
class job:
    def get(self):
        records = recorded("old-jobs.json")
        records["1"]["user_id"], records["2"]["user_id"] = {os.getuid()}, {nobody}
        return records
"""
    write(cluster, REPLAY, owned)
    answer = run(cluster, "--parts", "jobs")["jobs"]
    jobs = {one.id: one.user for one in pyslurm.parse_jobs(answer["text"].encode(), MARKS).value}
    assert (jobs[1], jobs[2]) == (pwd.getpwuid(os.getuid()).pw_name, str(nobody))


def test_both_apis_raise_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(
        cluster,
        REPLAY,
        """
class job:
    def get(self):
        raise ValueError("Unable to contact slurm controller (connect failure)", 1800)
class Jobs:
    @staticmethod
    def load():
        raise SystemExit("no")
""",
    )
    answer = run(cluster, "--parts", "jobs")["jobs"]
    assert answer["kind"] == probe.FAILED
    assert "job().get() raised ValueError: ('Unable to contact slurm controller" in answer["error"]
    assert "Jobs.load() raised SystemExit: no" in answer["error"]


def test_values_that_json_cannot_hold_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(
        cluster,
        REPLAY,
        r"""
import enum
class Flags(enum.Flag):
    MAINTENANCE = 1
    FLEX = 2
    DAILY = 4
class Again(enum.Enum):
    NO = "NO"
class reservation:
    def get(self):
        print("some words of a library's")
        return {b"r\xff": {
            "flags": Flags.MAINTENANCE | Flags.FLEX, "again": Again.NO, "nan": float("nan"), "set": {1},
            "tuple": (1, b"x"), "name": "caf\udce9", "nested": Thing({"a": 1, "call": print}), "big": 2**64 - 1,
        }}
""",
    )
    answer = run(cluster, "--parts", "reservations")["reservations"]
    assert json.loads(answer["text"])["records"] == {
        "r\\xff": {
            "flags": ["MAINTENANCE", "FLEX"],
            "again": "NO",
            "nan": None,
            "set": [1],
            "tuple": [1, "x"],
            "name": "caf\\xe9",
            "nested": {"a": 1},
            "big": 2**64 - 1,
        }
    }


def test_the_gpus_that_a_job_holds_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(
        cluster,
        REPLAY,
        """
class Job(Thing):
    def get_resource_layout_per_node(self):
        if self.id == 3:
            return {"g2": {"cpu_ids": "0-2", "memory": 3000, "gres": {"gpu:rtx8000": {"count": 3, "indexes": "0-2"}}}}
        return {}
class Jobs:
    @staticmethod
    def load():
        return [Job(one) for one in recorded("new-jobs.json").values()]
""",
    )
    answer = run(cluster, "--parts", "jobs")["jobs"]
    jobs = {one.id: one for one in pyslurm.parse_jobs(answer["text"].encode(), MARKS).value}
    assert jobs[3].gpus == {"rtx8000": 3}


@pytest.mark.parametrize(
    ("version", "matches"),
    [("24.11.0", True), ("24.11.9", True), ("24.5.1", False), ("22.5.3", False), ("25.11.0", False)],
)
def test_a_release_for_another_slurm_with_a_mock_of_pyslurm(cluster: Path, version: str, matches: bool) -> None:
    """No call is made: it might crash, or tell nonsense."""
    write(cluster, REPLAY, OLD, version=version)
    answer = run(cluster, "--parts", "jobs")["jobs"]
    if matches:
        assert "error" not in answer
    else:
        assert answer["kind"] == probe.NOT_FOUND  # so that another way stands in
        assert f"PySlurm {version} is for Slurm" in answer["error"]
        assert "this is Slurm 24.11.5" in answer["error"]
        assert "calls will not succeed" in answer["error"]
        assert "Install PySlurm 24.11" in answer["error"]


def test_an_older_release_tells_its_version_by_a_function_with_a_mock_of_pyslurm(cluster: Path) -> None:
    (cluster / "pyslurm.py").write_text("def version():\n    return '19.5.0'\n")
    assert "PySlurm 19.5.0 is for Slurm 19.05" in run(cluster, "--parts", "jobs")["jobs"]["error"]


def test_without_a_command_the_version_is_not_checked_with_a_mock_of_pyslurm(cluster: Path) -> None:
    write(cluster, REPLAY, OLD, version="22.5.3")
    (cluster / "scontrol").unlink()
    assert json.loads(run(cluster, "--parts", "jobs")["jobs"]["text"])["slurm"] == ""


def test_a_crash_costs_one_part_with_a_mock_of_pyslurm(cluster: Path) -> None:
    crash = """
class job:
    def get(self):
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)
"""
    write(cluster, REPLAY, OLD, crash)
    answers = run(cluster, "--parts", "jobs,nodes")
    assert answers["jobs"]["kind"] == probe.FAILED
    assert "PySlurm crashed (status -11; a negative one is a signal)" in answers["jobs"]["error"]
    assert "built against this Slurm, 24.11.5" in answers["jobs"]["error"]
    assert "error" not in answers["nodes"]


def test_a_crash_at_the_import_with_a_mock_of_pyslurm(cluster: Path) -> None:
    (cluster / "pyslurm.py").write_text("import os\nos.kill(os.getpid(), 11)\n")
    assert "PySlurm crashed (status -11" in run(cluster, "--parts", "jobs")["jobs"]["error"]


def test_a_call_that_hangs_is_killed_with_a_mock_of_pyslurm(cluster: Path) -> None:
    hang = """
class job:
    def get(self):
        import os, pathlib, time
        pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
        while True:
            time.sleep(60)
"""
    write(cluster, REPLAY, OLD, hang)
    answers = run(cluster, "--parts", "jobs,nodes", "--timeout", "1.5")
    assert answers["jobs"]["kind"] == probe.TIMED_OUT
    assert answers["jobs"]["error"] == "PySlurm was killed after 1.5 s (slurm.timeout); is slurmctld slow?"
    assert "error" not in answers["nodes"]
    assert not Path(f"/proc/{(cluster / 'pid').read_text()}").exists()


def test_a_cluster_that_is_not_of_slurm_conf_with_a_mock_of_pyslurm(cluster: Path) -> None:
    """PySlurm has no -M: it would tell of the wrong cluster."""
    write(cluster, REPLAY, OLD)
    answer = run(cluster, "--parts", "jobs", "--cluster", "other")["jobs"]
    assert (answer["kind"], "slurm.multi_cluster" in answer["error"]) == (probe.NOT_FOUND, True)


def test_no_pyslurm(cluster: Path) -> None:
    """Nor is slurmscope's own module of that name, which lies beside probe.py, taken for it."""
    answer = run(cluster, "--parts", "jobs")["jobs"]
    assert answer["kind"] == probe.NOT_FOUND
    assert "No module named 'pyslurm'" in answer["error"]
    assert "the one for Slurm 24.11.5" in answer["error"]
    assert "slurm.python names the Python that has it" in answer["error"]


def test_no_pyslurm_through_the_transport(cluster: Path) -> None:
    local = Local(bin_dir=str(cluster))
    with pytest.raises(NotFound, match="PySlurm cannot be loaded"):
        asyncio.run(local.run(BY_WAY[PYSLURM]["jobs"]))


def test_the_transport_reads_jobs_with_a_mock_of_pyslurm(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(cluster, REPLAY, OLD)
    monkeypatch.setenv("PYTHONPATH", str(cluster))
    output = asyncio.run(Local(bin_dir=str(cluster)).run(BY_WAY[PYSLURM]["jobs"]))
    assert output.argv == ("job().get()",)
    assert len(pyslurm.parse_jobs(output.data, output.marks).value) == 8


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9", "3.13"])
def test_old_and_new_pythons_with_a_mock_of_pyslurm(cluster: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    write(cluster, REPLAY, OLD, NEW)
    answers = run(cluster, "--parts", "jobs,nodes,partitions,scheduler,config", python=python)
    assert len(answers) == 5
    for part, answer in answers.items():
        assert BY_WAY[PYSLURM][part].parse(answer["text"].encode(), MARKS, {}).value


def interpreter(version: str) -> str | None:
    """One on the PATH that runs, or one of pyenv's, which does not run under its name alone."""
    found = shutil.which(f"python{version}")
    if found and not subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next((str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python3"))), None)
