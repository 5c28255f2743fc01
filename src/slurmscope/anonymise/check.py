# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a name is left over."""

from __future__ import annotations

import json
import re

from slurmscope.anonymise.pseudonyms import RUN, STANDING, Seen

_SHORTEST = 3  # shorter ones are found everywhere
_LONG = 8  # names so long, of people and the like, are looked for within words too
_AMOUNT = re.compile(r"\d+[KMGTPE]?")


def _telling(name: str, words: set[str]) -> bool:
    """It has a word that is neither a number nor one that stays: a user called `main` is replaced where a user
    stands, and may be there as the partition."""
    runs = RUN.findall(name)
    return any(len(run) >= _SHORTEST and run not in words and not _AMOUNT.fullmatch(run) for run in runs)


class Check:
    """Looks through finished answers for the names that were seen."""

    def __init__(self, seen: Seen) -> None:
        words = seen.words | {run for one in STANDING for run in RUN.findall(one)}
        telling = {name for name in seen.names | seen.jobs | seen.hosts if _telling(name, words)}
        telling |= {json.dumps(name, ensure_ascii=False)[1:-1] for name in telling}  # as it would stand in JSON
        self._by_word: dict[str, list[str]] = {}
        for name in telling:
            # any of its words will do, for all must be there
            self._by_word.setdefault(max(RUN.findall(name), key=len), []).append(name)
        standing = " ".join(words)
        some = (name for name in telling & seen.names if len(name) >= _LONG and name.isalnum())
        self._long = [name for name in some if name not in standing]

    def left_over(self, text: str) -> bool:
        there = set(RUN.findall(text))
        for name in (name for word in there & self._by_word.keys() for name in self._by_word[word]):
            # bounded as its words are
            if re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text):
                return True
        inside = " ".join(there)  # much shorter than the text, and a name of one word can only be within one
        return any(name in inside for name in self._long)
