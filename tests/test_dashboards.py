# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboards: that they are new, that they ask for what there is, and what a real Prometheus answers."""

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
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text
from store.made import job

from slurmscope.measure import Gpu, GpuProcess, GpuUse, Measure, Pressure, Program, Report
from slurmscope.metrics import agent, catalogue, jobs, traces
from slurmscope.metrics.exposition import COUNTER, HISTOGRAM, TEXT, Topic, join, render
from slurmscope.trace.traces import Use

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tools.dashboard.build import DASHBOARDS, build, page  # noqa: E402 - the tools are not installed

SLURMSCOPE = Path(sys.executable).parent / "slurmscope"
BOARDS = {one.uid: build(one) for one in DASHBOARDS}
PANELS: list[tuple[str, dict[str, Any]]] = [
    (uid, panel) for uid, board in BOARDS.items() for panel in board["panels"] if panel["type"] != "row"
]
TOPICS: tuple[Topic[Any], ...] = (*catalogue.OWN, *jobs.TOPICS, agent.TOPIC)
FAMILIES = {family.name: family for topic in TOPICS for family in topic.families}
CORE = {"stat", "timeseries", "bargauge", "table", "heatmap", "state-timeline"}  # panels that every Grafana has


class Query(NamedTuple):
    board: str
    panel: str
    ref: str
    expr: str
    legend: str
    rows: bool


QUERIES = [
    Query(uid, panel["title"], target["refId"], target["expr"], target["legendFormat"], target["format"] == "table")
    for uid, panel in PANELS
    for target in panel["targets"]
] + [
    Query(uid, one["name"], "annotation", one["expr"], "", False)
    for uid, board in BOARDS.items()
    for one in board["annotations"]["list"]
    if "expr" in one
]
of_every_query = pytest.mark.parametrize(
    "query", QUERIES, ids=[f"{one.board}: {one.panel} ({one.ref})" for one in QUERIES]
)
of_every_board = pytest.mark.parametrize("uid", BOARDS)

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


# The files


def panels_of(uid: str) -> list[dict[str, Any]]:
    return [panel for of, panel in PANELS if of == uid]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=list(BOARDS))
def test_the_file_is_new(dashboard: Any) -> None:
    made = page(dashboard)
    file = f"dashboards/{dashboard.uid}.json"
    assert (ROOT / file).read_text() == made, f"{file} is old: run `make docs`"
    assert json.loads(made) == BOARDS[dashboard.uid]


@pytest.mark.parametrize(
    ("uid", "wanted"), [("slurmscope", ["partition"]), ("slurmscope-jobs", ["user", "jobid", "node"])]
)
def test_it_can_be_imported(uid: str, wanted: list[str]) -> None:
    board = BOARDS[uid]
    assert board["uid"] == uid and board["id"] is None
    assert [one["name"] for one in board["__inputs"]] == ["DS_PROMETHEUS"]
    assert {one["id"] for one in board["__requires"] if one["type"] == "panel"} == {
        one["type"] for one in panels_of(uid)
    }
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", *wanted]
    assert variables["datasource"]["current"]["value"] == "${DS_PROMETHEUS}"
    assert not variables["cluster"]["multi"]
    assert all(variables[name]["multi"] and variables[name]["includeAll"] for name in wanted)


@of_every_board
def test_every_panel_is_whole(uid: str) -> None:
    everything = BOARDS[uid]["panels"]
    panels = panels_of(uid)
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
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


@of_every_board
def test_no_two_panels_overlap(uid: str) -> None:
    def cells(panel: dict[str, Any]) -> tuple[range, range]:
        grid = panel["gridPos"]
        return range(grid["x"], grid["x"] + grid["w"]), range(grid["y"], grid["y"] + grid["h"])

    def meet(one: range, other: range) -> bool:
        return max(one.start, other.start) < min(one.stop, other.stop)

    everything = BOARDS[uid]["panels"]
    for panel in everything:
        assert cells(panel)[0].stop <= 24 and panel["gridPos"]["w"] > 0 and panel["gridPos"]["h"] > 0, panel["title"]
    for one, other in combinations(everything, 2):
        (across, down), (other_across, other_down) = cells(one), cells(other)
        assert not (meet(across, other_across) and meet(down, other_down)), f"{one['title']} and {other['title']}"


def test_columns_of_tables_are_shown_once() -> None:
    for _, panel in PANELS:
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
    *("sum", "max", "min", "avg", "count", "topk", "bottomk", "rate", "sum_over_time", "histogram_quantile"),
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
    page: str  # what is scraped
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


@contextlib.contextmanager
def scraping(folder: Path, target: str, agents: list[str], wanted: str) -> Iterator[World]:
    """A Prometheus that scrapes as docs/prometheus.yml says, only faster, and has some samples of what is wanted."""
    web = f"127.0.0.1:{free_port()}"
    config = (ROOT / "docs" / "prometheus.yml").read_text()
    for old, new in (
        ("scrape_interval: 30s", "scrape_interval: 1s"),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("scrape_timeout: 30s", "scrape_timeout: 1s"),
        ("127.0.0.1:9092", target),
        ("/etc/prometheus/slurm-nodes.json", f"{folder}/nodes.json"),
    ):
        assert old in config
        config = config.replace(old, new)
    (folder / "prometheus.yml").write_text(config)
    (folder / "nodes.json").write_text(json.dumps([{"targets": [one], "labels": {"node": "told"}} for one in agents]))
    command: list[str | Path] = [
        need("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={web}",
        "--log.level=warn",
    ]
    log = folder / "prometheus.log"
    with running(command, log) as process:
        found = World(f"http://{target}/metrics/slurmscope", f"http://{web}")
        for _ in range(120):
            with contextlib.suppress(OSError):
                if found.value(f"min(count_over_time({wanted}[1m]))") >= 6:
                    break
            assert process.poll() is None, log.read_text()
            time.sleep(0.25)
        else:
            pytest.fail(f"nothing is scraped: {log.read_text()}")
        yield found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A demo, scraped."""
    need("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    demo, log = f"127.0.0.1:{free_port()}", folder / "demo.log"
    with running([SLURMSCOPE, "demo", "--listen", demo], log, POLL_LIMIT="2") as process:
        for _ in range(960):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{demo}/readyz"):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.25)
        else:
            pytest.fail(f"the demo does not begin: {log.read_text()}")
        with scraping(folder, demo, [], 'slurm_up{cluster="demo"}') as found:
            yield found


# --- jobs of which it is known what they use ---

MIB, GIB = 1 << 20, 1 << 30
BEGAN = time.time() - 3600


def measure(number: int, user: str, cpus: int, **more: Any) -> Measure:
    """A job that has run for an hour, and now does more, now less."""
    since = time.time() - BEGAN
    wave = 0.5 + 0.4 * math.sin(since / 10)
    told: dict[str, Any] = {
        "job": number,
        "user": user,
        "account": "physics",
        "cpus": cpus,
        "cores": cpus * wave,
        "cpu_seconds": cpus * since / 2,
        "user_seconds": cpus * since / 3,
        "system_seconds": cpus * since / 6,
        "throttled_seconds": since / 100,
        "anonymous": int(600 * MIB * (1 + wave)),
        "shared": 40 * MIB,
        "file": int(300 * MIB * wave),
        "peak": 1500 * MIB,
        "limit": 2 * GIB,
        "oom_kills": 0,
        "cpu_pressure": Pressure(since / 10, since / 20),
        "memory_pressure": Pressure(since / 50, since / 100),
        "io_pressure": Pressure(since / 25, since / 50),
        "processes": 3,
        "threads": 9,
        "open_files": 12,
        "descriptors": 20,
        "read_bytes": int(2 * MIB * since),
        "written_bytes": int(MIB * since),
        "reads": int(50 * since),
        "writes": int(20 * since),
        "device_read_bytes": int(MIB * since),
        "device_written_bytes": int(MIB * since / 2),
        "programs": (Program("solver", 2, 8, 4, 500 * MIB, since / 2), Program("bash", 1, 1, 1, 4 * MIB, 0.1)),
    }
    return Measure(**told | more)


def gpu(index: int, **more: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}", "index": index, "model": "H200", "memory_total": 141 * GIB, "power": 90.0} | more


def reports() -> list[Report]:
    """Job 11 is on both nodes; 12 holds two of three GPUs and uses one; 13 has lost a process."""
    now = time.time()
    wave = 0.5 + 0.4 * math.sin((now - BEGAN) / 10)
    used = gpu(0, utilization=wave, memory_used=int(80 * GIB * wave), power=300 + 300 * wave)
    idle = gpu(1, utilization=0.0, memory_used=0)
    everything = (
        Gpu(**used, processes=(GpuProcess(100),), throttled=("power_cap",), ecc_uncorrected=1, xid_errors=2),
        Gpu(**idle, processes=(), throttled=("gpu_idle",), ecc_uncorrected=0, xid_errors=0),
        Gpu(**gpu(2, utilization=0.0, memory_used=0), processes=(), ecc_uncorrected=0, xid_errors=0),
    )
    held = (GpuUse(**used, processes=1), GpuUse(**idle, processes=0))
    sent = {"received_bytes": int(1000 * (now - BEGAN)), "sent_bytes": int(500 * (now - BEGAN))}
    jobs_of = {
        "g1": (measure(11, "alice", 4, gpus=()), measure(12, "bob", 2, gpus=held)),
        "n1": (measure(11, "alice", 4), measure(13, "carol", 1, oom_kills=1, **sent)),
    }
    return [
        Report(cluster="made", node=node, time=now, seconds=0.01, jobs=some, gpus=everything if node == "g1" else ())
        for node, some in jobs_of.items()
    ]


class Traced:
    """Job 11 tells of itself, from one of its hosts: as much of a View as families of traces look at."""

    def __init__(self) -> None:
        wave = 0.5 + 0.4 * math.sin((time.time() - BEGAN) / 10)
        of = job(id=11, user="alice", cpus=8, memory=4 * GIB)
        self.traced = [Use(of, "n1", "alice", 4711, cpus=400 * wave, threads=5, mem=GIB * wave)]

    def known(self, part: str) -> bool:
        return True


def agent_view(one: Report) -> agent.AgentView:
    looks = int(time.time() - BEGAN)
    return agent.AgentView(
        node=one.node,
        cgroup="v2",
        jobs=len(one.jobs),
        looks=looks,
        seconds=looks / 100,
        last_seconds=one.seconds,
        time=one.time,
        missed={"permission": looks // 2, "gone": looks // 3},
        leftovers=3 if one.node == "n1" else 0,
        drivers={"nvidia": True} if one.node == "g1" else {},
        sinks=(),
    )


def jobs_page() -> bytes:
    found = reports()
    told: Topic[Any] = traces.TOPIC
    pieces = [render(one, jobs.JobsView(found), "made", openmetrics=False).plain for one in (jobs.JOBS, jobs.GPUS)]
    pieces += [render(told, Traced(), "made", openmetrics=False).plain]
    pieces += [join(render(agent.TOPIC, agent_view(one), "made", openmetrics=False) for one in found)]
    return b"".join(pieces)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = jobs_page()
        self.send_response(200)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Made jobs, which Prometheus hears of twice, as it does of agents that are scraped and report to serve as well."""
    need("prometheus")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        folder = tmp_path_factory.mktemp("jobs")
        with scraping(folder, address, [address], 'slurm_agent_looks_total{cluster="made"}') as found:
            for _ in range(40):
                if found.value("count(up == 1)") == 2:
                    break
                time.sleep(0.25)
            else:
                pytest.fail("one of the two is not scraped")
            yield found
        server.shutdown()


WORLDS = {"slurmscope": "world", "slurmscope-jobs": "busy"}
OfBoard = Callable[[str], World]


@pytest.fixture
def of_board(request: pytest.FixtureRequest) -> OfBoard:
    """The world that a dashboard is shown."""

    def found(uid: str) -> World:
        one: World = request.getfixturevalue(WORLDS[uid])
        return one

    return found


def filled(expr: str, uid: str, **chosen: str) -> str:
    """An expression with Grafana's variables in it filled in: all are chosen, unless it is said which."""
    for name, value in (
        ("__rate_interval", "15s"),
        ("__range", "1m"),
        ("__interval", "5s"),
        ("cluster", {"slurmscope": "demo", "slurmscope-jobs": "made"}[uid]),
        *chosen.items(),
        *((one, ".*") for one in ("partition", "user", "jobid", "node")),
    ):
        expr = re.sub(rf"\${name}\b", value, expr)
    assert "$" not in expr
    return expr


@pytest.mark.prometheus
@of_every_query
def test_prometheus_answers(of_board: OfBoard, query: Query) -> None:
    world = of_board(query.board)
    expr = filled(query.expr, query.board)
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
@of_every_board
def test_tables_have_their_columns(of_board: OfBoard, uid: str) -> None:
    """A table's queries are merged by the labels they share: a row for each, not one below the other."""
    world = of_board(uid)
    for panel in (one for one in panels_of(uid) if one["type"] == "table"):
        answers = [world.query(filled(target["expr"], uid)) for target in panel["targets"]]
        labels = [{label for one in answer for label in one["metric"]} for answer in answers]
        shared = set.intersection(*labels)
        assert shared, panel["title"]
        for label in set.union(*labels) - shared:
            assert sum(label in one for one in labels) == 1, f"{panel['title']}: rows differ in {label} and stay apart"
        for answer in answers:
            keys = [tuple(sorted((key, one["metric"].get(key, "")) for key in shared)) for one in answer]
            assert len(set(keys)) == len(keys), panel["title"]


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("uid", "variable", "chosen", "expected"),
    [
        ("slurmscope", "cluster", {}, {"demo"}),
        ("slurmscope", "partition", {}, {"cpu", "gpu"}),
        ("slurmscope-jobs", "cluster", {}, {"made"}),
        ("slurmscope-jobs", "user", {}, {"alice", "bob", "carol"}),
        ("slurmscope-jobs", "jobid", {}, {"11", "12", "13"}),
        ("slurmscope-jobs", "jobid", {"user": "bob"}, {"12"}),
        ("slurmscope-jobs", "node", {}, {"g1", "n1"}),
        ("slurmscope-jobs", "node", {"jobid": "13"}, {"n1"}),
    ],
)
def test_variables_have_values(
    of_board: OfBoard, uid: str, variable: str, chosen: dict[str, str], expected: set[str]
) -> None:
    definition = next(one["definition"] for one in BOARDS[uid]["templating"]["list"] if one["name"] == variable)
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition).groups()  # type: ignore[union-attr]
    found = of_board(uid).get(f"/api/v1/label/{label}/values", **{"match[]": filled(selector, uid, **chosen)})["data"]
    assert expected == set(found) if uid == "slurmscope-jobs" else expected <= set(found)


def asked(uid: str, panel: str, ref: str = "A", **chosen: str) -> str:
    expr = next(one.expr for one in QUERIES if (one.board, one.panel, one.ref) == (uid, panel, ref))
    return f"({filled(expr, uid, **chosen)})"


def shown(world: World, uid: str, panel: str, ref: str = "A", **chosen: str) -> list[dict[str, Any]]:
    return world.query(asked(uid, panel, ref, **chosen))


@pytest.mark.prometheus
def test_the_first_row_says_what_the_page_says(world: World) -> None:
    with urllib.request.urlopen(world.page) as answer:
        samples = [one for family in read_text(answer.read().decode()) for one in family.samples]

    def total(name: str, **labels: str) -> float:
        return math.fsum(
            one.value for one in samples if one.name == name and all(one.labels[key] == labels[key] for key in labels)
        )

    def value(panel: str, ref: str = "A") -> float:
        return float(shown(world, "slurmscope", panel, ref)[0]["value"][1])

    def about(value: float) -> Any:
        return pytest.approx(value, rel=0.05, abs=3)  # the demo's cluster goes on meanwhile

    assert value("Slurm") == 1
    assert value("Age of the data") < 30
    assert value("Nodes") == about(total("slurm_cluster_nodes_usable"))
    assert value("Nodes", "B") == total("slurm_cluster_nodes") == 200
    for panel, name in (("CPUs allocated", "slurm_cluster_cpus"), ("GPUs allocated", "slurm_cluster_gpus")):
        assert value(panel) == pytest.approx(total(name, use="allocated") / total(name), abs=0.03)
    assert value("Running") == about(total("slurm_queue_jobs", state="running"))
    assert value("Pending") == about(total("slurm_queue_jobs", state="pending"))
    oldest = max(one.value for one in samples if one.name == "slurm_partition_pending_oldest_seconds")
    assert value("Longest wait") == pytest.approx(oldest, rel=0.2, abs=30)


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("panel", "ref", "chosen", "expected"),
    [
        ("Jobs", "A", {}, 3),
        ("Jobs", "A", {"user": "bob"}, 1),
        ("Jobs", "A", {"node": "g1"}, 2),
        ("Killed for memory", "A", {}, 1),
        ("GPUs held", "A", {}, 2),
        ("GPUs held idle", "A", {}, 1),
        ("Agents", "A", {}, 2),
        ("Cores in use and allocated", "B", {}, 11),
        ("Cores in use and allocated", "B", {"jobid": "11"}, 8),
        ("Cores in use and allocated", "B", {"jobid": "11|12", "node": "g1"}, 6),
        ("Memory and its limit", "D", {}, 8 * GIB),
        ("GPUs by what is done with them", "A", {}, 1),
        ("GPUs by what is done with them", "B", {}, 1),
        ("GPUs by what is done with them", "C", {}, 1),
        ("Processes and threads", "B", {}, 36),
        ("Traced cores and allocation", "B", {"user": "alice"}, 8),
        ("Traced memory and allocation", "B", {}, 4 * GIB),
        ("Agents that answer", "B", {}, 2),
    ],
)
def test_what_is_told_twice_is_counted_once(
    busy: World, panel: str, ref: str, chosen: dict[str, str], expected: float
) -> None:
    (one,) = shown(busy, "slurmscope-jobs", panel, ref, **chosen)
    assert float(one["value"][1]) == expected


@pytest.mark.prometheus
def test_rates_of_jobs_are_their_own(busy: World) -> None:
    """As parts of each other, for Prometheus has not seen enough yet to tell a rate well."""
    of = "slurmscope-jobs", "Bytes per second"
    assert busy.value(f"{asked(*of, 'B')} / {asked(*of)}") == pytest.approx(0.5, rel=0.01)
    assert busy.value(f"{asked(*of)} / {asked(*of, jobid='12')}") == pytest.approx(4, rel=0.01)
    waits = {
        one["metric"]["resource"]: float(one["value"][1])
        for one in shown(busy, "slurmscope-jobs", "Waiting for resources")
    }
    parts = {resource: value / waits["cpu"] for resource, value in waits.items()}
    assert parts == pytest.approx({"cpu": 1, "io": 0.4, "memory": 0.2}, rel=0.01)


@pytest.mark.prometheus
def test_who_holds_a_gpu_and_does_not_use_it(busy: World) -> None:
    (one,) = shown(busy, "slurmscope-jobs", "Who holds GPUs idle")
    assert {key: one["metric"][key] for key in ("jobid", "user", "node", "gpu")} == {
        "jobid": "12",
        "user": "bob",
        "node": "g1",
        "gpu": "1",
    }
    assert shown(busy, "slurmscope-jobs", "Who holds GPUs idle", user="alice") == []


@pytest.mark.prometheus
def test_nothing_is_shown_of_the_traces_of_others(busy: World) -> None:
    for panel in ("Traced cores and allocation", "Traced memory and allocation"):
        for ref in "AB":
            assert shown(busy, "slurmscope-jobs", panel, ref, user="bob") == []


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
    with urllib.request.urlopen(world.page) as answer:
        page = answer.read()
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b""), checked.stderr.decode()
