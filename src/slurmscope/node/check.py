# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the agent can measure on this node, what it cannot, and what to do about it."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec

from slurmscope import listening
from slurmscope.doctor import sent
from slurmscope.doctor.finding import HOST, Chart, Check, Finding
from slurmscope.measure import Report
from slurmscope.node import slurm
from slurmscope.node.gpus import Gpus
from slurmscope.node.mounts import mounts
from slurmscope.node.post import PATH
from slurmscope.node.processes import has_pids_hidden
from slurmscope.settings import Serve, Settings
from slurmscope.sinks.http import Answer, Server, Target, words
from slurmscope.sinks.sink import BatchError, SendError
from slurmscope.words import amount

_LONG_AGO = 600.0  # seconds: `serve` takes a report of then, and does not hold it for what is now
_PATIENCE = 5.0

# Bits of capabilities(7), and what they are good for here.
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_DAC_READ_SEARCH": 2}
_SETTINGS = {
    "ProctrackType": ("proctrack/cgroup", "without it no job has a cgroup, and none is found"),
    "TaskPlugin": ("task/cgroup", "without it cores and memory of a job are not fenced off, nor told"),
    "JobAcctGatherType": ("jobacct_gather/cgroup", "without it version 1 has no processor time and memory of a job"),
}


async def check(settings: Settings) -> list[Finding]:
    chart = Chart(HOST, lambda finding: None)
    with _told(chart, Check.AGENT_JOBS):
        _jobs(chart)
    with _told(chart, Check.AGENT_CLUSTER):
        _cluster(chart, settings)
    with _told(chart, Check.AGENT_SLURM):
        _slurm_settings(chart, settings.slurm.conf)
    with _told(chart, Check.AGENT_PROCESSES):
        _processes(chart)
    with _told(chart, Check.AGENT_GPUS):
        await _gpus(chart)
    if settings.agent.listen != "none":
        with _told(chart, Check.AGENT_LISTEN):
            await _listen(chart, msgspec.structs.replace(settings.serve, listen=settings.agent.listen))
    if settings.agent.serve_url:
        with _told(chart, Check.AGENT_SERVE):
            await _serve(chart, settings)
    with _told(chart, Check.PUSHGATEWAY):
        await sent.pushgateway(chart, settings)
    return chart.findings


@contextmanager
def _told(chart: Chart, check: Check) -> Iterator[None]:
    """What the host denies us (no thread, no file more) costs one look, and is a finding like any other."""
    try:
        yield
    except Exception as error:
        chart.failed(
            check,
            f"cannot be looked at: {type(error).__name__}: {error}",
            "run it as the unit does; `ulimit -a` shows what this user may have",
        )


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


def _tried(conf: str) -> str:
    """Where slurm.conf was looked for."""
    named = (("setting slurm.conf", conf), ("variable SLURM_CONF", os.environ.get("SLURM_CONF", "")))
    places = [f"{path} ({what})" for what, path in named if path] + list(slurm.CONFS)
    return ", ".join(dict.fromkeys(places))


def _cluster(chart: Chart, settings: Settings) -> None:
    given = settings.slurm
    if name := given.cluster:
        chart.ok(Check.AGENT_CLUSTER, f"the cluster is {name} (slurm.cluster)")
    elif name := slurm.cluster_name(given.conf):
        chart.ok(Check.AGENT_CLUSTER, f"the cluster is {name} (ClusterName in the file slurm.conf)")
    else:
        read = slurm.conf_text(given.conf) is not None
        why = "no ClusterName in" if read else "none can be read of"
        chart.warning(
            Check.AGENT_CLUSTER,
            f"the cluster's name is unknown, and the label cluster is empty: {why} {_tried(given.conf)}",
            "set slurm.cluster, or the setting slurm.conf to a file that this user may read",
        )


def _slurm_settings(chart: Chart, conf: str) -> None:
    text = slurm.conf_text(conf)
    if text is None:
        chart.skipped(
            Check.AGENT_SLURM,
            f"no file slurm.conf can be read: tried {_tried(conf)}",
            "let the setting slurm.conf, or the variable SLURM_CONF, name the file",
        )
        return
    wrong = []
    for name, (wanted, why) in _SETTINGS.items():
        found = re.search(rf"^\s*{name}\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
        if found is None or wanted not in found[1].lower():
            wrong.append(f"{name}={found[1] if found else '(not set)'}: {why}")
    if wrong:
        cure = "set " + ", ".join(f"{name}={wanted}" for name, (wanted, _) in _SETTINGS.items())
        chart.warning(Check.AGENT_SLURM, "; ".join(wrong), f"{cure} in the file slurm.conf (docs/agent.md)")
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
        if _has_nvidia():
            cure = "install slurmscope[gpu]; nvidia-smi must work on this node as well"
            chart.skipped(Check.AGENT_GPUS, "/dev has GPUs of NVIDIA's, and nothing here can ask them", cure)
        else:
            chart.skipped(Check.AGENT_GPUS, "no GPUs here")
    await gpus.close()


def _has_nvidia() -> bool:
    """By the files that are there where the kernel's module is loaded, whoever can talk to it."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def _models(models: Iterable[str]) -> str:
    counts: dict[str, int] = {}
    for model in models:
        counts[model] = counts.get(model, 0) + 1
    return ", ".join(f"{count} × {model}" for model, count in counts.items())


async def _listen(chart: Chart, address: Serve) -> None:
    try:
        sockets = listening.listen(address, "agent.listen")
    except listening.ServeError as error:
        if await _is_agent(address):
            chart.ok(Check.AGENT_LISTEN, f"an agent serves {address.listen} already")
        else:
            cure = "name another address, or end who has it: `ss -ltnp` shows it"
            chart.failed(Check.AGENT_LISTEN, str(error), cure)
        return
    for one in sockets:
        one.close()
    chart.ok(Check.AGENT_LISTEN, f"{address.listen} is free")


async def _is_agent(address: Serve) -> bool:
    host, _, port = address.listen.rpartition(":")
    context = ssl.create_default_context()
    # who answers is all that is asked, and the certificate is for another name than this
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"http{'s' if address.tls_cert else ''}://{host or '127.0.0.1'}:{port}/"
    try:
        async with httpx.AsyncClient(verify=context, timeout=_PATIENCE, trust_env=False) as client:
            answer = await client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        return False
    return "slurmscope agent" in answer.text or "slurmscope" in answer.headers.get("www-authenticate", "")


async def _serve(chart: Chart, settings: Settings) -> None:
    agent = settings.agent
    target = Target(agent.serve_url, agent.serve_ca, agent.serve_token_file, "agent.serve_token_file")
    server = Server("agent.serve_url", target)
    cluster = settings.slurm.cluster or slurm.cluster_name(settings.slurm.conf)
    node = agent.node or socket.gethostname().partition(".")[0]
    report = Report(cluster=cluster, node=node, time=time.time() - _LONG_AGO, seconds=0.0, jobs=())
    try:
        body = msgspec.json.encode([report])
        answer = await server.request("POST", PATH, body, {"Content-Type": "application/json"})
    except (SendError, BatchError) as error:
        chart.failed(
            Check.AGENT_SERVE, str(error), "look at agent.serve_url, agent.serve_token_file and agent.serve_ca"
        )
        return
    finally:
        await server.close()
    _answered(chart, agent.serve_url, answer, cluster)


def _answered(chart: Chart, url: str, answer: Answer, cluster: str) -> None:
    if answer.status in (404, 405):
        chart.failed(
            Check.AGENT_SERVE,
            f"{url} takes nothing from agents: it answers {answer.status}",
            f"set agents.enabled there; agent.serve_url is the address without {PATH}",
        )
    elif answer.status == 400 and words(answer.body).startswith("cluster:"):
        chart.failed(
            Check.AGENT_SERVE,
            f"{url} refuses reports of this cluster: {words(answer.body)}",
            f"set slurm.cluster here, which is {cluster!r} now, to the name that it expects",
        )
    elif answer.status not in (200, 202, 204):
        chart.failed(Check.AGENT_SERVE, f"{url} answers {answer.status}: {words(answer.body)}", "see its log")
    else:
        chart.ok(Check.AGENT_SERVE, f"{url} takes what is measured of {cluster or 'its only cluster'}")
