# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How Slurm names the cgroups of jobs, and what it tells their processes.

  version 1   CONTROLLER/slurm[_NODE]/uid_U/job_J/step_S/task_T
  version 2   [system.slice/][NODE_]slurmstepd.scope/job_J/step_S/{slurm,user/task_T}
  … 26.05     the same with the job's SLUID (sFV1M7EWC9FF00) in place of job_J, unless CgroupJobIdPaths=yes

NODE is there where one host runs several slurmd. slurmstepd is in step_S (version 1) or step_S/slurm (version 2), its
title is "slurmstepd: [J.S]".
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from slurmscope.node.groups import GONE
from slurmscope.node.held import NAMES
from slurmscope.node.mounts import V2, Mounts
from slurmscope.node.scheduler import Found, Told

_ROOT_V1 = re.compile(r"slurm(?:_(.+))?")
_SCOPE = re.compile(r"(?:(.+)_)?slurmstepd\.scope")
_UID = re.compile(r"uid_([0-9]{1,10})")
_JOB = re.compile(r"job_([0-9]{1,10})")
_SLUID = re.compile(r"s[0-9A-Z]{13}")
_TITLE = re.compile(r"slurmstepd: \[([0-9]{1,10})(?:[._+][^\]]*)?\]")
_CLUSTER = re.compile(r"^\s*ClusterName\s*=\s*\"?([^\s#\"]+)", re.MULTILINE | re.IGNORECASE)
_EXTERN = "sleep 100000000"  # what slurmstepd starts to keep the groups of an extern step in being
_LONGEST, _LONGEST_LIST = 256, 4096
_WHOLE = ("step_batch", "step_interactive")  # that have all that the job has on the node
CONFS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")


def _folders(path: str) -> Iterator[os.DirEntry[str]]:
    """Those in a folder; none if it has gone meanwhile."""
    try:
        with os.scandir(path) as entries:
            yield from (entry for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        if error.errno not in GONE:
            raise  # we cannot look, which does not mean that nothing is there


def _slices(tree: str) -> Iterator[str]:
    """system.slice, unless CgroupSlice names another: a-b.slice is in a.slice. What is in user.slice is users' own."""
    for one in _folders(tree):
        if one.name.endswith(".slice") and one.name != "user.slice":
            yield one.path
            inner = f"{one.name.removesuffix('.slice')}-"
            yield from (
                two.path for two in _folders(one.path) if two.name.startswith(inner) and two.name.endswith(".slice")
            )


Squeue = Callable[[Sequence[str]], Awaitable[dict[str, int]]]


class Slurm:
    name = "slurm"

    def __init__(self, squeue: Squeue | None = None) -> None:
        """`squeue` gives the numbers of the jobs with these SLUIDs."""
        self._squeue = squeue

    def find(self, mounts: Mounts) -> list[Found]:
        found: dict[str, Found] = {}
        for controller, tree in mounts.trees.items():
            for one in self._find_v2(tree) if controller == V2 else self._find_v1(controller, tree):
                # the trees of version 1 tell of the same job
                known = found.setdefault(one.key, one)
                known.folders.update(one.folders)
        return list(found.values())

    def _find_v1(self, controller: str, tree: str) -> Iterator[Found]:
        for root in _folders(tree):
            if not (named := _ROOT_V1.fullmatch(root.name)):
                continue
            for user in _folders(root.path):
                if not (uid := _UID.fullmatch(user.name)):
                    continue
                for folder in _folders(user.path):
                    if job := _JOB.fullmatch(folder.name):
                        key = f"{root.name}/{user.name}/{folder.name}"
                        yield Found(key, int(job[1]), {controller: folder.path}, named[1] or "", int(uid[1]))

    def _find_v2(self, tree: str) -> Iterator[Found]:
        for above in (tree, *_slices(tree)):
            for scope in _folders(above):
                if not (named := _SCOPE.fullmatch(scope.name)):
                    continue
                for folder in _folders(scope.path):
                    job = _JOB.fullmatch(folder.name)
                    if job or _SLUID.fullmatch(folder.name):
                        key = f"{scope.name}/{folder.name}"
                        yield Found(key, int(job[1]) if job else None, {V2: folder.path}, named[1] or "")

    def own(self, inside: str, title: Callable[[], str]) -> bool:
        parts = inside.split("/")
        # nothing of the job's is ever in step_S/slurm, nor in step_S itself but for what calls itself slurmstepd
        if len(parts) == 2 and parts[0].startswith("step_") and parts[1] == "slurm":
            return True
        if parts[0] == "step_extern" and title() == _EXTERN:
            return True
        return len(parts) == 1 and title().startswith("slurmstepd:")

    def titled(self, title: str) -> int | None:
        found = _TITLE.match(title)
        return int(found[1]) if found else None

    def told(self, environ: Mapping[str, str], step: str) -> Told:
        # the parts of a heterogeneous job are jobs of their own, and are told the number of the first of them
        parts = (_number(value) for name, value in environ.items() if name.startswith("SLURM_JOB_ID_HET_GROUP_"))
        whole = step in _WHOLE
        # srun hands the variables of the batch script on, to other nodes as well, where its GPUs are not the job's
        gpus = {
            name: environ[name] for name in NAMES if len(environ.get(name, ".")) <= _LONGEST_LIST and name in environ
        }
        if not whole and "SLURM_STEP_GPUS" in gpus:
            gpus.pop("SLURM_JOB_GPUS", None)
        return Told(
            _number(environ.get("SLURM_JOB_ID", "")),
            frozenset(number for number in parts if number is not None),
            environ.get("SLURM_JOB_USER", "")[:_LONGEST],
            environ.get("SLURM_JOB_ACCOUNT", "")[:_LONGEST],
            _number(environ.get("SLURM_JOB_START_TIME", "")),
            _number(environ.get("SLURM_CPUS_ON_NODE", "")),
            gpus,
            whole,
        )

    async def ask(self, keys: Sequence[str]) -> dict[str, int]:
        # a job has the same SLUID on each node of this host
        sluids = {key: key.rpartition("/")[2] for key in keys}
        if self._squeue is None or not sluids:
            return {}
        told = await self._squeue(sorted(set(sluids.values())))
        return {key: told[sluid] for key, sluid in sluids.items() if sluid in told}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None


def conf_text(conf: str = "") -> str | None:
    """slurm.conf, or the copy of it that slurmd keeps; None where there is none to read."""
    for path in (conf, os.environ.get("SLURM_CONF", ""), *CONFS):
        try:
            if path:
                return Path(path).read_text("utf-8", "replace")
        except OSError:
            continue
    return None


def cluster_name(conf: str = "") -> str:
    """In small letters, as Slurm itself has it, however it was written; "" where nothing here tells it."""
    found = _CLUSTER.search(conf_text(conf) or "")
    return found[1].lower() if found else ""
