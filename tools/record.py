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


async def answers(bin_dir: str) -> dict[str, bytes]:
    found = {}
    for command in COMMANDS:
        output = await Local(bin_dir).run(command, MARKS)
        found[command.recording] = output.data
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in asyncio.run(answers(sys.argv[1])).items():
        (folder / name).write_bytes(data)
        print(f"{len(data):8} {folder / name}")
