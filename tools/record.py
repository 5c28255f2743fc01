# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes what a cluster answers to every command of the table into tests/recordings/<version>/.

    python tools/record.py BIN_DIR FOLDER

The marks of squeue are fixed here, so that a recording can be read again.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from slurmscope.slurm.commands import COMMANDS
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Local

MARKS = Marks("@field", "@endofrow")


async def record(bin_dir: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        output = await Local(bin_dir).run(command, MARKS)
        (folder / command.recording).write_bytes(output.data)
        print(f"{len(output.data):8} {folder / command.recording}")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1], Path(sys.argv[2])))
