# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of real jobs, from nothing but the accounting, in every form."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab.cluster import Lab
from lab.page import run_slurmscope

from slurmscope.reports.kept import Reports
from slurmscope.reports.mail import parts
from slurmscope.settings import Settings
from slurmscope.store.protocol import Lives
from slurmscope.store.sqlite import SqliteStore
from slurmscope.words import span

BURN = "for i in 1 2; do (end=$((SECONDS+8)); while ((SECONDS<end)); do :; done) & done; wait"


class Kept:
    """Real jobs that have ended, read from the accounting into a store."""

    def __init__(self, lab: Lab, path: Path) -> None:
        self.lab, self.path = lab, path
        self.burnt = self._submit("alice", "-J", "burn", "-c4", "-t10", "--wrap", f"bash -c '{BURN}'")
        self.failed = self._submit("alice", "-J", "fails", "-t5", "--wrap", "exit 3")
        self.array = self._submit("carol", "-J", "sweep2", "-t5", "-a", "1-4", "--wrap", "sleep $SLURM_ARRAY_TASK_ID")
        jobs = ",".join((self.burnt, self.failed, self.array))
        lab.wait_for(lambda: not lab.run("squeue", "-h", "-j", jobs, check=False).stdout.strip())
        lab.wait_for(self._accounted)
        done = run_slurmscope(lab.bin, "import", "--since", "1d", SLURMSCOPE_STORE_URL=f"sqlite:{path}")
        assert done.returncode == 0, done.stderr.decode()

    def _submit(self, user: str, *arguments: str) -> str:
        argv = ("sbatch", "--parsable", "-o/dev/null", "--mem=100", *arguments)
        return self.lab.run(*argv, user=user).stdout.decode().strip().partition(";")[0]

    def _accounted(self) -> bool:
        return all(row["End"].isdecimal() for row in self.sacct(self.burnt, self.failed, self.array))

    def sacct(self, *jobs: str, steps: bool = False) -> list[dict[str, str]]:
        """The jobs, or their steps."""
        names = ("JobIDRaw", "JobID", "State", "Start", "End", "ElapsedRaw", "AllocCPUS", "TotalCPU")
        argv = ("env", "SLURM_TIME_FORMAT=%s", "sacct", "-nP", "-j", ",".join(jobs), "-o", ",".join(names))
        lines = self.lab.run(*argv).stdout.decode().splitlines()
        rows = [dict(zip(names, line.split("|"), strict=True)) for line in lines]
        return [row for row in rows if ("." in row["JobID"]) == steps]

    def report(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return run_slurmscope(self.lab.bin, "report", *arguments, SLURMSCOPE_STORE_URL=f"sqlite:{self.path}")

    def said(self, *arguments: str) -> str:
        done = self.report(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def told(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.said(*arguments, "--format", "json"))
        return found


@pytest.fixture(scope="module")
def kept(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(lab, tmp_path_factory.mktemp("reports") / "kept.db")


def seconds(text: str) -> float:
    """As sacct writes TotalCPU: [DD-][HH:]MM:SS[.mmm]."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


def test_efficiency_is_that_of_seff(kept: Kept) -> None:
    (row,) = kept.sacct(kept.burnt)
    cpu = kept.told("job", kept.burnt)["efficiency"]["cpu"]
    wall, cpus = int(row["ElapsedRaw"]), int(row["AllocCPUS"])
    # Slurm from 25.05 on tells the CPU time of steps alone
    used = sum(seconds(step["TotalCPU"]) for step in kept.sacct(kept.burnt, steps=True))
    assert cpu["share"] == pytest.approx(used / (wall * cpus), abs=0.001)
    assert (cpu["source"], cpu["asked"]) == ("sacct", cpus)
    assert 0.05 < cpu["share"] < 0.6  # two of four were busy, as far as this machine let them


def test_the_same_facts_in_every_form(kept: Kept, tmp_path: Path, pdftotext: str) -> None:
    row = kept.sacct(kept.burnt)[0]
    told = kept.told("job", kept.burnt)
    share = f"{told['efficiency']['cpu']['share'] * 100:,.0f} %"
    facts = [f"{kept.burnt} burn", "alice", share, span(int(row["ElapsedRaw"])), "COMPLETED", "4 cores"]
    pdf = tmp_path / "job.pdf"
    assert kept.report("job", kept.burnt, "-o", str(pdf)).returncode == 0
    page = subprocess.run([pdftotext, "-layout", str(pdf), "-"], capture_output=True, check=True).stdout.decode()
    store = SqliteStore(kept.path)
    life = next(one for one in store.lives(Lives(id=int(kept.burnt))) if str(one.id) == kept.burnt)
    mail = parts(Reports(store, Settings(), int(row["End"]) + 60).life(life))
    for form in (
        kept.said("job", kept.burnt),
        kept.said("job", kept.burnt, "--format", "html"),
        page,
        mail.text,
        mail.html,
    ):
        for fact in facts:
            assert fact in re.sub(r"[ \u00a0]+", " ", form), fact
    assert re.search(r"page 1 of \d+", page)


def test_how_it_ended(kept: Kept) -> None:
    text = kept.said("job", kept.failed)
    assert f"{kept.failed} fails" in text and "exit code 3:0" in text


def test_an_array_has_all_its_tasks(kept: Kept) -> None:
    rows = {row["JobID"]: int(row["ElapsedRaw"]) for row in kept.sacct(kept.array)}
    found = kept.told("job", kept.array)
    assert {f"{one['job']['array_id']}_{one['job']['array_tasks']}" for one in found["tasks"]} == set(rows)
    assert "4 of 4 tasks completed" in kept.said("job", kept.array)
    assert f"{kept.array}_2 sweep2" in kept.said("job", f"{kept.array}_2")
