# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whose job it is, and what it was given: from its folder, the scheduler's processes, and what its own were told.

The steps of a job are told different things, and come and go: each is asked for itself, and forgotten with its folder.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from slurmscope.node.groups import Missed
from slurmscope.node.processes import Process, Reader
from slurmscope.node.scheduler import Found, Scheduler, Told

_TRIES = 20  # looks at a step's processes; then it has none whose environment we may see
_AT_ONCE = 8  # processes of a step whose environment is read in a look


class _Step(msgspec.Struct):
    told: Told | None = None
    tries: int = 0


class Identity:
    def __init__(self, found: Found, scheduler: Scheduler) -> None:
        self.number = found.job
        self.certain = found.job is not None  # not only because a process of its owner's says so
        self.tries = 0
        self.told = Told()  # the last that was told of the whole
        self._scheduler = scheduler
        self._uid = found.uid
        self._owner: int | None = None
        self._steps: dict[str, _Step] = {}

    def learn(self, number: int) -> None:
        self.number, self.certain = number, True

    @property
    def uid(self) -> int | None:
        return self._owner if self._uid is None else self._uid

    def look(
        self,
        pids: Mapping[int, str],
        processes: Mapping[int, Process],
        own: Mapping[int, Process],
        reader: Reader,
        missed: Missed,
    ) -> None:
        """`pids` has the folder of each within the job's."""
        self.tries += 1
        if self.number is None:
            titles = (self._scheduler.titled(reader.title(pid, missed)) for pid in own)
            number = next((one for one in titles if one is not None), None)
            if number is not None:
                self.learn(number)
        by_step: dict[str, list[int]] = {}
        for pid in processes:
            by_step.setdefault(pids[pid].partition("/")[0], []).append(pid)
        present = {inside.partition("/")[0] for inside in pids.values()}
        self._steps = {name: step for name, step in self._steps.items() if name in present}
        for name, some in by_step.items():
            step = self._steps.setdefault(name, _Step())
            if step.told is None and step.tries < _TRIES:
                step.tries += 1
                self._ask(step, name, some[:_AT_ONCE], reader, missed)
        if self.uid in (None, 0):
            self._find_owner(processes, reader, missed)

    def _ask(self, step: _Step, name: str, pids: list[int], reader: Reader, missed: Missed) -> None:
        for pid in pids:
            environ = reader.environ(pid, missed)
            told = self._scheduler.told(environ, name) if environ else None
            # one that was started with an empty environment, or another's, tells nothing
            if told is None or not self._accept(told):
                continue
            step.told = self.told = told
            self._owner = reader.owner(pid, missed) or self._owner
            return

    def _accept(self, told: Told) -> bool:
        if told.job is None:
            return False
        if self.number is None and not told.others:
            self.number = told.job
        return self.number == told.job or self.number in told.others

    def _find_owner(self, processes: Mapping[int, Process], reader: Reader, missed: Missed) -> None:
        """Root may have processes in anybody's job; somebody else is its owner."""
        for pid in list(processes)[:_AT_ONCE]:
            owner = reader.owner(pid, missed)
            if owner is not None:
                self._owner = owner
                if owner:
                    return

    @property
    def cpus(self) -> int | None:
        """Of this node, as far as it is told: by the one step that has all of the job, or the largest."""
        found = self._all
        whole = [one.cpus for one in found if one.whole and one.cpus]
        return max(whole or [one.cpus for one in found if one.cpus], default=None)

    @property
    def environ(self) -> dict[str, str] | None:
        """What is told of GPUs: by the step that has all of the job, else by all steps together."""
        found = self._all
        if not found:
            return None
        chosen = [one for one in found if one.whole] or found
        names = {name for one in chosen for name in one.gpus}
        together = {name: [one.gpus[name] for one in chosen if name in one.gpus] for name in names}
        return {name: ",".join(dict.fromkeys(values)) for name, values in together.items()}

    @property
    def _all(self) -> list[Told]:
        return [step.told for step in self._steps.values() if step.told is not None]
