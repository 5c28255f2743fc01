# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The last runs of the same work as a job's, from a store: what its next request is made from."""

from __future__ import annotations

from msgspec.structs import replace

from slurmscope.findings.request import same_work
from slurmscope.life import Life
from slurmscope.store.protocol import Lives, Store
from slurmscope.summary import Summary

MOST = 20
_LOOKED = (100, 400)  # of its user's latest jobs under that account that are looked through, one after the other


def last_runs(store: Store, life: Life, most: int = MOST) -> list[tuple[Life, Summary | None]]:
    """The job itself, if it has run, and those that ended, the latest submitted first; with what was measured."""
    asked = Lives(cluster=life.cluster, user=life.user, account=life.account, open=False)
    runs = [life] if life.started else []
    read = 0
    for some in _LOOKED:
        found = store.lives(replace(asked, limit=some, offset=read))
        known = {life.key, *(one.key for one in runs)}  # one that ends meanwhile moves the others
        runs += [one for one in found if one.started and same_work(life, one) and one.key not in known]
        read += some
        if len(runs) >= most or len(found) < some:
            break
    summaries = store.summaries(life.cluster, [one.key for one in runs[:most]])
    return [(one, summaries.get(one.key)) for one in runs[:most]]
