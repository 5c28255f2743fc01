# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A node failed under it."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.past import NodeRecord
from slurmscope.findings.rule import BAD, RATIO, RUNS, Change, Finding, Limits, Rule, Threshold, Waste
from slurmscope.words import amount, hours, listed, number

_MOST = 3  # nodes that are told of


def fires(case: Case, limits: Limits) -> Finding | None:
    life = case.life
    if life.state != "NODE_FAIL":
        return None
    records = sorted(case.past.record(life), key=lambda one: (-one.failures, -one.downs, one.node))
    weak = [one for one in records if _weak(one, limits)][:_MOST]
    told = " ".join(_words(one) for one in (weak or records[:1]))
    took = hours(case.gpu_seconds, "GPU") if case.gpus else hours(case.cpu_seconds, "core")
    return Finding(
        headline="a node failed under it",
        text=f"Slurm ended it because {_where(case)} failed; it had taken {took}. {told}".strip(),
        advice="Submit it again: this is most likely no fault of the job. "
        + (f"Leave {listed([one.node for one in weak])} out until the operators have looked at it. " if weak else "")
        + "If it happens again wherever it runs, the job may use up what its node has (memory, local disk).",
        changes=_changes(weak),
        lost=Waste(case.cpu_seconds, case.gpu_seconds, float((life.memory or 0) * case.seconds)),
        figures={"failures": float(sum(one.failures for one in records)), "nodes": float(life.nodes)},
    )


def _weak(record: NodeRecord, limits: Limits) -> bool:
    """It fails far more often than others do: one failure may cost many jobs, and so does not count alone."""
    usual = limits["times"] * (record.peers or 0.0)
    return record.downs >= limits["downs"] and record.failures >= limits["failures"] and record.failures > usual


def _words(record: NodeRecord) -> str:
    peers = "" if record.peers is None else f" ({number(record.peers)} on a node of this cluster, on average)"
    reason = f'; its operators say "{" ".join(record.reason.split())}"' if record.reason else ""
    # that nobody saw it down says nothing: a poll may have come too late
    downs = f", and it went down {amount(record.downs, 'time')}" if record.downs else ""
    return (
        f"On {record.node} {amount(record.failures, 'job')} ended so within {record.days} days{peers}{downs}{reason}."
    )


def _where(case: Case) -> str:
    return f"node {case.life.node_list}" if case.life.nodes == 1 else f"one of its {case.life.nodes} nodes"


def _changes(weak: list[NodeRecord]) -> tuple[Change, ...]:
    named = ",".join(sorted(one.node for one in weak))
    return (Change("--exclude", None, named, "failed more often than others"),) if named else ()


RULE = Rule(
    name="node_failure",
    title="A node failed",
    severity=BAD,
    about="A node went down, or could not be reached any more. All that the job had not written is lost. "
    "That is told as lost by nodes, and is not counted as a waste of whose job it was.",
    needs="How the job ended. How its nodes fared before is told where it is known.",
    exempt="Jobs that have not ended.",
    cure="Submit it again; write checkpoints in long jobs. Operators: look at nodes that fail more often than others.",
    false_positives="A job that uses up all memory of a node can make it fail: then it is the cause.",
    thresholds=(
        Threshold("failures", 3, RUNS, "A node is to be left out on which so many jobs ended so …"),
        Threshold("downs", 2, RUNS, "… that went down so many times …"),
        Threshold("times", 3, RATIO, "… and more than so many times as many as on others."),
    ),
    spares=common.unended,
    lacks=common.vanished,
    fires=fires,
)
