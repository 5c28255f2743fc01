# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster answered, in one document: probe.py prints it, `slurmscope capture` writes it, `--from` reads it.

The document is one line of JSON, in a file usually compressed by gzip. What a login printed before and behind it is
passed over.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from pathlib import Path

import msgspec

from slurmscope.slurm import probe
from slurmscope.slurm.commands import COMMANDS, Command
from slurmscope.slurm.process import Finished
from slurmscope.slurm.text import Marks, decode
from slurmscope.slurm.transport import Failed, NotFound, Output, TransportError, error_of, kind_of

_START = b'{"format": "' + probe.FORMAT.encode() + b'"'
_MOST_BYTES = 4 << 30  # of a bundle when it is unpacked


class NoDocument(Failed):
    """The probe ran, or what should have been it, and printed something else."""


class BundleError(Exception):
    """A file that cannot be read as a bundle, or written; the message names it and says why."""


class Answer(msgspec.Struct, omit_defaults=True):
    """One question and what came of it: `text` or `base64` hold the answer, or `error` says why there is none."""

    way: str
    part: str
    time: float
    argv: tuple[str, ...] = ()
    seconds: float = 0.0
    marks: tuple[str, str] = ("", "")
    text: str | None = None
    base64: str | None = None
    warnings: str = ""
    error: str = ""
    kind: str = ""  # of the error, as probe.py names them

    @property
    def data(self) -> bytes:
        if self.base64 is not None:
            return base64.b64decode(self.base64, validate=True)
        return (self.text or "").encode()

    def output(self) -> Output:
        """As the transport would have given it there and then."""
        if self.error:
            raise error_of(self.kind, self.error)
        try:
            data = self.data
        except ValueError as error:
            raise Failed(f"the answer for {self.part} by {self.way} is damaged: {error}") from error
        return Output(data, Marks(*self.marks), self.argv, self.warnings, self.seconds)


class Bundle(msgspec.Struct, omit_defaults=True):
    format: str
    version: int
    time: float
    host: str = ""
    python: str = ""
    slurmscope: str = ""  # the version that captured it
    anonymised: bool = False
    answers: list[Answer] = []

    def __post_init__(self) -> None:
        if self.format != probe.FORMAT:
            raise ValueError(f"its format is {self.format!r}, not {probe.FORMAT!r}")
        if self.version > probe.VERSION:
            raise ValueError(f"it is of version {self.version}; this slurmscope reads up to {probe.VERSION}: update it")


def parse(data: bytes) -> Bundle:
    """The document in what was printed. Raises ValueError."""
    start = data.find(_START)
    end = data.find(b"\n", start) if start >= 0 else -1
    if start < 0:
        # not as it was written, but it may be the same document, reformatted
        if not (data.lstrip().startswith(b"{") and probe.FORMAT.encode() in data):
            raise ValueError("no document of probe.py or `slurmscope capture` is in it")
        start = 0
    try:
        # memoryview: a bundle may be large, and need not be copied
        return msgspec.json.decode(memoryview(data)[start : end if end >= 0 else len(data)], type=Bundle)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if isinstance(error.__cause__, ValueError):  # what __post_init__ says
            raise error.__cause__ from None
        raise ValueError(f"the document is cut or damaged: {error}") from error


def load(path: Path) -> Bundle:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if data[:2] == b"\x1f\x8b":
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = unpacker.decompress(data, _MOST_BYTES + 1)
            if not unpacker.eof and len(data) <= _MOST_BYTES:
                raise ValueError("the compressed file is cut")
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB, which no cluster has to say")
        return parse(data)
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    except zlib.error as error:
        raise BundleError(f"{path}: the compressed file is damaged: {error}") from error
    except ValueError as error:
        raise BundleError(f"{path}: {error}") from error


def dump(bundle: Bundle) -> bytes:
    document = msgspec.json.encode(bundle)
    # as json.dumps() of probe.py writes it, so that both are found by the same beginning
    compact = b'{"format":"' + probe.FORMAT.encode() + b'"'
    moment = int(max(0, min(bundle.time, 2**32 - 1)))  # all that gzip can write down
    return gzip.compress(_START + document.removeprefix(compact), 6, mtime=moment)


def answered(command: Command, outcome: Output | TransportError, time: float) -> Answer:
    """An answer, or why there is none, as it is kept."""
    if isinstance(outcome, TransportError):
        return Answer(command.way, command.part, time, command.argv, error=str(outcome), kind=kind_of(outcome))
    try:
        text, packed = outcome.data.decode(), None
    except UnicodeDecodeError:
        text, packed = None, base64.b64encode(outcome.data).decode()
    return Answer(
        command.way,
        command.part,
        time,
        outcome.argv,
        outcome.seconds,
        (outcome.marks.field, outcome.marks.end),
        text,
        packed,
        outcome.warnings,
    )


def of_probe(done: Finished, command: Command, where: str) -> Output:
    """The answer to one question in what probe.py printed."""
    try:
        document = parse(done.data)
    except ValueError as error:
        said = done.complaints or decode(done.data[:500]).strip() or "no message"
        raise NoDocument(f"{where}: the probe exited with {done.status}, {error}: {said}") from error
    for answer in document.answers:
        if (answer.way, answer.part) == (command.way, command.part):
            if command.way != probe.PYSLURM and not _asked_alike(command, answer):
                break
            output = answer.output()
            output.python = document.python
            return output
    raise Failed(
        f"{where}: the probe there is of another slurmscope, for it does not ask as this one does: copy it anew"
    )


def _asked_alike(command: Command, answer: Answer) -> bool:
    """Whether it is the question that we ask: our readers rely on the order of fields in it."""
    cluster = answer.argv[-1] if "-M" in answer.argv[-2:-1] else ""
    known = [form for form in (command.row.argv, command.row.old) if form]
    return list(answer.argv) in [
        probe.arguments(form, *answer.marks, cluster, command.window, command.job) for form in known
    ]


class Recorded:
    """A transport that answers what a bundle holds."""

    def __init__(self, bundle: Bundle) -> None:
        self._answers = {(answer.way, answer.part): answer for answer in bundle.answers}

    async def run(self, command: Command) -> Output:
        answer = self._answers.get((command.way, command.part))
        if answer is None:
            raise NotFound(f"the recording has no {command.part} by {command.way}")
        return answer.output()

    async def close(self) -> None:
        pass

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways by which anything was recorded."""
        there = {way for way, _ in self._answers}
        return tuple(dict.fromkeys(command.way for command in COMMANDS if command.way in there))
