# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What we may see: PrivateData, and who we are to Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmscope.doctor.answers import Answer, Answers
from slurmscope.doctor.finding import Chart, Check
from slurmscope.model import Config
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.source import own_user
from slurmscope.slurm.text import PRIVATE_DATA, SLURM_USER, decode
from slurmscope.slurm.token import claims

# as `scontrol show assoc_mgr` begins; what follows on other lines begins otherwise
_LEVEL = re.compile(r"^UserName=(\S+)\(\d+\) .*\bAdminLevel=(.*?)\s*$", re.MULTILINE)
_PRIVILEGED = ("Operator", "Administrator")


def refused(answer: Answer) -> bool:
    """Whether slurmdbd answered that its statistics are not for us."""
    said = str(answer.error).lower()
    return "privilege" in said or "access/permission denied" in said


def user(answers: Answers) -> str:
    """The name under which the cluster sees us, empty where it cannot be known."""
    slurm = answers.slurm
    if TEXT not in answers.ways:
        return slurm.rest_user or claims(answers.token).sun or ""
    return own_user() if not slurm.ssh else slurm.ssh.rpartition("@")[0]


def _levels(answers: Answers) -> Mapping[str, str]:
    """The privileges of every user of the accounting that we see."""
    answer = answers.get(TEXT, "limits")
    return dict(_LEVEL.findall(decode(answer.data))) if answer is not None else {}


def promotion(answers: Answers, level: str) -> str:
    name = user(answers)
    if not name or _levels(answers).get(name) == "Administrator":  # and yet refused: then we are somebody else there
        return f"`sacctmgr -i modify user where name=USER set adminlevel={level}`, USER being who slurmscope is there"
    if name in _levels(answers):
        return f"`sacctmgr -i modify user where name={name} set adminlevel={level}`"
    return f"`sacctmgr -i add user {name} account=root adminlevel={level}`"


def _privileged(answers: Answers, hidden: set[str]) -> bool | None:
    """Whether nothing is hidden from us; None where it cannot be told."""
    name, levels = user(answers), _levels(answers)
    accounting = [one for way in answers.ways if (one := answers.get(way, "accounting")) is not None]
    if any(one.error is None for one in accounting):
        return True  # which is for administrators alone
    if not any(refused(one) for one in accounting) and name:
        config: Config | None = answers.value("config")
        slurm_user = config.settings.get(SLURM_USER, "").partition("(")[0] if config is not None else ""
        if name in ("root", slurm_user):
            return True
    if levels.get(name) == "Operator":
        return True
    # a wrapper may run the commands as somebody else; what they show then is all that can be gone by
    others = {job.user for job in answers.value("jobs") or ()} if "jobs" in hidden else set()
    if len(others) > 1 or ("users" in hidden and len(levels) > 1):
        return True
    return None if not name or levels.get(name) in _PRIVILEGED else False


def look(chart: Chart, answers: Answers) -> None:
    config: Config | None = answers.value("config")
    private = config.settings.get(PRIVATE_DATA) if config is not None else None
    if private is None:
        chart.skipped(Check.PRIVATE_DATA, "PrivateData is not told by the ways that work")
        return
    hidden = {word.strip() for word in private.split(",")} - {"none", "(null)", ""}
    if not hidden:
        chart.ok(Check.PRIVATE_DATA, "not set: every user sees everything")
        return
    privileged = _privileged(answers, hidden)
    told = f"PrivateData={','.join(sorted(hidden))}"
    who = user(answers) or "the user there"
    if privileged:
        chart.ok(Check.PRIVATE_DATA, f"{told}, and {who} sees all the same, as an operator does")
    elif privileged is None:
        chart.warning(
            Check.PRIVATE_DATA,
            f"{told}: unless {who} is an operator, only its own part is seen, and it is not clear whether it is",
            promotion(answers, "operator"),
        )
    else:
        chart.failed(
            Check.PRIVATE_DATA,
            f"{told}, and {who} is no operator: only its own part is seen, and the numbers are wrong",
            promotion(answers, "operator"),
        )
