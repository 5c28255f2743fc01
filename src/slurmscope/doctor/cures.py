# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What to do about what Slurm's commands say when they fail."""

from __future__ import annotations

import shlex
from pathlib import Path

from slurmscope.doctor.answers import Answer, Answers
from slurmscope.slurm.commands import REST
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.transport import NotFound, TimedOut

# Where Slurm is put when it does not come with the system.
PLACES = ("/opt/slurm*/bin", "/opt/slurm/*/bin", "/usr/local/slurm*/bin", "/cm/shared/apps/slurm/current/bin")

# The first that fits.
_CURES = (
    (
        ("configuration source", "Unable to process configuration file", "slurm.conf"),
        'set {conf} = "/etc/slurm/slurm.conf", or wherever it is: the commands find none',
    ),
    (
        ("Unable to contact slurm controller", "Connection refused", "Connection timed out"),
        "`systemctl status slurmctld` on the controller; if it runs there, open its port (SlurmctldPort) to this host",
    ),
    (
        ("authentication", "Munge", "munge", "Zero Bytes were transmitted"),
        "`munge -n | unmunge` here must succeed, with the munge.key and the clock of the controller",
    ),
    (
        ("Incompatible versions", "Protocol version"),
        "set {bin_dir} to the commands of slurmctld's own release",
    ),
    (("Permission denied", "Access/permission denied"), "run slurmscope as a user that may do this, by hand: `{line}`"),
)


def by_hand(answers: Answers, line: str) -> str:
    """A command line as whoever looks into it would type it."""
    slurm = answers.slurm
    if slurm.bin_dir:
        line = f"{slurm.bin_dir.rstrip('/')}/{line}"
    if slurm.conf:
        line = f"SLURM_CONF={shlex.quote(slurm.conf)} {line}"
    return f"{ssh_line(answers)} {shlex.quote(line) if slurm.conf else line}" if slurm.ssh else line


def ssh_line(answers: Answers) -> str:
    options = ["-F", answers.slurm.ssh_config] if answers.slurm.ssh_config else []
    return shlex.join(["ssh", *options, answers.slurm.ssh])


def bin_dir(answers: Answers) -> str:
    """Where the commands may be."""
    setting = answers.setting("bin_dir")
    if answers.slurm.ssh:
        return f"set {setting} to the folder that `{ssh_line(answers)} \"bash -lc 'which squeue'\"` prints"
    for pattern in PLACES:
        for folder in sorted(Path("/").glob(pattern.lstrip("/"))):
            if (folder / "squeue").exists():
                return f'set {setting} = "{folder}"'
    return (
        f"set {setting} to the folder of squeue (`which squeue` on a login node says which), install Slurm's client "
        f"commands, or set {answers.setting('ssh')} to read the cluster through a login node"
    )


def cure(answers: Answers, answer: Answer) -> str:
    error, argv = answer.error, answer.command.argv
    shown = argv[:3] if answer.command.part != "jobs" else argv[:1]
    line = by_hand(answers, " ".join(shown)) if answer.command.way == TEXT else ""
    if answer.command.way == REST:
        return _rest(answers, str(error))
    if isinstance(error, NotFound):
        return bin_dir(answers)
    if isinstance(error, TimedOut):
        return (
            f"`{by_hand(answers, 'sdiag')}` shows whether slurmctld is busy; "
            f"set {answers.setting('timeout')} = {answers.slurm.timeout * 3:g} if it only takes longer"
        )
    for signs, words in _CURES:
        if any(sign in str(error) for sign in signs):
            return words.format(conf=answers.setting("conf"), bin_dir=answers.setting("bin_dir"), line=line)
    if isinstance(error, ValueError):
        return (
            f"`{line}` by hand shows what is printed in its place: a wrapper, or words of a login?"
            if line
            else report()
        )
    return f"`{line}` by hand must succeed for the user that runs slurmscope" if line else report()


def _rest(answers: Answers, said: str) -> str:
    if answers.token and "slurmdb" in said.lower():
        return "slurmrestd hands the token on to slurmdbd: set AuthAltTypes=auth/jwt and jwt_key in slurmdbd.conf too"
    whose = "the token must be of this cluster, and " if answers.token else ""
    return f"{whose}slurmrestd's own log (`journalctl -u slurmrestd` on its host) says what went wrong"


def report() -> str:
    return "`slurmscope capture --anonymise slurm.json.gz` writes down what was answered: report it with that file"
