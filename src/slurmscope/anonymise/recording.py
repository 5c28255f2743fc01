# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A recording without the names of people, of their work and of machines, that is read as it was."""

from __future__ import annotations

import base64
import re

import msgspec

from slurmscope.anonymise import rules, text, tree
from slurmscope.anonymise.check import Check
from slurmscope.anonymise.pseudonyms import Pseudonyms, Seen
from slurmscope.slurm import probe
from slurmscope.slurm.bundle import Answer, Bundle
from slurmscope.slurm.commands import BY_WAY, REST, Command
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT
from slurmscope.slurm.text import Malformed

_VERSION = re.compile(r"\d+(?:\.\d+)*[\w.+-]{0,20}")
_MARK = re.compile(r"@[A-Za-z0-9]{1,40}")
_KINDS = frozenset({probe.NOT_FOUND, probe.TIMED_OUT, probe.FAILED, probe.TOO_LONG})
_STRAY = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte


class NameLeft(Exception):
    """A name is still there. The message says in which part, and not the name."""


def anonymise(bundle: Bundle) -> Bundle:
    """The bundle with other names throughout; raises NameLeft rather than give one away."""
    asked = [answer for answer in bundle.answers if answer.part in BY_WAY.get(answer.way, {})]
    seen = Seen()
    for answer in asked:
        _changed(seen, answer)
    rules.host(seen, bundle.host)
    names, check = Pseudonyms(seen), Check(seen)
    found = []
    for answer in asked:
        changed = _changed(names, answer)
        if check.left_over(_text(changed)):
            raise NameLeft(
                f"a name of the cluster's would still be in {answer.part} by {answer.way}, and nothing is written. "
                "Record without that part (probe.py --parts), or without --anonymise for somebody you trust with names"
            )
        found.append(changed)
    return Bundle(
        format=bundle.format,
        version=bundle.version,
        time=bundle.time,
        host=rules.host(names, bundle.host),
        python=bundle.python if _VERSION.fullmatch(bundle.python) else "",
        slurmscope=bundle.slurmscope if _VERSION.fullmatch(bundle.slurmscope) else "",
        anonymised=True,
        answers=found,
    )


def _text(answer: Answer) -> str:
    return answer.data.decode("utf-8", "surrogateescape")


def _changed(names: Seen, answer: Answer) -> Answer:
    command = BY_WAY[answer.way][answer.part]
    marks = answer.marks if all(map(_MARK.fullmatch, answer.marks)) else ("", "")
    kept = Answer(answer.way, answer.part, answer.time, _argv(command, answer, marks), answer.seconds, marks)
    if answer.error:
        return _failed(kept, answer.kind, rules.error(names, answer.error))
    try:
        data = _by_way(names, answer, marks).encode("utf-8", "surrogateescape")
    except ValueError:  # Malformed, or damaged base64
        return _failed(kept, probe.FAILED, "the answer was none of the command's, and is left out")
    try:
        return msgspec.structs.replace(kept, text=data.decode())
    except UnicodeDecodeError:
        return msgspec.structs.replace(kept, base64=base64.b64encode(data).decode())


def _failed(kept: Answer, kind: str, said: str) -> Answer:
    kind = kind if kind in _KINDS else probe.FAILED
    asked = BY_WAY[kept.way][kept.part].program
    return msgspec.structs.replace(kept, kind=kind, error=f"{asked}: {said or kind}")


def _by_way(names: Seen, answer: Answer, marks: tuple[str, str]) -> str:
    data = _text(answer)
    if answer.way == TEXT:
        found = text.PARTS[answer.part](names, data, marks)
    elif answer.way in (JSON, REST):
        found = tree.by_json(names, data, answer.part)
    elif answer.way == PYSLURM:
        found = tree.by_pyslurm(names, data, answer.part)
    else:
        raise Malformed(f"no rules for {answer.way}")
    return _STRAY.sub("\N{REPLACEMENT CHARACTER}", found)


def _argv(command: Command, answer: Answer, marks: tuple[str, str]) -> tuple[str, ...]:
    """What was run, if it is what we run; in place of anything else, what we would have run."""
    ours = [form for form in (command.argv, command.row.old) if form]
    ours += [tuple(probe.arguments(form, *marks)) for form in ours]
    if answer.way == PYSLURM:
        ours += [(call,) for _, call in probe.PYSLURM_PARTS[answer.part]]
    version = re.search(r"/(v[\d.]+)/", answer.argv[-1]) if answer.way == REST and answer.argv else None
    if version:
        ours.append(tuple(arg.replace("{version}", version[1]) for arg in command.argv))
    return answer.argv if answer.argv in ours else tuple(probe.arguments(command.argv, *marks))
