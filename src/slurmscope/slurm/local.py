# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of this machine."""

from __future__ import annotations

import sys
import time

from slurmscope.slurm import bundle, probe, process
from slurmscope.slurm.commands import Command
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Output, error_of


class Local:
    """Runs the commands, and probe.py where PySlurm is asked for."""

    def __init__(
        self, bin_dir: str = "", conf: str = "", timeout: float = 10.0, multi_cluster: str = "", python: str = ""
    ) -> None:
        self._path = probe.bin_path(bin_dir)
        self._timeout = timeout
        # what probe.py is told, where it is run
        self._probe = [python or sys.executable, probe.__file__, "--bin-dir", bin_dir, "--conf", conf]
        self._probe += ["--cluster", multi_cluster]
        self._multi_cluster = multi_cluster
        ways = (probe.TEXT, probe.JSON, probe.INSTALLED)
        self._environments = {way: probe.environment(conf, multi_cluster, way) for way in ways}
        self._stuck = process.Stuck()
        self._old: set[str] = set()  # parts whose question this Slurm knows in its older form only

    async def run(self, command: Command) -> Output:
        started = time.monotonic()
        output = await (self._by_probe(command) if command.way == probe.PYSLURM else self._by_command(command))
        output.seconds = time.monotonic() - started
        return output

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _by_command(self, command: Command) -> Output:
        row, key = command.row, f"{command.way} {command.part}"
        marks = Marks.random()
        known = row.old if key in self._old else row.argv
        argv = probe.arguments(known, marks.field, marks.end, self._multi_cluster, command.window, command.job)
        done = await process.run(
            argv,
            self._environments[row.way],
            max(self._timeout, row.least_seconds),
            row.most_bytes,
            stuck=self._stuck,
            key=key,
            path=self._path,
        )
        if done.status in row.good:
            return Output(done.data, marks, tuple(argv), done.complaints)
        if row.old and key not in self._old and probe.UNKNOWN_OPTION in done.complaints:
            self._old.add(key)
            return await self._by_command(command)
        said = done.complaints or "no message"
        raise error_of(probe.FAILED, f"{argv[0]} exited with {done.status}: {said}")

    async def _by_probe(self, command: Command) -> Output:
        argv = [*self._probe, *command.argv[1:], "--timeout", str(self._timeout)]
        # the probe ends what it runs when its own time is up, and is given a moment to say so
        patience = self._timeout + 2
        done = await process.run(
            argv, None, patience, command.row.most_bytes, stuck=self._stuck, key=f"{command.way} {command.part}"
        )
        return bundle.of_probe(done, command, "here")
