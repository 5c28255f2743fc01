# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The command `slurmscope why`: why a job waits, and what can be done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from slurmscope.life import Life
from slurmscope.look import complain, from_option, look, watched
from slurmscope.model import Job, Snapshot
from slurmscope.settings import Settings
from slurmscope.store import place
from slurmscope.store.protocol import Lives, Store, StoreError
from slurmscope.terminal import config_option, fail, load, run, show, show_json, show_table
from slurmscope.waiting.case import id_of, most
from slurmscope.waiting.explanation import Explanation, explain
from slurmscope.waiting.reasons import parse, reason_of
from slurmscope.waiting.record import StartRecord, starts
from slurmscope.waiting.wanted import parsed_id, wanted
from slurmscope.words import amount, moment, printable, span

_WHOLE = 5  # records of an array that are explained
_Record = Callable[[Snapshot, Job, float], StartRecord | None]


class Answer(msgspec.Struct):
    """What is said of one record of the queue."""

    cluster: str
    job: str
    name: str
    user: str
    account: str
    partition: str
    state: str
    tasks: int
    submit_time: int | None
    start_time: int | None
    end_time: int | None
    explanation: Explanation | None  # None: it does not wait


@click.command("why")
@click.argument("job", metavar="[JOBID]", required=False)
@config_option
@from_option
@click.option("--cluster", help="On which cluster. Default: all that the settings name.")
@click.option("--user", help="In place of JOBID: all that this user waits for, by reason.")
@click.option("--all", "everybody", is_flag=True, help="In place of JOBID: all that anybody waits for, by reason.")
@click.option("--json", "as_json", is_flag=True, help="For scripts, in base units; null is unknown.")
def why_command(
    job: str | None,
    path: Path | None,
    recording: Path | None,
    cluster: str | None,
    user: str | None,
    everybody: bool,
    as_json: bool,
) -> None:
    """Say why a job waits: what holds it back, who can let it go, what to do, and when it may start.

    JOBID is a job's number, an array's, or one task's of an array (123_4). The cluster is asked once, as by
    `slurmscope snapshot`; how good its guesses were, and what similar jobs waited, is from the store, if there is one.
    docs/waiting.md lists every reason.
    """
    if sum((job is not None, user is not None, everybody)) != 1:
        fail("expected one of a job's number (JOBID), --user NAME and --all", 2)
    meant = parsed_id(job) if job is not None else (0, None)
    if meant is None:
        fail(f"JOBID: expected a number, or 123_4 for the task of an array, found {printable(job or '')!r}", 2)
    settings = load(path).settings
    snapshots = _looked(settings, recording, cluster)
    if job is None:
        _show_reasons(snapshots, user, as_json=as_json)
        return
    with _kept(settings, recording) as store:
        answers = list(_answers(snapshots, *meant, _recorder(store)))
        if not answers:
            _unknown(job, *meant, store, cluster)
    if as_json:
        show_json(answers)
        return
    # of an array that waits it is not told one by one what became of its other tasks
    told = [one for one in answers if one.explanation is not None][:_WHOLE] or answers[:_WHOLE]
    for at, one in enumerate(told):
        if at:
            show("")
        _show(one)
    if len(answers) > len(told):
        rest = Counter(one.state for one in answers)
        rest.subtract(one.state for one in told)
        show("\nbesides: " + ", ".join(f"{count:,} {state}" for state, count in rest.items() if count))


def _looked(settings: Settings, recording: Path | None, cluster: str | None) -> list[Snapshot]:
    clusters = watched(settings, recording, from_zero=False)
    there = [one for one in clusters if cluster is None or one.poll.snapshot.cluster in ("", cluster)]
    run(look(there, None, False))
    found = [one.poll.snapshot for one in there if cluster in (None, one.poll.snapshot.cluster)]
    if not found:
        names = ", ".join(one.poll.snapshot.cluster for one in clusters)
        fail(f"--cluster: expected {names}, found {printable(cluster or '')}", 2)
    complain(there)
    if all(one.jobs.value is None for one in found):
        fail("the queue could not be read; `slurmscope doctor` says what to do")
    return found


def _now(snapshot: Snapshot) -> float:
    """When the queue was read: a recording is of its own moment."""
    return snapshot.jobs.time or time.time()


# --- what is kept -----------------------------------------------------------------------------------------------------


@contextmanager
def _kept(settings: Settings, recording: Path | None) -> Iterator[Store | None]:
    """The store, if there is one that can be read; a recording is not of what is kept here."""
    url = place.NONE if recording is not None else place.url_of(settings.store)
    try:
        store = None if url == place.NONE else place.open_store(url, must_exist=True)
    except StoreError:
        store = None  # it is explained without: that there is none is no fault
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def _recorder(store: Store | None) -> _Record:
    def made(snapshot: Snapshot, job: Job, now: float) -> StartRecord | None:
        if store is None:
            return None
        try:
            return starts(store, snapshot.cluster, job.partitions, now).of(job)
        except StoreError as error:
            click.echo(f"slurmscope: without what was before: {printable(str(error))}", err=True)
            return None

    return made


# --- one job ----------------------------------------------------------------------------------------------------------


def _answers(snapshots: Sequence[Snapshot], number: int, task: int | None, record: _Record) -> Iterator[Answer]:
    for snapshot in snapshots:
        now = _now(snapshot)
        found = wanted(snapshot.jobs.value or (), number, task)
        for at, job in enumerate(sorted(found, key=lambda job: not job.waiting)):
            why = (
                explain(job, snapshot, record(snapshot, job, now) if at < _WHOLE else None, now)
                if job.waiting
                else None
            )
            yield Answer(
                cluster=snapshot.cluster,
                job=id_of(job),
                name=job.name,
                user=job.user,
                account=job.account,
                partition=job.partition,
                state=job.state,
                tasks=job.tasks,
                submit_time=job.submit_time,
                start_time=job.start_time,
                end_time=job.end_time,
                explanation=why,
            )


def _unknown(job: str, number: int, task: int | None, store: Store | None, cluster: str | None) -> None:
    """Ends here: the queue has no such job."""
    for life in _lives(store, number, task, cluster):
        fail(f"job {job} of {printable(life.user)} does not wait: {_end(life)}; `slurmscope job {job}` says more")
    fail(
        f"no job {job} is in the queue. It may have ended: `slurmscope job {job}` tells what is kept of it, "
        f"`sacct -j {job}` what the accounting knows. Or it is hidden from who runs this (PrivateData)"
    )


def _lives(store: Store | None, number: int, task: int | None, cluster: str | None) -> list[Life]:
    if store is None:
        return []
    try:
        found = store.lives(Lives(cluster=cluster, id=number, limit=None if task is not None else 1))
    except StoreError:
        return []
    return [life for life in found if task is None or (life.array_id == number and life.array_tasks == str(task))]


def _end(life: Life) -> str:
    if not life.ended:
        return f"it was {life.state} when it was last seen, at {moment(life.changed_time)}"
    return f"it ended ({life.state}) at {moment(life.end_time)}"


def _show(one: Answer) -> None:
    where = f"in {one.partition} on {one.cluster}" if one.cluster else f"in {one.partition}"
    what = f"{one.job} {one.name}, of {one.user} ({one.account}), {where}"
    why = one.explanation
    if why is None:
        show(printable(f"job {what} does not wait: {_going(one)}"))
        return
    tasks = f"; {amount(one.tasks, 'task')} of an array" if one.tasks > 1 else ""
    rows = [("job", what + tasks)]
    if one.submit_time is not None:
        rows.append(("submitted", moment(one.submit_time)))
    rows.append(("reason", why.reason))
    rows.append(("means", why.words))
    rows.append(("up to", why.decides))
    rows += [(fact.name, fact.text) for fact in why.facts]
    rows += [("to do" if not at else "", action) for at, action in enumerate(why.actions)]
    rows += [("estimate" if not at else "", words) for at, words in enumerate(why.estimate.words)]
    show_table(("", ""), [(name, printable(text)) for name, text in rows])


def _going(one: Answer) -> str:
    if one.state in ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"):
        return f"it is {one.state} since {moment(one.start_time)}, until {moment(one.end_time)} at the latest"
    return f"it ended ({one.state}) at {moment(one.end_time)}"


# --- all that waits ---------------------------------------------------------------------------------------------------


class Group(msgspec.Struct):
    cluster: str
    reason: str
    words: str
    decides: str
    tasks: int
    users: dict[str, int]
    jobs: list[str]
    longest: int | None  # seconds since the first of them was submitted


def _show_reasons(snapshots: Sequence[Snapshot], user: str | None, *, as_json: bool) -> None:
    groups = [group for snapshot in snapshots for group in _groups(snapshot, user)]
    if as_json:
        show_json(groups)
        return
    if not groups:
        show(f"nothing of {printable(user)} waits" if user is not None else "nothing waits")
        return
    several = len(snapshots) > 1
    rows: list[tuple[str, ...]] = []
    for one in groups:
        whose = most(one.users) if user is None else ", ".join(one.jobs[:_WHOLE]) + (" …" if one.jobs[_WHOLE:] else "")
        row = (one.reason, f"{one.tasks:,}", whose, span(one.longest), one.words)
        rows.append(tuple(map(printable, (one.cluster, *row) if several else row)))
    head = ("reason", "jobs", "whose" if user is None else "which", "longest", "what it means")
    show_table(("cluster", *head) if several else head, rows)


def _groups(snapshot: Snapshot, user: str | None) -> list[Group]:
    """By reason, that with the most tasks first."""
    now = _now(snapshot)
    groups: dict[str, dict[str, Any]] = {}
    for job in snapshot.jobs.value or ():
        if not job.waiting or user not in (None, job.user):
            continue
        group = groups.setdefault(parse(job.reason).name, {"users": Counter(), "jobs": [], "since": None})
        group["users"][job.user] += job.tasks
        group["jobs"].append(id_of(job))
        if job.submit_time is not None:
            group["since"] = min(job.submit_time, group["since"] or job.submit_time)
    found = []
    for name, group in groups.items():
        row = reason_of(parse(name))
        since = group["since"]
        longest = None if since is None else max(0, int(now) - since)
        users = dict(group["users"].most_common())
        tasks = sum(users.values())
        found.append(Group(snapshot.cluster, name, row.words, row.decides, tasks, users, group["jobs"], longest))
    return sorted(found, key=lambda one: -one.tasks)
