# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names of users, as proxies and providers tell them and as Slurm has them."""

from __future__ import annotations

import re

EXPECTED = "up to 128 of a-z, A-Z, 0-9, _, ., -, + and @, the first a letter, a digit or _"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")


def plausible(name: str) -> bool:
    """Whether a user of a machine can be called so. What is not is a mistake, or worse: a list, markup, nothing."""
    return _NAME.fullmatch(name) is not None
