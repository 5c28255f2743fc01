# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Long answers of the accounting are read in a process of their own.

Reading a day of sacct takes a second of Python, in which the process that serves pages and writes to the store could
do neither. So another one reads, on another core, and hands over records that are quickly taken in.
"""

from __future__ import annotations

import gc
import sys

import msgspec

from slurmscope.life import Accounted
from slurmscope.slurm import process
from slurmscope.slurm.commands import BY_WAY, Command
from slurmscope.slurm.text import Malformed, Marks, Parsed
from slurmscope.slurm.transport import Output

LONG = 2 << 20
"""Bytes from which on it pays."""
_SECONDS = 300.0
_MOST_BYTES = 2 << 30
_PART = "history"
_MALFORMED = 3  # exit status
_decode = msgspec.msgpack.Decoder(Parsed[tuple[Accounted, ...]]).decode


def suits(command: Command, output: Output) -> bool:
    return command.part == _PART and len(output.data) >= LONG


async def parse(command: Command, output: Output) -> Parsed[tuple[Accounted, ...]]:
    argv = [sys.executable, "-m", __name__, command.way, *msgspec.structs.astuple(output.marks)]
    done = await process.run(
        argv, None, _SECONDS, _MOST_BYTES, stuck=process.Stuck(), key=command.way, sent=output.data
    )
    if done.status == _MALFORMED:
        raise Malformed(done.complaints)
    if done.status:
        raise RuntimeError(f"the reader exited with {done.status}: {done.complaints}")
    return _decode(done.data)


def main(way: str, field: str, end: str) -> int:
    gc.disable()  # all that is made is kept until the end, which is soon
    try:
        parsed = BY_WAY[way][_PART].parse(sys.stdin.buffer.read(), Marks(field, end), {})
    except (ValueError, ArithmeticError, LookupError) as error:
        sys.stderr.write(str(error))
        return _MALFORMED
    parsed.memo = {}
    sys.stdout.buffer.write(msgspec.msgpack.encode(parsed))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
