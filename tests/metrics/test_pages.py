# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Pages as they are kept: the cap, what is unknown, what is rendered again and what is not."""

from __future__ import annotations

import asyncio
import re

import msgspec
import pytest
from recorded import Recorded, read

from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.metrics.pages import Pages
from slurmscope.metrics.view import View
from slurmscope.model import PARTS, Cost, Job, Part, Snapshot
from slurmscope.slurm.source import Way


def page_of(pages: Pages, profile: str = "slurmscope") -> str:
    return b"".join(asyncio.run(Book([pages]).body(profile, openmetrics=False, gzip=False))).decode()


def published(snapshot: Snapshot, fresh: frozenset[str] = frozenset(PARTS), top: int = 100) -> Pages:
    pages = Pages(clock=lambda: 1000.0, top=top)
    pages.source = read("24.11")[1].source
    asyncio.run(pages.publish(snapshot, fresh))
    return pages


def values(page: str, name: str) -> dict[str, float]:
    return {labels: float(value) for labels, value in re.findall(rf"^{name}{{(.*)}} (\S+)$", page, re.MULTILINE)}


def with_users(count: int) -> Snapshot:
    snapshot, _ = read("24.11")
    job: Job = (snapshot.jobs.value or ())[0]
    jobs = tuple(
        msgspec.structs.replace(job, id=n, user=f"u{n:04}", account=f"a{n:04}", state="RUNNING", cpus=n, tasks=1)
        for n in range(1, count + 1)
    )
    return snapshot.replaced(jobs=Part(jobs, 1000.0, "test"))


def test_the_busiest_have_names_and_the_rest_is_other() -> None:
    page = page_of(published(with_users(50), top=10))
    found = values(page, "slurm_user_queue_cpus")
    running = {labels: value for labels, value in found.items() if 'state="running"' in labels}
    assert len(running) == 11
    assert running['cluster="lab24",user="u0050",state="running"'] == 50
    assert running['cluster="lab24",user="other",state="running"'] == sum(range(1, 41))
    assert sum(running.values()) == sum(range(1, 51)), "nothing is lost"
    assert values(page, "slurm_series_dropped")['cluster="lab24",family="slurm_user_queue_*"'] == 40
    assert "slurm_account_queue_*" in page


def test_what_was_never_read_is_not_told_as_zero() -> None:
    page = page_of(published(Snapshot(cluster="new")))
    told = {line.split("{")[0] for line in page.splitlines() if not line.startswith("#")}
    told -= {name for name in told if name.startswith(("process_", "slurm_command_", "slurm_part_", "slurm_rows_"))}
    assert told == {"slurm_up", "slurmscope_info", "slurm_dbd_up", "slurm_children_cpu_seconds_total"}


def test_states_that_nothing_is_in_are_told_with_zeros() -> None:
    snapshot, _ = read("24.11")
    page = page_of(published(snapshot.replaced(jobs=Part((), 1000.0), nodes=Part((), 1000.0))))
    assert values(page, "slurm_queue_jobs")['cluster="lab24",state="node_fail"'] == 0
    assert values(page, "slurm_partition_queue_jobs")['cluster="lab24",partition="gpu",state="running"'] == 0
    assert values(page, "slurm_cluster_nodes")['cluster="lab24",state="down",flags=""'] == 0
    assert values(page, "slurm_cluster_nodes_flagged")['cluster="lab24",flag="drain"'] == 0


def test_only_what_was_read_anew_is_rendered_again() -> None:
    snapshot, _ = read("24.11")
    pages = published(snapshot)
    before = page_of(pages)
    other = snapshot.replaced(jobs=Part((), 1000.0), nodes=Part((), 1000.0))
    asyncio.run(pages.publish(other, frozenset({"jobs"})))
    after = page_of(pages)
    assert values(after, "slurm_node_state") == values(before, "slurm_node_state"), "nodes were not read anew"
    assert sum(values(after, "slurm_queue_jobs").values()) == 0


def test_a_name_that_is_learned_later_is_on_every_series() -> None:
    snapshot, _ = read("24.11")
    pages = published(msgspec.structs.replace(snapshot, cluster=""))
    for name in ("lab24", "renamed"):
        asyncio.run(pages.publish(msgspec.structs.replace(snapshot, cluster=name), frozenset()))
        lines = [line for line in page_of(pages).splitlines() if not line.startswith("#")]
        assert all(f'{{cluster="{name}"' in line for line in lines)


def test_a_reservation_counts_while_its_window_is_open() -> None:
    snapshot, _ = read("24.11")
    windows = {one.name: one for one in snapshot.reservations.value or ()}
    when = [(one.start_time + one.end_time) / 2 for one in windows.values()]
    for moment, name in zip(when, windows, strict=True):
        pages = Pages(clock=lambda moment=moment: moment)  # type: ignore[misc]
        pages.source = read("24.11")[1].source
        asyncio.run(pages.publish(snapshot, frozenset(PARTS)))
        active = values(page_of(pages), "slurm_reservation_active")
        assert active[f'cluster="lab24",reservation="{name}"'] == 1
    pages = published(snapshot)  # long before either
    assert set(values(page_of(pages), "slurm_reservation_active").values()) == {0}


def test_a_topic_that_fails_keeps_what_it_showed_and_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, _ = read("24.11")
    pages = published(snapshot)
    before = page_of(pages)
    monkeypatch.setattr(View, "places", property(lambda view: 1 / 0))
    asyncio.run(pages.publish(snapshot.replaced(jobs=Part((), 1000.0), nodes=Part((), 1000.0)), frozenset(PARTS)))
    after = page_of(pages)
    assert values(after, "slurm_node_state") == values(before, "slurm_node_state") != {}
    assert sum(values(after, "slurm_queue_jobs").values()) == 0
    assert values(after, "slurm_render_failures_total") == {'cluster="lab24",topic="nodes"': 1}


def test_publishing_and_serving_at_once() -> None:
    """Pages that nobody asked for before are asked for while a poll is being rendered."""
    snapshot, _ = read("24.11")
    pages = published(snapshot)
    book = Book([pages])

    async def both() -> None:
        async def publish() -> None:
            for _ in range(20):
                await pages.publish(snapshot, frozenset(PARTS))

        async def serve(profile: str, openmetrics: bool) -> None:
            for _ in range(20):
                body = b"".join(await book.body(profile, openmetrics=openmetrics, gzip=False))
                assert body.count(b"slurm_") > 50

        asks = [serve(profile, opened) for profile in catalogue.NAMES for opened in (False, True)]
        await asyncio.gather(publish(), *asks)

    asyncio.run(both())


def test_nothing_is_told_of_a_cluster_without_a_name() -> None:
    snapshot, _ = read("24.11")
    page = page_of(published(msgspec.structs.replace(snapshot, cluster="")))
    assert "slurm_up" in page
    assert "slurm_queue_jobs" not in page


def test_what_reading_cost_is_summed_over_the_ways_where_it_is_told_by_part() -> None:
    snapshot, _ = read("24.11")
    pages = published(snapshot)
    source = Way("text", Recorded("24.11"))
    source.costs["jobs", "squeue"] = Cost(runs=3, failures=1, seconds=1.5, last_seconds=0.5, bytes=70, rows_skipped=2)
    source.costs["jobs", "slurmrestd"] = Cost(runs=4, rows_skipped=5)
    source.costs["nodes", "scontrol"] = Cost()
    source.fallbacks["jobs", "rest"] = 6
    pages.source = source
    page = page_of(pages)
    assert values(page, "slurm_command_runs_total") == {
        'cluster="lab24",part="jobs",command="squeue"': 3,
        'cluster="lab24",part="jobs",command="slurmrestd"': 4,
    }
    skipped = values(page, "slurm_rows_skipped_total")
    assert skipped.pop('cluster="lab24",part="jobs"') == 7
    assert len(skipped) == len(PARTS) - 1 and set(skipped.values()) == {0}
    assert values(page, "slurm_source_fallbacks_total") == {'cluster="lab24",part="jobs",source="rest"': 6}
    assert "slurm_dbd_up" not in page, "it was never asked"
