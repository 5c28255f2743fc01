# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a job tells of itself: the body of a POST, how it is checked, and its schema for whoever writes a wrapper."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec import inspect as types

MOST_BYTES = 64 << 10
MOST_SAMPLES = 500  # in one list
AHEAD, REACH = 60.0, 3600.0  # seconds: how far `time` may be in the future, and in the past

_MOST_SHOWN = 100  # characters of what a sender wrote that it is told again
_END = r"$(?!\n)"  # Python's $ alone would let a newline pass
_Count = Annotated[float, Meta(ge=0, le=10_000_000)]
_Bytes = Annotated[float, Meta(ge=0, le=2**63)]


class Body(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One process of a job, with all that it started, at one moment. Further fields are ignored."""

    job_id: Annotated[int, Meta(ge=1, le=2**32 - 2, description="SLURM_JOB_ID.")]
    pid: Annotated[int, Meta(ge=1, le=2**22, description="The process, on its host.")]
    cpus: Annotated[_Count, Meta(description="Percent of one CPU since the last sample: 100 is one core, busy.")]
    threads: Annotated[_Count, Meta(description="Threads.")]
    mem: Annotated[_Bytes, Meta(description="Resident memory, in bytes.")]
    hostname: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*" + _END,
            max_length=253,
            description="The host that it runs on.",
            extra={"words": "a host's name of at most 253 characters"},
        ),
    ]
    read_bytes: Annotated[
        _Bytes | None, Meta(description="Read from storage since the process began, in bytes. null: unknown.")
    ] = None
    write_bytes: Annotated[
        _Bytes | None, Meta(description="Written to storage since the process began, in bytes. null: unknown.")
    ] = None
    username: Annotated[
        str,
        Meta(
            pattern=r"^[^\x00-\x1f\x7f]*" + _END,
            max_length=64,
            description="Whose it is. Only believed where the queue does not tell.",
            extra={"words": "text of at most 64 characters, without control characters"},
        ),
    ] = ""
    time: Annotated[
        Annotated[float, Meta(ge=0, le=2**40)] | None,
        Meta(
            description="When this was so, in epoch seconds: an hour ago at most. "
            "What is not newer than the last that was taken of the process is passed over. null: now."
        ),
    ] = None
    cluster: Annotated[
        Annotated[str, Meta(max_length=255)] | None,
        Meta(description="Its cluster, as Slurm or slurmscope calls it. null: the only one that is read."),
    ] = None
    cpu_seconds: Annotated[
        _Bytes | None, Meta(description="Processor time of the process and of all that it started. null: unknown.")
    ] = None
    started: Annotated[
        Annotated[float, Meta(ge=0, le=2**40)] | None,
        Meta(description="When the process began, in epoch seconds: not later than `time`. null: unknown."),
    ] = None


Bodies = Body | Annotated[list[Body], Meta(max_length=MOST_SAMPLES)]
_decoder: msgspec.json.Decoder[Body | list[Body]] = msgspec.json.Decoder(Bodies)


class WrongBody(ValueError):
    """What was sent is not what is taken; the message says where, and what was expected."""


def read(raw: bytes, now: float) -> list[Body]:
    """The samples of a body, oldest first. All of it is good, or nothing is taken."""
    try:
        found = _decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise WrongBody(_told(str(error), raw)) from None
    except msgspec.DecodeError as error:
        raise WrongBody(f"not JSON: {error}"[:_MOST_SHOWN]) from None
    except RecursionError:
        raise WrongBody("not taken: it is nested too deep") from None
    bodies = [found] if isinstance(found, Body) else found
    for at, body in enumerate(bodies):
        place = "" if isinstance(found, Body) else f"[{at}]."
        if body.time is not None:
            _check_time(f"{place}time", body.time - now)
        _check_started(f"{place}started", body, now)
    return sorted(bodies, key=lambda one: now if one.time is None else one.time)


def _check_time(place: str, ahead: float) -> None:
    if ahead > AHEAD:
        raise WrongBody(f"{place}: {ahead:.0f} s in the future: set the clock of the host that sent it, or of this one")
    if ahead < -REACH:
        raise WrongBody(f"{place}: {-ahead:.0f} s in the past, and {REACH:.0f} s are the most that is taken")


def _check_started(place: str, body: Body, now: float) -> None:
    late = 0.0 if body.started is None else body.started - (now + AHEAD if body.time is None else body.time)
    if late > 0:
        raise WrongBody(f"{place}: {late:.3g} s later than time: a process begins before it is looked at")


# --- what is wrong, in words -------------------------------------------------------------------------------------

_PLACE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\[(\d+)\]|\.(\w+)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


def _words(type_: types.Type) -> str:
    match type_:
        case types.Metadata():
            return (type_.extra or {}).get("words") or _words(type_.type)
        case types.UnionType():
            return " or ".join(_words(one) for one in type_.types)
        case types.IntType() | types.FloatType():
            kind = "a whole number" if isinstance(type_, types.IntType) else "a number"
            return f"{kind} of at least {type_.ge:g} and at most {type_.le}"
        case types.StrType():
            return f"text of at most {type_.max_length} characters"
        case types.NoneType():
            return "null"
    raise AssertionError(type_)


def _expected() -> dict[str, str]:
    struct = types.type_info(Body)
    assert isinstance(struct, types.StructType)
    return {field.name: _words(field.type) for field in struct.fields}


_EXPECTED = _expected()


def _told(error: str, raw: bytes) -> str:
    """msgspec's words, which are a programmer's, as those of whoever wrote a wrapper."""
    found = _PLACE.search(error)
    steps = [int(at) if at else name for at, name in _STEP.findall(found[1] if found else "")]
    if missing := _MISSING.match(error):
        steps.append(missing[1])
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
    field = steps[-1] if steps else None
    if not isinstance(field, str):
        wanted = f"an object, or a list of at most {MOST_SAMPLES} objects" if field is None else "an object"
    else:
        wanted = _EXPECTED[field]
    return f"{place or 'body'}: expected {wanted}, found {_found(raw, steps)}"


def _found(raw: bytes, steps: list[int | str]) -> str:
    try:
        value: Any = msgspec.json.decode(raw)
        for step in steps:
            value = value[step]
        shown = msgspec.json.encode(value).decode()
    except (KeyError, TypeError):
        return "nothing"
    except (msgspec.DecodeError, RecursionError, ValueError):  # what is behind the place that is wrong may be anything
        return "something else"
    shown = "".join(char if char.isprintable() else "?" for char in shown[: _MOST_SHOWN + 1])
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


# --- for those who write wrappers --------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """The JSON schema of what is taken."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slurmscope trace",
        "description": "What a job tells of itself: one sample, or a list of samples that could not be sent before.",
        **msgspec.json.schema(Bodies),
    }
