# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names, and what stands in their place.

A bundle is gone through twice by the same rules. The first time `Seen` notes every name; the second time
`Pseudonyms` gives another for each. So no pseudonym is a name that was there, and none is used twice.

Pseudonyms are drawn by chance and kept in memory for one run only: there is nothing that could be turned back.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from random import SystemRandom

from slurmscope.slurm.values import ABSENT

_chance = SystemRandom()

# Names that say nothing about anybody.
STANDING = ABSENT | {"ALL", "root", "nobody", "localhost"}
_STANDING_IDS = frozenset({0, 65534, 0xFFFFFFFE, 0xFFFFFFFF})  # root, nobody, and two ways to say none
_LOOPBACK = ("127.", "::1")
_TRIES = 50  # before a name is made longer

RUN = re.compile(r"[^\W_]+")  # letters and digits that stand together
_LETTERS = re.compile(r"[^\W\d_]+")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")
_IPV6 = re.compile(r"[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")

_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
# Bytes that are not UTF-8 wherever they stand, as Python keeps them in text.
_INVALID = tuple(chr(0xDC00 + byte) for byte in (0xC0, 0xC1, *range(0xF8, 0x100)))
# A letter of these tells little, but its neighbourhood tells much: one of all is taken.
_WIDE = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0x20000, 0x2FA1F))
_DIACRITICS = range(0x300, 0x370)  # which say nothing without their letters


@lru_cache(4096)
def _others(char: str) -> tuple[str, ...] | str:
    """What a character may become: one of the same script, case and kind. Empty for one that is no letter or digit."""
    if char.isascii():
        return next((some for some in (_LOWER, _UPPER, _DIGITS) if char in some), "")
    code, category = ord(char), unicodedata.category(char)
    if category == "Cs":
        return _INVALID if 0xDC80 <= code <= 0xDCFF else "\N{REPLACEMENT CHARACTER}"
    if category[0] not in "LMN" or code in _DIACRITICS:
        return ""
    page = (code & ~0x7F, code | 0x7F)
    first, last = next((wide for wide in _WIDE if wide[0] <= code <= wide[1]), page)
    same = tuple(one for one in map(chr, range(first, last + 1)) if unicodedata.category(one) == category)
    return same if len(same) > 4 else _LOWER


def _like(value: str) -> str:
    """Another value of the same shape: what is neither letter nor digit stays where it is."""
    return "".join(_chance.choice(others) if (others := _others(char)) else char for char in value)


class Seen:
    """The first look: every name stays as it is, and is noted."""

    def __init__(self) -> None:
        self.names: set[str] = set()  # of users, accounts, reservations, …
        self.jobs: set[str] = set()  # names of jobs
        self.texts: set[str] = set()  # what somebody wrote, which is no name
        self.hosts: set[str] = set()
        self.host_parts: set[str] = set()
        self.ids: set[int] = set()
        self.words: set[str] = set()  # that stay: of Slurm's own, and of the cluster's partitions, QOS and so on

    def name(self, value: str) -> str:
        self.names.add(value)
        return value

    def job(self, value: str) -> str:
        self.jobs.add(value)
        return value

    def text(self, value: str) -> str:
        self.texts.add(value)
        return value

    def word(self, value: str) -> str:
        """What stays as it is."""
        self.words.update(RUN.findall(value))
        return value

    def host(self, value: str) -> str:
        """A host or a hostlist."""
        if "[" not in value:
            self.hosts.update(value.split(","))
        self.host_parts.update(_LETTERS.findall(value))
        return value

    def id(self, value: int) -> int:
        self.ids.add(value)
        return value

    def address(self, value: str) -> str:
        return value


class Pseudonyms(Seen):
    """The second look: another name for each."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._taken = seen.names | seen.jobs | seen.texts | seen.words | STANDING
        self._host_taken = seen.host_parts | seen.words | STANDING
        # what the check for names that are left over would find
        self._avoid = {name for name in seen.names | seen.jobs | seen.hosts if len(name) > 1}
        self._id_taken = seen.ids | _STANDING_IDS
        self._names: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._ids: dict[int, int] = {}
        self._addresses: dict[str, str] = {}

    def name(self, value: str) -> str:
        found = self._names.get(value)
        if found is None:
            found = self._names[value] = self._invented(value, self._taken)
        return found

    def job(self, value: str) -> str:
        return self.name(value)

    def text(self, value: str) -> str:
        return self.name(value)

    def word(self, value: str) -> str:
        return value

    def host(self, value: str) -> str:
        """Only the letters change, each run of them to the same everywhere, so that n[1-4] is still the four nodes."""
        if _IPV6.fullmatch(value):
            return self.address(value)
        return _LETTERS.sub(self._host_part, _IPV4.sub(lambda found: self.address(found[0]), value))

    def id(self, value: int) -> int:
        if value in _STANDING_IDS or value < 0:
            return value
        found = self._ids.get(value)
        digits = len(str(value))
        while found is None:
            some = (_chance.randrange(10 ** (digits - 1), 10**digits) for _ in range(_TRIES))
            found = next((one for one in some if one not in self._id_taken), None)
            digits += 1
        self._ids[value] = found
        self._id_taken.add(found)
        return found

    def address(self, value: str) -> str:
        if value.startswith(_LOOPBACK):
            return value
        while value not in self._addresses:
            if ":" in value:
                found = "fd00::" + ":".join(f"{_chance.randrange(1, 0x10000):x}" for _ in range(4))
            else:
                found = "10." + ".".join(str(_chance.randrange(1, 255)) for _ in range(3))
            if found not in self._addresses.values():
                self._addresses[value] = found
        return self._addresses[value]

    def _host_part(self, run: re.Match[str]) -> str:
        found = self._hosts.get(run[0])
        if found is None:
            found = self._hosts[run[0]] = self._invented(run[0], self._host_taken)
        return found

    def _invented(self, value: str, taken: set[str]) -> str:
        if not any(map(_others, value)):
            return value
        shape = value
        while True:
            for _ in range(_TRIES):
                found = RUN.sub(self._harmless, _like(shape))
                if found not in taken:
                    taken.add(found)
                    return found
            shape += "a"  # all that look like it are taken

    def _harmless(self, run: re.Match[str]) -> str:
        """A word in a pseudonym must not, by chance, be somebody's name."""
        found = run[0]
        for _ in range(_TRIES):
            if found not in self._avoid:
                return found
            found = _like(found)
        return found + _chance.choice(_LOWER)
