# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Job names that a real Slurm accepts and that try to be more than names."""

from __future__ import annotations

import json
import os

from lab.cluster import Lab
from lab.page import at_one_moment, page_of, run_slurmscope

from slurmscope.slurm.probe import FREE_FIELDS, PLAIN_FIELDS

FORGED_ROW = "|".join(["99999", *PLAIN_FIELDS[1:]]) + "@".join(FREE_FIELDS) + "@endofrow\n77777|alice|RUNNING|main\n"
NAMES = [
    b"a|b;c,d=e:f",
    b"'single' \"double\" `back`",
    b"tab\there",
    b"line one\nline two",
    b"unit\x1fsep record\x1esep",
    b"bell\x07 escape\x1b[31mred",
    FORGED_ROW.encode(),
    b"{field} {end} %s %i %j",
    b"x" * 1000,
    "Größe 漢字 🧪".encode(),
    b"invalid \xff\xfe utf-8",
    b"\\n \\x00 \\",
    b"NodeName=n1 State=DOWN JobId=1",
    b" leading and trailing ",
    b"-o %i --states=all",
    b"$(id) ${HOME} & rm -rf *",
]


def test_names_are_read_back_whole_and_touch_nothing_else(lab: Lab) -> None:
    def others() -> dict[int, object]:
        """Those that go on: slurmctld forgets the others, of tests before, some minutes after their end."""
        found = json.loads(run_slurmscope(lab.bin, "snapshot").stdout)["jobs"]["value"]
        there = [job for job in found if job["state"] in ("PENDING", "RUNNING", "SUSPENDED")]
        assert there
        return {job["id"]: (job["user"], job["name"], job["partition"], job["cpus"]) for job in there}

    before = others()
    ids = {}
    try:
        for name in NAMES:
            done = lab.run(
                "sbatch",
                "--parsable",
                "-H",
                "-o",
                "/dev/null",
                "-J",
                os.fsdecode(name),
                "--wrap",
                "hostname",
                user="carol",
            )
            ids[int(done.stdout.split(b";")[0])] = name
        done = run_slurmscope(lab.bin, "snapshot")
        assert done.returncode == 0
        jobs = {job["id"]: job for job in json.loads(done.stdout)["jobs"]["value"]}
        assert {id_: jobs[id_]["name"] for id_ in ids} == {
            id_: name.decode("utf-8", "backslashreplace") for id_, name in ids.items()
        }
        for id_ in ids:
            job = jobs[id_]
            assert (job["user"], job["state"], job["reason"]) == ("carol", "PENDING", "JobHeldUser")
        after = {id_: value for id_, value in others().items() if id_ not in ids}
        assert after == before, "no row was added, lost or changed"
        assert json.loads(done.stdout)["jobs"]["rows_skipped"] == 0
        held, page = at_one_moment(
            lambda: len(lab.run("squeue", "-h", "-r", "-u", "carol", "-t", "PD", "-o", "held").stdout.splitlines()),
            lambda: page_of(lab.bin),
        )
        assert page.sum("slurm_user_queue_jobs", user="carol", state="pending") == held
    finally:
        lab.run("scancel", *map(str, ids), check=False)


def test_reasons_and_comments_of_nodes(lab: Lab) -> None:
    reason = "x | State=IDLE NodeName=fake CPUAlloc=99 [root@1]"
    try:
        lab.run("scontrol", "update", "nodename=n3", "state=drain", f"reason={reason}")
        lab.run("scontrol", "update", "nodename=n3", "comment=Reason=none State=DOWN\nNodeName=ghost State=IDLE")
        lab.run("scontrol", "update", "nodename=n3", "extra=k=v\nNodeName=n1 State=DOWN")
        page = page_of(lab.bin, warnings=2)
        assert {name for name, _ in page.by("slurm_node_state", "node", "state")} == {
            "n1",
            "n2",
            "n3",
            "n4",
            "g1",
            "g2",
        }
        assert page.by("slurm_node_state", "state", node="n3") == {("idle",): 1}
        assert page.by("slurm_node_flag", "flag", node="n3") == {("drain",): 1}
        assert page.by("slurm_node_reason_info", "reason", "user", node="n3") == {(reason, "root"): 1}
        assert page.sum("slurm_part_rows_skipped", part="nodes") == 2, "the lines behind the newlines are told"
    finally:
        for change in ("comment=", "extra=", "reason=bad dimm | slot 3"):
            lab.run("scontrol", "update", "nodename=n3", change)
