# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes what a cluster answers by text, JSON and slurmrestd, within one moment, into tests/recordings/<version>/.

    python tools/record.py BIN_DIR REST_URL FOLDER

By text it is written twice: as files that people can read, and with the others into one bundle.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm import capture, probe
from slurmscope.slurm.bundle import Bundle
from slurmscope.slurm.clusters import ways_of
from slurmscope.slurm.commands import BY_WAY

# In the files, so that they can be read again.
MARKS = ("@field", "@endofrow")


async def answers(bin_dir: str, rest_url: str) -> Bundle:
    ways = [way for way in ways_of(Cluster(Slurm(bin_dir=bin_dir, rest_url=rest_url))) if way.name != probe.PYSLURM]
    try:
        found = await capture.capture(ways)
    finally:
        for way in ways:
            await way.close()
    # of this machine nothing is told
    return msgspec.structs.replace(found, host="", python="")


if __name__ == "__main__":
    bin_dir, rest_url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    bundle = asyncio.run(answers(bin_dir, rest_url))
    capture.write(bundle, folder / "bundle.json.gz")
    for answer in bundle.answers:
        if answer.way == probe.TEXT:
            data = answer.data
            for mark, fixed in zip(answer.marks, MARKS, strict=True):
                data = data.replace(mark.encode(), fixed.encode())
            (folder / BY_WAY[answer.way][answer.part].recording).write_bytes(data)
        print(f"{len(answer.data):8} {answer.way} {answer.part} {answer.error}")
