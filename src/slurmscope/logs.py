# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Structured logs on stderr: one record is one line, as logfmt or JSON, with times in UTC."""

import json
import logging
import math
import re
import traceback
from collections import OrderedDict
from collections.abc import Hashable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_LEVEL_NAMES = {logging.WARNING: "warn", logging.CRITICAL: "error"}
_UNSAFE_IN_KEY = re.compile(r"[^A-Za-z0-9_.-]")


# The cluster that a task is about, where there are several: it is said in every record of the task.
cluster: ContextVar[str] = ContextVar("cluster", default="")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """The `extra` of a log call: `log.warning("command failed", extra=fields(command="squeue"))`."""
    return {"fields": values}


def setup(
    level: Literal["debug", "info", "warn", "error"] = "info", format: Literal["logfmt", "json"] = "logfmt"
) -> None:
    """Send every record of the process to stderr; `debug` adds tracebacks to errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(as_json=format == "json", tracebacks=level == "debug"))
    logging.basicConfig(handlers=[handler], level=_LEVELS[level], force=True)
    # uvicorn may have given its loggers handlers of their own
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # they would tell of every question to a server, and at `debug` of what is in it
    for name in ("httpx", "httpcore", "boto3", "botocore", "urllib3", "pymongo"):
        logging.getLogger(name).setLevel(logging.WARNING)


class Once:
    """Logs the first record of each key only. Of the keys seen, the `limit` latest are remembered."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def __call__(self, logger: logging.Logger, level: int, key: Hashable, msg: str, /, **values: object) -> bool:
        """Whether the record was logged."""
        new = key not in self._seen
        self._seen[key] = None
        self._seen.move_to_end(key)
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        if new:
            logger.log(level, msg, extra=fields(**values))
        return new


class _Formatter(logging.Formatter):
    def __init__(self, *, as_json: bool, tracebacks: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        values = self._values(record)
        if self._as_json:
            return json.dumps({key: _json_value(value) for key, value in values.items()})
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in values.items())

    def _values(self, record: logging.LogRecord) -> dict[str, object]:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": _LEVEL_NAMES.get(record.levelno, record.levelname.lower()),
            # uvicorn.error is where uvicorn says everything but accesses; the name misleads
            "logger": record.name.removeprefix("slurmscope.").replace("uvicorn.error", "uvicorn"),
        }
        try:
            values["msg"] = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # stdlib would print a traceback of many lines in place of the record
            values["msg"] = str(record.msg)
            values["args"] = repr(record.args)
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            values["error"] = f"{type(error).__name__}: {error}".removesuffix(": ")
            if self._tracebacks:
                values["traceback"] = "".join(traceback.format_exception(error)).rstrip("\n")
        said = getattr(record, "fields", {})
        if (name := cluster.get()) and "cluster" not in said:
            values["cluster"] = name
        for name, value in said.items():
            key = _UNSAFE_IN_KEY.sub("_", name) or "_"
            while key in values:
                key += "_"
            values[key] = value
        return values


def _text(value: object) -> str:
    # a lone surrogate has no UTF-8, and strict readers of JSON refuse it even when escaped
    return str(value).encode("utf-8", "backslashreplace").decode()


def _json_value(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, bool | int) else _text(value)


def _logfmt_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    text = _text(value)
    if text and text.isprintable() and not any(char in ' "=\\' for char in text):
        return text
    # isprintable is false for controls, for what any reader may take as a line's end, and for marks that
    # turn the direction of the text; json.dumps writes them all as \uXXXX
    quoted = (c if c.isprintable() and c not in '"\\' else json.dumps(c)[1:-1] for c in text)
    return '"' + "".join(quoted) + '"'
