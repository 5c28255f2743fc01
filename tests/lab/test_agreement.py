# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever the way in, the Snapshot is the same: every field of every part equals the text's, or is written down in
the table of commands as one that the way cannot know. Printed as a matrix (`pytest -s`)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import agreement
import pytest
from lab.cluster import Lab

from slurmscope.model import PARTS
from slurmscope.settings import Slurm
from slurmscope.slurm.commands import REST
from slurmscope.slurm.local import Local
from slurmscope.slurm.probe import JSON, TEXT
from slurmscope.slurm.rest import Rest
from slurmscope.slurm.source import SourceError, Way
from slurmscope.slurm.transport import TransportError

_TRIES = 30  # the cluster lives: jobs start, sdiag counts our own questions
# What cannot be asked at all by a way in a version, and the words that say so.
_ABSENT = {
    "22.05 json": (
        {"scheduler", "controllers", "partitions", "reservations", "licenses", "shares", "accounting", "coordinators"},
        r"unrecognized option '--json'|not Slurm's JSON",
    ),
    "22.05 rest v0.0.37": ({"licenses", "shares"}, r"slurmrestd has no "),
    "22.05 rest v0.0.38": ({"shares"}, r"slurmrestd has no "),
}
# slurmdbd gives its statistics to administrators alone, and the lab's slurmrestd runs as nobody of that kind.
_REFUSED = r"Access/permission denied"


def _within(low: Any, value: Any, high: Any) -> bool:
    """Of a counter that our own questions drive: it lies between what the text said before and after."""
    if isinstance(value, dict) and isinstance(low, dict) and isinstance(high, dict):
        return all(_within(low.get(name, 0), number, high.get(name)) for name, number in value.items())
    numbers = (low, value, high)
    return all(isinstance(number, int | float) for number in numbers) and low <= value <= high


async def _agree(text: Way, other: Way, part: str) -> tuple[list[str], int]:
    """What differs at a moment at which the text says the same before and after, and how much was compared."""
    found: list[str] = []
    for _ in range(_TRIES):
        before = (await text.read(part)).value
        value = (await other.read(part)).value
        after = (await text.read(part)).value
        found = agreement.differences(before, value, other.commands[part].lacks)
        if found and part in ("scheduler", "accounting"):
            low, middle, high = (dict(agreement.flat(one)) for one in (before, value, after))
            found = [line for line in found if not any(_within(low[f], middle[f], high[f]) for f in _named(line, low))]
        if not found:
            break
    return found, agreement.fields(before)


def _named(line: str, known: dict[str, Any]) -> list[str]:
    return [field for field in known if line.lstrip().startswith(f"{field}:")]


async def _row(text: Way, other: Way, name: str) -> list[str]:
    """Prints a row of the matrix, and returns what is wrong in it."""
    absent, words = _ABSENT.get(name, (set(), "$^"))
    cells, wrong = [], []
    for part in PARTS:
        if part not in other.commands:
            cells.append(f"{part} -")
            continue
        try:
            found, compared = await _agree(text, other, part)
        except (SourceError, TransportError) as error:
            refused = other.name == REST and part == "accounting" and re.search(_REFUSED, str(error))
            if not refused and not (part in absent and re.search(words, str(error))):
                wrong.append(f"{name} {part}: {error}")
            cells.append(f"{part} {'refused' if refused else 'absent'}")
            continue
        wrong.extend(f"{name} {part}: {line}" for line in found[:5])
        untold = len(other.commands[part].lacks)
        cells.append(f"{part} {'DIFFERS' if found else 'agrees'} in {compared} values ({untold} fields may be untold)")
    print(f"\n{name}: " + "\n    ".join(cells))
    return wrong


@pytest.fixture
def arrays(lab: Lab) -> Iterator[None]:
    """Waiting arrays whose tasks are many words to tell, or were changed by themselves."""
    odd = ",".join(str(number) for number in range(1, 400) if number % 7 in (1, 3))
    held = ("--parsable", "--hold", "--output=/dev/null", "--wrap", "true")
    ids = []
    for name, tasks in (("odd", odd), ("split", "1-6")):
        ids.append(lab.run("sbatch", *held, f"--job-name={name}", f"--array={tasks}").stdout.decode().strip())
    lab.run("scontrol", "update", f"jobid={ids[1]}_3", "comment=changed")
    yield
    lab.run("scancel", *ids)


@pytest.mark.usefixtures("arrays")
def test_json_agrees_with_text(lab: Lab) -> None:
    transport = Local(str(lab.bin))
    wrong = asyncio.run(_row(Way(TEXT, transport), Way(JSON, transport), f"{lab.generation} json"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("arrays")
def test_slurmrestd_agrees_with_text_in_every_version_that_it_speaks(lab: Lab) -> None:
    socket, _ = lab.script("rest").stdout.decode().split()
    text = Way(TEXT, Local(str(lab.bin)))

    async def rows() -> list[str]:
        wrong = []
        rest = Rest(Slurm(rest_url=socket, timeout=30))
        try:
            await rest.discover()
            assert len(rest.versions) >= 2
            for version in rest.versions:
                rest.version = version
                wrong += await _row(text, Way(REST, rest), f"{lab.generation} rest {version}")
        finally:
            await rest.close()
        return wrong

    wrong = asyncio.run(rows())
    assert not wrong, "\n".join(wrong)
