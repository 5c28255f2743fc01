# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Which parts each way tells: text, JSON, PySlurm, slurmrestd with its token."""

from __future__ import annotations

import time

import msgspec

from slurmscope.doctor import cures
from slurmscope.doctor.answers import Answer, Answers
from slurmscope.doctor.finding import Chart, Check, Status, span
from slurmscope.model import Config
from slurmscope.slurm.commands import REST
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.text import ACCOUNTING_TYPE, DBD
from slurmscope.slurm.token import claims
from slurmscope.slurm.transport import NotFound
from slurmscope.words import amount

_CHECKS = {TEXT: Check.TEXT, JSON: Check.JSON, PYSLURM: Check.PYSLURM, REST: Check.REST}
_DAY = 86400
_REFUSED = "refused the token"  # as rest.py says it
_OF_SLURMDBD = ("accounting", "coordinators")  # whose troubles are told where slurmdbd is looked at
_WITH_SLURMDBD = (*_OF_SLURMDBD, "shares", "limits")  # which there are only where there is one


class _Documents(msgspec.Struct):
    """What probe.py writes of PySlurm."""

    pyslurm: str = "without a version"


def look(chart: Chart, answers: Answers) -> None:
    if TEXT in answers.ways and answers.ssh_error is None:
        if answers.silent:
            chart.skipped(Check.TEXT, "no part can be read before the above works")
        else:
            parts(chart, answers, TEXT)
            _pyslurm(chart, answers)
            parts(chart, answers, JSON)
    if REST in answers.ways:
        _token(chart, answers)
        if any(finding.check is Check.TOKEN and finding.status is Status.FAILED for finding in chart.findings):
            chart.skipped(Check.REST, "no part can be read before the token holds")
        else:
            _rest(chart, answers)
    else:
        chart.skipped(
            Check.REST,
            f"not asked, for {answers.setting('rest_url')} is not set",
            f'if there is a slurmrestd: set {answers.setting("rest_url")} = "http://HOST:6820"',
        )


# Parts


def parts(chart: Chart, answers: Answers, way: str, what: str = "") -> None:
    """A finding for what was told, and one for each reason for which something was not."""
    found = answers.by(way)
    good = [answer for answer in found if answer.error is None]
    if good:
        whole = "all" if len(good) == len(found) else f"{len(good)} of"
        chart.ok(
            _CHECKS[way],
            f"{what}{whole} {len(found)} parts, in seconds (and rows): {', '.join(map(_one, good))}",
        )
    for answer in good:
        if answer.rows_skipped:
            chart.warning(
                _CHECKS[way],
                f"{amount(answer.rows_skipped, 'row')} of {answer.command.part} could not be read: {answer.sample}",
                cures.report(),
            )
    untold: dict[tuple[Status, str], list[Answer]] = {}
    for answer in found:
        if answer.error is not None and not _excused(answers, answer.command.part):
            untold.setdefault(_judged(answers, answer), []).append(answer)
    for (status, next_step), those in untold.items():
        parts = ", ".join(answer.command.part for answer in those)
        others = len({str(answer.error) for answer in those}) - 1
        more = f" (and {amount(others, 'other reason')})" if others else ""
        chart.add(_CHECKS[way], status, f"not told: {parts}: {those[0].error}{more}", next_step)


def _one(answer: Answer) -> str:
    rows = f" ({len(answer.value):,})" if isinstance(answer.value, tuple) else ""
    return f"{answer.command.part} {answer.seconds:.2f}{rows}"


def _excused(answers: Answers, part: str) -> bool:
    config: Config | None = answers.value("config")
    without = config is not None and config.settings.get(ACCOUNTING_TYPE, DBD) != DBD
    return part in (_WITH_SLURMDBD if without else _OF_SLURMDBD)


def _judged(answers: Answers, answer: Answer) -> tuple[Status, str]:
    """How bad it is that a part was not told, and what to do."""
    way = answer.command.way
    alone = not answers.tellers(answer.command.part)
    absent = isinstance(answer.error, NotFound)
    if alone and way == REST and absent:
        return Status.WARNING, cures.bin_dir(answers)  # an older slurmrestd does not know it, and the commands may
    if alone and (way == TEXT or _wanted(answers, way)):
        return Status.FAILED, cures.cure(answers, answer)
    if _wanted(answers, way) and not absent:
        return Status.WARNING, cures.cure(answers, answer)
    return Status.SKIPPED, ""  # another way tells it, or will be told to be wrong


def _wanted(answers: Answers, way: str) -> bool:
    """Whether somebody would miss it."""
    source = answers.slurm.source
    return way in (source, REST) or (source == "auto" and way == TEXT)


def _pyslurm(chart: Chart, answers: Answers) -> None:
    config = answers.told[PYSLURM, "config"]
    if isinstance(config.error, NotFound):
        wanted = answers.slurm.source == PYSLURM
        make = chart.failed if wanted else chart.skipped
        slurm: Config | None = answers.value("config")
        make(
            Check.PYSLURM,
            str(config.error).partition(" Install ")[0],
            f"{'' if wanted else 'if you want it: '}install PySlurm for Slurm "
            f"{slurm.version if slurm else 'there'} (docs/pyslurm.md), and set {answers.setting('python')} to the "
            "Python that has it",
        )
        return
    version = ""
    if config.data:
        try:
            version = f"PySlurm {msgspec.json.decode(config.data, type=_Documents).pyslurm}, "
        except ValueError:
            version = ""
    parts(chart, answers, PYSLURM, version)


# slurmrestd


def _rest(chart: Chart, answers: Answers) -> None:
    url = answers.slurm.rest_url
    if answers.rest_error is not None:
        ask = (
            "curl --unix-socket " + url.removeprefix("unix:") + " http://slurmrestd"
            if _is_socket(url)
            else "curl " + url
        )
        refused = _REFUSED in str(answers.rest_error)
        chart.failed(
            Check.REST,
            str(answers.rest_error),
            _renewal(answers)
            if refused
            else f"`systemctl status slurmrestd` on its host; then `{ask}/openapi/v3` must answer with a document",
        )
        return
    parts(chart, answers, REST, f"slurmrestd speaks {answers.rest_version} ({answers.rest_seconds:.2f} s), ")


def _is_socket(url: str) -> bool:
    return url.startswith("unix:")


def _token(chart: Chart, answers: Answers) -> None:
    """There, whose it is, and how long it holds. What is in it is never shown."""
    slurm = answers.slurm
    if answers.token_error is not None:
        chart.failed(Check.TOKEN, str(answers.token_error), _renewal(answers))
        return
    if not answers.token:
        if answers.rest_error is None:
            chart.ok(Check.TOKEN, "none is set, and slurmrestd asks for none")
        elif _REFUSED in str(answers.rest_error):
            chart.failed(Check.TOKEN, "none is set", _renewal(answers))
        return
    said = claims(answers.token)
    whose = f"for {said.sun}" if said.sun else "for nobody by name"
    renewed = "asked for anew in time" if slurm.rest_token_command else "read anew when its file changes"
    renewable = bool(slurm.rest_token_command or slurm.rest_token_file)
    left = None if said.exp is None else said.exp - time.time()
    refused = any(_REFUSED in str(error) for error in (answers.rest_error, *(one.error for one in answers.by(REST))))
    if refused and (left is None or left > 0):
        chart.failed(Check.TOKEN, f"{whose}, but slurmctld refuses it", _renewal(answers))
    elif left is None and said.sun is None:
        chart.warning(Check.TOKEN, "what is set does not look like a token of Slurm's", _renewal(answers))
    elif left is None:
        chart.ok(Check.TOKEN, f"{whose}, without an end")
    elif left <= 0:
        chart.failed(Check.TOKEN, f"{whose}, expired {span(-left)} ago", _renewal(answers))
    elif left < _DAY and not renewable:
        chart.warning(Check.TOKEN, f"{whose}, expires in {span(left)}, and nothing renews it", _renewal(answers))
    else:
        chart.ok(Check.TOKEN, f"{whose}, expires in {span(left)}" + (f", {renewed}" if renewable else ""))


def _renewal(answers: Answers) -> str:
    if answers.slurm.rest_token_file:
        return (
            f"renew it: `scontrol token lifespan=86400 > {answers.slurm.rest_token_file}`, from a timer, "
            "as the user that it is for"
        )
    if answers.slurm.rest_token_command:
        return f"the command in {answers.setting('rest_token_command')}, by hand, must print a token that holds"
    return f'set {answers.setting("rest_token_command")} = "scontrol token lifespan=3600", which is run anew in time'
