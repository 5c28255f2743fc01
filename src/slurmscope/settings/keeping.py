# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept, where and for how long."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str,
        Meta(
            description="Where history is kept: `sqlite:/path/to/file.db`, or `mongodb://user:password@host/database`. "
            "Empty: slurmscope.db in `store.folder`. `none`: nothing is kept.",
            extra={"secret": True},
        ),
    ] = ""
    folder: Annotated[
        str,
        Meta(
            description="Folder of all that is kept on this machine: the SQLite file, and what waits to be sent. "
            "Empty: `$STATE_DIRECTORY`, as systemd sets it; else /var/lib/slurmscope, if it may be written; else "
            "slurmscope in `$XDG_STATE_HOME` (~/.local/state)."
        ),
    ] = ""
    jobs_days: Annotated[int, Meta(ge=0, description="Days that a job is kept after its end. 0: for ever.")] = 1825
    usage_days: Annotated[
        int,
        Meta(ge=0, description="Days that the daily sums of usage are kept; as long as jobs, at least. 0: for ever."),
    ] = 0
    series_days: Annotated[
        int,
        Meta(
            ge=0,
            description="Days that the course of what a job used is kept after its end; its summary stays as long "
            "as the job. 0: as long as the job.",
        ),
    ] = 90
    node_changes_days: Annotated[
        int, Meta(ge=0, description="Days that the changes of nodes' states are kept. 0: for ever.")
    ] = 1825
    totals_fine_days: Annotated[
        int, Meta(ge=1, description="Days that totals are kept as each poll saw them; after that, means of 5 minutes.")
    ] = 1
    totals_middle_days: Annotated[
        int, Meta(ge=1, description="Days that totals are kept as means of 5 minutes; after that, of an hour.")
    ] = 60
    totals_coarse_days: Annotated[
        int, Meta(ge=0, description="Days that totals are kept as means of an hour. 0: for ever.")
    ] = 1825


class Accounting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Whether `serve` reads what `sacct` tells into the store, from time to time."),
    ] = True
    interval: Annotated[
        float, Meta(ge=10, description="Seconds between two readings of the accounting; each is of what is new.")
    ] = 300.0
    reach_days: Annotated[
        int,
        Meta(
            ge=1,
            description="How far back `serve` reads the accounting at its first start, and after a long stop. "
            "`slurmscope import` reads further.",
        ),
    ] = 7
