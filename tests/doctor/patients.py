# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters to be looked at: folders of commands that answer with a recording, well or ill."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import descendants
from recorded import commands

from slurmscope.config import Config
from slurmscope.doctor.examination import examine
from slurmscope.doctor.finding import Check, Finding
from slurmscope.settings import Cluster, Serve, Settings, Slurm

PROGRAMS = ("squeue", "scontrol", "sdiag", "sshare", "sacctmgr", "sacct", "sinfo")
_VERSIONS = {"22.05": "22.05.8", "24.11": "24.11.5", "26.05": "26.05.5"}
# as those of 22.05 do for most parts
_HEAD = """#!/bin/sh
case "$*" in
--version) echo "slurm-wlm {version}"; exit ;;
*--json*) echo "$0: unrecognized option '--json'" >&2; exit 1 ;;
esac
"""


def healthy(folder: Path, generation: str = "24.11", version: str = "") -> Path:
    commands(generation, folder)
    for name in ("sacct", "sinfo"):
        (folder / name).touch(mode=0o755)
    for name in PROGRAMS:
        body = (folder / name).read_text().removeprefix("#!/bin/sh\n")
        (folder / name).write_text(_HEAD.format(version=version or _VERSIONS[generation]) + body)
    return folder


def program(folder: Path, name: str, body: str) -> None:
    """One that does something else, but for its version."""
    (folder / name).write_text(_HEAD.format(version=_VERSIONS["24.11"]) + body + "\n")
    (folder / name).chmod(0o755)


def changed(folder: Path, name: str, *, old: str, new: str) -> None:
    """One whose answers have other words in them."""
    real = folder / f"{name}-real"
    (folder / name).rename(real)
    (folder / name).write_text(f"#!/bin/sh\n{real} \"$@\" | sed 's#{old}#{new}#'\n")
    (folder / name).chmod(0o755)


def one(*, listen: str = "127.0.0.1:0", **slurm: Any) -> Config:
    return Config(Settings(slurm=Slurm(**slurm), serve=Serve(listen=listen)), {})


def several(**folders: Path | Slurm) -> Config:
    clusters = {
        name: Cluster(
            found if isinstance(found, Slurm) else Slurm(cluster=name, bin_dir=str(found)), own=frozenset({"bin_dir"})
        )
        for name, found in folders.items()
    }
    return Config(Settings(clusters=clusters, serve=Serve(listen="127.0.0.1:0")), {})


def keeping(**sections: Any) -> Config:
    """Settings of what is kept and sent, on a machine without a Slurm."""
    return Config(Settings(slurm=Slurm(bin_dir="/nowhere"), serve=Serve(listen="127.0.0.1:0"), **sections), {})


def examined(config: Config) -> list[Finding]:
    return asyncio.run(examine(config))


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """No process that was not there before; servers of the session may be."""
    before = set(descendants(os.getpid()))
    yield
    assert set(descendants(os.getpid())) <= before


def of(findings: list[Finding], check: Check) -> Finding:
    """The one finding of a check."""
    (found,) = (finding for finding in findings if finding.check is check)
    return found


def told(findings: list[Finding], check: Check) -> list[str]:
    return [f"{finding.status}: {finding.message}" for finding in findings if finding.check is check]


def token(**said: Any) -> str:
    """Signed by nobody; slurmrestd would refuse it."""
    body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJIUzI1NiJ9.{body}.c2lnbmF0dXJl"
