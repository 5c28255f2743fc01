# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The real slurmctld calls our MailProg, and the mail arrives; a real job without use of its GPU is cancelled."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from findings import gpus
from lab.cluster import Lab
from lives import job as made
from mail.kept import DOCUMENT, NEVER
from mail.server import Box, serving, settings
from msgspec.structs import replace

from slurmscope import life as lives
from slurmscope.findings.case import Case
from slurmscope.findings.rule import Finding
from slurmscope.life import Life
from slurmscope.mail.cancelling import CANCELLED, Canceller
from slurmscope.mail.ledger import Ledger
from slurmscope.mail.office import Office
from slurmscope.mail.post import Post
from slurmscope.settings import Slurm
from slurmscope.slurm.acting import cancel
from slurmscope.slurm.transport import Failed

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
SCRIPT = Path(__file__).parent.parent.parent / "packaging" / "slurm" / "mailprog"
CONF = "/lab/etc/slurm.conf"


def write(lab: Lab, path: str, text: str) -> None:
    lab.run("sh", "-c", f"cat > {path} && chmod 755 {path}", input=text.encode())


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def site(lab: Lab, box: Box, tmp_path: Path) -> Iterator[Path]:
    """slurmctld's MailProg is ours, and sends to the box. The folder has the settings and what is kept."""
    with serving(box) as port:
        config = tmp_path / "slurmscope.toml"
        config.write_text(
            f'[store]\nfolder = "{tmp_path}"\n[slurm]\nbin_dir = "{lab.bin}"\ncluster = "{lab.cluster}"\n[mail]\n'
            f'enabled = true\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\n'
            'sender = "slurm@example.org"\naddress = "{user}@example.org"\n'
        )
        # slurmctld has a root of its own, in which there is no slurmscope: ours is reached through this process
        write(
            lab,
            "/lab/etc/slurmscope",
            f'#!/bin/sh\nSLURMSCOPE_CONFIG={config} exec chroot /proc/{os.getpid()}/root {SLURMSCOPE} "$@"\n',
        )
        write(lab, "/lab/etc/mailprog", SCRIPT.read_text().replace("/opt/slurmscope/bin/", "/lab/etc/"))
        before = lab.run("cat", CONF).stdout.decode()
        write(lab, CONF, f"{before}\nMailProg=/lab/etc/mailprog\n")
        lab.run("scontrol", "reconfigure")
        try:
            yield tmp_path
        finally:
            write(lab, CONF, before)
            lab.run("scontrol", "reconfigure")


def submit(lab: Lab, *options: str, script: str = "sleep 1") -> str:
    argv = ["sbatch", "--parsable", "-o/dev/null", "--mem=100", "--mail-type=ALL", *options]
    return lab.run(*argv, user="alice", input=f"#!/bin/sh\n{script}\n".encode()).stdout.decode().strip()


def arrived(lab: Lab, box: Box, *words: str) -> EmailMessage:
    """The mail with all these words in its subject."""

    def found() -> list[EmailMessage]:
        return [mail for mail in box.mails if all(word in str(mail["Subject"]) for word in words)]

    return lab.wait_for(found)[0]


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def state(lab: Lab, job: str) -> str:
    return lab.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.decode().strip()


def test_slurmctld_tells_of_a_job_and_its_end_comes_with_a_report(lab: Lab, site: Path, box: Box) -> None:
    number = submit(lab, "-Jmail me", script="sleep 40")
    began = arrived(lab, box, f"Job_id={number} ", "Name=mail me Began")
    assert began["To"] == "alice@example.org"
    assert text_of(began).splitlines()[-1] == "WARNING=false"
    environment = {**os.environ, "SLURMSCOPE_CONFIG": str(site / "slurmscope.toml")}
    # slurmctld tells the accounting of it some seconds later
    lab.wait_for(lambda: b"RUNNING" in lab.run("sacct", "-n", "-X", "-j", number, "-o", "state").stdout)
    subprocess.run([SLURMSCOPE, "import", "--since", "1h"], env=environment, check=True, capture_output=True)
    ended = arrived(lab, box, f"Job_id={number} ", "Ended", "COMPLETED, ExitCode 0")
    text = text_of(ended)
    assert "mail me" in text and "COMPLETED" in text and "Asked" in text
    assert text.splitlines()[-1].startswith("WARNING=")
    assert ended.get_body(("html",)) is not None
    log = subprocess.run([SLURMSCOPE, "mail", "log"], env=environment, check=True, capture_output=True, text=True)
    assert log.stdout.count(" sent ") == 2


def test_a_job_that_fails_to_an_address_of_its_user_s_choice(lab: Lab, site: Path, box: Box) -> None:
    number = submit(lab, "--mail-user=me@home.example", "-Jx\nBcc: y@example.org Ended", script="exit 3")
    failed = arrived(lab, box, f"Job_id={number} ", "Failed", "ExitCode 3")
    assert failed["To"] == "me@home.example" and failed["Bcc"] is None
    assert set(box.recipients) == {"me@home.example"}


def test_an_array_is_told_of_as_a_whole(lab: Lab, site: Path, box: Box) -> None:
    number = submit(lab, "--array=0-1", "-Jmany")
    summary = arrived(lab, box, f"Slurm Array Summary Job_id={number}_*", "Ended")
    assert text_of(summary).splitlines()[-1] == "WARNING=false"


def running(lab: Lab, number: str, task: str | None = None) -> Life:
    """As a poll would see it, but for its start, which was two hours ago."""
    now = int(time.time())
    name = number if task is None else f"{number}_{task}"
    fields = "JobID:|,SubmitTime:|"
    argv = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-j", name, "-O", fields]
    id_, submitted, _ = lab.run(*argv).stdout.decode().split("|")
    seen = made(
        int(id_),
        "RUNNING",
        submit_time=int(submitted),
        start_time=now - 7200,
        time_limit=10 * 86400,
        partition="gpu",
        gpus={"rtx8000": 1},
        array_id=int(number) if task is not None else None,
        array_tasks=task,
    )
    return lives.seen(None, lab.cluster, seen, now)


def test_a_job_is_cancelled_after_two_warnings_and_no_other(lab: Lab, box: Box, tmp_path: Path) -> None:
    first = submit(lab, "-pgpu", "--gres=gpu:1", "--mail-type=NONE", script="sleep 600")
    other = submit(lab, "-pgpu", "--gres=gpu:1", "--mail-type=NONE", script="sleep 600")
    for number in (first, other):
        lab.wait_for(lambda number=number: state(lab, number) == "RUNNING")  # type: ignore[misc]
    finding = Finding("its GPU was never used", "", "", rule="zero_gpu", severity="bad")
    ledger, slurm = Ledger(tmp_path / "notices.db"), Slurm(bin_dir=str(lab.bin))
    life = running(lab, first)
    with serving(box) as port:
        mail = settings(port, cancel_zero_gpu=True, cancel_hours=1.0)
        times = [time.time()]

        def clock() -> float:
            return times[-1]

        def case() -> Case:
            now = int(clock())
            return gpus.of(replace(life, changed_time=now), replace(NEVER, last=now), now=now)

        office = Office(mail, ledger, clock=clock)
        canceller = Canceller(mail, ledger, office, lambda one: cancel(one, slurm), clock=clock)
        for _ in range(2):
            assert asyncio.run(canceller.consider(case(), finding, DOCUMENT)) == "queued"
            assert Post(mail, ledger, clock=clock).run() == {"sent": 1}
            times.append(clock() + 3600)
        assert state(lab, first) == "RUNNING"
        assert asyncio.run(canceller.consider(case(), finding, DOCUMENT)) == CANCELLED
    lab.wait_for(lambda: state(lab, first) == "CANCELLED")
    assert state(lab, other) == "RUNNING"
    assert [one.event for one in ledger.entries() if one.kind == "cancel"][1:3] == ["cancelled", "cancels"]
    # a number that another user's job has got meanwhile
    meant = running(lab, other)
    for changed in (
        replace(meant, user="bob"),
        replace(meant, partition="main"),
        replace(meant, submit_time=(meant.submit_time or 0) - 1),
        replace(meant, cluster="another"),
    ):
        with pytest.raises(Failed):
            asyncio.run(cancel(changed, slurm))
    with pytest.raises(Failed, match=r"no such job any more|another state"):
        asyncio.run(cancel(life, slurm))
    assert state(lab, other) == "RUNNING"
    lab.run("scancel", other)


def test_of_an_array_only_the_task_is_cancelled(lab: Lab) -> None:
    number = submit(lab, "-pgpu", "--array=0-1", "--mail-type=NONE", script="sleep 600")
    lab.wait_for(lambda: state(lab, number).split() == ["RUNNING"] * 2)
    asyncio.run(cancel(running(lab, number, "1"), Slurm(bin_dir=str(lab.bin))))
    lab.wait_for(lambda: state(lab, f"{number}_1") == "CANCELLED")
    assert state(lab, f"{number}_0") == "RUNNING"
    lab.run("scancel", number)
