# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: that it is new, that it asks for what there is, and what a real Prometheus answers it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from slurmscope.metrics import catalogue
from slurmscope.metrics.exposition import COUNTER, HISTOGRAM

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tools.dashboard.build import build, page  # noqa: E402 - the tools are not installed

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
DASHBOARD = build()
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
FAMILIES = {family.name: family for topic in catalogue.OWN for family in topic.families}
CORE = {"stat", "timeseries", "bargauge", "table", "heatmap", "state-timeline"}  # panels that every Grafana has


class Query(NamedTuple):
    panel: str
    ref: str
    expr: str
    legend: str
    rows: bool


QUERIES = [
    Query(panel["title"], target["refId"], target["expr"], target["legendFormat"], target["format"] == "table")
    for panel in PANELS
    for target in panel["targets"]
] + [
    Query(one["name"], "annotation", one["expr"], "", False)
    for one in DASHBOARD["annotations"]["list"]
    if "expr" in one
]
of_every_query = pytest.mark.parametrize("query", QUERIES, ids=[f"{one.panel} ({one.ref})" for one in QUERIES])

COMMON = {family.name for topic in catalogue.OWN if topic.common for family in topic.families}

# Panels that may have nothing to show on a healthy cluster, and why.
MAY_BE_EMPTY = {
    "Ways that failed": "the demo has one way, and it does not fail",
    "slurmctld was silent": "it was not",
    "Where GPUs are stranded": "none is, at times",
    "Questions that wait": "slurmctld is not behind",
    "Why cycles ended": "only reasons that came up are drawn, and the demo has just begun to count",
}
# Panels that are there and may have no number: of no jobs that started there is no median.
MAY_BE_NAN = {"How long started jobs had waited", "Wait of the median job by partition"}


# The file


def test_the_file_is_new() -> None:
    made = page()
    assert (ROOT / "dashboards" / "slurmscope.json").read_text() == made, (
        "dashboards/slurmscope.json is old: run `make docs`"
    )
    assert json.loads(made) == DASHBOARD


def test_it_can_be_imported() -> None:
    assert DASHBOARD["uid"] == "slurmscope" and DASHBOARD["id"] is None
    assert [one["name"] for one in DASHBOARD["__inputs"]] == ["DS_PROMETHEUS"]
    assert {one["id"] for one in DASHBOARD["__requires"] if one["type"] == "panel"} == {one["type"] for one in PANELS}
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", "partition"]
    assert variables["datasource"]["current"]["value"] == "${DS_PROMETHEUS}"
    assert not variables["cluster"]["multi"]
    assert variables["partition"]["multi"] and variables["partition"]["includeAll"]


def test_every_panel_is_whole() -> None:
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        title = panel["title"]
        assert panel["type"] in CORE, title
        assert len(panel["description"]) > 30 and panel["description"].endswith("."), title
        source = {"type": "prometheus", "uid": "${datasource}"}
        assert panel["datasource"] == source, title
        references = [target["refId"] for target in panel["targets"]]
        assert references == sorted(set(references)) and references, title
        for target in panel["targets"]:
            assert target["datasource"] == source, title
            assert target["range"] is not target["instant"], title
        for name in ("defaults", "overrides"):
            assert name in panel["fieldConfig"], title
        if panel["type"] != "heatmap":
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            values = [step["value"] for step in steps]
            assert values[0] is None and values[1:] == sorted(values[1:]), title
        if panel["type"] not in ("heatmap", "table", "state-timeline"):
            assert panel["fieldConfig"]["defaults"]["unit"], title
        assert '"axisPlacement": "right"' not in json.dumps(panel), f"{title} has two axes"


def test_no_two_panels_overlap() -> None:
    def cells(panel: dict[str, Any]) -> tuple[range, range]:
        grid = panel["gridPos"]
        return range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])

    def meet(one: range, other: range) -> bool:
        return max(one.start, other.start) < min(one.stop, other.stop)

    for panel in DASHBOARD["panels"]:
        assert cells(panel)[0].stop <= 24 and panel["gridPos"]["w"] > 0 and panel["gridPos"]["h"] > 0, panel["title"]
    for one, other in combinations(DASHBOARD["panels"], 2):
        (across, down), (other_across, other_down) = cells(one), cells(other)
        assert not (meet(across, other_across) and meet(down, other_down)), f"{one['title']} and {other['title']}"


def test_columns_of_tables_are_shown_once() -> None:
    for panel in PANELS:
        if panel["type"] != "table":
            continue
        assert [one["id"] for one in panel["transformations"]] == ["merge", "organize"]
        options = panel["transformations"][1]["options"]
        names = options["renameByName"].values()
        assert len(set(names)) == len(names), panel["title"]
        values = {f"Value #{target['refId']}" for target in panel["targets"]}
        assert values == set(options["renameByName"]) | (set(options["excludeByName"]) - {"Time"}), panel["title"]
        shown = {options["renameByName"].get(key, key) for key in options["indexByName"]}
        assert {one["displayName"] for one in panel["options"]["sortBy"]} <= shown, panel["title"]
        assert {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]} <= shown, panel["title"]


# What it asks for

_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_WORDS = {
    *("and", "or", "unless", "bool", "offset", "end", "time", "vector"),
    *("sum", "max", "min", "count", "topk", "bottomk", "rate", "sum_over_time", "histogram_quantile"),
}


def family_of(name: str) -> Any:
    """The family of a series, understanding a histogram's suffixes."""
    if name in FAMILIES:
        assert FAMILIES[name].type != HISTOGRAM, f"{name} is a histogram: say which of its series"
        return FAMILIES[name]
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    assert base in FAMILIES and FAMILIES[base].type == HISTOGRAM, f"{name} is no metric"
    return FAMILIES[base]


def labels_of(expr: str) -> set[str]:
    """Every label that the series in an expression may have."""
    found = {"cluster"}
    for name, _ in _SELECTOR.findall(expr):
        found |= {*family_of(name).labels, *(("le",) if name.endswith("_bucket") else ())}
    return found


def inside(expr: str, at: int) -> str:
    """What is between the bracket at or after `at` and the one that closes it."""
    start = expr.index("(", at)
    depth = 0
    for place in range(start, len(expr)):
        depth += {"(": 1, ")": -1}.get(expr[place], 0)
        if depth == 0:
            return expr[start + 1 : place]
    raise AssertionError(f"a bracket is open: {expr}")


@of_every_query
def test_metrics_and_labels_exist(query: Query) -> None:
    selectors = _SELECTOR.findall(query.expr)
    assert selectors
    for name, matchers in selectors:
        known = {"cluster", *family_of(name).labels}
        found = _MATCHER.findall(matchers)
        # what is said of the process has no cluster when that reads several
        wanted = ("cluster", "=~", "$cluster|") if name in COMMON else ("cluster", "=", "$cluster")
        assert wanted in found, f"{name} is asked of every cluster"
        assert {label for label, _, _ in found} <= known, name
    for grouping in _GROUPING.finditer(query.expr):
        word, listed = grouping.groups()
        about = inside(query.expr, grouping.end()) if word in ("by", "without") else query.expr
        labels = set(re.findall(r"\w+", listed))
        assert labels <= labels_of(about), f"{word} ({listed}) of {about}"
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= labels_of(query.expr)


@of_every_query
def test_no_metric_is_asked_for_without_a_selector(query: Query) -> None:
    rest = _GROUPING.sub(" ", _SELECTOR.sub(" ", query.expr))
    rest = re.sub(r"\[[^]]*\]", " ", rest)
    assert set(re.findall(r"[a-zA-Z_]\w*", rest)) <= _WORDS


@of_every_query
def test_rates_are_of_counters(query: Query) -> None:
    for found in re.finditer(r"\brate\s*\(", query.expr):
        for name, _ in _SELECTOR.findall(inside(query.expr, found.start())):
            family = family_of(name)
            assert family.type in (COUNTER, HISTOGRAM), name
            assert family.name != "slurm_partition_pending_age_seconds", "it is a histogram of one moment"


# What it gets


class World(NamedTuple):
    demo: str
    prometheus: str

    def get(self, path: str, **parameters: str) -> Any:
        address = f"{self.prometheus}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def query(self, expr: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expr)["data"]["result"]
        return found

    def value(self, expr: str) -> float:
        found = self.query(expr)
        return float(found[0]["value"][1]) if found else math.nan


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        why = f"{program} is missing: install Debian's package prometheus"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return found


@contextlib.contextmanager
def running(command: list[str | Path], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=said, stderr=said, cwd=log.parent)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(15)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A demo and a Prometheus that scrapes it as docs/prometheus.yml says, only faster."""
    prometheus = need("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    demo, web = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = (ROOT / "docs" / "prometheus.yml").read_text()
    for old, new in (
        ("scrape_interval: 30s", "scrape_interval: 1s"),
        ("scrape_timeout: 30s", "scrape_timeout: 1s"),
        ("127.0.0.1:9092", demo),
    ):
        assert old in config
        config = config.replace(old, new)
    (folder / "prometheus.yml").write_text(config)
    command: list[str | Path] = [
        prometheus,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={web}",
        "--log.level=warn",
    ]
    demo_log, prometheus_log = folder / "demo.log", folder / "prometheus.log"
    with (
        running([SLURMSCOPE, "demo", "--listen", demo], demo_log, POLL_LIMIT="2") as first,
        running(command, prometheus_log) as second,
    ):
        found = World(f"http://{demo}", f"http://{web}")
        for _ in range(120):
            with contextlib.suppress(OSError):
                if found.value('count_over_time(slurm_up{cluster="demo"}[1m])') >= 6:
                    break
            assert first.poll() is None, demo_log.read_text()
            assert second.poll() is None, prometheus_log.read_text()
            time.sleep(0.25)
        else:
            pytest.fail(f"nothing is scraped: {demo_log.read_text()}{prometheus_log.read_text()}")
        yield found


def filled(expr: str) -> str:
    """An expression with Grafana's variables in it filled in."""
    for name, value in (
        ("$__rate_interval", "15s"),
        ("$__range", "1m"),
        ("$__interval", "5s"),
        ("$cluster", "demo"),
        ("$partition", ".*"),
    ):
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


@pytest.mark.prometheus
@of_every_query
def test_prometheus_answers(world: World, query: Query) -> None:
    expr = filled(query.expr)
    now = time.time()
    instant = world.get("/api/v1/query", query=expr, time=str(now))
    over_time = world.get("/api/v1/query_range", query=expr, start=str(now - 10), end=str(now), step="5")
    for answer in (instant, over_time):
        assert answer["status"] == "success"
        assert not answer.get("warnings") and not answer.get("infos"), answer
    results = instant["data"]["result"]
    numbers = [float(one["value"][1]) for one in results]
    numbers += [float(value) for one in over_time["data"]["result"] for _, value in one["values"]]
    if query.panel not in MAY_BE_EMPTY:
        assert results, "nothing now"
        assert over_time["data"]["result"], "nothing over time"
        assert query.panel in MAY_BE_NAN or not all(map(math.isnan, numbers)), "no number among them"
    if results:
        seen = {label for one in results for label in one["metric"]}
        assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= seen, "the legend names a label that is gone"


@pytest.mark.prometheus
def test_tables_have_their_columns(world: World) -> None:
    """A table's queries are merged by the labels they share: a row for each, not one below the other."""
    for panel in (one for one in PANELS if one["type"] == "table"):
        answers = [world.query(filled(target["expr"])) for target in panel["targets"]]
        labels = [{label for one in answer for label in one["metric"]} for answer in answers]
        shared = set.intersection(*labels)
        assert shared, panel["title"]
        for label in set.union(*labels) - shared:
            assert sum(label in one for one in labels) == 1, f"{panel['title']}: rows differ in {label} and stay apart"
        for answer in answers:
            keys = [tuple(sorted((key, one["metric"].get(key, "")) for key in shared)) for one in answer]
            assert len(set(keys)) == len(keys), panel["title"]


@pytest.mark.prometheus
def test_variables_have_values(world: World) -> None:
    for variable, expected in (("cluster", {"demo"}), ("partition", {"cpu", "gpu"})):
        definition = next(one["definition"] for one in DASHBOARD["templating"]["list"] if one["name"] == variable)
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition).groups()  # type: ignore[union-attr]
        found = world.get(f"/api/v1/label/{label}/values", **{"match[]": filled(selector)})["data"]
        assert expected <= set(found)


@pytest.mark.prometheus
def test_the_first_row_says_what_the_page_says(world: World) -> None:
    with urllib.request.urlopen(f"{world.demo}/metrics/slurmscope") as answer:
        samples = [one for family in read_text(answer.read().decode()) for one in family.samples]

    def total(name: str, **labels: str) -> float:
        return math.fsum(
            one.value for one in samples if one.name == name and all(one.labels[key] == labels[key] for key in labels)
        )

    def shown(panel: str, ref: str = "A") -> float:
        return world.value(filled(next(one.expr for one in QUERIES if (one.panel, one.ref) == (panel, ref))))

    def about(value: float) -> Any:
        return pytest.approx(value, rel=0.05, abs=3)  # the demo's cluster goes on meanwhile

    assert shown("Slurm") == 1
    assert shown("Age of the data") < 30
    assert shown("Nodes") == about(total("slurm_cluster_nodes_usable"))
    assert shown("Nodes", "B") == total("slurm_cluster_nodes") == 200
    for panel, name in (("CPUs allocated", "slurm_cluster_cpus"), ("GPUs allocated", "slurm_cluster_gpus")):
        assert shown(panel) == pytest.approx(total(name, use="allocated") / total(name), abs=0.03)
    assert shown("Running") == about(total("slurm_queue_jobs", state="running"))
    assert shown("Pending") == about(total("slurm_queue_jobs", state="pending"))
    oldest = max(one.value for one in samples if one.name == "slurm_partition_pending_oldest_seconds")
    assert shown("Longest wait") == pytest.approx(oldest, rel=0.2, abs=30)


@pytest.mark.prometheus
def test_prometheus_takes_every_sample(world: World) -> None:
    for _ in range(20):  # a busy machine may miss a scrape
        if world.value("up") == 1:
            break
        time.sleep(0.5)
    assert world.value("up") == 1
    assert world.value("scrape_samples_scraped") > 1000
    with urllib.request.urlopen(f"{world.prometheus}/metrics") as answer:
        own = {one.name: one.value for family in read_text(answer.read().decode()) for one in family.samples}
    for why in ("duplicate_timestamp", "out_of_order", "out_of_bounds"):
        assert own[f"prometheus_target_scrapes_sample_{why}_total"] == 0


@pytest.mark.prometheus
def test_promtool_finds_nothing(world: World) -> None:
    promtool = need("promtool")
    config = subprocess.run(
        [promtool, "check", "config", ROOT / "docs" / "prometheus.yml"], capture_output=True, check=False
    )
    assert config.returncode == 0, config.stderr.decode()
    with urllib.request.urlopen(f"{world.demo}/metrics/slurmscope") as answer:
        page = answer.read()
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b""), checked.stderr.decode()
