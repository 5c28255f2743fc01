# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for the module pynvml, where there is no card: it replays what `tools/gpu_recording.py` wrote down."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass(frozen=True)
class Handle:
    """Of a GPU, an instance or a set of events."""

    handle: str


class RecordedNvml:
    """Errors are pynvml's own. What was not asked when it was recorded is answered as by a library that lacks it."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        self._moments = recording["moments"]
        self._answers: dict[str, list[Mapping[str, Any]]] = {}

    def turn_to(self, moment: int) -> None:
        self._answers = {}
        for call in self._moments[moment]["calls"]:
            self._answers.setdefault(_key(call["function"], call["args"], call.get("named", {})), []).append(call)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            return getattr(pynvml, name)
        return self._function(name)

    def _function(self, name: str) -> Callable[..., Any]:
        def answer(*args: Any, **named: Any) -> Any:
            calls = self._answers.get(_key(name, args, named))
            if not calls:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            call = calls.pop(0) if len(calls) > 1 else calls[0]
            if "error" in call:
                raise _error(call["error"])
            return _value(call["result"])

        return answer


def _error(name: str) -> Exception:
    if name == "NVMLError":  # one that pynvml has no class for
        name = "NVMLError_Unknown"
    error: Exception = getattr(pynvml, name)()
    return error


def _key(name: str, args: Any, named: Mapping[str, Any]) -> str:
    plain = [{"handle": one.handle} if isinstance(one, Handle) else one for one in args]
    return json.dumps([name, plain, named])


def _value(value: Any) -> Any:
    match value:
        case {"handle": label}:
            return Handle(label)
        case {"struct": fields}:
            return SimpleNamespace(**{name: _value(one) for name, one in fields.items()})
        case list():
            return [_value(one) for one in value]
    return value
