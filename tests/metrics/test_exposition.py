# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is written can be read by others, whatever is in a label."""

from __future__ import annotations

import gzip
import math
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from slurmscope.metrics.exposition import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Chunk,
    Family,
    Histogram,
    Page,
    Topic,
    join,
    render,
)


class Nothing:
    """A view for families that look at none."""

    def known(self, part: str) -> bool:
        return part != "unread"


VIEW = Nothing()


def topic(*families: Family[Nothing]) -> Topic[Nothing]:
    return Topic("some", "jobs", frozenset(), families)


def one(value: object, labels: tuple[str, ...] = ("job",), kind: str = GAUGE, name: str = "slurm_x") -> Topic[Nothing]:
    names = tuple(f"l{at}" for at in range(len(labels)))
    return topic(Family(name, kind, "What it is.", names, lambda view: [(labels, value)]))  # type: ignore[list-item]


@given(st.text(max_size=50), st.text(max_size=50))
def test_any_label_is_read_back(first: str, cluster: str) -> None:
    page = render(one(1, (first,)), VIEW, cluster, openmetrics=False).plain.decode()
    ((sample,),) = [family.samples for family in read_text(page)]
    safe = first.encode("utf-8", "backslashreplace").decode()
    assert sample.labels["l0"] == safe
    assert sample.labels["cluster"] == cluster.encode("utf-8", "backslashreplace").decode()


@given(st.integers(-(2**62), 2**62) | st.floats())
def test_any_number_is_read_back(value: float) -> None:
    page = render(one(value), VIEW, "c", openmetrics=False).plain.decode()
    ((sample,),) = [family.samples for family in read_text(page)]
    assert float(sample.value) == float(value) or (math.isnan(value) and math.isnan(sample.value))


def test_unknown_is_left_out_and_a_family_without_samples_says_nothing() -> None:
    assert render(one(None), VIEW, "c", openmetrics=False).plain == b""


def test_a_topic_of_a_part_that_was_never_read_says_nothing() -> None:
    unread = Topic("some", "unread", frozenset(), one(0).families)
    assert render(unread, VIEW, "c", openmetrics=False).plain == b""


def test_the_text_format() -> None:
    page = render(one(3, ("a",)), VIEW, "c", openmetrics=False).plain
    assert page == b'# HELP slurm_x What it is.\n# TYPE slurm_x gauge\nslurm_x{cluster="c",l0="a"} 3\n'


def test_a_label_that_is_no_utf_8(promtool: str) -> None:
    """What cannot be written as it is, is written out, and no reader stumbles over it."""
    page = render(one(3, ("al\udcefce",)), VIEW, "c", openmetrics=False).plain
    assert page.endswith(b'slurm_x{cluster="c",l0="al\\\\udcefce"} 3\n')
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, b"")
    ((family,),) = [list(read_text(page.decode()))]
    assert family.samples[0].labels["l0"] == "al\\udcefce"


def test_a_counter_in_both_formats() -> None:
    counter = one(3, (), COUNTER, "slurm_x_total")
    assert b"# TYPE slurm_x_total counter\nslurm_x_total{" in render(counter, VIEW, "c", openmetrics=False).plain
    page = render(counter, VIEW, "c", openmetrics=True).plain
    assert b"# TYPE slurm_x counter\nslurm_x_total{" in page
    ((family,),) = [list(read_openmetrics(page.decode() + "# EOF\n"))]
    assert (family.type, family.samples[0].value) == ("counter", 3)


def test_an_older_counter_without_the_suffix_is_legal_openmetrics() -> None:
    page = render(one(3, (), COUNTER, "slurm_old_error"), VIEW, "c", openmetrics=True).plain.decode()
    assert [family.type for family in read_openmetrics(page + "# EOF\n")] == ["unknown"]


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_a_histogram_adds_up(values: list[float]) -> None:
    bounds = (1.0, 60.0, 3600.0)
    found = Histogram.empty(bounds)
    for value in values:
        found.observe(value)
    page = render(one(found, ("a",), HISTOGRAM), VIEW, "c", openmetrics=False).plain.decode()
    samples = {
        (sample.name, sample.labels.get("le")): sample.value for family in read_text(page) for sample in family.samples
    }
    for bound in (*bounds, math.inf):
        name = "+Inf" if bound == math.inf else str(bound)
        assert samples["slurm_x_bucket", name] == sum(value <= bound for value in values)
    assert samples["slurm_x_count", None] == len(values)
    assert samples["slurm_x_sum", None] == pytest.approx(sum(values))
    list(
        read_openmetrics(render(one(found, ("a",), HISTOGRAM), VIEW, "c", openmetrics=True).plain.decode() + "# EOF\n")
    )


# of each cluster: how many samples each of three families has, or None where the part was never read
_CLUSTERS = st.lists(st.none() | st.tuples(*[st.integers(0, 3)] * 3), max_size=4)


@given(_CLUSTERS, st.booleans())
def test_blocks_are_joined_family_by_family(clusters: list[tuple[int, ...] | None], openmetrics: bool) -> None:
    class Counts(Nothing):
        def __init__(self, counts: tuple[int, ...] | None) -> None:
            self.counts = counts or ()
            self.read = counts is not None

        def known(self, part: str) -> bool:
            return self.read

    def family(at: int) -> Family[Counts]:
        def samples(view: Counts) -> list[tuple[tuple[str, ...], int]]:
            return [((f"ü{n}",), n) for n in range(view.counts[at])]

        return Family(f"slurm_{at}_total", COUNTER, "What it is.", ("l",), samples)

    some = Topic("some", "jobs", frozenset(), tuple(map(family, range(3))))
    blocks = [render(some, Counts(one), f"c{at}", openmetrics=openmetrics) for at, one in enumerate(clusters)]
    page = join(blocks).decode()
    read = read_openmetrics(page + "# EOF\n") if openmetrics else read_text(page)
    found = [(one.name, [(each.labels["cluster"], each.labels["l"]) for each in one.samples]) for one in read]
    wanted = [
        (f"slurm_{at}", [(f"c{place}", f"ü{n}") for place, one in enumerate(clusters) if one for n in range(one[at])])
        for at in range(3)
    ]
    assert found == [(name, samples) for name, samples in wanted if samples]


@given(st.lists(st.binary(max_size=2000), max_size=5), st.binary(max_size=200))
def test_a_compressed_page_is_the_plain_one(pieces: list[bytes], last: bytes) -> None:
    """One member of gzip, so that every client can read it, made of pieces that were compressed apart."""
    page = Page([Chunk(piece) for piece in pieces])
    plain = b"".join(pieces) + last
    assert b"".join(page.body(last, gzip=False)) == plain
    packed = b"".join(page.body(last, gzip=True))
    assert gzip.decompress(packed) == plain
    single = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert single.decompress(packed) == plain
    assert single.eof and not single.unused_data
