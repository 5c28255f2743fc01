# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Of which months there are reports: the cluster's for the staff, for others their own and their accounts'."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from web import town

MONTH = re.compile(r'href="(/clusters/[^"]*month=[^"]*)"')


@pytest.mark.parametrize(
    ("who", "of"),
    [
        (town.SAM, {f"/clusters/{town.CLUSTER}/report"}),
        (town.ALICE, {f"/clusters/{town.CLUSTER}/users/{town.ALICE}"}),
        (
            town.CAROL,
            {
                f"/clusters/{town.CLUSTER}/users/{town.CAROL}",
                f"/clusters/{town.CLUSTER}/accounts/{town.PHYSICS}",
            },
        ),
    ],
)
def test_each_is_led_to_what_they_may_see(tmp_path: Path, who: str, of: set[str]) -> None:
    with town.opened(tmp_path) as portal:
        client = town.as_(portal, who)
        links = set(MONTH.findall(client.get("/reports").text))
        assert {one.partition("?")[0] for one in links} == of
        for one in links:
            assert client.get(one).status == 200, one
