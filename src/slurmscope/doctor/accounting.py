# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The accounting of a cluster: whether what happened there can be read into the store."""

from __future__ import annotations

import asyncio
import time

from slurmscope.doctor import access, cures
from slurmscope.doctor.answers import Answers
from slurmscope.doctor.finding import Chart, Check
from slurmscope.life import Accounted
from slurmscope.model import RUNNING, Config, Job
from slurmscope.settings import Cluster, Settings
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.source import Reading, SourceError
from slurmscope.slurm.text import ACCOUNTING_TYPE, DBD
from slurmscope.slurm.transport import NotFound, TransportError
from slurmscope.store import place
from slurmscope.words import amount

_WINDOW = 900
_MINUTES = _WINDOW // 60
_WITHOUT = "lives are kept from polls alone, without what their steps used and what happens while slurmscope is stopped"


async def look(chart: Chart, cluster: Cluster, settings: Settings, answers: Answers) -> None:
    if place.url_of(settings.store) == place.NONE:
        return  # nobody would read it
    config: Config | None = answers.value("config")
    if config is None and answers.best("jobs") is None:
        return  # what is wrong there is told already
    kind = config.settings.get(ACCOUNTING_TYPE, DBD) if config is not None else DBD
    if not settings.accounting.enabled:
        chart.skipped(Check.ACCOUNTING, f"accounting.enabled is false: {_WITHOUT}")
    elif kind != DBD:
        chart.skipped(
            Check.ACCOUNTING,
            f"AccountingStorageType is {kind}: {_WITHOUT}",
            f"to have it: AccountingStorageType={DBD} in slurm.conf, and a slurmdbd",
        )
    elif TEXT not in answers.ways:
        chart.skipped(
            Check.ACCOUNTING,
            f"it is read by sacct, and there are no commands for this cluster: {_WITHOUT}",
            f"to have it: set {answers.setting('ssh')} to a login node, or {answers.setting('bin_dir')}",
        )
    else:
        await _read(chart, cluster, answers)


async def _read(chart: Chart, cluster: Cluster, answers: Answers) -> None:
    until = int(time.time())
    source = source_of(cluster)
    patience = cluster.slurm.timeout
    by_hand = f"`{cures.by_hand(answers, f'sacct --allusers --starttime=now-{_MINUTES}minutes')}`"
    try:
        # serve waits longer for a database, but these few minutes should be no work
        async with asyncio.timeout(patience):
            reading = await source.read("history", (until - _WINDOW, until))
    except TimeoutError:
        chart.warning(
            Check.ACCOUNTING,
            f"sacct did not tell of the last {_MINUTES} minutes in {patience:g} s",
            f"{by_hand} shows how long it takes; if long, look at slurmdbd and its database",
        )
    except NotFound as error:
        chart.warning(Check.ACCOUNTING, f"{error}: {_WITHOUT}", cures.bin_dir(answers))
    except (TransportError, SourceError) as error:
        chart.failed(
            Check.ACCOUNTING,
            f"the last {_MINUTES} minutes are not told: {error}; until they are, {_WITHOUT}",
            f"{by_hand} must succeed for the user that runs slurmscope; `systemctl status slurmdbd` on its host",
        )
    else:
        _told(chart, answers, reading, until - _WINDOW)
    finally:
        await source.close()


def _told(chart: Chart, answers: Answers, reading: Reading, since: int) -> None:
    records: tuple[Accounted, ...] = reading.value
    users = {one.job.user for one in records}
    told = (
        f"sacct told of the last {_MINUTES} minutes in {reading.seconds or 0:.2f} s: "
        f"{amount(len(records), 'job')} of {amount(len(users), 'user')}"
    )
    if reading.rows_skipped:
        chart.warning(
            Check.ACCOUNTING,
            f"{told}; {amount(reading.rows_skipped, 'row')} could not be read",
            cures.report(),
        )
    elif _hidden(answers, users, since):
        who = access.user(answers) or "the user there"
        chart.warning(
            Check.ACCOUNTING,
            f"{told}; others have jobs that run since before then, and {who} is not told of them: "
            "PrivateData in slurmdbd.conf hides them",
            access.promotion(answers, "operator"),
        )
    else:
        chart.ok(Check.ACCOUNTING, told)


def _hidden(answers: Answers, users: set[str], since: int) -> bool:
    """Whether squeue shows others at work of whom sacct is silent. slurmdbd's own PrivateData cannot be asked for."""
    jobs: tuple[Job, ...] = answers.value("jobs") or ()
    at_work = {job.user for job in jobs if job.state == RUNNING and job.start_time and job.start_time < since}
    # who sees others' jobs at all sees them all; where it is not known who we are, one user may be us
    who = access.user(answers)
    seen = users - {who} if who or len(users) != 1 else set()
    return not seen and bool(at_work - users - {who})
