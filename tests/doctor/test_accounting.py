# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the accounting tells, and what is missing where it does not."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from doctor.patients import changed, examined, healthy, leaving_nothing, of, one, program, told
from recorded import GENERATIONS

from slurmscope.config import Config
from slurmscope.doctor.finding import Check, Finding, Status
from slurmscope.settings import Accounting, Store
from slurmscope.slurm.source import own_user

WITHOUT = "lives are kept from polls alone, without what their steps used and what happens while slurmscope is stopped"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "SLURM_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return healthy(tmp_path / "bin")


def looked(folder: Path, **slurm: Any) -> Finding:
    return of(examined(one(bin_dir=str(folder), **slurm)), Check.ACCOUNTING)


def with_sections(config: Config, **sections: object) -> Config:
    return Config(msgspec.structs.replace(config.settings, **sections), {})


@pytest.mark.parametrize("generation", GENERATIONS)
def test_an_accounting_that_is_well(generation: str, tmp_path: Path) -> None:
    found = looked(healthy(tmp_path / "bin", generation))
    assert found.status is Status.OK and found.subject == f"lab{generation[:2]}"
    assert found.message.startswith("sacct told of the last 15 minutes in 0.")
    assert " jobs of " in found.message and found.message.endswith(" users")


def test_the_window_is_short(folder: Path, tmp_path: Path) -> None:
    program(folder, "sacct", f'echo "$*" > {tmp_path}/asked')
    looked(folder)
    words = (tmp_path / "asked").read_text().split()
    since, until = (
        int(next(word for word in words if word.startswith(name)).rpartition("uts")[2])
        for name in ("--starttime=", "--endtime=")
    )
    assert until - since == 900 and 0 <= time.time() - until < 60


def test_others_are_hidden(folder: Path) -> None:
    program(folder, "sacct", "true")
    found = looked(folder)
    assert found.status is Status.WARNING
    assert f"and {own_user()} is not told of them: PrivateData in slurmdbd.conf hides them" in found.message
    assert "adminlevel=operator" in found.next_step


def test_nobody_is_at_work(folder: Path) -> None:
    program(folder, "sacct", "true")
    program(folder, "squeue", "true")
    assert told(examined(one(bin_dir=str(folder))), Check.ACCOUNTING)[0].endswith(": 0 jobs of 0 users")


def test_no_slurmdbd(folder: Path) -> None:
    changed(folder, "scontrol", old="accounting_storage/slurmdbd", new="(null)")
    program(folder, "sacct", "exit 1")
    found = looked(folder)
    assert (found.status, found.message) == (Status.SKIPPED, f"AccountingStorageType is (null): {WITHOUT}")
    assert found.next_step.startswith("to have it: AccountingStorageType=accounting_storage/slurmdbd in slurm.conf")


def test_sacct_fails(folder: Path) -> None:
    program(folder, "sacct", 'echo "sacct: error: Sending PersistInit msg: Connection refused" >&2; exit 1')
    found = looked(folder)
    assert found.status is Status.FAILED and "Connection refused" in found.message and WITHOUT in found.message
    assert f"`{folder}/sacct --allusers --starttime=now-15minutes` must succeed" in found.next_step


def test_sacct_is_missing(folder: Path) -> None:
    (folder / "sacct").unlink()
    found = looked(folder)
    assert found.status is Status.WARNING and found.message.endswith(WITHOUT)
    assert "slurm.bin_dir" in found.next_step


def test_sacct_hangs(folder: Path) -> None:
    program(folder, "sacct", "sleep 600")
    with leaving_nothing():
        found = looked(folder, timeout=3)
    assert (found.status, found.message) == (
        Status.WARNING,
        "sacct did not tell of the last 15 minutes in 3 s",
    )


def test_rows_that_cannot_be_read(folder: Path) -> None:
    changed(folder, "sacct", old=r"^1\([^0-9]\)", new=r"many\1")
    found = looked(folder)
    assert found.status is Status.WARNING and re.search(r"; \d+ rows? could not be read$", found.message)
    assert "slurmscope capture --anonymise" in found.next_step


def test_who_does_not_want_it(folder: Path) -> None:
    config = one(bin_dir=str(folder))
    off = of(examined(with_sections(config, accounting=Accounting(enabled=False))), Check.ACCOUNTING)
    assert (off.status, off.message) == (Status.SKIPPED, f"accounting.enabled is false: {WITHOUT}")
    assert told(examined(with_sections(config, store=Store(url="none"))), Check.ACCOUNTING) == []


def test_nothing_is_asked_of_a_cluster_that_is_away(folder: Path) -> None:
    for name in ("squeue", "scontrol"):
        program(folder, name, "exit 1")
    program(folder, "sacct", "sleep 600")
    assert told(examined(one(bin_dir=str(folder))), Check.ACCOUNTING) == []
