# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm that tell of themselves, signed with its own munge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab.cluster import SCRIPT, Lab
from lab.page import Page
from lab.served import Served, serving

WRAPPER = Path(__file__).parents[2] / "src/slurmscope/trace/wrapper.py"
FOLDER = "/lab/trace"

# counts how often it is told to stop, and burns until then
COUNTS = """
import os, signal, sys
told = []
for one in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(one, lambda number, frame: told.append(number))
open(sys.argv[1] + ".ready", "w").close()
while signal.SIGTERM not in told:
    sum(range(10000))
with open(sys.argv[1], "w") as file:
    file.write(" ".join(map(str, map(int, told))))
sys.exit(7)
"""


@pytest.fixture(scope="module")
def served(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Polls the lab, takes traces, and asks the lab's munged who signed them."""
    folder = tmp_path_factory.mktemp("traced")
    unmunge = folder / "bin/unmunge"
    unmunge.parent.mkdir()
    unmunge.write_text(f'#!/bin/sh\nexec {SCRIPT} exec {lab.generation} unmunge "$@"\n')
    unmunge.chmod(0o755)
    install = f"mkdir -p {FOLDER} && chmod 1777 {FOLDER} && cat >{FOLDER}/"
    lab.run("sh", "-c", f"{install}wrapper.py", input=WRAPPER.read_bytes())
    lab.run("sh", "-c", f"{install}counts.py", input=COUNTS.encode())
    environment = {
        "PATH": f"{unmunge.parent}:{os.environ['PATH']}",
        "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
        "SLURMSCOPE_POLL_INTERVAL": "1",
        "SLURMSCOPE_STORE_URL": "none",
        "SLURMSCOPE_TRACE_ENABLED": "true",
        "SLURMSCOPE_TRACE_MUNGE": "true",
    }
    with serving(folder, 1, **environment) as found:
        yield found
    lab.run("rm", "-rf", FOLDER)


def submit(lab: Lab, served: Served, script: str, *options: str) -> str:
    lines = [
        "#!/bin/sh",
        f"export SLURM_EXPORTER=http://127.0.0.1:{served.port}/trace SAMPLE_RATE=0.5",
        f'traced() {{ python3 {FOLDER}/wrapper.py --munge -- "$@"; }}',
        script,
    ]
    argv = ["sbatch", "--parsable", "--mem=200", "-o", f"{FOLDER}/out.%j", "-e", f"{FOLDER}/err.%j", *options]
    return lab.run(*argv, user="alice", input="\n".join(lines).encode()).stdout.decode().strip()


def told(page: Page, job: str) -> dict[tuple[str, ...], float]:
    return page.by("slurm_proc_cpu_usage", "hostname", "username", jobid=job)


def ended(lab: Lab, job: str) -> Callable[[], tuple[str, str] | None]:
    """Its state and exit code, once it has."""

    def look() -> tuple[str, str] | None:
        row = lab.run("sacct", "-n", "-P", "-X", "-j", job, "-o", "state,exitcode,end").stdout.decode().strip()
        state, _, rest = row.partition("|")
        code, _, end = rest.partition("|")
        return (state.split()[0], code) if end not in ("", "Unknown") else None

    return look


def text(lab: Lab, name: str) -> str:
    return lab.run("sh", "-c", f"cat {FOLDER}/{name} 2>/dev/null; true").stdout.decode()


def test_what_a_job_uses_and_its_exit_status(lab: Lab, served: Served) -> None:
    busy = "python3 -c 'import time; end = time.time() + 8\nwhile time.time() < end: pass'"
    job = submit(lab, served, f"traced {busy}\ntraced sh -c 'exit 3'")
    page = served.wait(lambda page: sum(told(page, job).values()) > 50)
    ((_, user),) = told(page, job)
    assert user == "alice" and 50 < sum(told(page, job).values()) < 130
    assert page.sum("slurm_job_cpu_alloc", jobid=job) == 1
    assert page.sum("slurm_job_mem_alloc", jobid=job) == 200 << 20
    assert lab.wait_for(ended(lab, job)) == ("FAILED", "3:0")
    assert text(lab, f"err.{job}") == ""
    served.wait(lambda page: not told(page, job))


def test_signals_reach_a_steps_command_once(lab: Lab, served: Served) -> None:
    """Slurm sends them to every process of a step, to the wrapper and to the command: they are not passed on again."""
    line = (
        f"exec python3 {FOLDER}/wrapper.py --munge -- python3 {FOLDER}/counts.py {FOLDER}/$SLURM_PROCID.$SLURM_JOB_ID"
    )
    job = submit(lab, served, f"srun -n2 sh -c '{line}'", "-n2")
    lab.wait_for(
        lambda: lab.run("sh", "-c", f"ls {FOLDER}/1.{job}.ready {FOLDER}/0.{job}.ready", check=False).returncode == 0
    )
    served.wait(lambda page: len(told(page, job)) == 1)
    lab.run("scancel", "--signal=USR1", f"{job}.0")
    lab.run("sleep", "1")
    lab.run("scancel", "--signal=TERM", f"{job}.0")
    assert lab.wait_for(ended(lab, job))[1] == "7:0"
    assert [text(lab, f"{task}.{job}") for task in (0, 1)] == ["10 15", "10 15"]


def test_a_job_that_is_cancelled(lab: Lab, served: Served) -> None:
    """The wrapper is the batch script, which Slurm may signal alone, and does not say when it does: it passes on what
    the command may have got from Slurm as well. One that is quick to end has it once."""
    job = submit(
        lab,
        served,
        f"exec python3 {FOLDER}/wrapper.py --munge -- python3 {FOLDER}/counts.py {FOLDER}/batch.$SLURM_JOB_ID",
    )
    lab.wait_for(lambda: lab.run("test", "-e", f"{FOLDER}/batch.{job}.ready", check=False).returncode == 0)
    lab.run("scancel", "--full", job)
    assert lab.wait_for(ended(lab, job))[0] == "CANCELLED"
    assert text(lab, f"batch.{job}") in ("15", "15 15")


def test_nobody_can_speak_for_another(lab: Lab, served: Served) -> None:
    """bob signs for a job of alice's: munge says who he is, and Slurm whose it is."""
    job = submit(lab, served, "sleep 120")
    lab.wait_for(lambda: lab.run("squeue", "-h", "-t", "running", "-j", job).stdout)
    polls = served.page().sum("slurm_command_runs_total", part="jobs")
    served.wait(lambda page: page.sum("slurm_command_runs_total", part="jobs") >= polls + 2)
    script = f"SLURM_JOB_ID={job} SLURM_EXPORTER=http://127.0.0.1:{served.port}/trace SAMPLE_RATE=0.5 "
    done = lab.run("sh", "-c", f"{script} python3 {FOLDER}/wrapper.py --munge -- sleep 4", user="bob")
    assert b"403" in done.stderr and b"is not bob's" in done.stderr
    page = served.wait(lambda page: page.sum("slurm_trace_refused_total", reason="user") >= 1)
    assert told(page, job) == {}
    lab.run("scancel", job)
