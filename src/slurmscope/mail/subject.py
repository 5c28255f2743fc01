# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What Slurm says to its MailProg: one line, in which the job's name is whatever its user wrote.

  Slurm Job_id=123 Name=x Ended, Run time 00:01:00, COMPLETED, ExitCode 0
  Slurm Array Task Job_id=12_3 (124) Name=x Began, Queued time 00:00:05
  Slurm Array Summary Job_id=12_* (12) Name=x Ended, COMPLETED, ExitCode [0-0]

The number comes first and can be believed. The event comes last, after a name that may look like an event itself: of
all that could be it, it is the last one.
"""

from __future__ import annotations

import re

import msgspec

ENDED, FAILED = "Ended", "Failed"
_EVENTS = (
    "Began",
    ENDED,
    FAILED,
    "Requeued",
    "Invalid dependency",
    "StageOut/Teardown",
    r"Reached (?:(?:50|80|90)% of )?time limit",
)
_HEAD = re.compile(r"Slurm (Array Task |Array Summary )?Job_id=(\d{1,10})(?:_(\d{1,10}|\*))?(?: \((\d{1,10})\))? Name=")
_EVENT = re.compile(rf" ({'|'.join(_EVENTS)})(?=$|,| time )")
_STATE = re.compile(r", ([A-Z][A-Z_]+|Mixed)(?:, (?:Max)?(?:ExitCode|Signal) \[?[\d-]+\]?)?(?:, with requeued tasks)?$")


class Subject(msgspec.Struct, frozen=True):
    number: str  # 123, 12_3, or 12_* for a whole array
    id: int  # of the record: of an array's task its own
    name: str
    event: str
    state: str  # COMPLETED, …; "" where it is not told

    @property
    def over(self) -> bool:
        return self.event in (ENDED, FAILED)

    @property
    def whole_array(self) -> bool:
        return self.number.endswith("_*")


def parse(text: str) -> Subject | None:
    """None where it is not Slurm's."""
    head = _HEAD.match(text)
    if head is None:
        return None
    events = list(_EVENT.finditer(text, head.end() - 1))
    if not events:
        return None
    event = events[-1]
    task = head[3]
    number = head[2] if task is None else f"{head[2]}_{task}"
    state = _STATE.search(text, event.end())
    return Subject(
        number=number,
        id=int(head[4] or head[2]),
        name=text[head.end() : max(head.end(), event.start())],
        event=event[1],
        state=state[1] if state is not None else "",
    )
