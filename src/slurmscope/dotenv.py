# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The `.env` file: `NAME=value` lines, as shells and other programs write them."""

import re

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)", re.DOTALL)
_QUOTED = re.compile(r"""\s*(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:(?<=\s)#.*)?""", re.DOTALL)
_UNQUOTED_COMMENT = re.compile(r"\s#.*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def variables(text: str, place: str, problems: list[str]) -> dict[str, str]:
    """The variables of the file's text; what cannot be read is added to the problems."""
    found = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assignment = _ASSIGNMENT.fullmatch(line)
        value = _value(assignment[2]) if assignment else None
        if assignment is None or value is None:
            # the line itself may hold a secret of any program
            problems.append(f"{place}: line {number}: expected NAME=value, with quotes closed")
        else:
            found[assignment[1]] = value
    return found


def _value(written: str) -> str | None:
    if not written.lstrip().startswith(("'", '"')):
        return _UNQUOTED_COMMENT.sub("", written).strip()
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        return None
    if quoted[1] is not None:
        return quoted[1]
    # as in a shell, a backslash before anything else is just that
    return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[0]), quoted[2])
