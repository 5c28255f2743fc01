# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent sends, from bytes to reports. Whoever has a token may still be wrong, or hostile: all is bounded."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable

import msgspec

from slurmscope.measure import Measure, Report
from slurmscope.measured.tally import BODY, TIME
from slurmscope.metrics.jobs import gpu_name

MOST_BYTES = 4 << 20
"""Of a body, as it comes."""
_MOST_RAW = 32 << 20  # … once it is unpacked
_QUICK, _QUICK_RAW = 16 << 10, 64 << 10  # the same of one that takes less time than to hand it to another thread
_MOST_OBJECTS, _MOST_ITEMS = 200_000, 2_000_000  # in a body: what is decoded takes more memory than its text
_MOST_REPORTS = 64
_MOST_JOBS = 10_000  # of a report
_MOST_TEXT = 256
_MOST_NUMBER = 1 << 60
_DAY = 86400
_AHEAD = 60  # seconds that a node's clock may be ahead of ours
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_BELOW_ZERO = frozenset({"temperature"})


class WrongBody(Exception):
    """It is not taken; the message names the place."""

    def __init__(self, what: str, reason: str = BODY) -> None:
        super().__init__(what)
        self.reason = reason


_decode = msgspec.json.Decoder(list[Report] | Report).decode


def quick(body: bytes, encoding: str, now: float) -> list[Report] | None:
    """As `reports`, if that takes but a moment. A few bytes of gzip may be many once they are unpacked."""
    if len(body) > _QUICK:
        return None
    if encoding.strip().lower() == "gzip":
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            raw = unpacker.decompress(body, _QUICK_RAW)
        except zlib.error:
            raw = b""
        # whatever is wrong with it, `reports` says what
        return _reports(raw, now) if unpacker.eof and not unpacker.unused_data else None
    return reports(body, encoding, now)


def reports(body: bytes, encoding: str, now: float) -> list[Report]:
    """The reports of a body, oldest first. Raises WrongBody."""
    return _reports(_unpacked(body, encoding), now)


def _reports(raw: bytes, now: float) -> list[Report]:
    if raw.count(b"{") > _MOST_OBJECTS or raw.count(b",") > _MOST_ITEMS:
        raise WrongBody("the body: too many things are in it; send fewer reports at a time")
    try:
        found = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongBody(f"the body: expected a report, or a list of some, in JSON: {str(error)[:300]}") from None
    several = found if isinstance(found, list) else [found]
    if len(several) > _MOST_REPORTS:
        raise WrongBody(f"the body: at most {_MOST_REPORTS} reports are taken at a time, found {len(several)}")
    for at, report in enumerate(several):
        _check_report(report, f"$[{at}]" if isinstance(found, list) else "$", now)
    return several


def _unpacked(body: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                raw = unpacker.decompress(body, _MOST_RAW)
            except zlib.error as error:
                raise WrongBody(f"the body: is no gzip: {error}") from None
            if unpacker.unconsumed_tail:
                raise WrongBody(f"the body: at most {_MOST_RAW} bytes are taken once they are unpacked")
            if not unpacker.eof or unpacker.unused_data:
                raise WrongBody("the body: is not one whole piece of gzip")
            return raw
    raise WrongBody("Content-Encoding: expected gzip, or none")


def _check_report(report: Report, place: str, now: float) -> None:
    if not _NODE.fullmatch(report.node):
        raise WrongBody(f"{place}.node: expected the name of a node, found {report.node[:64]!r}")
    if not now - _DAY <= report.time <= now + _AHEAD:
        told = f"found one of {report.time - now:+.0f} s from now: are the clocks right?"
        raise WrongBody(f"{place}.time: expected a time of the last day, {told}", TIME)
    if len(report.jobs) > _MOST_JOBS:
        raise WrongBody(f"{place}.jobs: at most {_MOST_JOBS} jobs are taken of a node, found {len(report.jobs)}")
    _check_struct(report, place)
    # what is there twice would be on the page twice, and Prometheus would refuse all of it
    _check_unlike([job.job for job in report.jobs], f"{place}.jobs")
    _check_unlike([gpu.uuid for gpu in report.gpus], f"{place}.gpus")
    for at, gpu in enumerate(report.gpus):
        _check_unlike(list(gpu.throttled or ()), f"{place}.gpus[{at}].throttled")
    for at, job in enumerate(report.jobs):
        _check_job(job, f"{place}.jobs[{at}]")


def _check_job(job: Measure, place: str) -> None:
    if job.gpus:
        _check_unlike([gpu.uuid for gpu in job.gpus], f"{place}.gpus")
        _check_unlike([gpu_name(gpu) for gpu in job.gpus], f"{place}.gpus")
    if job.programs:
        _check_unlike([program.name for program in job.programs], f"{place}.programs")


def _check_unlike(names: list[int] | list[str], place: str) -> None:
    if len(set(names)) < len(names):
        raise WrongBody(f"{place}: the same is there twice")


def _check_struct(found: msgspec.Struct, place: str) -> None:
    wrong = _wrong_in(found)
    if wrong is not None:
        raise WrongBody(place + wrong)


def _wrong_in(found: msgspec.Struct) -> str | None:
    """The place within it and what is wrong there, if so. Nearly always it is not, and so that is quick."""
    for name in found.__struct_fields__:
        value = getattr(found, name)
        kind = value.__class__
        if value is None:
            continue
        if kind is int or kind is float:
            wrong = None if 0 <= value <= _MOST_NUMBER else _wrong_number(value, name)
        elif kind is str:
            wrong = _wrong_text(value) if len(value) > _MOST_TEXT else None
        elif kind is tuple:
            wrong = _wrong_among(value)
        elif kind is dict:
            wrong = _wrong_among(value) or _wrong_among(value.values())
        else:
            wrong = _wrong_in(value) if isinstance(value, msgspec.Struct) else None
        if wrong is not None:
            return f".{name}{wrong}"
    return None


def _wrong_among(values: Iterable[object]) -> str | None:
    for at, value in enumerate(values):
        wrong = None
        if isinstance(value, msgspec.Struct):
            wrong = _wrong_in(value)
        elif isinstance(value, str):
            wrong = _wrong_text(value)
        elif isinstance(value, int | float):
            wrong = _wrong_number(value, "")
        if wrong is not None:
            return f"[{at}]{wrong}"
    return None


def _wrong_text(text: str) -> str | None:
    return f": at most {_MOST_TEXT} characters are taken, found {len(text)}" if len(text) > _MOST_TEXT else None


def _wrong_number(number: float, name: str) -> str | None:
    if 0 <= number <= _MOST_NUMBER or (name in _BELOW_ZERO and -1000 < number < 0):
        return None
    return ": expected a number from 0 to 2^60"
