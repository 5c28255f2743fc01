# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of a job when it is judged."""

from __future__ import annotations

import lives
import pytest
from findings import cases
from findings.cases import START

from slurmscope.findings.case import case
from slurmscope.findings.ground import Ground

WATCHED = [
    *("interactive", "Interactive-2", "salloc", "bash", "zsh", "sh", "tcsh", "ksh", "fish"),
    *("jupyter", "jupyter-lab", "spawner-jupyterhub", "RStudio", "rstudio-server", "vscode-tunnel", "code-server"),
    *("sys/dashboard/sys/bc_desktop", "sys-dashboard-sys-jupyter", "ondemand/sys/dashboard/sys/x", "dev/dashboard/x"),
]
ALONE = [
    *("train", "bash_all_samples.sh", "bashful_mpi", "sh.sh", "fishing", "zshuffle", "run_bash", "salloc_test"),
    *("", "\n", "my jupyter", "dashboard", "bash\n", "\udcff"),
]


@pytest.mark.parametrize("name", WATCHED)
def test_somebody_sits_in_front_of_it(name: str) -> None:
    assert cases.of(cases.life(name=name)).interactive


@pytest.mark.parametrize("name", ALONE)
def test_nobody_sits_in_front_of_it(name: str) -> None:
    assert not cases.of(cases.life(name=name)).interactive


def test_a_shell_of_salloc_is_one_whatever_its_name() -> None:
    life = cases.life(told={"steps": (lives.step("interactive"),)})
    assert cases.of(life).interactive


@pytest.mark.parametrize(
    ("names", "name", "expected"),
    [
        (["Desktop*"], "desktop-3", True),
        (["desktop*"], "DESKTOP", True),
        (["desktop*"], "bash", False),
        (["d?sk", "[ab]x"], "bx", True),
        ([], "bash", False),
    ],
)
def test_a_site_says_what_its_portals_call_them(names: list[str], name: str, expected: bool) -> None:
    found = case(cases.life(name=name), None, Ground([]), cases.Past(), START, (), names)
    assert found.interactive is expected
