# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was recorded is found again, and what is none is named."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmscope.slurm import bundle, probe
from slurmscope.slurm.bundle import Answer, Bundle, BundleError, NoDocument, Recorded
from slurmscope.slurm.commands import BY_PART, BY_WAY
from slurmscope.slurm.process import Finished
from slurmscope.slurm.text import Marks
from slurmscope.slurm.transport import Failed, NotFound, Output, TimedOut, TooLong, TransportError, Unanswered

PING = BY_PART["controllers"]
DATA = st.binary(max_size=300)
WORDS = st.text(max_size=40)
ANSWERS = st.builds(
    bundle.answered,
    st.sampled_from(list(BY_PART.values()) + list(BY_WAY["json"].values())),
    st.builds(
        Output,
        DATA,
        st.builds(Marks, WORDS, WORDS),
        st.lists(WORDS, max_size=4).map(tuple),
        WORDS,
        st.floats(0, 1e6),
    )
    | st.builds(Failed, st.text(min_size=1, max_size=40))
    | st.builds(TimedOut, st.text(min_size=1, max_size=40)),
    st.floats(0, 1e10),
)
BUNDLES = st.builds(
    Bundle,
    format=st.just(probe.FORMAT),
    version=st.just(probe.VERSION),
    time=st.floats(0, 4e9),
    host=WORDS,
    answers=st.lists(ANSWERS, max_size=4),
)


def printed(*answers: dict[str, Any], **more: Any) -> bytes:
    """As the probe prints it."""
    document = {"format": probe.FORMAT, "version": 1, "time": 1.5, "host": "login", "answers": answers, **more}
    return json.dumps(document).encode() + b"\n"


GOOD = printed({"way": "text", "part": "controllers", "time": 1.0, "argv": ["scontrol", "ping"], "text": "pong\n"})


@given(BUNDLES)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, one: Bundle) -> None:
    path = tmp_path_factory.getbasetemp() / "bundle.json.gz"
    path.write_bytes(bundle.dump(one))
    assert bundle.load(path) == one
    assert bundle.parse(b"Welcome\n" + gzip.decompress(bundle.dump(one)) + b"\nGoodbye {}\n") == one


def test_the_same_bundle_is_the_same_bytes() -> None:
    one = bundle.parse(GOOD)
    assert bundle.dump(one) == bundle.dump(bundle.parse(GOOD))


# --- what is none ---


@given(st.binary(max_size=400))
@example(GOOD[:-3])
@example(b'{"format": "slurmscope bundle", "version": 1, "time": 1, "x": ' + b"[" * 200_000)
@example(b'{"format": "slurmscope bundle", "version": 1, "time": 1, "host": "\xff"}')
@example(b'{"format": "slurmscope bundle", "version": 1, "time": 1, "host": "\\ud800"}')
def test_any_bytes_are_a_bundle_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(bundle.parse(data), Bundle)


@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_a_document_that_was_changed_is_a_bundle_or_a_value_error(at: int, put: bytes, take: int) -> None:
    try:
        found = bundle.parse(GOOD[:at] + put + GOOD[at + take :])
    except ValueError:
        return
    for answer in found.answers:
        with contextlib.suppress(TransportError):
            assert isinstance(answer.output(), Output)


def test_an_answer_that_was_damaged_costs_itself() -> None:
    answer = Answer("text", "controllers", 1.0, base64="!?")
    with pytest.raises(Failed, match=r"the answer for controllers by text is damaged"):
        answer.output()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no document of probe.py or `slurmscope capture` is in it"),
        (b"squeue: error: no\n", "no document of probe.py or `slurmscope capture` is in it"),
        (GOOD[:-20], "the document is cut or damaged: Input data was truncated"),
        (GOOD.replace(b'"time": 1.5', b'"time": "now"'), "the document is cut or damaged: Expected `float`, got `str`"),
        (
            GOOD.replace(b'"version": 1', b'"version": 2'),
            "it is of version 2; this slurmscope reads up to 1: update it",
        ),
        (
            GOOD.replace(b"slurmscope bundle", b"slurmscope bundles"),
            "its format is 'slurmscope bundles', not 'slurmscope",
        ),
        (gzip.compress(GOOD)[:-12], "the compressed file is cut"),
        (gzip.compress(GOOD)[:10] + b"\x07" * 40, "the compressed file is damaged: Error -3"),
        (gzip.compress(b"nothing"), "no document of probe.py or `slurmscope capture` is in it"),
    ],
    ids=[
        "empty",
        "words",
        "cut",
        "wrong type",
        "newer",
        "format",
        "packed and cut",
        "packed and damaged",
        "packed words",
    ],
)
def test_a_file_that_is_no_bundle_is_named_with_the_reason(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(content)
    with pytest.raises(BundleError, match="^" + re.escape(f"{path}: {said}")):
        bundle.load(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=re.escape(f"{tmp_path}/none: cannot be read: No such file or directory")):
        bundle.load(tmp_path / "none")
    with pytest.raises(BundleError, match=re.escape(f"{tmp_path}: cannot be read: Is a directory")):
        bundle.load(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_without_end_is_refused(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_MOST_BYTES", 1 << 20)
    path = tmp_path / "cluster.json.gz"
    for size in (1 << 20, (1 << 20) + 1, 50 << 20):
        content = GOOD + b" " * (size - len(GOOD))
        path.write_bytes(gzip.compress(content) if packed else content)
        if size <= 1 << 20:
            assert len(bundle.load(path).answers) == 1
        else:
            with pytest.raises(BundleError, match=re.escape(f"{path}: it is larger than 1 MiB")):
                bundle.load(path)


# --- what the probe printed ---


def test_the_answer_to_a_question_among_words_of_welcome() -> None:
    output = bundle.of_probe(Finished(0, b"Welcome\n" + GOOD + b"bye", "noise"), PING, "here")
    assert (output.data, output.argv, output.warnings) == (b"pong\n", ("scontrol", "ping"), "")


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (Finished(1, b"", "Killed"), "here: the probe exited with 1, no document of probe.py .* is in it: Killed"),
        (Finished(0, b"only words", ""), "here: the probe exited with 0, .*: only words"),
        (Finished(-9, GOOD[:-9], ""), "here: the probe exited with -9, the document is cut or damaged"),
        (Finished(0, b"", ""), "here: .*: no message"),
    ],
)
def test_no_document_says_what_there_was(done: Finished, said: str) -> None:
    with pytest.raises(NoDocument, match="^" + said):
        bundle.of_probe(done, PING, "here")


def test_a_probe_that_asks_in_another_way_is_refused() -> None:
    """For the reader would misread what it says."""
    for done in (printed(), GOOD.replace(b'"ping"', b'"ping", "--new"')):
        with pytest.raises(Failed, match=r"^here: the probe there is of another slurmscope"):
            bundle.of_probe(Finished(0, done, ""), PING, "here")


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("not found", "no scontrol", NotFound),
        ("timed out", "slow", TimedOut),
        ("too long", "endless", TooLong),
        ("failed", "exited with 1", Failed),
        ("failed", "Unable to contact slurm controller (connect failure)", Unanswered),
        ("failed", "slurm_load_jobs error: Socket timed out on send/recv operation", Unanswered),
        ("of tomorrow", "who knows", Failed),
    ],
)
def test_an_error_there_is_the_same_error_here(kind: str, message: str, error: type[TransportError]) -> None:
    answer = {"way": "text", "part": "controllers", "time": 1.0, "argv": ["scontrol", "ping"]}
    done = Finished(1, printed({**answer, "error": message, "kind": kind}), "")
    with pytest.raises(error, match="^" + re.escape(message)) as caught:
        bundle.of_probe(done, PING, "here")
    assert type(caught.value) is error
    again = bundle.answered(PING, caught.value, 1.0)
    with pytest.raises(error, match="^" + re.escape(message)):
        again.output()


def test_a_recording_answers_what_it_holds() -> None:
    recorded = Recorded(bundle.parse(GOOD))
    assert recorded.ways == ("text",)
    assert asyncio.run(recorded.run(PING)).data == b"pong\n"
    with pytest.raises(NotFound, match=r"the recording has no jobs by text"):
        asyncio.run(recorded.run(BY_PART["jobs"]))


@pytest.mark.parametrize("style", [{"indent": 1}, {"separators": (",", ":")}, {"sort_keys": True}])
def test_a_document_that_was_reformatted_is_the_same(style: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(json.loads(GOOD), **style))
    assert bundle.load(path) == bundle.parse(GOOD)


@pytest.mark.parametrize("when", [-1.0, 1e18, 1e300])
def test_a_document_of_no_time_that_gzip_knows_is_written_all_the_same(when: float, tmp_path: Path) -> None:
    found = msgspec.structs.replace(bundle.parse(GOOD), time=when)
    (tmp_path / "x.gz").write_bytes(bundle.dump(found))
    assert bundle.load(tmp_path / "x.gz") == found
