# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job that never uses its GPUs is cancelled after two warnings have gone out, where a site wants it; else never."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from findings import gpus
from mail.kept import DOCUMENT, NEVER, life
from mail.server import Box, serving, settings
from msgspec.structs import replace

from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.life import Life
from slurmscope.mail import service
from slurmscope.mail.cancelling import CANCELLED, WOULD, Canceller
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.office import Office
from slurmscope.mail.post import Post
from slurmscope.settings import Cluster, Settings, Slurm
from slurmscope.slurm import acting
from slurmscope.slurm.acting import scancel
from slurmscope.slurm.transport import Failed
from slurmscope.summary import Summary

FINDING = Finding("its GPU was never used", "", "", rule="zero_gpu", severity="bad")
NOW = 1_700_050_000
ON = {"cancel_zero_gpu": True, "cancel_hours": 4.0}


class Site:
    """A ledger, a mail server, and a scancel that only remembers."""

    def __init__(self, folder: Path, port: int) -> None:
        self.ledger = Ledger(folder / "notices.db")
        self.port = port
        self.now = NOW
        self.cancelled: list[int] = []
        self.broken = False

    async def cancel(self, one: Life) -> str:
        if self.broken:
            raise Failed("scancel exited with 1: no")
        self.cancelled.append(one.id)
        return " ".join(scancel(one))

    def consider(self, case: Case | None = None, finding: Finding = FINDING, **more: Any) -> str:
        mail = settings(self.port, **(ON | more))
        office = Office(mail, self.ledger, clock=lambda: self.now)
        canceller = Canceller(mail, self.ledger, office, self.cancel, clock=lambda: self.now)
        return asyncio.run(canceller.consider(case or running(self.now), finding, DOCUMENT))

    def send(self) -> None:
        Post(settings(self.port), self.ledger, clock=lambda: self.now).run()

    def events(self) -> list[str]:
        return [one.event for one in reversed(self.ledger.entries())]


def running(now: int = NOW, used: Summary = NEVER, **fields: Any) -> Case:
    """One that is measured, and seen by polls, up to now."""
    given = {"time_limit": 10 * 86400, "changed_time": now} | fields
    return gpus.of(replace(life(), **given), replace(used, last=now) if used is NEVER else used, now=now)


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def site(tmp_path: Path, box: Box) -> Iterator[Site]:
    with serving(box) as port:
        found = Site(tmp_path, port)
        yield found
        found.ledger.close()


def test_two_warnings_then_the_end(site: Site, box: Box) -> None:
    assert site.consider() == "queued"
    assert site.consider() == "it is not certain that the last warning has arrived"
    site.send()
    assert site.consider() == "the last warning is not old enough"
    site.now += 4 * 3600
    assert site.consider() == "queued"
    site.send()
    site.now += 4 * 3600 - 1
    assert site.consider() == "the last warning is not old enough"
    assert site.cancelled == []
    site.now += 1
    assert site.consider() == CANCELLED
    assert site.cancelled == [7]
    site.send()
    subjects = [str(mail["Subject"]) for mail in box.mails]
    will, was = "[c] Job 7 will be cancelled: its GPUs are not used", "[c] Job 7 was cancelled: its GPUs are not used"
    assert subjects == [will, will, was]
    first = box.mails[0].get_body(("plain",))
    assert first is not None and "warning 1 of 2" in first.get_content()
    assert site.events() == ["queued", "sent", "queued", "sent", "cancels", "cancelled", "queued", "sent"]
    why = next(one.why for one in site.ledger.entries() if one.event == "cancelled")
    assert why == "scancel --state=RUNNING --user=alice --partition=main 7"


def warned(site: Site) -> None:
    """To the last moment before the end."""
    for _ in range(2):
        assert site.consider() == "queued"
        site.send()
        site.now += 4 * 3600


@pytest.mark.parametrize(
    ("more", "fields", "why"),
    [
        ({"cancel_zero_gpu": False}, {}, "mail.cancel_zero_gpu is off"),
        ({"exempt_users": ["alice"]}, {}, "the user is exempt (mail.exempt_users)"),
        ({"exempt_partitions": ["main"]}, {}, "partition main is exempt (mail.exempt_partitions)"),
        ({"exempt_accounts": ["physics"]}, {}, "account physics is exempt (mail.exempt_accounts)"),
        ({}, {"name": "bash"}, "it is interactive"),
        ({}, {"state": "COMPLETED"}, "only a running job whose GPUs were never used is cancelled"),
        ({}, {"state": "PENDING"}, "only a running job whose GPUs were never used is cancelled"),
        ({"quiet_hours": "00:00-23:59", "time_zone": "UTC"}, {}, "it is a quiet time"),
    ],
)
def test_who_is_left_alone_however_often_they_were_warned(
    site: Site, more: dict[str, Any], fields: dict[str, Any], why: str
) -> None:
    warned(site)
    assert site.consider(running(site.now, **fields), **more) == why
    assert site.cancelled == []


def test_another_job_of_the_same_number_or_user_was_not_warned(site: Site) -> None:
    warned(site)
    assert site.consider(running(site.now, id=8)) == "queued"
    assert site.consider(running(site.now, submit_time=(life().submit_time or 0) + 1)) == "queued"
    assert site.cancelled == []


def test_other_rules_cancel_nothing(site: Site) -> None:
    warned(site)
    assert site.consider(finding=replace(FINDING, rule="low_gpu")).startswith("only a running job")
    assert site.cancelled == []


def test_who_says_that_it_is_fine_or_opts_out_is_left_alone(site: Site) -> None:
    warned(site)
    site.ledger.fine("alice", "zero_gpu", life().name, "", site.now)
    assert site.consider() == "the user has said that it is fine for this work"
    site.ledger.opt_out("alice", site.now, "")
    assert site.consider() == "the user has opted out"
    assert site.cancelled == []
    assert site.events().count("left alone") == 1


def test_in_a_dry_run_nothing_is_cancelled(site: Site, box: Box) -> None:
    for _ in range(2):
        assert site.consider(enabled=False) == "would send"
        site.now += 4 * 3600
    assert site.consider(enabled=False) == WOULD
    assert site.cancelled == [] and box.mails == []
    # and what was only tried is no warning
    assert site.consider() == "queued"


def test_a_scancel_that_fails_is_written_down(site: Site) -> None:
    warned(site)
    site.broken = True
    assert site.consider() == "not cancelled: scancel exited with 1: no"
    assert site.events()[-2:] == ["cancels", "not cancelled"]
    assert site.consider() == "it was tried a short time ago"
    site.now += 1800
    assert site.consider() == "not cancelled: scancel exited with 1: no"
    assert site.events().count("not cancelled") == 1  # it is written once
    site.now += 1800
    site.broken = False
    assert site.consider() == CANCELLED
    assert site.consider() == "it was tried a short time ago"  # the store hears of it later
    assert site.cancelled == [7]


HOUR = 3600


@pytest.mark.parametrize(
    ("fields", "used", "why"),
    [
        ({"gone_time": NOW}, {}, "it was not seen lately"),
        ({"changed_time": NOW}, {}, "it was not seen lately"),
        ({}, {"last": NOW + 8 * HOUR - 601}, "what it does now is not measured"),
        ({}, {"coverage": 0.9}, "not all of its time was measured"),
        ({}, {"seconds": 5.0 * HOUR}, "not all of its time was measured"),
        ({}, {"gpus": gpus.summary(0.0, 0.0, each={"seconds": 5.0 * HOUR}).gpus}, "not all of its time was measured"),
        ({"gpus": {"a100": 2}}, {}, "not all of its time was measured"),
        ({}, {"gpus": gpus.summary(0.01, 0.2).gpus}, "by the thresholds of zero_gpu itself its GPUs were used"),
    ],
)
def test_what_is_not_certain_now_cancels_nothing(
    site: Site, fields: dict[str, Any], used: dict[str, Any], why: str
) -> None:
    warned(site)
    case = running(site.now, replace(NEVER, **({"last": site.now} | used)), **fields)
    assert site.consider(case) == why
    assert site.cancelled == []


class Slurmed:
    """A squeue, an scontrol and an scancel that only remember."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.row = f"7|alice|{life().submit_time}|RUNNING|main|"
        self.after = "7|alice|1|CANCELLED|main|"
        self.write("scancel", f'echo "$@" >> {folder}/ran; cp {folder}/after {folder}/row')
        self.write("squeue", f"cat {folder}/row")
        self.write("scontrol", "echo 'ClusterName             = c'")

    def write(self, name: str, script: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def cancel(self, whole: Settings | None = None, **fields: Any) -> str:
        (self.folder / "row").write_text(self.row + "\n")
        (self.folder / "after").write_text(self.after + "\n")
        settings_ = whole or Settings(slurm=Slurm(bin_dir=str(self.folder)))
        return asyncio.run(service._cancel(settings_, replace(life(), **fields)))

    @property
    def ran(self) -> bool:
        return (self.folder / "ran").exists()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurmed:
    monkeypatch.setattr(acting, "_PAUSE", 0.01)
    return Slurmed(tmp_path)


def test_squeue_is_asked_before_and_after_by_commands_that_only_remember(slurm: Slurmed) -> None:
    assert slurm.cancel() == "scancel --state=RUNNING --user=alice --partition=main 7"
    assert slurm.ran


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("", "squeue knows no such job any more"),
        ("7|bob|{at}|RUNNING|main|", "another user"),
        ("7|alice|1600000000|RUNNING|main|", "another submit time"),
        ("7|alice|N/A|RUNNING|main|", "another submit time"),
        ("7|alice|{at}|COMPLETING|main|", "another state"),
        ("8|alice|{at}|RUNNING|main|", "another number"),
        ("7|alice|{at}|RUNNING|main|\n8|alice|{at}|RUNNING|main|", "tells of 2 jobs"),
    ],
)
def test_what_is_not_the_job_that_was_meant_is_left_alone(slurm: Slurmed, row: str, why: str) -> None:
    slurm.row = row.format(at=life().submit_time)
    with pytest.raises(Failed, match=why):
        slurm.cancel()
    assert not slurm.ran


def test_a_job_that_is_gone_is_no_failure_of_squeue(slurm: Slurmed) -> None:
    slurm.write("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    with pytest.raises(Failed, match="knows no such job any more"):
        slurm.cancel()
    slurm.write("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(Failed, match="squeue exited with 1"):
        slurm.cancel()


def test_a_scancel_that_did_nothing_has_not_cancelled(slurm: Slurmed) -> None:
    slurm.after = slurm.row
    with pytest.raises(Failed, match="still runs"):
        slurm.cancel()


def test_a_job_of_another_cluster_is_left_alone(slurm: Slurmed) -> None:
    bin_dir = str(slurm.folder)
    with pytest.raises(Failed, match="ask the cluster c, and the job is one of beta"):
        slurm.cancel(cluster="beta")
    with pytest.raises(Failed, match="name no cluster beta"):
        slurm.cancel(Settings(slurm=Slurm(cluster="alpha", bin_dir=bin_dir)), cluster="beta")
    rest = Slurm(cluster="beta", bin_dir=bin_dir, rest_url="https://beta.example.org", source="rest")
    own = frozenset({"rest_url", "source"})
    both = {"alpha": Cluster(Slurm(cluster="alpha", bin_dir=bin_dir), own=frozenset()), "beta": Cluster(rest, own=own)}
    with pytest.raises(Failed, match="no commands of the cluster beta"):
        slurm.cancel(Settings(clusters=both), cluster="beta")
    with pytest.raises(Failed, match="name no cluster gamma"):
        slurm.cancel(Settings(clusters=both), cluster="gamma")
    assert not slurm.ran


def test_of_an_array_one_task_is_meant() -> None:
    assert scancel(life())[-1] == "7"
    assert scancel(replace(life(), array_id=7, array_tasks="3"))[-1] == "7_3"
    with pytest.raises(Failed, match="stands for several tasks"):
        scancel(replace(life(), array_id=7, array_tasks="3-5"))
