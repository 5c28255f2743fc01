# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster's answers come to: the way to it, its commands, its daemons."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from slurmscope.doctor import access, cures, ways
from slurmscope.doctor.answers import PING, PROGRAMS, Answer, Answers
from slurmscope.doctor.finding import Chart, Check
from slurmscope.model import Config, Controller
from slurmscope.slurm import probe
from slurmscope.slurm.probe import INSTALLED, TEXT
from slurmscope.slurm.text import ACCOUNTING_HOST, ACCOUNTING_TYPE, DBD, GATHER_TYPE, TRACK_TYPE
from slurmscope.slurm.transport import NotFound, TimedOut

_NEEDED = ("squeue", "scontrol", "sdiag")
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_MOST_SKEW = 5  # seconds; munge refuses at 300, and waits are shown wrong long before that


def look(chart: Chart, answers: Answers) -> None:
    if TEXT in answers.ways:
        _slurm_conf(chart, answers)
        if answers.slurm.ssh:
            _ssh(chart, answers)
        if answers.ssh_error is None:
            _commands(chart, answers)
            _versions(chart, answers)
    _slurmctld(chart, answers)
    ways.look(chart, answers)
    if answers.best("config") is not None or answers.best("jobs") is not None:
        _slurmdbd(chart, answers)
        access.look(chart, answers)
        _job_accounting(chart, answers)
        _clock(chart, answers)


def look_back(chart: Chart, answers: Answers) -> None:
    """At a recording: what was answered then. Of this machine, and of who asked, it says nothing."""
    if not answers.told:
        chart.failed(Check.SLURMCTLD, "the recording holds no answer", "record anew: `slurmscope capture FILE`")
        return
    _slurmctld(chart, answers)
    for way in answers.ways:
        ways.parts(chart, answers, way)
    if answers.best("config") is not None:
        _slurmdbd(chart, answers)
        _job_accounting(chart, answers)


def _slurm_conf(chart: Chart, answers: Answers) -> None:
    """Slurm waits a minute for a file that is not there, so that the commands are killed before they can say it."""
    named = answers.slurm.conf or os.environ.get("SLURM_CONF", "")
    if answers.slurm.ssh or not named:
        return
    try:
        with Path(named).open("rb"):
            chart.ok(Check.SLURM_CONF, named)
    except OSError as error:
        if not answers.silent:
            return  # the commands are wrapped, and do with another
        whence = answers.setting("conf") if answers.slurm.conf else "the environment's SLURM_CONF"
        chart.failed(
            Check.SLURM_CONF,
            f"{named} cannot be read: {error.strerror}",
            f"correct {whence}, or leave it empty for Slurm's own default",
        )


def _ssh(chart: Chart, answers: Answers) -> None:
    slurm = answers.slurm
    ping = answers.told[TEXT, PING]
    if answers.ssh_error is not None:
        chart.failed(
            Check.SSH,
            str(answers.ssh_error),
            f"`{cures.ssh_line(answers)} {slurm.python or 'python3'} --version`, as the user that runs slurmscope, "
            "must print 3.6 or newer and ask nothing; docs/ssh.md has every message",
        )
        return
    python = next((answer.python for answer in answers.told.values() if answer.python), "unknown")
    chart.ok(Check.SSH, f"{slurm.ssh} lets us in and runs the probe, Python {python} ({ping.seconds:.2f} s)")


def _commands(chart: Chart, answers: Answers) -> None:
    found = {answer.command.part: answer for answer in answers.by(INSTALLED)}
    missing = [name for name, answer in found.items() if isinstance(answer.error, NotFound)]
    path = answers.slurm.bin_dir or ("" if answers.slurm.ssh else probe.bin_path())
    where = f"in {path}" if path else "in PATH"
    if missing:
        make = chart.failed if set(missing) & set(_NEEDED) else chart.warning
        make(Check.COMMANDS, f"{', '.join(missing)} not found {where}, or not executable", cures.bin_dir(answers))
    if len(missing) == len(found):
        return
    mute = [name for name, answer in found.items() if answer.error and name not in missing]
    if mute:
        late = isinstance(found[mute[0]].error, TimedOut)
        chart.warning(
            Check.COMMANDS,
            f"{', '.join(mute)} {where}: no version to be had: {found[mute[0]].error}",
            f"`{cures.by_hand(answers, mute[0])} --version` by hand shows why"
            + ("; it asks nobody, so that slurm.conf is missing, or a file system hangs" if late else ""),
        )
    good = [f"{name} {answer.value}" for name, answer in found.items() if not answer.error]
    if good and not missing:
        chart.ok(Check.COMMANDS, f"{', '.join(_folded(good))} {where}")


def _folded(good: Sequence[str]) -> list[str]:
    """All of them by name, and the version once where it is the same."""
    versions = {one.split()[1] for one in good}
    if len(versions) > 1:
        return list(good)
    return [*(one.split()[0] for one in good[:-1]), f"{good[-1].split()[0]} of Slurm {versions.pop()}"]


def _release(version: str) -> tuple[int, ...]:
    found = _RELEASE.match(version)
    return tuple(map(int, found.groups())) if found else ()


def _versions(chart: Chart, answers: Answers) -> None:
    commands = {
        one.part: found.value for one in PROGRAMS if (found := answers.get(INSTALLED, one.part)) and found.value
    }
    config: Config | None = answers.value("config")
    if not commands or config is None:
        return
    ours = sorted(set(commands.values()))
    odd = {version for version in ours if _release(version) != _release(config.version)}
    if odd:
        names = ", ".join(f"{name} {version}" for name, version in commands.items() if version in odd)
        chart.warning(
            Check.VERSIONS,
            f"slurmctld is {config.version}, but {names}",
            f"set {answers.setting('bin_dir')} to the commands of Slurm {config.version}: newer ones are refused by "
            "slurmctld, older ones do not know all that it tells",
        )
    else:
        chart.ok(Check.VERSIONS, f"slurmctld is {config.version}, the commands are {', '.join(ours)}")


def _slurmctld(chart: Chart, answers: Answers) -> None:
    ping = answers.best(PING)
    controllers: tuple[Controller, ...] = ping.value if ping is not None else ()
    up = [one for one in controllers if one.up]
    down = [one for one in controllers if not one.up]
    if up and not down:
        told = ", ".join(f"{one.role} {one.host}" for one in up)
        assert ping is not None
        chart.ok(Check.SLURMCTLD, f"{told} answered a ping in {ping.seconds:.2f} s")
    elif up:
        chart.warning(
            Check.SLURMCTLD,
            f"{', '.join(f'{one.role} {one.host}' for one in down)} does not answer; "
            f"{', '.join(f'{one.role} {one.host}' for one in up)} does",
            f"`systemctl status slurmctld` on {', '.join(one.host for one in down)}",
        )
    elif down:
        chart.failed(
            Check.SLURMCTLD,
            f"{', '.join(f'{one.role} {one.host}' for one in down)} does not answer",
            f"`systemctl status slurmctld` on {', '.join(one.host for one in down)}; if it runs there, open its port "
            "(SlurmctldPort) to this host",
        )
    else:
        _no_ping(chart, answers)


def _no_ping(chart: Chart, answers: Answers) -> None:
    """There was no answer to a ping; why is what the other questions say, for scontrol ping says little."""
    if answers.ssh_error is not None:
        return
    tried = [answers.get(TEXT, part) for part in ("jobs", "nodes", PING)]
    wrong = [one for one in tried if one is not None and one.error is not None and not isinstance(one.error, NotFound)]
    if not wrong:
        return  # the way to it is told to be wrong already
    first: Answer = wrong[0]
    if not answers.silent:
        late = isinstance(wrong[-1].error, TimedOut)
        told = "the ping took too long, but all else is answered: is a controller's host gone?" if late else ""
        chart.warning(Check.SLURMCTLD, told or f"no ping: {wrong[-1].error}", cures.cure(answers, wrong[-1]))
    else:
        chart.failed(Check.SLURMCTLD, str(first.error), cures.cure(answers, first))


def _slurmdbd(chart: Chart, answers: Answers) -> None:
    config: Config | None = answers.value("config")
    kind = config.settings.get(ACCOUNTING_TYPE, DBD) if config is not None else DBD
    if kind != DBD:
        chart.skipped(
            Check.SLURMDBD,
            f"AccountingStorageType is {kind}: no shares, no limits, no statistics of slurmdbd",
            f"to have them: AccountingStorageType={DBD} in slurm.conf, and a slurmdbd",
        )
        return
    good = answers.best("accounting")
    if good is not None:
        chart.ok(Check.SLURMDBD, f"answered in {good.seconds:.2f} s, with its statistics")
        _coordinators(chart, answers)
        return
    wrong = next((one for way in answers.ways if (one := answers.get(way, "accounting")) and one.error), None)
    if wrong is None:
        chart.skipped(Check.SLURMDBD, "no way that is set up tells of it")
    elif access.refused(wrong):
        chart.skipped(
            Check.SLURMDBD,
            "answers, but gives its statistics to administrators alone: they are left out",
            f"to have them: {access.promotion(answers, 'admin')}",
        )
        _coordinators(chart, answers)
    else:
        host = config.settings.get(ACCOUNTING_HOST, "") if config is not None else ""
        chart.failed(
            Check.SLURMDBD,
            f"does not answer: {wrong.error}",
            f"`systemctl status slurmdbd` on {host or 'its host (AccountingStorageHost)'}",
        )


def _coordinators(chart: Chart, answers: Answers) -> None:
    """Of a slurmdbd that answers."""
    wrong = answers.get(TEXT, "coordinators")
    if answers.best("coordinators") is None and wrong is not None and not isinstance(wrong.error, NotFound):
        chart.warning(
            Check.SLURMDBD,
            f"does not tell who coordinates accounts: {wrong.error}",
            f"where PrivateData in slurmdbd.conf hides accounts: {access.promotion(answers, 'operator')}",
        )


def _job_accounting(chart: Chart, answers: Answers) -> None:
    config: Config | None = answers.value("config")
    gather = config.settings.get(GATHER_TYPE) if config is not None else None
    if config is None or gather is None:
        chart.skipped(Check.JOB_ACCOUNTING, "JobAcctGatherType is not told by the ways that work: only text tells it")
        return
    track = config.settings.get(TRACK_TYPE, "unknown")
    lines = [
        f"{name}={wanted}"
        for name, value, wanted in (
            (GATHER_TYPE, gather, "jobacct_gather/cgroup"),
            (TRACK_TYPE, track, "proctrack/cgroup"),
        )
        if value != wanted
    ]
    told = f"JobAcctGatherType is {gather}, ProctrackType {track}"
    if lines:
        chart.warning(
            Check.JOB_ACCOUNTING,
            f"{told}: what a job uses is not counted by its cgroup",
            f"set {' and '.join(lines)} in slurm.conf; then restart slurmctld and every slurmd while no job runs",
        )
    else:
        chart.ok(Check.JOB_ACCOUNTING, told)


def _clock(chart: Chart, answers: Answers) -> None:
    answer = answers.best("scheduler")
    if answer is None:
        return
    # it was taken between our question and the answer, and cut to a whole second
    theirs = answer.value.time
    skew = theirs - answer.ended if theirs > answer.ended else min(0.0, theirs + 1 - answer.began)
    if abs(skew) > _MOST_SKEW:
        order = "ahead of" if skew > 0 else "behind"
        chart.warning(
            Check.CLOCK,
            f"slurmctld's clock is {abs(skew):,.0f} s {order} ours",
            "`timedatectl` on both hosts must say that the clock is synchronized: enable chronyd where it does not",
        )
    else:
        chart.ok(Check.CLOCK, f"slurmctld's clock and ours agree to {max(1.0, abs(skew)):.0f} s")
