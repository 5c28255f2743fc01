# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A recording of a real cluster, given away: nobody is in it, and it is read as it was."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys

from lab.cluster import Lab
from sameness import compared

from slurmscope.anonymise.recording import anonymise
from slurmscope.slurm import bundle, probe
from slurmscope.slurm.bundle import Bundle

HOSTILE = [b"Gro\xc3\x9fe | x=1\nNodeName=n1", b"not \xff utf-8", b"cpu=1"]
SLURMS_OWN = {"reserved", "cpu=1"}  # names of jobs that Slurm says as well, of something else


def captured(lab: Lab) -> Bundle:
    done = subprocess.run(
        [sys.executable, probe.__file__, "--bin-dir", str(lab.bin), "--ways", "text,json"],
        capture_output=True,
        check=True,
    )
    return bundle.parse(done.stdout)


def names_of(lab: Lab) -> set[str]:
    """Users, accounts, nodes, hosts, jobs, reservations and the cluster, as the commands themselves tell them."""
    said = [
        lab.run("sacctmgr", "-n", "-P", "show", "assoc", "format=cluster,account,user").stdout.replace(b"|", b"\n"),
        lab.run("sinfo", "-h", "-N", "-o", "%N\n%n").stdout,
        lab.run("squeue", "-h", "-t", "all", "-o", "%j\n%Z").stdout,  # %Z: users' homes, where they submitted from
        *re.findall(rb"ReservationName=(\S+)", lab.run("scontrol", "-o", "show", "reservations").stdout),
    ]
    words = {word.decode(errors="replace").strip() for some in said for word in some.split(b"\n")}
    return words - {"", "root", "/"}


def test_nobody_is_left_in_a_recording_and_all_is_read_as_before(lab: Lab) -> None:
    ids = [
        lab.run("sbatch", "--parsable", "-H", "-o", "/dev/null", "-J", os.fsdecode(name), "--comment=for dana.o-neil",
                "--mail-user=carol@example.org", "--wrap", "hostname", user="carol").stdout.split(b";")[0].strip()
        for name in HOSTILE
    ]  # fmt: skip
    try:
        before = captured(lab)
        names = names_of(lab)
    finally:
        lab.run("scancel", *(id_.decode() for id_ in ids), check=False)
    after = anonymise(before)

    assert {"alice", "dana.o-neil", "physics", lab.cluster, "n1", "g2", "sweep", "vit | large", "/home/bob"} <= names
    said = "\n".join(
        [after.host] + [one.data.decode(errors="replace").replace(one.marks[0] or "\0", "\n") for one in after.answers]
    )
    packed = gzip.decompress(bundle.dump(after)).decode()
    for name in names - SLURMS_OWN:
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said), name
        assert len(name) < 6 or name not in packed, name
    assert "example" not in said

    found = compared(before, bundle.parse(packed.encode()))
    assert {"alice", "bob", "carol", "dana.o-neil", "physics", "bio", lab.cluster} <= found.names.there.keys()
    assert {"n1", "n2", "n3", "n4", "g1", "g2"} <= found.hosts.there.keys()
    assert {name.decode("utf-8", "backslashreplace") for name in HOSTILE} <= found.jobs.there.keys()
