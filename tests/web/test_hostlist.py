# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Names of nodes folded: as Slurm writes them, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmscope.slurm.values import hosts
from slurmscope.web.hostlist import folded

_NUMBER = st.integers(0, 120).flatmap(lambda value: st.sampled_from([f"{value}", f"{value:02d}", f"{value:03d}"]))
_NAME = st.one_of(
    st.builds(lambda before, number, behind: before + number + behind, st.sampled_from(["n", "gn", "r1c"]), _NUMBER,
              st.sampled_from(["", "-ib", "x"])),
    st.text("abé1290-.", min_size=1, max_size=20),
)  # fmt: skip


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["gn014"], "gn014"),
        (["cn103", "cn101", "cn102", "cn102"], "cn[101-103]"),
        (["cn101", "cn103"], "cn[101,103]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n8", "n08"], "n[8,08]"),
        (["r1c2", "r1c3", "r2c2"], "r1c[2-3],r2c2"),
        (["login", "n1", "n2"], "login,n[1-2]"),
        (["n1-ib", "n2-ib", "n1"], "n1,n[1-2]-ib"),
        (["7", "8"], "[7-8]"),
        (["a[1]", "a,b", "a1"], "a1,a,b,a[1]"),
    ],
)
def test_names_are_folded_as_slurm_writes_them(names: list[str], told: str) -> None:
    assert folded(names) == told


@given(st.lists(_NAME))
@example(["9" * 40, "9" * 39 + "8"])
@example(["n٣", "n1"])
def test_what_is_folded_is_what_was_given(names: list[str]) -> None:
    assert sorted(hosts(folded(names))) == sorted(set(names))
