# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Our sums are those of `sreport`, to the second: of a month of jobs that nobody ran, and of a day of real ones.

slurmdbd sums up by itself each hour as it passes. Here it is told to, of times that have passed.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lab.accounting import Accounting, Used, total
from lab.cluster import Lab
from lab.month import DAY, FIRST_ID, HOUR, Job, Lane, Month, job, paused
from lab.page import run_slurmscope

PREFIX = "booked"
SIZE = Lane("n1", 1, "main", 4, 1000)

# A day's work. What becomes of it is seen to afterwards. The job in two parts is alice's as the lab's own is: slurmctld
# loses count of an account's jobs by such a one.
SUBMIT = r"""
sub() { u=$1; n=$2; shift 2; sbatch --parsable --uid=$u -o /dev/null -D /tmp -p all --mem=50 -t 5 -J booked-$n "$@"; }
late=$(sub dana.o-neil late --wrap 'sleep 600')
killed=$(sub carol killed -n2 --wrap 'sleep 600')
again=$(sub bob again -n3 --requeue --wrap 'if [ "$SLURM_RESTART_COUNT" ]; then sleep 1; else sleep 600; fi')
paused=$(sub dana.o-neil paused -n2 --gres=gpu:1 --wrap 'sleep 5')
never=$(sub carol never -H --wrap true)
later=$(sub carol later --begin=now+1hour --wrap true)
sub alice done -n2 --wrap 'sleep 3' >/dev/null
sub bob fails -c3 --wrap 'sleep 2; exit 4' >/dev/null
sub carol many --array=1-5%3 -n2 --wrap 'sleep $SLURM_ARRAY_TASK_ID' >/dev/null
sub alice wide -N2 -n4 --wrap 'srun sleep 3' >/dev/null
sub bob gpus --gres=gpu:rtx8000:2 -c2 --wrap 'sleep 4' >/dev/null
sub alice both -n1 : -n2 --mem=50 -p all --wrap 'sleep 2' >/dev/null
sub alice shrinks -N2 -n2 --wrap 'sleep 2; scontrol update jobid=$SLURM_JOB_ID numnodes=1; sleep 3' >/dev/null
is() { for try in $(seq 300); do [ "$(squeue -h -j $1 -o %T)" = $2 ] && return; sleep 0.1; done; exit 1; }
for id in $late $killed $again $paused; do is $id RUNNING; done
sleep 1
scontrol suspend $paused
scontrol update jobid=$late endtime=now
sleep 2
scontrol resume $paused
scontrol requeue $again
scancel $killed $never $later
is $again PENDING
scontrol update jobid=$again starttime=now # and not in two minutes
"""
ROWS = 20  # an array of 5, a job in two parts, one that was requeued, one that shrank, 9 more


@pytest.fixture(scope="module")
def accounting(lab: Lab) -> Iterator[Accounting]:
    """… of a cluster that was there for a year, and of a user with two accounts."""
    found = Accounting(lab)
    since = int(time.time()) // DAY * DAY - 365 * DAY
    found.register(since)
    lab.run("sacctmgr", "-i", "add", "user", "alice", "account=bio")
    try:
        yield found
    finally:
        found.forget(since)
        lab.run("sacctmgr", "-i", "delete", "user", "alice", "account=bio")


def midnight(day: str) -> int:
    """When a day begins."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


class Ours:
    """What slurmscope tells of a time, of which it has read the accounting."""

    def __init__(self, lab: Lab, folder: Path, since: int, until: int) -> None:
        self._lab, self._folder = lab, folder
        self._days = ["--since", _day(since), "--until", _day(until - DAY)]
        self._run("import", "--since", _day(since), "--until", _day(until))
        # what is kept by adding and taking away is what a rebuild would make
        self._run("store", "check")

    def _run(self, *arguments: str) -> str:
        # which way is taken must not depend on the generation: a month as JSON is large
        settings = {"SLURMSCOPE_STORE_FOLDER": str(self._folder), "SLURMSCOPE_SLURM_SOURCE": "text"}
        done = run_slurmscope(self._lab.bin, *arguments, **settings)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def by_day(self) -> dict[tuple[int, str, str], Used]:
        """By the beginning of a day, account and user."""
        out = self._run("report", "cluster", *self._days, "--format", "csv")
        found: dict[tuple[int, str, str], Used] = {}
        for row in csv.DictReader(out.splitlines()):
            key = midnight(row["day"]), row["account"], row["user"]
            used = Used(*(int(row[name]) for name in ("cpu_seconds", "memory_mib_seconds", "gpu_seconds")))
            found[key] = found.get(key, Used()).plus(used)
        return {key: used for key, used in found.items() if any(used)}

    def by_user(self) -> dict[tuple[str, str], Used]:
        found: dict[tuple[str, str], Used] = {}
        for (_, account, user), used in self.by_day().items():
            found[account, user] = found.get((account, user), Used()).plus(used)
        return found

    def report(self, *what: str) -> Used:
        told = json.loads(self._run("report", *what, *self._days, "--format", "json"))["used"]
        return Used(told["cpu_seconds"], told["memory_mib_seconds"], told["gpu_seconds"])


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def month(back: int) -> tuple[int, int]:
    """A month that is over: that so many before this one."""
    now = datetime.now(UTC)
    at = now.year * 12 + now.month - 1 - back
    begin, end = (datetime(one // 12, one % 12 + 1, 1, tzinfo=UTC) for one in (at, at + 1))
    return int(begin.timestamp()), int(end.timestamp())


@pytest.fixture(scope="module")
def ours(lab: Lab, accounting: Accounting, tmp_path_factory: pytest.TempPathFactory) -> Ours:
    """… of a month of jobs that nobody ran."""
    since, until = month(2)
    jobs = list(Month(accounting.holders(), accounting.tres(), since, until, seed=1).jobs())
    assert 2000 < len(jobs) < 6000
    accounting.insert(jobs)
    accounting.roll_up(since, until)
    return Ours(lab, tmp_path_factory.mktemp("month"), since, until)


def test_a_month_of_jobs(accounting: Accounting, ours: Ours) -> None:
    since, until = month(2)
    told = accounting.by_user(since, until)
    by_user = ours.by_user()
    assert by_user == {key: used for key, used in told.items() if key[1]}
    assert len(by_user) == 5
    assert all(all(used) for used in by_user.values())
    top = accounting.sreport("user", "TopUsage", "TopCount=20", since=since, until=until, tres=["cpu"])
    for user in ("alice", "bob", "carol", "dana.o-neil"):
        of = total(used for (_, one), used in by_user.items() if one == user)
        assert of == ours.report("user", user)
        assert of.cpu == sum(int(row[-1]) for row in top if row[1] == user)
    accounts = {}
    for account in ("physics", "bio"):
        of = total(used for (one, _), used in by_user.items() if one == account)
        assert of == told[account, ""] == ours.report("account", account)
        accounts[account] = of.cpu
    sizes = accounting.sreport("job", "SizesByAccount", "FlatView", since=since, until=until, tres=["cpu"])
    assert {row[1]: sum(map(int, row[2:7])) for row in sizes} == accounts  # a newer one has the sum besides
    everybody = total(by_user.values())
    assert everybody == told["root", ""] == ours.report("cluster", "--full")
    cluster = accounting.sreport("cluster", "Utilization", since=since, until=until)
    assert [int(row[2]) for row in cluster] == [*everybody]


def test_each_day_of_a_month(accounting: Accounting, ours: Ours) -> None:
    """… also its first and its last, over which jobs ran that began before or ended after."""
    since, until = month(2)
    by_day = ours.by_day()
    for day in range(since, until, DAY):
        told = accounting.by_user(day, day + DAY)
        assert {key[1:]: used for key, used in by_day.items() if key[0] == day} == {
            key: used for key, used in told.items() if key[1]
        }, _day(day)


def test_a_day_of_real_jobs(lab: Lab, accounting: Accounting, tmp_path: Path) -> None:
    lab.run("bash", "-c", SUBMIT)
    jobs = accounting.table("job")
    of = f"FROM {jobs} WHERE job_name LIKE '{PREFIX}-%'"

    def ended() -> bool:
        ((rows, open_),) = accounting.sql(f"SELECT COUNT(*), COALESCE(SUM(time_end = 0), 0) {of}")
        return (int(rows), int(open_)) == (ROWS, 0)

    lab.wait_for(ended)
    ids = [int(id_) for (id_,) in accounting.sql(f"SELECT DISTINCT id_job {of}")]
    back = 7 * DAY
    accounting.move(ids, -back)
    try:
        ((first, last),) = accounting.sql(f"SELECT MIN(time_submit), MAX(time_end) {of}")
        since, until = int(first) // DAY * DAY, (int(last) // DAY + 1) * DAY
        accounting.roll_up(since, until)
        told = {key: used for key, used in accounting.by_user(since, until).items() if key[1]}
        states = {state for (state,) in accounting.sql(f"SELECT DISTINCT state {of}")}
        ours = Ours(lab, tmp_path, since, until)
        twice = _counted_twice(accounting, of)
        assert bool(twice) is (lab.generation == "22.05")
        assert {key: used.plus(twice.get(key, Used())) for key, used in ours.by_user().items()} == told
        assert set(told) == {("physics", "alice"), ("physics", "bob"), ("bio", "carol"), ("bio", "dana.o-neil")}
        assert states >= {"3", "4", "5", "6", "1024"}
    finally:
        accounting.move(ids, back)


def _counted_twice(accounting: Accounting, of: str) -> dict[tuple[str, str], Used]:
    """What the slurmdbd of 22.05 counts twice: the second record of a job that was resized was submitted then, but has
    the start of the first one."""
    rows = accounting.sql(
        f"SELECT id_assoc, LEAST(time_submit, time_end) - time_start, tres_alloc {of} AND time_start < time_submit "
        "AND time_start > 0"
    )
    names = {holder.assoc: (holder.account, holder.user) for holder in accounting.holders()}
    found: dict[tuple[str, str], Used] = {}
    for assoc, seconds, tres in rows:
        held = {int(number): int(count) for number, count in (one.split("=") for one in tres.split(","))}
        key = names[int(assoc)]
        used = Used(held[1], held[2], held.get(accounting.tres().gpu, 0))
        found[key] = found.get(key, Used()).plus(Used(*(count * int(seconds) for count in used)))
    return found


def test_a_job_that_was_suspended_over_midnight(lab: Lab, accounting: Accounting, tmp_path: Path) -> None:
    """sacct tells for how long it was suspended and not when: the days share that by the time that it ran."""
    since, _ = month(4)
    midnight, until = since + DAY, since + 2 * DAY
    holder, lane = accounting.holders()[0], Lane("g1", 1, "gpu", 4, 1000, 2)
    times = midnight - 2 * HOUR, midnight - HOUR, midnight + HOUR
    record = job(holder, lane, accounting.tres(), FIRST_ID, times, 3)
    accounting.insert([paused(record, (midnight - HOUR, midnight - 1800))])
    accounting.roll_up(since, until)
    of = holder.account, holder.user
    assert Ours(lab, tmp_path, since, until).by_day() == {
        (since, *of): Used(4 * 2700, 1000 * HOUR, 2 * HOUR),
        (midnight, *of): Used(4 * 2700, 1000 * HOUR, 2 * HOUR),
    }
    assert accounting.by_user(since, midnight)[of] == Used(4 * 1800, 1000 * HOUR, 2 * HOUR)
    assert accounting.by_user(midnight, until)[of] == Used(4 * 3600, 1000 * HOUR, 2 * HOUR)
    assert accounting.by_user(since, until)[of] == Used(4 * 5400, 1000 * 2 * HOUR, 2 * 2 * HOUR)
    # sreport itself is of two minds, whether a suspended job has its GPUs
    sizes = accounting.sreport("job", "SizesByAccount", "FlatView", since=since, until=until, tres=["gres/gpu"])
    assert [(row[1], int(row[2])) for row in sizes] == [(holder.account, 2 * 5400)]


def test_what_a_reservation_kept_free_is_no_usage_of_ours(lab: Lab, accounting: Accounting, tmp_path: Path) -> None:
    """slurmdbd shares it out among those who might have used it. Here a job fills it for the first of two hours."""
    since, _ = month(5)
    start, end, until = since + HOUR, since + 3 * HOUR, since + DAY
    one, other = [holder for holder in accounting.holders() if holder.user in ("bob", "carol")]
    times = start, start, start + HOUR
    accounting.insert([Job(job(one, SIZE, accounting.tres(), FIRST_ID, times, 3, id_resv=FIRST_ID))])
    resv = accounting.table("resv")
    accounting.sql(
        f"INSERT INTO {resv} (id_resv, assoclist, flags, nodelist, node_inx, resv_name, time_start, time_end, tres) "
        f"VALUES ({FIRST_ID}, '{one.assoc},{other.assoc}', 0, 'n1', '2', 'kept', {start}, {end}, '1=4')"
    )
    try:
        accounting.roll_up(since, until)
        used = Ours(lab, tmp_path, since, until).by_user()
        assert used == {(one.account, one.user): Used(4 * HOUR, 1000 * HOUR)}
        idle = 4 * HOUR // 2
        told = accounting.by_user(since, until)
        assert told[one.account, one.user] == Used(4 * HOUR + idle, 1000 * HOUR)
        assert told[other.account, other.user] == Used(idle)
        ((_, _, allocated, *_), *_) = accounting.sreport("cluster", "Utilization", since=since, until=until)
        assert int(allocated) == 4 * 2 * HOUR
    finally:
        accounting.sql(f"DELETE FROM {resv} WHERE id_resv = {FIRST_ID}")
