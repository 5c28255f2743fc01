# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""sdiag, as it is odd now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import MARKS, RECORDINGS

from slurmscope.slurm.statistics import parse_accounting, parse_scheduler
from slurmscope.slurm.text import Malformed

SDIAG = (RECORDINGS / "24.11" / "sdiag.txt").read_text()
HEAD, _, _ = SDIAG.partition("Remote Procedure Call statistics by user")


def with_users(*rows: str) -> bytes:
    return (HEAD + "Remote Procedure Call statistics by user\n" + "".join(f"\t{row}\n" for row in rows)).encode()


@given(st.text("abcdefgh.-_()0123456789 ", min_size=1, max_size=20).map(str.strip).filter(bool))
def test_a_user_name_stays_whole(name: str) -> None:
    data = with_users(f"{name:<15} (    1001) count:2      ave_time:864    total_time:2593")
    (user,) = parse_scheduler(data, MARKS).value.rpc_users
    assert (user.name, user.id, user.calls, user.seconds) == (name, 1001, 2, 0.002593)


def test_users_who_cannot_be_looked_up_are_one() -> None:
    """22.05 calls each of them nobody; as two rows of one counter they would make it run away."""
    data = with_users(
        "nobody          (    1001) count:100    ave_time:1      total_time:1000",
        "nobody          (    1002) count:50     ave_time:1      total_time:500",
    )
    (user,) = parse_scheduler(data, MARKS).value.rpc_users
    assert (user.name, user.calls, user.seconds) == ("nobody", 150, 0.0015)


def test_pending_rpcs() -> None:
    data = SDIAG.replace("No pending RPCs", "REQUEST_JOB_INFO ( 2003) count:7").encode()
    assert parse_scheduler(data, MARKS).value.rpcs_pending == {"REQUEST_JOB_INFO": 7}


def test_the_main_and_the_backfill_section_are_kept_apart() -> None:
    marked = SDIAG.replace("\tLast cycle:   ", "\tLast cycle:   7", 1)
    found = parse_scheduler(marked.encode(), MARKS).value
    assert found.main.last_seconds != found.backfill.last_seconds


@pytest.mark.parametrize("parse", [parse_scheduler, parse_accounting])
@pytest.mark.parametrize("data", [b"", b"garbage", b"\xff\xfe\n" * 100, SDIAG[:40].encode()])
def test_what_is_no_report_is_refused(parse: object, data: bytes) -> None:
    assert callable(parse)
    with pytest.raises(Malformed):
        parse(data, MARKS)
