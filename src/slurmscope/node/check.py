# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent can measure on this node, what it cannot, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from slurmscope.doctor.finding import HOST, Chart, Check, Finding, amount
from slurmscope.node import slurm
from slurmscope.node.gpus import Gpus
from slurmscope.node.mounts import mounts
from slurmscope.node.post import PATH
from slurmscope.node.processes import has_pids_hidden
from slurmscope.settings import Settings
from slurmscope.sinks.http import Server, Target, words
from slurmscope.sinks.sink import BatchError, SendError

# Bits of capabilities(7), and what they are good for here.
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_DAC_READ_SEARCH": 2}
_SETTINGS = {
    "ProctrackType": ("proctrack/cgroup", "without it no job has a cgroup, and none is found"),
    "TaskPlugin": ("task/cgroup", "without it cores and memory of a job are not fenced off, nor told"),
    "JobAcctGatherType": ("jobacct_gather/cgroup", "without it version 1 has no processor time and memory of a job"),
}


async def check(settings: Settings) -> list[Finding]:
    chart = Chart(HOST, lambda finding: None)
    _jobs(chart)
    _slurm_settings(chart, settings.slurm.conf)
    _processes(chart)
    await _gpus(chart)
    if settings.agent.serve_url:
        await _serve(chart, settings)
    return chart.findings


def _jobs(chart: Chart) -> None:
    found = mounts()
    if not found.trees:
        chart.failed(
            Check.AGENT_JOBS,
            "no cgroups are mounted here, or we may not see them",
            "run the agent on the compute node itself; in a container, with /sys/fs/cgroup and /proc of the host",
        )
        return
    jobs = slurm.Slurm().find(found)
    told = f"cgroups {found.version}: {amount(len(jobs), 'job')} now"
    chart.ok(Check.AGENT_JOBS, told)


def _slurm_settings(chart: Chart, conf: str) -> None:
    text = slurm.conf_text(conf)
    if text is None:
        chart.skipped(Check.AGENT_SLURM, "slurm.conf is not here to read", "slurm.conf names it, or SLURM_CONF")
        return
    wrong = []
    for name, (wanted, why) in _SETTINGS.items():
        found = re.search(rf"^\s*{name}\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
        if found is None or wanted not in found[1].lower():
            wrong.append(f"{name}={found[1] if found else '(not set)'}: {why}")
    if wrong:
        cure = "set " + ", ".join(f"{name}={wanted}" for name, (wanted, _) in _SETTINGS.items())
        chart.warning(Check.AGENT_SLURM, "; ".join(wrong), f"{cure} in slurm.conf (docs/agent.md)")
    else:
        chart.ok(Check.AGENT_SLURM, "jobs are in cgroups: " + ", ".join(wanted for wanted, _ in _SETTINGS.values()))


def _processes(chart: Chart) -> None:
    if has_pids_hidden():
        chart.failed(
            Check.AGENT_PROCESSES,
            "/proc shows us only our own processes (hidepid)",
            "mount /proc with gid=GROUP and let the agent be of that group, or give it CAP_SYS_PTRACE",
        )
        return
    missing = [name for name, bit in _CAPABILITIES.items() if not _can(bit)]
    if missing:
        chart.warning(
            Check.AGENT_PROCESSES,
            "processes, threads, processor time and memory can be read; not what they read and write, their open "
            "files, and the account and GPUs that Slurm told them",
            f"give the agent {' and '.join(missing)}, as packaging/slurmscope-agent.service does",
        )
    else:
        chart.ok(Check.AGENT_PROCESSES, "all that /proc has of others' processes can be read")


def _can(capability: int) -> bool:
    found = re.search(r"^CapEff:\s+([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> capability & 1)


async def _gpus(chart: Chart) -> None:
    gpus = Gpus()
    found = await gpus.read()
    for name, problem in gpus.problems.items():
        chart.warning(Check.AGENT_GPUS, f"{name}: {problem}", "nvidia-smi or rocm-smi must work on this node first")
    if found:
        chart.ok(Check.AGENT_GPUS, _models(gpu.model or gpu.vendor for gpu in found))
    elif not gpus.problems:
        chart.skipped(Check.AGENT_GPUS, "no GPUs here", "for NVIDIA's, slurmscope[gpu] must be installed")
    await gpus.close()


def _models(models: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for model in models:
        counts[model] = counts.get(model, 0) + 1
    return ", ".join(f"{count} × {model}" for model, count in counts.items())


async def _serve(chart: Chart, settings: Settings) -> None:
    agent = settings.agent
    target = Target(agent.serve_url, agent.serve_ca, agent.serve_token_file, "agent.serve_token_file")
    server = Server("agent.serve_url", target)
    try:
        answer = await server.request("POST", PATH, b"[]", {"Content-Type": "application/json"})
    except (SendError, BatchError) as error:
        chart.failed(
            Check.AGENT_SERVE, str(error), "look at agent.serve_url, agent.serve_token_file and agent.serve_ca"
        )
        return
    finally:
        await server.close()
    if answer.status == 404:
        chart.failed(Check.AGENT_SERVE, f"{agent.serve_url} takes nothing from agents", "set agents.enabled there")
    elif answer.status >= 400:
        chart.failed(
            Check.AGENT_SERVE, f"{agent.serve_url} answers {answer.status}: {words(answer.body)}", "see its log"
        )
    else:
        chart.ok(Check.AGENT_SERVE, f"{agent.serve_url} takes what is measured")
