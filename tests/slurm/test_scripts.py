# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A job's script: where it is looked for, whose it is, and that what is not there is no error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lives import SUBMIT, job
from msgspec.structs import replace
from recorded import GENERATIONS, MARKS, RECORDINGS
from sshd import HOST, Sshd

from slurmscope.model import Job
from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm import bundle
from slurmscope.slurm.choice import Choice
from slurmscope.slurm.clusters import recorded_source, source_of
from slurmscope.slurm.commands import OF_A_JOB
from slurmscope.slurm.openapi.history import parse_scripts
from slurmscope.slurm.probe import JSON, TEXT
from slurmscope.slurm.scripts import parse_accounted, parse_kept, parse_queued, parse_script
from slurmscope.slurm.source import Way
from slurmscope.slurm.ssh import Ssh

JOB = job(31)
SCRIPT = "#!/bin/sh\nsrun ./solver\n"
HOSTILE = b"#!/bin/sh\necho '</script> \x1b[2J \xff\xfe'\nBatch Script for 9\n-----\nNONE\n"
GONE = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


def program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/asked\n{body}\n')
    path.chmod(0o755)


def cluster(
    folder: Path, *, queued: str = "", script: bytes | None = None, accounted: str = "", kept: bytes | None = None
) -> Path:
    """Commands of a Slurm that knows so much of job 31."""
    for name, data in (("script", script), ("kept", kept)):
        if data is not None:
            (folder / name).write_bytes(data)
    program(folder, "squeue", f"echo '{queued}'" if queued else GONE)
    refused = "echo 'job script retrieval failed: Access/permission denied' >&2; exit 1"
    program(folder, "scontrol", f"cat {folder}/script" if script is not None else refused)
    head = "echo 'Batch Script for 31'; echo --------"
    held = f"{head}; cat {folder}/kept" if kept is not None else f"{head}; echo NONE"
    program(folder, "sacct", f'case "$*" in *batch-script*) {held} ;; *) echo "{accounted}" ;; esac')
    return folder


def source(folder: Path, *, timeout: float = 10.0) -> Choice:
    return source_of(Cluster(Slurm(bin_dir=str(folder), timeout=timeout)))


def found(folder: Path, of: Job = JOB) -> str | None:
    return asyncio.run(source(folder).script(of))


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


def test_one_that_slurmctld_knows(tmp_path: Path) -> None:
    folder = cluster(tmp_path, queued=f"31|{SUBMIT}|N/A|", script=SCRIPT.encode())
    assert found(folder) == SCRIPT
    assert asked(folder) == [
        "squeue --local --noheader --all --states=all --jobs=31 --Format JobID:|,SubmitTime:|,HetJobID:|",
        "scontrol write batch_script 31 -",
    ]


def test_one_that_the_accounting_keeps(tmp_path: Path) -> None:
    folder = cluster(tmp_path, accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}", kept=SCRIPT.encode())
    assert found(folder) == SCRIPT
    assert [line.split()[0] for line in asked(folder)] == ["squeue", "sacct", "sacct"]


def test_one_that_slurmctld_does_not_give_away(tmp_path: Path) -> None:
    """But the accounting does, which has rules of its own."""
    assert (
        found(
            cluster(tmp_path, queued=f"31|{SUBMIT}|N/A|", accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}", kept=b"#!/bin/sh\n")
        )
        is not None
    )


@pytest.mark.parametrize(
    ("queued", "accounted"),
    [
        ("", ""),
        (f"31|{SUBMIT + 1}|N/A|", f"31|31|{SUBMIT + 1}|{SUBMIT + 9}"),
        (f"32|{SUBMIT}|N/A|", f"32|32|{SUBMIT}|{SUBMIT + 9}"),
    ],
)
def test_another_job_of_that_number_is_not_it(queued: str, accounted: str, tmp_path: Path) -> None:
    folder = cluster(tmp_path, queued=queued, script=b"#!/bin/sh\n# of another\n", accounted=accounted, kept=b"#!/x\n")
    assert found(folder) is None
    assert not [line for line in asked(folder) if "batch" in line]


def test_a_job_without_a_submit_time_has_none(tmp_path: Path) -> None:
    folder = cluster(tmp_path, script=SCRIPT.encode(), kept=SCRIPT.encode())
    assert found(folder, replace(JOB, submit_time=None)) is None
    assert not (folder / "asked").exists()


def test_a_task_of_an_array_is_named_as_such_to_the_accounting(tmp_path: Path) -> None:
    """The number of an array's last task is that of the whole array, of which sacct would print all scripts."""
    folder = cluster(
        tmp_path,
        queued=f"33|{SUBMIT}|N/A|\n31|{SUBMIT}|N/A|",
        accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}",
        kept=SCRIPT.encode(),
    )
    assert found(folder, replace(JOB, array_id=31, array_tasks="7")) == SCRIPT
    assert all("--jobs=31_7" in line for line in asked(folder) if line.startswith("sacct"))


@pytest.mark.parametrize("start", ["Unknown", "None", "0", ""])
def test_one_that_never_began_is_not_asked_of_the_accounting(start: str, tmp_path: Path) -> None:
    """It may be a component of a heterogeneous job without being told as one, and the script another job's."""
    folder = cluster(tmp_path, accounted=f"31|31|{SUBMIT}|{start}", kept=SCRIPT.encode())
    assert found(folder) is None
    assert not [line for line in asked(folder) if "batch-script" in line]


def test_a_component_of_a_heterogeneous_job_has_the_script_of_the_first(tmp_path: Path) -> None:
    """slurmdbd itself would give it that of another job, and slurmctld of 22.05 one that only exits."""
    folder = cluster(tmp_path, queued=f"31|{SUBMIT}|30|", script=SCRIPT.encode())
    assert found(folder) == SCRIPT
    assert asked(folder)[1:] == ["scontrol write batch_script 30 -"]
    folder = cluster(tmp_path, accounted=f"31|30+1|{SUBMIT}|{SUBMIT + 9}", kept=SCRIPT.encode())
    assert found(folder) == SCRIPT
    assert [line for line in asked(folder) if "batch-script" in line] == [
        "sacct --allusers --allocations --whole-hetjob=no --jobs=30 --batch-script"
    ]


def test_a_job_that_had_none(tmp_path: Path) -> None:
    assert found(cluster(tmp_path, queued=f"31|{SUBMIT}|N/A|", accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}")) is None


def test_where_the_accounting_keeps_none_it_is_not_asked(tmp_path: Path) -> None:
    folder = cluster(tmp_path, kept=SCRIPT.encode(), accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}")

    async def after(flags: str) -> str | None:
        program(
            folder,
            "scontrol",
            f"printf 'ClusterName = c\\nSLURM_VERSION = 24.11.5\\nAccountingStoreFlags = {flags}\\n'",
        )
        there = source(folder)
        await there.read("config")
        (folder / "asked").unlink()
        return await there.script(JOB)

    assert asyncio.run(after("job_comment,job_script")) == SCRIPT
    assert asyncio.run(after("(null)")) is None
    assert [line.split()[0] for line in asked(folder)] == ["squeue"]


def test_hostile_bytes_are_text(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    text = HOSTILE.decode("utf-8", "backslashreplace")
    assert found(cluster(here, queued=f"31|{SUBMIT}|N/A|", script=HOSTILE)) == text
    assert found(cluster(there, accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}", kept=HOSTILE)) == text
    assert "\\xff\\xfe" in text


@pytest.mark.parametrize("where", ["script", "kept"])
def test_one_that_is_too_long_is_none(where: str, tmp_path: Path) -> None:
    long = b"#!/bin/sh\n" + b"#" * (1 << 20)
    known = {"queued": f"31|{SUBMIT}|N/A|", "accounted": f"31|31|{SUBMIT}|{SUBMIT + 9}"}
    folder = cluster(tmp_path, **known, script=long, kept=long)
    (folder / ("kept" if where == "script" else "script")).unlink()
    assert found(folder) is None


def test_a_slurm_that_hangs_or_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    for name in ("squeue", "sacct"):
        program(tmp_path, name, "exec sleep 600")
    assert asyncio.run(source(tmp_path, timeout=0.2).script(JOB)) is None


def test_what_was_asked_is_counted(tmp_path: Path) -> None:
    there = source(cluster(tmp_path, accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}", kept=SCRIPT.encode()))
    asyncio.run(there.script(JOB))
    told = {key: (cost.runs, cost.failures) for key, cost in there.costs.items()}
    assert told == {("queued", "squeue"): (1, 1), ("accounted", "sacct"): (1, 0), ("kept_script", "sacct"): (1, 0)}


def test_through_ssh_it_is_the_same(sshd: Sshd, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    cluster(
        folder,
        queued=f"31|{SUBMIT}|N/A|",
        script=HOSTILE,
        accounted=f"31|31|{SUBMIT}|{SUBMIT + 9}",
        kept=SCRIPT.encode(),
    )

    async def ask() -> list[str | None]:
        there = Choice([Way(TEXT, Ssh(HOST, config=str(sshd.config), bin_dir=str(folder), timeout=30))])
        try:
            first = await there.script(JOB)
            (folder / "script").unlink()
            return [first, await there.script(JOB), await there.script(replace(JOB, id=32))]
        finally:
            await there.close()

    assert asyncio.run(ask()) == [HOSTILE.decode("utf-8", "backslashreplace"), SCRIPT, None]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_recording_has_none(generation: str) -> None:
    there = recorded_source(bundle.load(RECORDINGS / generation / "bundle.json.gz"))
    assert asyncio.run(there.script(JOB)) is None


def test_no_other_way_has_it_by_commands() -> None:
    assert not OF_A_JOB[JSON]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_real_slurms_answered(generation: str) -> None:
    folder = RECORDINGS / generation
    queued = parse_queued((folder / "squeue-job.txt").read_bytes(), MARKS).value
    accounted = parse_accounted((folder / "sacct-job.txt").read_bytes(), MARKS).value
    assert queued == accounted
    ((id_, known),) = queued.items()
    assert known.submit_time is not None and known.leader == ""
    script = parse_script((folder / "scontrol-script.txt").read_bytes(), MARKS).value
    assert script.startswith("#!/bin/sh\n") and "\\xff" in script
    # slurmdbd's database takes no bytes that are not UTF-8
    kept = script.replace("\\xff\\xfe", "??")
    assert parse_kept((folder / "sacct-script.txt").read_bytes(), MARKS).value == kept
    if generation != "22.05":
        (told,) = parse_scripts((folder / "rest-script.json").read_bytes(), MARKS).value
        assert (told.id, told.submit_time, told.script) == (id_, known.submit_time, kept)


@given(st.binary(max_size=300))
def test_any_bytes_are_times(data: bytes) -> None:
    try:
        told = parse_queued(data, MARKS).value
    except ValueError:
        return
    assert all(isinstance(id_, int) for id_ in told)
