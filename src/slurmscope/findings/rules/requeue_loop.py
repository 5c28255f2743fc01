# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""It is started again and again."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.efficiency import ran
from slurmscope.findings.rule import BAD, RUNS, Finding, Limits, Rule, Threshold, Waste
from slurmscope.life import REQUEUED, Life
from slurmscope.words import hours, moment

# These attempts did nothing wrong: they were put aside for other jobs, or their nodes failed.
_LOST = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"})
_WHOLE = 0.9  # of its time limit: whoever gets that far is started again to go on from a checkpoint


def fires(case: Case, limits: Limits) -> Finding | None:
    life = case.life
    if life.state == common.COMPLETED or not _counts(life, case.now):
        return None
    tries = [one for one in case.past.attempts(life) if _counts(one, case.now)]
    if len(tries) < limits["attempts"]:
        return None
    # each attempt tells of itself alone: all of them together tell of all
    lost = Waste(case.cpu_seconds, case.gpu_seconds, float((life.memory or 0) * case.seconds))
    took = sum(one.cpus * ran(one, case.now) for one in tries)
    since = moment(tries[0].start_time or tries[0].submit_time)
    return Finding(
        headline=f"it was started {len(tries)} times",
        text=f"Slurm has started it {len(tries)} times since {since}; all attempts together took "
        f"{hours(took, 'core')}.",
        advice="Look at the output of the first attempt: what fails once will mostly fail again. "
        "#SBATCH --no-requeue keeps Slurm from starting it again.",
        waste=lost if life.ended else Waste(),
        figures={"attempts": float(len(tries)), "cpu_seconds": float(took)},
    )


def _counts(one: Life, now: int) -> bool:
    # of an attempt that was requeued at once Slurm may not say when it began
    began = one.started or one.state == REQUEUED
    whole = one.ended and one.time_limit is not None and ran(one, now) >= _WHOLE * one.time_limit
    return began and one.state not in _LOST and not whole


RULE = Rule(
    name="requeue_loop",
    title="Started again and again",
    severity=BAD,
    about="A job that is requeued begins anew. One that is requeued over and over does the same work each time.",
    needs="The earlier attempts of the same job.",
    exempt="Jobs that have not run. Attempts that were preempted or lost by a node do not count, nor those that ran "
    "for 90 % of their time limit or more: they go on from a checkpoint.",
    cure="Find out why it does not get through, and use --no-requeue until it does.",
    false_positives="Jobs that requeue themselves on purpose (scontrol requeue) long before their time limit, and go "
    "on from a checkpoint.",
    thresholds=(Threshold("attempts", 3, RUNS, "Told from so many attempts on."),),
    hides=("failing_again",),
    spares=common.unstarted,
    lacks=common.vanished,
    fires=fires,
)
