# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever is asked, sound or not: no server error, and no answer that the document does not tell of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from web import town
from web.running import running

from slurmscope.web import openapi
from slurmscope.web.portal import Portal
from slurmscope.web.table import ROUTES

API = schemathesis.openapi.from_dict(openapi.document(ROUTES))
THINGS = {
    "cluster": town.CLUSTER,
    "job": str(town.HER_JOB),
    "node": town.NODE,
    "account": town.PHYSICS,
    "user": town.ALICE,
}
# What is empty is left aside, whatever it should have been; a month or a number may be well written and not be.
LEFT_OUT = [negative_data_rejection, positive_data_acceptance]


class Asking:
    """A program with somebody's token."""

    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.session = requests.Session()
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, case: schemathesis.Case[Any]) -> schemathesis.Response:
        return case.call_and_validate(
            base_url=self.address, session=self.session, headers=self.headers, excluded_checks=LEFT_OUT
        )


def token_of(portal: Portal, who: str) -> str:
    page = town.as_(portal, who).post("/settings/tokens", {"label": "tests", "days": "3"}, page="/settings")
    return page.text.partition('class="copy">')[2].partition("<")[0]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asking]]:
    with town.opened(tmp_path_factory.mktemp("town")) as portal, running(portal) as address:
        yield {who: Asking(address, token_of(portal, who)) for who in (town.ALICE, town.SAM)}


@API.parametrize()
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_nothing_is_answered_that_is_not_told(case: schemathesis.Case[Any], people: dict[str, Asking]) -> None:
    people[town.SAM].ask(case)
    # … and with names that there are, which nobody would guess
    case.path_parameters = {name: THINGS.get(name, value) for name, value in (case.path_parameters or {}).items()}
    people[town.ALICE].ask(case)


def test_the_document_is_one() -> None:
    API.validate()


def test_what_there_is_has_the_shape_that_is_told(people: dict[str, Asking]) -> None:
    asked = 0
    for path, operations in API.items():
        names = openapi.inside(path)
        if set(names) <= THINGS.keys():
            case = operations["GET"].Case(path_parameters={name: THINGS[name] for name in names})
            assert people[town.SAM].ask(case).status_code == 200, path
            asked += 1
    assert asked == len(API) - 1, "all but what is shared"
