# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes what a cluster answers by text, JSON and slurmrestd, within one moment, into tests/recordings/<version>/.

    python tools/record.py BIN_DIR REST_URL FOLDER [--parts coordinators,…] [--job NUMBER]

By text it is written twice: as files that people can read, and with the others into one bundle. With --parts only these
are asked for, and take the place of what the bundle has of them. With --job the questions of one job are asked as well,
whose answers are in no bundle.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm import bundle as bundles
from slurmscope.slurm import capture, probe
from slurmscope.slurm.bundle import Answer, Bundle
from slurmscope.slurm.clusters import ways_of
from slurmscope.slurm.commands import BY_WAY, JOB_COMMANDS
from slurmscope.slurm.transport import TransportError

# In the files, so that they can be read again.
MARKS = ("@field", "@endofrow")


async def answers(bin_dir: str, rest_url: str, parts: list[str]) -> Bundle:
    ways = [way for way in ways_of(Cluster(Slurm(bin_dir=bin_dir, rest_url=rest_url))) if way.name != probe.PYSLURM]
    for way in ways if parts else ():
        way.commands = {part: command for part, command in way.commands.items() if part in parts}
    try:
        found = await capture.capture(ways)
    finally:
        for way in ways:
            await way.close()
    # of this machine nothing is told
    return msgspec.structs.replace(found, host="", python="")


async def of_job(bin_dir: str, rest_url: str, job: str) -> dict[str, bytes]:
    ways = {way.name: way for way in ways_of(Cluster(Slurm(bin_dir=bin_dir, rest_url=rest_url)))}
    found = {}
    for command in JOB_COMMANDS:
        try:
            found[command.recording] = (await ways[command.way].transport.run(command.of(job))).data
        except TransportError as error:
            print(f"         {command.recording} {error}")
    for way in ways.values():
        await way.close()
    return found


def merged(before: Bundle, new: Bundle) -> Bundle:
    """With the new answers in the places of the old ones; those that were not there come last of their way."""
    left = {(one.way, one.part): one for one in new.answers}
    found = [left.pop((one.way, one.part), one) for one in before.answers]
    order: dict[str, list[Answer]] = {}
    for one in (*found, *left.values()):
        order.setdefault(one.way, []).append(one)
    return msgspec.structs.replace(before, answers=[one for some in order.values() for one in some])


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bin_dir", "rest_url"):
        parser.add_argument(name)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", default="")
    parser.add_argument("--job", default="")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    parts = [part for part in options.parts.split(",") if part]
    new = asyncio.run(answers(options.bin_dir, options.rest_url, parts))
    path = folder / "bundle.json.gz"
    capture.write(merged(bundles.load(path), new) if parts else new, path)
    for answer in new.answers:
        if answer.way == probe.TEXT:
            data = answer.data
            for mark, fixed in zip(answer.marks, MARKS, strict=True):
                data = data.replace(mark.encode(), fixed.encode())
            (folder / BY_WAY[answer.way][answer.part].recording).write_bytes(data)
        print(f"{len(answer.data):8} {answer.way} {answer.part} {answer.error}")
    for name, data in (
        asyncio.run(of_job(options.bin_dir, options.rest_url, options.job)).items() if options.job else ()
    ):
        (folder / name).write_bytes(data)
        print(f"{len(data):8} {name}")


if __name__ == "__main__":
    main()
