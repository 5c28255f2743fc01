# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmdbd's own books: rows of jobs put in, moved and taken out again, summed up by slurmdbd, told by `sreport`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from lab.cluster import Lab
from lab.month import FIRST_ID, Holder, Job, Tres

_NAMES = ("cpu", "mem", "gres/gpu")


class Used(NamedTuple):
    """Seconds of CPUs, MiB and GPUs."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    def plus(self, other: Used) -> Used:
        return Used(*(one + more for one, more in zip(self, other, strict=True)))


def total(some: Iterable[Used]) -> Used:
    found = Used()
    for one in some:
        found = found.plus(one)
    return found


class Accounting:
    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._rolled: list[tuple[int, int]] = []

    def table(self, name: str) -> str:
        return f"slurm_acct_db.{self._lab.cluster}_{name}_table"

    def sql(self, *statements: str) -> list[list[str]]:
        """As root; what all of them tell."""
        text = "; ".join(("SET SESSION sql_mode = ''", *statements))
        done = self._lab.run("mariadb", "-S", "/lab/run/mysql.sock", "-uroot", "-N", "-B", input=text.encode())
        return [line.split("\t") for line in done.stdout.decode().splitlines()]

    def holders(self) -> list[Holder]:
        """All but root."""
        rows = self.sql(f"SELECT id_assoc, user, acct FROM {self.table('assoc')} WHERE user NOT IN ('', 'root')")
        uids = {user: int(self._lab.run("id", "-u", user).stdout) for _, user, _ in rows}
        return [Holder(int(assoc), uids[user], user, account) for assoc, user, account in rows]

    def tres(self) -> Tres:
        rows = self.sql("SELECT name, id FROM slurm_acct_db.tres_table WHERE type = 'gres'")
        found = {name: int(number) for name, number in rows}
        return Tres(found["gpu"], found["gpu:rtx8000"])

    # --- rows of jobs -------------------------------------------------------------------------------------------------

    def insert(self, jobs: Sequence[Job]) -> None:
        """Puts jobs in that nobody ran."""
        statements = []
        for at in range(0, len(jobs), 500):
            some = jobs[at : at + 500]
            columns = ", ".join(f"`{name}`" for name in some[0].record)
            rows = ", ".join(f"({', '.join(map(_literal, one.record.values()))})" for one in some)
            statements.append(f"INSERT INTO {self.table('job')} ({columns}) VALUES {rows}")
            for one in some:
                statements += self._pauses(one)
        if any(name == "sluid" for name, *_ in self.sql(f"SHOW COLUMNS FROM {self.table('job')}")):
            statements.append(f"UPDATE {self.table('job')} SET sluid = job_db_inx WHERE id_job >= {FIRST_ID}")
        self.sql(*statements)

    def _pauses(self, one: Job) -> Iterator[str]:
        of = f"id_job = {one.record['id_job']} AND time_submit = {one.record['time_submit']}"
        for start, end in one.pauses:
            yield (
                f"INSERT INTO {self.table('suspend')} (job_db_inx, id_assoc, time_start, time_end) "
                f"SELECT job_db_inx, id_assoc, {start}, {end} FROM {self.table('job')} WHERE {of}"
            )

    def move(self, ids: Sequence[int], seconds: int) -> None:
        """Moves jobs that ended, with their steps, as if they had run so many seconds later."""
        which = f"id_job IN ({', '.join(map(str, ids))}) AND job.time_end > 0"
        statements = [
            f"UPDATE {self.table(name)} AS one JOIN {self.table('job')} AS job USING (job_db_inx) "
            f"SET {_later('one', ('time_start', 'time_end'), seconds)} WHERE {which}"
            for name in ("suspend", "step")
        ]
        times = "time_submit", "time_eligible", "time_start", "time_end"
        self.sql(*statements, f"UPDATE {self.table('job')} AS job SET {_later('job', times, seconds)} WHERE {which}")

    # --- sums of slurmdbd ---------------------------------------------------------------------------------------------

    def register(self, since: int) -> None:
        """The cluster was there since then: slurmdbd sums up no cluster that was not."""
        events, columns = self.table("event"), "time_end, node_name, cluster_nodes, reason, reason_uid, state, tres"
        self.sql(
            f"INSERT INTO {events} (time_start, {columns}) SELECT {since}, {columns.replace('time_end', 'time_start')} "
            f"FROM {events} WHERE node_name = '' ORDER BY time_start LIMIT 1"
        )

    def roll_up(self, since: int, until: int) -> None:
        """Lets slurmdbd sum up a time. It does that by itself for each hour as it passes."""
        self._rolled.append((since, until))
        self._ask("sacctmgr", "-i", "rollup", _moment(since), _moment(until))

    def forget(self, registered: int) -> None:
        """All that was put in here, and all that was summed up."""
        spans = " OR ".join(f"(time_start >= {since} AND time_start < {until})" for since, until in self._rolled)
        sums = self.sql("SHOW TABLES FROM slurm_acct_db LIKE '%usage%table'")
        self.sql(
            *(f"DELETE FROM slurm_acct_db.{name} WHERE {spans or 'FALSE'}" for (name,) in sums),
            f"DELETE FROM {self.table('suspend')} WHERE job_db_inx IN "
            f"(SELECT job_db_inx FROM {self.table('job')} WHERE id_job >= {FIRST_ID})",
            f"DELETE FROM {self.table('job')} WHERE id_job >= {FIRST_ID}",
            f"DELETE FROM {self.table('event')} WHERE time_start = {registered}",
        )

    # --- sreport ------------------------------------------------------------------------------------------------------

    def sreport(self, *report: str, since: int, until: int, tres: Sequence[str] = _NAMES) -> list[list[str]]:
        options = ["-n", "-P", "-t", "seconds", f"--tres={','.join(tres)}"]
        out = self._ask("sreport", *options, *report, f"start={_moment(since)}", f"end={_moment(until)}")
        return [line.split("|") for line in out.splitlines() if line]

    def by_user(self, since: int, until: int) -> dict[tuple[str, str], Used]:
        """What each account and user used; the sums of an account have no user."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        for _, account, user, _, name, used in self.sreport(
            "cluster", "AccountUtilizationByUser", since=since, until=until
        ):
            found.setdefault((account, user), {})[name] = int(used)
        made = {key: Used(*(some.get(name, 0) for name in _NAMES)) for key, some in found.items()}
        return {key: used for key, used in made.items() if any(used)}

    def _ask(self, program: str, *arguments: str) -> str:
        """Slurm's days are local ones; those of the tests are UTC's."""
        env = {**os.environ, "TZ": "UTC"}
        done = subprocess.run(
            [self._lab.bin / program, *arguments], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _moment(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _literal(value: int | str) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _later(of: str, times: Sequence[str], seconds: int) -> str:
    """0 is no time."""
    return ", ".join(f"{of}.{name} = IF({of}.{name} = 0, 0, {of}.{name} + {seconds})" for name in times)
