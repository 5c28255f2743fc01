# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Very many calls that read or wrote next to nothing."""

from slurmscope.findings import common, parts
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, COUNT, NOTE, SHARE, Finding, Limits, Rule, Threshold
from slurmscope.summary import NodeSummary
from slurmscope.words import number, percent, size


def lacks(case: Case, limits: Limits) -> str | None:
    if (missing := common.unmeasured(case, limits)) is not None or case.summary is None:
        return missing
    told = [node for node in case.summary.nodes if _known(node)]
    if not told:
        return "how often it read and wrote"
    # calls that the page cache answers are many too: without this nobody can tell them apart
    return "how much of its CPU time the kernel took" if all(_system(node) is None for node in told) else None


def fires(case: Case, limits: Limits) -> Finding | None:
    nodes = [node for node in (case.summary.nodes if case.summary else ()) if _storms(case, node, limits)]
    if not nodes:
        return None
    worst = max(nodes, key=_rate)
    system = _system(worst) or 0.0
    return Finding(
        headline=f"it read or wrote {number(_rate(worst))} times a second, {size(_each(worst))} each",
        text=f"On {parts.named([node.node for node in nodes])} there were up to {number(_rate(worst))} calls a second "
        f"that moved {size(_each(worst))} on average, and {percent(system)} of the CPU time was the kernel's.",
        advice="Read and write in large pieces: buffer what is written, do not flush after each line, read a file once "
        "and keep it. Put many small files into one, or copy them to the node's own disk first.",
        figures={"calls_per_second": _rate(worst), "bytes_per_call": _each(worst), "system_share": system},
    )


def _known(node: NodeSummary) -> bool:
    calls = node.reads is not None or node.writes is not None
    return calls and (node.read_bytes is not None or node.written_bytes is not None) and node.seconds > 0


def _storms(case: Case, node: NodeSummary, limits: Limits) -> bool:
    system = _system(node)
    if not _known(node) or system is None or system < limits["system_share"]:
        return False
    cpus = node.cpus or case.life.cpus / max(1, case.life.nodes)
    return _rate(node) >= max(limits["calls"], limits["calls_per_cpu"] * cpus) and _each(node) < limits["bytes"]


def _calls(node: NodeSummary) -> int:
    return (node.reads or 0) + (node.writes or 0)


def _rate(node: NodeSummary) -> float:
    return _calls(node) / node.seconds


def _each(node: NodeSummary) -> float:
    return ((node.read_bytes or 0) + (node.written_bytes or 0)) / max(1, _calls(node))


def _system(node: NodeSummary) -> float | None:
    """The share of its CPU time that the kernel took; None where that is not known."""
    if node.user_seconds is None or node.system_seconds is None or node.user_seconds + node.system_seconds <= 0:
        return None
    return node.system_seconds / (node.user_seconds + node.system_seconds)


RULE = Rule(
    name="metadata_storm",
    title="Very many small reads and writes",
    severity=NOTE,
    about="Each call goes to the kernel, and often to a file server that others wait for too. Thousands a second that "
    "move a few bytes are slow for the job and for everybody.",
    needs="Calls and bytes that were read and written, and the kernel's share of the CPU time, from an agent that may "
    "see them.",
    exempt="Interactive jobs, and those that ran for less than `least_seconds`.",
    cure="Read and write in large pieces.",
    false_positives="Calls on pipes, sockets and terminals count too, and bytes only where they reach a disk or a file "
    "server: what comes from the page cache, or goes from process to process, is a call of no bytes and harms nobody.",
    thresholds=(
        Threshold("calls", 2000, COUNT, "Told where there were at least so many calls a second on a node, …"),
        Threshold("calls_per_cpu", 250, COUNT, "… and so many for each CPU of the job there, …"),
        Threshold("bytes", 4096, BYTES, "… each moved less than this on average, and …"),
        Threshold("system_share", 0.2, SHARE, "… the kernel took this share of the CPU time or more."),
        common.LEAST,
        common.COVERAGE,
    ),
    hides=("scratch", "small_files"),
    spares=common.short_or_watched,
    lacks=lacks,
    fires=fires,
)
