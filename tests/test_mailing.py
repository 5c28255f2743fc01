# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope serve` with mail and constants: pages of links, what the site has set, and settings that are wrong."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from served import serving

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
MAIL = """
[mail]
host = "127.0.0.1"
port = 1
security = "none"
url = "http://127.0.0.1:9092"
"""
CONSTANTS = """
[constants]
students = 120
[[allocations]]
cluster = "lab24"
resource = "gpu"
amount = 12.5
start = 2026-01-01
end = 2027-01-01
"""


def test_links_are_answered_and_nothing_is_said_of_mail_without_settings(tmp_path: Path) -> None:
    with serving(tmp_path, MAIL, SLURMSCOPE_STORE_FOLDER=str(tmp_path)) as served:
        served.wait()
        status, headers, body = served.get("/fine/forged")
        assert (status, headers["cache-control"]) == (404, "no-store")
        assert b"No such link" in body
        assert served.get("/opt-out/forged", method="POST")[0] == 404
    assert list(tmp_path.rglob("notices.db"))


def test_without_settings_there_is_no_mail(tmp_path: Path) -> None:
    with serving(tmp_path, SLURMSCOPE_STORE_FOLDER=str(tmp_path)) as served:
        served.wait()
        assert served.get("/fine/forged")[0] == 404
        time.sleep(0.2)
    assert not list(tmp_path.rglob("notices.db"))


def test_constants_are_served(tmp_path: Path) -> None:
    with serving(tmp_path, CONSTANTS, SLURMSCOPE_STORE_FOLDER=str(tmp_path)) as served:
        served.wait()
        status, headers, body = served.get("/constants")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(body)["constants"] == {"students": 120.0}
        page = served.get("/metrics/constants")[2].decode()
        assert 'slurm_constant{cluster="",name="students"} 120.0' in page
        assert 'slurm_allocation_years{cluster="lab24",account="",resource="gpu"' in page
        assert b"/metrics/constants" in served.get("/health")[2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('[[rules]]\nrule = "low_cpus"', "did you mean low_cpu?"),
        ('[[rules]]\nrule = "low_cpu"\nshares = 1', "low_cpu has no such threshold, did you mean share?"),
    ],
)
def test_rules_that_are_wrong_are_told_at_the_start(tmp_path: Path, settings: str, message: str) -> None:
    (tmp_path / "slurmscope.toml").write_text(settings)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    argv = [str(SLURMSCOPE), "serve", "--config", str(tmp_path / "slurmscope.toml"), "--listen", "127.0.0.1:0"]
    env["SLURMSCOPE_STORE_FOLDER"] = str(tmp_path)
    done = subprocess.run(argv, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert message in done.stderr.decode()


def test_a_ledger_that_is_locked_keeps_nothing_else_from_being_served(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "notices.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with serving(tmp_path, MAIL, SLURMSCOPE_STORE_FOLDER=str(tmp_path)) as served:
            served.wait()
            assert served.get("/fine/forged")[0] == 503
            assert served.get("/healthz")[0] == 200


def test_a_ledger_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "notices.db") as other:
        other.execute("CREATE TABLE notices (theirs TEXT)")
    (tmp_path / "slurmscope.toml").write_text(MAIL)
    env = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    env["SLURMSCOPE_STORE_FOLDER"] = str(tmp_path)
    argv = [str(SLURMSCOPE), "serve", "--config", str(tmp_path / "slurmscope.toml"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(argv, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "notices.db" in done.stderr.decode() and "Traceback" not in done.stderr.decode()
