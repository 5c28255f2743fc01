# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmscope import dotenv


def read(text: str) -> dict[str, str]:
    problems: list[str] = []
    found = dotenv.variables(text, ".env", problems)
    assert not problems
    return found


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  export A=b  ", "b"),
        ("A = b", "b"),
        ("A=", ""),
        ("A=b c", "b c"),
        ("A=b # comment", "b"),
        ("A= # comment", ""),
        ("A=b#c", "b#c"),
        ("A=#c", "#c"),
        ("A='b # c'  # comment", "b # c"),
        ('A="b # c"', "b # c"),
        (r"A='b\n'", r"b\n"),
        (r'A="b\n\t\"\\ \$x \d"', 'b\n\t"\\ $x \\d'),
        ("A=it's", "it's"),
        ("A=b=c", "b=c"),
        ("A=$B", "$B"),
        ("A=b\r", "b"),
        ("A=1\nA=2", "2"),
        ("# A=1\n\n \nA=3", "3"),
    ],
)
def test_dotenv_syntax(line: str, value: str) -> None:
    assert read(line) == {"A": value}


@pytest.mark.parametrize(
    "line", ["A", "=b", "export A", "1A=b", "A='b", 'A="b', 'A="b" c', "A='b'c", "A='b'#c", 'A="b\\"', "A: b"]
)
def test_unreadable_dotenv_lines_are_named(line: str) -> None:
    problems: list[str] = []
    assert dotenv.variables(f"OK=1\n{line}\nOK=2\n{line}", "some.env", problems) == {"OK": "2"}
    assert problems == [f"some.env: line {number}: expected NAME=value, with quotes closed" for number in (2, 4)]


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)


@given(st.text())
def test_any_text_is_read_or_refused_as_dotenv(text: str) -> None:
    problems: list[str] = []
    values = dotenv.variables(text, ".env", problems)
    assert all(problem.startswith(".env: line ") for problem in problems)
    assert len(values) + len(problems) <= text.count("\n") + 1


@given(st.dictionaries(names, st.text()), st.sampled_from(["", "export "]), st.sampled_from(["", " # it's"]))
def test_what_is_quoted_comes_back(values: dict[str, str], export: str, comment: str) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    text = "\n".join(f"{export}{name}={quoted(value)}{comment}" for name, value in values.items())
    assert read(text) == values


@given(names, st.text(st.characters(exclude_characters="'\n")))
def test_what_is_in_single_quotes_is_literal(name: str, value: str) -> None:
    assert read(f"{name}='{value}'") == {name: value}
