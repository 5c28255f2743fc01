# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
import asyncio
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from slurmscope import logs
from slurmscope.logs import Once, fields
from slurmscope.worker import compute

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PAIR = re.compile(r'([A-Za-z0-9_.-]+)=("(?:[^"\\]|\\.)*"|[^ "=\\]*)(?: |$)')
anything = st.text(st.characters(exclude_categories=()))

Format = Literal["logfmt", "json"]
Level = Literal["debug", "info", "warn", "error"]


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def written(emit: Callable[[], object], format: Format = "logfmt", level: Level = "info") -> str:
    """What reaches stderr while `emit` runs."""
    real, sys.stderr = sys.stderr, io.StringIO()
    try:
        logs.setup(level, format)
        emit()
        return sys.stderr.getvalue()
    finally:
        sys.stderr = real


def parsed(text: str) -> dict[str, str]:
    """A logfmt line read back, by rules of its own."""
    assert text.endswith("\n")
    line = text[:-1]
    assert line.splitlines() == [line], "not one line"
    pairs: dict[str, str] = {}
    at = 0
    while at < len(line):
        pair = PAIR.match(line, at)
        assert pair, line[at:]
        assert pair[1] not in pairs
        pairs[pair[1]] = json.loads(pair[2]) if pair[2].startswith('"') else pair[2]
        at = pair.end()
    return pairs


def escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


log = logging.getLogger("slurmscope.poll")


def test_a_logfmt_line() -> None:
    line = written(lambda: log.warning("command failed", extra=fields(command="squeue", seconds=1.2, ok=False)))
    time, _, rest = line.partition(" ")
    assert TIME.fullmatch(time.removeprefix("time="))
    assert rest == 'level=warn logger=poll msg="command failed" command=squeue seconds=1.2 ok=false\n'


def test_times_are_utc() -> None:
    record = logging.makeLogRecord({"name": "slurmscope.poll", "levelno": 20, "levelname": "INFO", "msg": "x"})
    record.created = 1_794_726_000.123
    line = written(lambda: log.handle(record))
    assert parsed(line)["time"] == "2026-11-15T07:00:00.123Z"


def test_a_json_line_keeps_types() -> None:
    values = fields(nodes=3, seconds=1.5, ok=True, why=None, nan=float("nan"), user="zoë")
    line = written(lambda: log.error("gone", extra=values), "json")
    found = json.loads(line)
    assert TIME.fullmatch(found.pop("time"))
    assert found == {
        "level": "error",
        "logger": "poll",
        "msg": "gone",
        "nodes": 3,
        "seconds": 1.5,
        "ok": True,
        "why": None,
        "nan": "nan",
        "user": "zoë",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nb\tc\r", r'"a\nb\tc\r"'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("\x7f\x85\u2028", r'"\u007f\u0085\u2028"'),
        ("\u202egnp", r'"\u202egnp"'),
        ("\udcff", r'"\\udcff"'),
        ("zoë", "zoë"),
        (None, "null"),
        (True, "true"),
        (7, "7"),
    ],
)
def test_logfmt_quoting(value: object, shown: str) -> None:
    line = written(lambda: log.info("x", extra=fields(value=value)))
    assert line.endswith(f" msg=x value={shown}\n")


@given(msg=anything, value=anything, key=anything)
def test_whatever_goes_in_one_logfmt_line_comes_out(msg: str, value: str, key: str) -> None:
    found = parsed(written(lambda: log.info(msg, extra={"fields": {key: value}})))
    assert len(found) == 5
    assert found["msg"] == escaped(msg)
    assert list(found.values())[-1] == escaped(value)


@given(msg=anything, value=anything)
def test_whatever_goes_in_one_json_line_comes_out(msg: str, value: str) -> None:
    line = written(lambda: log.info(msg, extra=fields(value=value)), "json")
    assert len(line.splitlines()) == 1
    # msgspec is strict where the standard library lets lone surrogates pass
    found = msgspec.json.decode(line, type=dict[str, Any])
    assert (found["msg"], found["value"]) == (escaped(msg), escaped(value))


def test_a_field_never_replaces_a_part_of_the_record() -> None:
    found = parsed(written(lambda: log.info("true", extra=fields(msg="false", level="none"))))
    assert (found["msg"], found["level"]) == ("true", "info")
    assert (found["msg_"], found["level_"]) == ("false", "none")


def fail() -> None:
    try:
        raise ValueError("no\nsuch node")
    except ValueError:
        log.exception("read failed", extra=fields(node="n1"))


def test_an_exception_is_one_field() -> None:
    found = parsed(written(fail))
    assert found["error"] == "ValueError: no\nsuch node"
    assert found["node"] == "n1"
    assert "traceback" not in found


@pytest.mark.parametrize("format", ["logfmt", "json"])
def test_debug_adds_the_traceback_on_the_same_line(format: Format) -> None:
    line = written(fail, format, "debug")
    assert len(line.splitlines()) == 1
    found = json.loads(line) if format == "json" else parsed(line)
    assert found["traceback"].startswith("Traceback (most recent call last):\n")
    assert "in fail\n" in found["traceback"]


def test_an_exception_without_a_message() -> None:
    found = parsed(written(lambda: log.error("late", exc_info=TimeoutError())))
    assert found["error"] == "TimeoutError"


def test_arguments_that_do_not_fit_still_make_one_line() -> None:
    found = parsed(written(lambda: log.info("%d jobs", "many")))
    assert found["msg"] == "%d jobs"
    assert "many" in found["args"]


@pytest.mark.parametrize(
    ("level", "passed"),
    [
        ("debug", ["debug", "info", "warn", "error", "error"]),
        ("info", ["info", "warn", "error", "error"]),
        ("warn", ["warn", "error", "error"]),
        ("error", ["error", "error"]),
    ],
)
def test_levels(level: Level, passed: list[str]) -> None:
    def emit() -> None:
        for severity in (10, 20, 30, 40, 50):
            log.log(severity, "x")

    lines = written(emit, level=level).splitlines(keepends=True)
    assert [parsed(line)["level"] for line in lines] == passed


def test_setting_up_twice_logs_once() -> None:
    def emit() -> None:
        logs.setup("info", "logfmt")
        log.info("x")

    assert len(written(emit).splitlines()) == 1


def test_uvicorn_logs_the_same_way() -> None:
    # left to itself, uvicorn gives its loggers handlers of their own
    uvicorn.Config(app=lambda: None)

    def emit() -> None:
        uvicorn.Config(app=lambda: None, log_config=None)
        logging.getLogger("uvicorn.error").info("started", extra={"color_message": "\x1b[1mstarted"})
        logging.getLogger("uvicorn.access").info('%s - "%s %s" %d', "::1", "GET", "/metrics", 200)

    lines = [parsed(line) for line in written(emit).splitlines(keepends=True)]
    assert [(line["logger"], line["msg"]) for line in lines] == [
        ("uvicorn", "started"),
        ("uvicorn.access", '::1 - "GET /metrics" 200'),
    ]


def test_once_logs_the_first_of_each_key() -> None:
    once = Once()

    def emit() -> None:
        assert once(log, logging.WARNING, "a", "odd field", key="NodeName", level=1)
        assert not once(log, logging.WARNING, "a", "odd field", key="Other")
        assert once(log, logging.INFO, ("b", 1), "100% new")

    lines = [parsed(line) for line in written(emit).splitlines(keepends=True)]
    assert [(line["level"], line["msg"]) for line in lines] == [("warn", "odd field"), ("info", "100% new")]
    assert (lines[0]["key"], lines[0]["level_"]) == ("NodeName", "1")


def test_once_forgets_the_key_not_seen_for_longest() -> None:
    once = Once(limit=2)

    def logged(key: str) -> bool:
        return once(log, logging.DEBUG, key, "x")

    assert [logged(key) for key in "abacab"] == [True, True, False, True, False, True]


def test_where_there_are_several_clusters_a_record_names_the_one_it_is_about() -> None:
    log = logging.getLogger("slurmscope.poll")

    async def about(name: str) -> None:
        logs.cluster.set(name)
        log.warning("here")
        await compute(log.warning, "there")  # in the thread for long work

    async def both() -> None:
        await asyncio.gather(about("alpha"), about("beta"))
        log.warning("nobody's")
        log.warning("named", extra=fields(cluster="gamma"))

    lines = written(lambda: asyncio.run(both())).splitlines()
    said = sorted((found["msg"], found.get("cluster", "")) for found in (parsed(line + "\n") for line in lines))
    assert said == [
        ("here", "alpha"),
        ("here", "beta"),
        ("named", "gamma"),
        ("nobody's", ""),
        ("there", "alpha"),
        ("there", "beta"),
    ]
