# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Several clusters on one page: whoever reads it finds each as on a page of its own, and what did not change is not
made again."""

from __future__ import annotations

import asyncio
import gzip
import logging
import subprocess
from collections import Counter
from collections.abc import Iterable

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from recorded import read

from slurmscope.metrics import catalogue
from slurmscope.metrics.book import Book
from slurmscope.metrics.exposition import GAUGE, Family, Sample, Topic
from slurmscope.metrics.pages import Pages
from slurmscope.metrics.view import View
from slurmscope.model import PARTS, Part, Snapshot

COMMON = ("process_", "slurmscope_info", "slurm_scrapes_total", "slurm_children_cpu_", "promhttp_")
NAMES = ("lab22", "lab24")


def two() -> tuple[Pages, Pages]:
    return read("22.05")[1], read("24.11")[1]


def pieces_of(book: Book, profile: str = "slurmscope", *, openmetrics: bool = False, gzip: bool = False) -> list[bytes]:
    return asyncio.run(book.body(profile, openmetrics=openmetrics, gzip=gzip))


def page_of(book: Book, profile: str = "slurmscope", *, openmetrics: bool = False) -> str:
    return b"".join(pieces_of(book, profile, openmetrics=openmetrics)).decode()


def lines_of(page: str) -> list[str]:
    return [line for line in page.splitlines() if not line.startswith("#")]


def of_cluster(page: str, name: str) -> list[str]:
    """The series of a cluster in the order of the page, less what is of this moment or of this process."""
    return [
        line
        for line in lines_of(page)
        if f'{{cluster="{name}"' in line and not line.startswith((*COMMON, "slurm_command_", "slurm_own_rpc"))
    ]


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize("profile", catalogue.NAMES)
def test_each_cluster_is_told_as_on_a_page_of_its_own(profile: str, openmetrics: bool) -> None:
    clusters = two()
    page = page_of(Book(clusters), profile, openmetrics=openmetrics)
    for one, name in zip(clusters, NAMES, strict=True):
        alone = of_cluster(page_of(Book([one]), profile, openmetrics=openmetrics), name)
        assert len(alone) > 50
        assert of_cluster(page, name) == alone


@pytest.mark.parametrize("profile", catalogue.NAMES)
def test_every_family_is_there_once_and_other_readers_read_it(profile: str) -> None:
    book = Book(two())
    page = page_of(book, profile)
    heads = Counter(line for line in page.splitlines() if line.startswith("#"))
    assert set(heads.values()) == {1}
    series = [line.rpartition(" ")[0] for line in lines_of(page)]
    assert len(series) == len(set(series))
    families = list(read_text(page))
    assert sum(len(family.samples) for family in families) == len(series)
    told: dict[str, set[str]] = {}
    for family in families:
        told.setdefault(family.name, set()).update(sample.labels.get("cluster", "") for sample in family.samples)
    assert set(NAMES) in told.values()
    opened = page_of(book, profile, openmetrics=True)
    assert sum(len(family.samples) for family in read_openmetrics(opened)) == len(series)


@pytest.mark.prometheus
def test_promtool_finds_no_fault(promtool: str) -> None:
    page = page_of(Book((*two(), Pages(cluster="silent")))).encode()
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_compressed_page_is_the_plain_one() -> None:
    book = Book(two())

    def steady(page: bytes) -> list[str]:
        return [line for line in page.decode().splitlines() if not line.startswith("process_")]

    plain = b"".join(pieces_of(book))
    assert steady(gzip.decompress(b"".join(pieces_of(book, gzip=True)))) == steady(plain)


@pytest.mark.parametrize("profile", catalogue.NAMES)
def test_what_is_of_the_process_is_said_once_and_of_no_cluster(profile: str) -> None:
    book = Book(two())
    book.requests.total[200] = 3
    found = [line for line in lines_of(page_of(book, profile)) if line.startswith(COMMON)]
    if profile in ("vpenso", "sinfo"):
        assert found == []
        return
    assert any(line.startswith('process_cpu_seconds_total{cluster=""} ') for line in found)
    counter = "promhttp_metric_handler_requests_total" if profile == "rivosinc" else "slurm_scrapes_total"
    assert f'{counter}{{cluster="",code="200"}} 3' in found
    assert all('{cluster=""' in line for line in found)


def test_of_a_cluster_that_is_read_alone_the_process_has_the_name() -> None:
    page = page_of(Book(two()[:1]))
    assert all('{cluster="lab22"' in line for line in lines_of(page))
    assert 'process_open_fds{cluster="lab22"} ' in page


def test_a_cluster_that_never_answered_keeps_no_other_waiting() -> None:
    book = Book((Pages(cluster="silent"), *two()))
    page = page_of(book)
    told = {line.partition("{")[0] for line in lines_of(page) if '{cluster="silent"' in line}
    assert told == {"slurm_up", "slurm_part_up", "slurm_part_rows_skipped", "slurm_rows_skipped_total"}
    assert 'slurm_up{cluster="silent"} 0\nslurm_up{cluster="lab22"} 1\nslurm_up{cluster="lab24"} 1\n' in page
    for name in NAMES:
        assert f'slurm_queue_jobs{{cluster="{name}",state="pending"}}' in page


def test_of_several_one_without_a_name_is_not_told_of_until_it_has_one() -> None:
    snapshot, _ = read("24.11")
    late = Pages()
    book = Book((read("22.05")[1], late))
    asyncio.run(late.publish(msgspec.structs.replace(snapshot, cluster=""), frozenset(PARTS)))
    assert not [line for line in lines_of(page_of(book)) if '{cluster=""' in line and not line.startswith(COMMON)]
    asyncio.run(late.publish(snapshot, frozenset()))
    assert of_cluster(page_of(book), "lab24")


class Counted:
    """A topic that counts how often it was rendered, of which cluster."""

    def __init__(self, of: str) -> None:
        self.times: Counter[str] = Counter()
        self.topic: Topic[View] = Topic(
            f"counted {of}", of, frozenset(), (Family(f"slurm_counted_{of}", GAUGE, "What.", (), self._samples),)
        )

    def _samples(self, view: View) -> Iterable[Sample]:
        self.times[view.snapshot.cluster] += 1
        return [((), self.times[view.snapshot.cluster])]


def test_only_what_was_read_anew_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, nodes = Counted("jobs"), Counted("nodes")
    monkeypatch.setitem(catalogue.PROFILES, "slurmscope", (jobs.topic, nodes.topic))
    clusters = two()
    book = Book(clusters)
    before, packed = pieces_of(book), pieces_of(book, gzip=True)
    assert jobs.times == nodes.times == {"lab22": 1, "lab24": 1}
    asyncio.run(clusters[1].publish(clusters[1].snapshot, frozenset({"jobs"})))
    after, repacked = pieces_of(book), pieces_of(book, gzip=True)
    assert jobs.times == {"lab22": 1, "lab24": 2}
    assert nodes.times == {"lab22": 1, "lab24": 1}
    assert b'slurm_counted_jobs{cluster="lab22"} 1\nslurm_counted_jobs{cluster="lab24"} 2\n' in after[0]
    # the very same bytes: neither joined nor compressed again
    assert after[0] is not before[0] and after[1] is before[1]
    assert repacked[1] is not packed[1] and repacked[2] is packed[2]


def test_a_page_that_was_asked_for_is_ready_before_it_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Counted("jobs")
    monkeypatch.setitem(catalogue.PROFILES, "slurmscope", (jobs.topic,))
    clusters = two()
    book = Book(clusters)
    page_of(book)
    for one in clusters:
        asyncio.run(one.publish(one.snapshot, frozenset({"jobs"})))
    assert jobs.times == {"lab22": 2, "lab24": 2}
    page_of(book)
    assert jobs.times == {"lab22": 2, "lab24": 2}


def test_a_cluster_alone_is_copied_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said is served as it is: a page of a large cluster is in memory once."""
    jobs = Counted("jobs")
    monkeypatch.setitem(catalogue.PROFILES, "slurmscope", (jobs.topic,))
    one = two()[0]
    book, other = Book([one]), Book([one])
    assert pieces_of(book)[0] is pieces_of(other)[0]
    assert jobs.times == {"lab22": 1}


def test_of_two_with_the_same_name_the_second_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    first, _ = two()
    second = Pages()
    book = Book((first, second))
    snapshot = msgspec.structs.replace(first.snapshot, jobs=Part((), 1000.0, "test"))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            asyncio.run(second.publish(snapshot, frozenset(PARTS)))
    assert [record.getMessage() for record in caplog.records] == [
        "two clusters have the same name, and only the first is shown: name each as [clusters.NAME]"
    ]
    page = page_of(book)
    assert of_cluster(page, "lab22") == of_cluster(page_of(Book([first])), "lab22")
    assert book.issue.left_out == [1]
    other = msgspec.structs.replace(snapshot, cluster="other")
    asyncio.run(second.publish(other, frozenset()))
    assert 'slurm_queue_jobs{cluster="other",state="pending"} 0' in page_of(book)
    assert book.issue.left_out == []


def test_all_on_a_page_is_of_one_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a new page is made, the one of before is served with the ages of before."""
    pages = Pages(cluster="c")
    book = Book([pages])
    seen: list[str] = []

    def time(view: View) -> Iterable[Sample]:
        return [((), view.snapshot.jobs.time)]

    def time_and_look(view: View) -> Iterable[Sample]:
        if view.snapshot.jobs.time == 2000:
            seen.extend(lines_of(page_of(book)))  # in the midst of a poll's rendering
        return time(view)

    polled: Topic[View] = Topic("p", "jobs", frozenset(), (Family("polled", GAUGE, "What.", (), time_and_look),))
    live: Topic[View] = Topic("l", None, frozenset(), (Family("live", GAUGE, "What.", (), time),))
    monkeypatch.setitem(catalogue.PROFILES, "slurmscope", (polled, live))
    for when in (1000, 2000):
        snapshot = Snapshot(cluster="c", jobs=Part((), when, "test"))
        asyncio.run(pages.publish(snapshot, frozenset({"jobs"})))
        now = lines_of(page_of(book))
    assert seen == ['polled{cluster="c"} 1000', 'live{cluster="c"} 1000']
    assert now == ['polled{cluster="c"} 2000', 'live{cluster="c"} 2000']
