# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboards/slurmscope.json, the Grafana dashboard over `/metrics`: `make docs`. A test fails when it is old.

Queries are written with bare selectors, `slurm_up{}`; `ask` puts the cluster into every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "dashboards" / "slurmscope.json"
Json = dict[str, Any]
Row = tuple[str, list[Json]]

_GRAFANA = "10.0.0"  # the oldest that it is meant for
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# How often docs/prometheus.yml scrapes. As the least step of a query it makes Grafana's $__rate_interval four times
# as long, so that a rate never looks at fewer than two samples, whatever the data source's own setting is.
_SCRAPE = "30s"
_SLOW = "1m"  # poll.slow_interval: what is read less often needs a longer look
_SELDOM = "5m"  # jobs do not start every minute in every partition
_PART = 'partition=~"$partition"'
_FAST_PARTS = 'part=~"jobs|nodes|scheduler|controllers"'
# A job cannot start on a node in another state, or with one of these flags: the rule of `Node.usable`.
USABLE = (
    'state=~"idle|mixed|allocated",flags!~"(.*[+])?(blocked|drain|fail|invalid_reg|maint|not_responding|powered_down'
    '|powering_down|power_down|reboot_issued)([+].*)?"'
)
_LAST = "lastNotNull"

BLUE, GREEN, YELLOW, ORANGE, RED, PURPLE, GREY = "blue", "green", "yellow", "orange", "red", "purple", "#8e8e8e"
# The same thing has the same colour everywhere.
_COLOURS = {
    "allocated": BLUE,
    "idle": GREEN,
    "other": GREY,
    "stranded": ORANGE,
    "unavailable": RED,
    "running": BLUE,
    "pending": YELLOW,
    "suspended": PURPLE,
}


# Queries


def ask(expr: str, legend: str = "", *, step: str = _SCRAPE) -> Json:
    """A query over the time shown."""
    return {**_query(expr, legend), "format": "time_series", "instant": False, "interval": step, "range": True}


def ask_now(expr: str, legend: str = "") -> Json:
    """A query of this moment. Where nothing is scraped any more it shows nothing; the last value of a range would go on
    looking well."""
    return {**_query(expr, legend), "format": "time_series", "instant": True, "range": False}


def ask_rows(expr: str) -> Json:
    """A query of this moment for a table: a row for each series, a column for each label."""
    return {**_query(expr, ""), "format": "table", "instant": True, "range": False}


def _query(expr: str, legend: str) -> Json:
    return {
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": expr.replace("{", '{cluster="$cluster",').replace(",}", "}"),
        "legendFormat": legend,
    }


def share(part: str, whole: str, by: str = "") -> str:
    """One sum as a part of another."""
    of = f"sum by ({by}) " if by else "sum"
    return f"{of}({part}) / {of}({whole})"


def most_asked(metric: str, by: str) -> str:
    """The rate of the ten that asked most in the time shown. `topk` alone would choose anew at every step and draw
    many more than ten lines."""
    return (
        f"sum by ({by}) (rate({metric}{{}}[$__rate_interval])) "
        f"and topk(10, sum by ({by}) (rate({metric}{{}}[$__range] @ end())))"
    )


def most_held(metric: str, by: str) -> str:
    """What the ten held that held most in the time shown, counted as the area under their lines: somebody who had
    much for a minute is behind somebody who had some all day."""
    chosen = f'{metric}{{state="running",{by}!="other"}}'
    return f"sum by ({by}) ({chosen}) and topk(10, sum by ({by}) (sum_over_time({chosen}[$__range] @ end())) > 0)"


# Panels


def _panel(kind: str, title: str, description: str, targets: Sequence[Json], size: tuple[int, int]) -> Json:
    named = [{**target, "refId": chr(ord("A") + at)} for at, target in enumerate(targets)]
    width, height = size
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": _SOURCE,
        "pluginVersion": _GRAFANA,  # or Grafana takes the panel for one of version 6 and migrates it
        "gridPos": {"h": height, "w": width, "x": 0, "y": 0},  # `_placed` says where
        "targets": named,
    }


def _thresholds(*steps: tuple[float | None, str]) -> Json:
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


def _mappings(**texts: tuple[str, str]) -> list[Json]:
    """Texts and colours in place of numbers; keys are `is_1`, `is_0` and `is_none` for -1."""
    values = {"is_1": "1", "is_0": "0", "is_none": "-1"}
    options = {
        values[key]: {"color": colour, "index": at, "text": text}
        for at, (key, (text, colour)) in enumerate(texts.items())
    }
    return [{"type": "value", "options": options}]


def _override(matcher: str, wanted: str, **properties: Any) -> Json:
    return {
        "matcher": {"id": matcher, "options": wanted},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def _coloured(targets: Sequence[Json]) -> list[Json]:
    """The colours of what the legends may say."""
    legends = [target["legendFormat"] for target in targets]
    names: list[str] = []
    if "{{use}}" in legends:
        names += ("allocated", "idle", "other", "stranded", "unavailable")
    if "{{state}}" in legends:
        names += ("running", "pending", "suspended")
    names += (legend for legend in legends if legend in _COLOURS)
    return [
        _override("byName", name, color={"fixedColor": _COLOURS[name], "mode": "fixed"})
        for name in dict.fromkeys(names)
    ]


def stat(
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    unit: str = "short",
    steps: Sequence[tuple[float | None, str]] = ((None, BLUE),),
    mappings: Sequence[Json] = (),
    empty: str = "no data",
    decimals: int | None = None,
    text: str = "auto",
    size: tuple[int, int] = (3, 4),
) -> Json:
    """A number of this moment."""
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "mappings": list(mappings),
        "noValue": empty,
        "thresholds": _thresholds(*steps),
        "unit": unit,
    }
    if decimals is not None:
        defaults["decimals"] = decimals
    return {
        **_panel("stat", title, description, targets, size),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "center",
            "orientation": "auto",
            "reduceOptions": {"calcs": [_LAST], "fields": "", "values": False},
            "textMode": text,
            "wideLayout": True,
        },
    }


def series(
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    unit: str = "short",
    stacked: bool = False,
    ceiling: float | None = None,
    beside: bool = False,
    calcs: Sequence[str] = (_LAST, "max"),
    size: tuple[int, int] = (12, 8),
    overrides: Sequence[Json] = (),
) -> Json:
    """Lines over time, or areas on top of each other."""
    defaults: Json = {
        "color": {"mode": "palette-classic"},
        "custom": {
            "axisBorderShow": False,
            "axisPlacement": "auto",
            "drawStyle": "line",
            "fillOpacity": 55 if stacked else 8,
            "gradientMode": "none",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "pointSize": 4,
            "scaleDistribution": {"type": "linear"},
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if stacked else "none"},
            "thresholdsStyle": {"mode": "off"},
        },
        "mappings": [],
        "min": 0,
        "thresholds": _thresholds((None, GREEN)),
        "unit": unit,
    }
    if ceiling is not None:
        defaults["max"] = ceiling
    return {
        **_panel("timeseries", title, description, targets, size),
        "fieldConfig": {"defaults": defaults, "overrides": [*_coloured(targets), *overrides]},
        "options": {
            "legend": {
                "calcs": list(calcs) if beside else [],
                "displayMode": "table" if beside else "list",
                "placement": "right" if beside else "bottom",
                "showLegend": True,
                **({"sortBy": "Last *", "sortDesc": True} if beside else {}),
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def bars(
    title: str,
    description: str,
    targets: Sequence[Json],
    *,
    unit: str = "short",
    steps: Sequence[tuple[float | None, str]] = ((None, BLUE),),
    ceiling: float | None = None,
    empty: str = "none",
    size: tuple[int, int] = (12, 8),
) -> Json:
    """A bar for each series, of this moment."""
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "mappings": [],
        "min": 0,
        "noValue": empty,
        "thresholds": _thresholds(*steps),
        "unit": unit,
    }
    if ceiling is not None:
        defaults["max"] = ceiling
    return {
        **_panel("bargauge", title, description, targets, size),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "displayMode": "basic",
            "maxVizHeight": 28,
            "minVizHeight": 12,
            "minVizWidth": 8,
            "namePlacement": "left",
            "orientation": "horizontal",
            "reduceOptions": {"calcs": [_LAST], "fields": "", "values": False},
            "showUnfilled": True,
            "sizing": "auto",
            "valueMode": "text",
        },
    }


def table(
    title: str,
    description: str,
    columns: Sequence[tuple[str, str]],
    *,
    labels: Sequence[str],
    hidden: Sequence[str] = (),
    units: dict[str, str] | None = None,
    gauges: dict[str, Json] | None = None,
    widths: dict[str, int] | None = None,
    texts: dict[str, list[Json]] | None = None,
    sort: tuple[str, bool],
    size: tuple[int, int] = (24, 8),
) -> Json:
    """Rows of this moment. `columns` are the queries with the names of their values, `labels` the columns before them;
    queries named in `hidden` are there for their labels alone."""
    names = {f"Value #{chr(ord('A') + at)}": name for at, (name, _) in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": columns[0][0]}  # Grafana numbers values only where there are several
    shown = [*labels, *(key for key, name in names.items() if name not in hidden)]
    overrides = []
    for name, unit in (units or {}).items():
        overrides.append(_override("byName", name, unit=unit))
    for name, thresholds in (gauges or {}).items():
        cell = {"mode": "basic", "type": "gauge", "valueDisplayMode": "text"}
        overrides.append(_override("byName", name, custom__cellOptions=cell, min=0, max=1, thresholds=thresholds))
    for name, mappings in (texts or {}).items():
        overrides.append(_override("byName", name, mappings=mappings, custom__cellOptions={"type": "color-text"}))
    for name, width in (widths or {}).items():
        overrides.append(_override("byName", name, custom__width=width))
    defaults: Json = {
        "color": {"mode": "thresholds"},
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False},
        "mappings": [],
        "thresholds": _thresholds((None, BLUE)),
    }
    return {
        **_panel("table", title, description, [ask_rows(expr) for _, expr in columns], size),
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        "options": {
            "cellHeight": "sm",
            "footer": {"countRows": False, "fields": "", "reducer": ["sum"], "show": False},
            "showHeader": True,
            "sortBy": [{"desc": sort[1], "displayName": sort[0]}],
        },
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, **{key: True for key, name in names.items() if name in hidden}},
                    "indexByName": {name: at for at, name in enumerate(shown)},
                    "renameByName": {key: name for key, name in names.items() if name not in hidden},
                },
            },
        ],
    }


def heatmap(title: str, description: str, expr: str, *, step: str = _SCRAPE, size: tuple[int, int] = (12, 8)) -> Json:
    """The buckets of a histogram over time."""
    return {
        **_panel("heatmap", title, description, [{**ask(expr, "{{le}}", step=step), "format": "heatmap"}], size),
        "fieldConfig": {
            "defaults": {
                "custom": {
                    "hideFrom": {"legend": False, "tooltip": False, "viz": False},
                    "scaleDistribution": {"type": "linear"},
                }
            },
            "overrides": [],
        },
        "options": {
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": "short"},
            "color": {
                "exponent": 0.5,
                "fill": "dark-orange",
                "mode": "scheme",
                "reverse": False,
                "scale": "exponential",
                "scheme": "Oranges",
                "steps": 64,
            },
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-09},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": "s"},
        },
    }


def timeline(
    title: str, description: str, targets: Sequence[Json], mappings: list[Json], size: tuple[int, int] = (12, 8)
) -> Json:
    """A band for each series, coloured by its state."""
    return {
        **_panel("state-timeline", title, description, targets, size),
        "fieldConfig": {
            "defaults": {
                "color": {"mode": "thresholds"},
                "custom": {"fillOpacity": 70, "lineWidth": 0, "spanNulls": False},
                "mappings": mappings,
                "thresholds": _thresholds((None, RED), (1, GREEN)),
            },
            "overrides": [],
        },
        "options": {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "mergeValues": True,
            "rowHeight": 0.8,
            "showValue": "never",
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }


# Rows


def now() -> Row:
    return "Now", [
        stat(
            "Slurm",
            "Whether slurmctld answered all that it was asked in the last poll. When it does not, everything below is "
            "what was last known: see how old it is, and 'Which part' under 'slurmscope itself'. 'Not scraped' means "
            "that Prometheus gets nothing from slurmscope at all: look at its service and at the target in Prometheus.",
            [ask_now("max(slurm_up{}) or vector(-1)")],
            mappings=_mappings(is_1=("answers", GREEN), is_0=("silent", RED), is_none=("not scraped", RED)),
            steps=((None, RED), (1, GREEN)),
        ),
        stat(
            "Age of the data",
            "How old the oldest of jobs, nodes, scheduler and controllers is. Up to 10 s is normal (poll.interval); it "
            "grows when slurmctld is slow, for then slurmscope rests longer between polls, or when it is down.",
            [ask_now(f"max(slurm_part_age_seconds{{{_FAST_PARTS}}})")],
            unit="s",
            decimals=0,
            steps=((None, GREEN), (60, YELLOW), (300, RED)),
        ),
        stat(
            "Nodes",
            "Nodes on which a job could start if there were room, and all nodes. The rest is down, drained, failing, "
            "in maintenance, not responding, powered down or rebooting: the table in the next row says why.",
            [
                ask_now(f"sum(slurm_cluster_nodes{{{USABLE}}})", "usable"),
                ask_now('sum(slurm_cluster_nodes{state!="future"})', "all"),
            ],
        ),
        stat(
            "CPUs allocated",
            "Allocated CPUs as a part of all CPUs, those of nodes that are not usable included. Low with a long queue: "
            "look at why jobs wait, and at what could start now (Room).",
            [ask_now(share('slurm_cluster_cpus{use="allocated"}', "slurm_cluster_cpus{}"))],
            unit="percentunit",
            decimals=1,
        ),
        stat(
            "GPUs allocated",
            "Allocated GPUs as a part of all GPUs, those of nodes that are not usable included.",
            [ask_now(share('slurm_cluster_gpus{use="allocated"}', "slurm_cluster_gpus{}"))],
            unit="percentunit",
            decimals=1,
            empty="no GPUs",
        ),
        stat(
            "Running",
            "Jobs that run; each task of an array is one.",
            [ask_now('sum(slurm_queue_jobs{state="running"})')],
        ),
        stat(
            "Pending",
            "Jobs that wait, held and dependent ones included; each task of an array is one, as slurmctld counts.",
            [ask_now('sum(slurm_queue_jobs{state="pending"})')],
            steps=((None, YELLOW),),
        ),
        stat(
            "Longest wait",
            "How long ago the job became eligible that waits longest. Held, dependent and later ones do not count. If "
            "it grows by a day every day, nothing can ever start that job: look at what it asks for.",
            [ask_now("max(slurm_partition_pending_oldest_seconds{})")],
            unit="s",
            decimals=1,
            steps=((None, GREEN), (86400, YELLOW), (604800, RED)),
        ),
    ]


def nodes() -> Row:
    load = "slurm_node_load{}"
    return "Nodes", [
        series(
            "Nodes by state and flags",
            "Every node once, by its base state and the flags that are set together. An idle node with the flag drain "
            "is idle for nobody; planned ones are kept free for a job that backfill has planned.",
            [ask("sum by (state, flags) (slurm_cluster_nodes{}) > 0", "{{state}} {{flags}}")],
            stacked=True,
            beside=True,
            size=(12, 9),
            overrides=[
                _override("byRegexp", pattern, color={"fixedColor": colour, "mode": "fixed"})
                for pattern, colour in (
                    ("/^allocated *$/", BLUE),
                    ("/^mixed *$/", "light-blue"),
                    ("/^idle *$/", GREEN),
                    ("/drain|fail/", ORANGE),
                    ("/^(down|error|unknown)|not_responding/", RED),
                )
            ],
        ),
        series(
            "Nodes by flag",
            "Nodes on which a flag is set; one with two flags is counted under both. A rise of not_responding is the "
            "network or slurmd, a rise of drain is mostly the health check: see the reasons below.",
            [ask("sum by (flag) (slurm_cluster_nodes_flagged{}) > 0", "{{flag}}")],
            beside=True,
            size=(12, 9),
        ),
        table(
            "Nodes with a reason",
            "Nodes that somebody or something has taken out of service, since when and why. With no CPUs in use the "
            "node can be repaired now; the others still run jobs. The oldest are on top: bring them back with "
            "`scontrol update nodename=… state=resume`, or take them out of slurm.conf.",
            [
                (
                    "why",
                    "max by (node, state, reason, user) "
                    "(slurm_node_reason_info{} * on (cluster, node) group_left (state) slurm_node_state{})",
                ),
                ("since", "1000 * max by (node) (slurm_node_reason_timestamp_seconds{})"),
                ("for", "time() - max by (node) (slurm_node_reason_timestamp_seconds{})"),
                (
                    "CPUs in use",
                    'max by (node) (slurm_node_cpus_by_use{use="allocated"} * on (cluster, node) group_left () '
                    "max by (cluster, node) (slurm_node_reason_info{}))",
                ),
            ],
            labels=("node", "state", "reason", "user"),
            hidden=("why",),
            units={"since": "dateTimeAsIso", "for": "s"},
            widths={"node": 160, "state": 110, "user": 140, "since": 190, "for": 120, "CPUs in use": 120},
            sort=("since", False),
            size=(24, 9),
        ),
        series(
            "Load and allocated CPUs",
            "The sum of the nodes' load averages beside the CPUs that are allocated. Load far below means that jobs "
            "hold CPUs they do not use; far above, that they start more threads than they asked CPUs for.",
            [
                ask("slurm_cluster_load{}", "load"),
                ask('sum(slurm_cluster_cpus{use="allocated"})', "allocated"),
                ask("sum(slurm_cluster_cpus{})", "all CPUs"),
            ],
            size=(8, 8),
        ),
        bars(
            "Most load per CPU",
            "The ten nodes with the most load for each of their CPUs. Above 1 more wants to run than can: jobs that "
            "are not bound to their CPUs, a file system that hangs (which counts as load), or something beside Slurm.",
            [
                ask_now(
                    f"topk(10, {load} / on (cluster, node) sum by (cluster, node) (slurm_node_cpus_by_use{{}}))",
                    "{{node}}",
                )
            ],
            steps=((None, BLUE), (1.1, YELLOW), (1.5, RED)),
            size=(8, 8),
        ),
        bars(
            "Least load per allocated CPU",
            "The ten nodes whose allocated CPUs do least. Near 0 their jobs hold CPUs and compute nothing: they hang, "
            "wait for a licence or for input, or use a GPU alone. Ask their owners.",
            [
                ask_now(
                    f'bottomk(10, {load} / on (cluster, node) (slurm_node_cpus_by_use{{use="allocated"}} > 0))',
                    "{{node}}",
                )
            ],
            steps=((None, RED), (0.25, YELLOW), (0.7, BLUE)),
            ceiling=1,
            size=(8, 8),
        ),
    ]


def cpus_and_memory() -> Row:
    allocated = 'use="allocated"'
    return "CPUs and memory", [
        series(
            "CPUs by use",
            "Allocated, idle and other CPUs of the whole cluster; they add up to all there are. Other: the node is not "
            "usable, or keeps them for the system.",
            [ask("sum by (use) (slurm_cluster_cpus{})", "{{use}}")],
            stacked=True,
            size=(8, 8),
        ),
        series(
            "CPUs allocated by partition",
            "Allocated CPUs of the nodes of the chosen partitions, as a part of all. Partitions share nodes, so that "
            "who allocated them may have come by another partition.",
            [
                ask(
                    share(
                        f"slurm_partition_cpus_by_use{{{_PART},{allocated}}}",
                        f"slurm_partition_cpus_by_use{{{_PART}}}",
                        "partition",
                    ),
                    "{{partition}}",
                )
            ],
            unit="percentunit",
            ceiling=1,
            size=(8, 8),
        ),
        series(
            "CPUs held and asked for",
            "CPUs that running jobs hold and that waiting ones ask for, beside all there are. The height of pending in "
            "whole clusters says how much work is in the queue.",
            [
                ask('sum by (state) (slurm_queue_cpus{state=~"running|pending"})', "{{state}}"),
                ask("sum(slurm_cluster_cpus{})", "all CPUs"),
            ],
            size=(8, 8),
        ),
        series(
            "Memory by use",
            "Memory that jobs were allocated, that a job could still get, and that nobody can: on nodes that are not "
            "usable, or kept for the system.",
            [ask("sum by (use) (slurm_cluster_memory_bytes{})", "{{use}}")],
            unit="bytes",
            stacked=True,
            size=(8, 8),
        ),
        series(
            "Memory allocated by partition",
            "Allocated memory of the nodes of the chosen partitions, as a part of all. Fuller than the CPUs: jobs ask "
            "for more memory than a CPU's share, and CPUs (and GPUs) stay free beside them.",
            [
                ask(
                    share(
                        f"slurm_partition_memory_by_use_bytes{{{_PART},{allocated}}}",
                        f"slurm_partition_memory_by_use_bytes{{{_PART}}}",
                        "partition",
                    ),
                    "{{partition}}",
                )
            ],
            unit="percentunit",
            ceiling=1,
            size=(8, 8),
        ),
        series(
            "Memory allocated and touched",
            "Memory that is allocated to jobs beside memory that the nodes' kernels do not call free, caches included. "
            "Touched far below allocated: people ask for memory they do not need, and others wait for it.",
            [
                ask(f"sum(slurm_cluster_memory_bytes{{{allocated}}})", "allocated"),
                ask(
                    "sum(sum by (cluster, node) (slurm_node_memory_by_use_bytes{}) "
                    "- on (cluster, node) slurm_node_memory_os_free_bytes{})",
                    "touched",
                ),
                ask("sum(slurm_cluster_memory_bytes{})", "all"),
            ],
            unit="bytes",
            size=(8, 8),
        ),
    ]


def gpus() -> Row:
    def by_use(use: str) -> str:
        return f'sum by (type) (slurm_cluster_gpus{{use="{use}"}})'

    # where nobody waits for a type there is no series of it, and nothing is drawn in place of 0
    asked_for = 'sum by (type) (slurm_queue_gpus{state="pending"}) or 0 * sum by (type) (slurm_cluster_gpus{})'

    return "GPUs", [
        series(
            "GPUs by use",
            "Allocated, idle, stranded and unavailable GPUs; they add up to all there are. Stranded ones are free on a "
            "usable node that has no free CPU or no free memory beside them: nobody can have them until a job there "
            "ends. Unavailable ones are free on a node that is not usable.",
            [ask("sum by (use) (slurm_cluster_gpus{})", "{{use}}")],
            stacked=True,
            size=(8, 8),
        ),
        series(
            "GPUs allocated by type",
            "Allocated GPUs of each type as a part of all of that type. An old type that is empty while a new one is "
            "full is an answer to who waits.",
            [ask(share('slurm_cluster_gpus{use="allocated"}', "slurm_cluster_gpus{}", "type"), "{{type}}")],
            unit="percentunit",
            ceiling=1,
            size=(8, 8),
        ),
        series(
            "GPUs that jobs wait for",
            "GPUs that waiting jobs ask for, by type; untyped where they take any.",
            [ask(asked_for, "{{type}}")],
            stacked=True,
            size=(8, 8),
        ),
        table(
            "GPUs by type",
            "All GPUs of each type by use, and those that waiting jobs ask for. Types of which more are idle than "
            "asked for could take more work; where some are asked for and idle, look at why those jobs wait.",
            [
                ("all", "sum by (type) (slurm_cluster_gpus{})"),
                ("allocated", by_use("allocated")),
                ("idle", by_use("idle")),
                ("stranded", by_use("stranded")),
                ("unavailable", by_use("unavailable")),
                ("asked for", asked_for),
            ],
            labels=("type",),
            sort=("all", True),
            size=(10, 8),
        ),
        series(
            "Stranded GPUs by type",
            "Free GPUs that no job can get, for want of a CPU or memory on the same node. If this is often above 0, "
            "keep CPUs for the GPUs: `MaxCPUsPerNode` on partitions that share the nodes, `DefMemPerGPU`.",
            [ask(by_use("stranded"), "{{type}}")],
            stacked=True,
            size=(7, 8),
        ),
        bars(
            "Where GPUs are stranded",
            "Nodes with free GPUs and no free CPU or memory beside them, now.",
            [
                ask_now(
                    'topk(20, sum by (node, type) (slurm_node_gpus_by_use{use="stranded"}) > 0)', "{{node}} {{type}}"
                )
            ],
            steps=((None, ORANGE),),
            empty="nowhere",
            size=(7, 8),
        ),
    ]


def queue() -> Row:
    ages = f"sum by (le) (slurm_partition_pending_age_seconds_bucket{{{_PART}}})"
    waits = f"(rate(slurm_job_wait_seconds_bucket{{{_PART}}}[$__rate_interval]))"
    return "Queue", [
        series(
            "Jobs by state",
            "Jobs of the whole cluster that have not ended, by state. Many that are completing for long mean an epilog "
            "or a file system that hangs.",
            [
                ask(
                    'sum by (state) (slurm_queue_jobs{state=~"running|pending|suspended|completing|configuring"})',
                    "{{state}}",
                )
            ],
            size=(8, 8),
        ),
        series(
            "Jobs that ended otherwise than well",
            "Jobs that failed, ran out of time or memory, lost their node or were cancelled or preempted, as long as "
            "slurmctld remembers them (MinJobAge, 300 s by default). node_fail and boot_fail are the site's to mend.",
            [
                ask(
                    "sum by (state) (slurm_queue_jobs{state=~"
                    '"failed|timeout|out_of_memory|node_fail|boot_fail|deadline|cancelled|preempted"})',
                    "{{state}}",
                )
            ],
            stacked=True,
            size=(8, 8),
        ),
        series(
            "Jobs per minute",
            "Jobs submitted, started, completed, cancelled and failed in a minute, as slurmctld counts them. "
            "Submitted for long above started: the queue grows.",
            [ask("60 * sum by (event) (rate(slurm_scheduler_job_events_total{}[$__rate_interval]))", "{{event}}")],
            size=(8, 8),
        ),
        series(
            "Running jobs by partition",
            "Jobs that run in the chosen partitions.",
            [ask(f'sum by (partition) (slurm_partition_queue_jobs{{{_PART},state="running"}})', "{{partition}}")],
            stacked=True,
            size=(6, 8),
        ),
        series(
            "Pending jobs by partition",
            "Jobs that wait for the chosen partitions. A job that waits for two is counted in both.",
            [ask(f'sum by (partition) (slurm_partition_queue_jobs{{{_PART},state="pending"}})', "{{partition}}")],
            stacked=True,
            size=(6, 8),
        ),
        series(
            "Why jobs wait",
            "Waiting jobs of the chosen partitions by the reason that Slurm gives. Priority and Resources: the cluster "
            "is full. Assoc… and QOS…: a limit holds them back, see Policy. ReqNodeNotAvail: a reservation or drained "
            "nodes. JobHeld…, Dependency, BeginTime: they cannot start yet.",
            [ask(f"sum by (reason) (slurm_queue_pending_jobs{{{_PART}}})", "{{reason}}")],
            stacked=True,
            beside=True,
            size=(12, 8),
        ),
        series(
            "How long waiting jobs have waited",
            "Of the jobs that wait now in the chosen partitions: how long ago half, nine in ten and all but one in a "
            "hundred became eligible at most. It rises while jobs cannot start and falls when they do.",
            [ask(f"histogram_quantile({q}, {ages})", legend) for q, legend in _QUANTILES],
            unit="s",
            size=(8, 8),
        ),
        heatmap(
            "Age of the queue",
            "The jobs that wait now by how long ago they became eligible: each row is a range of ages, the colour is "
            "the number of jobs. A band that climbs is a group of jobs that does not start.",
            ages,
            size=(8, 8),
        ),
        series(
            "Longest wait by partition",
            "How long ago the job became eligible that waits longest in each chosen partition; 0 when none waits.",
            [ask(f"max by (partition) (slurm_partition_pending_oldest_seconds{{{_PART}}})", "{{partition}}")],
            unit="s",
            size=(8, 8),
        ),
        series(
            "How long started jobs had waited",
            "Of the jobs that started in the chosen partitions around each moment (20 minutes at least): how long "
            "half, nine in ten and all but one in a hundred had waited from eligible to start. It is what people feel.",
            [ask(f"histogram_quantile({q}, sum by (le) {waits})", legend, step=_SELDOM) for q, legend in _QUANTILES],
            unit="s",
            size=(12, 8),
        ),
        series(
            "Wait of the median job by partition",
            "How long half of the jobs at most had waited that started in each chosen partition around each moment. "
            "Where nothing started there is nothing to draw.",
            [ask(f"histogram_quantile(0.5, sum by (le, partition) {waits})", "{{partition}}", step=_SELDOM)],
            unit="s",
            size=(12, 8),
        ),
        series(
            "CPUs by user",
            "CPUs of the ten users that held most in the time shown, whole cluster.",
            [ask(most_held("slurm_user_queue_cpus", "user"), "{{user}}")],
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
        ),
        series(
            "GPUs by user",
            "GPUs of the ten users that held most in the time shown, of all types, whole cluster.",
            [ask(most_held("slurm_user_queue_gpus", "user"), "{{user}}")],
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
        ),
        series(
            "CPUs by account",
            "CPUs of the ten accounts that held most in the time shown, whole cluster.",
            [ask(most_held("slurm_account_queue_cpus", "account"), "{{account}}")],
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
        ),
        series(
            "GPUs by account",
            "GPUs of the ten accounts that held most in the time shown, of all types, whole cluster.",
            [ask(most_held("slurm_account_queue_gpus", "account"), "{{account}}")],
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
        ),
        bars(
            "Most waiting jobs by user",
            "The ten users with the most waiting jobs now, tasks of arrays counted each. One name with thousands: see "
            "whether a limit (MaxSubmitJobs, MaxArraySize) should be there.",
            [ask_now('topk(10, slurm_user_queue_jobs{state="pending",user!="other"} > 0)', "{{user}}")],
            steps=((None, YELLOW),),
            size=(12, 8),
        ),
        series(
            "CPUs by QOS",
            "CPUs that the running jobs of each QOS hold.",
            [ask('sum by (qos) (slurm_qos_queue_cpus{state="running"})', "{{qos}}")],
            stacked=True,
            beside=True,
            size=(12, 8),
        ),
    ]


_QUANTILES = ((0.5, "half"), (0.9, "9 in 10"), (0.99, "99 in 100"))


def room() -> Row:
    def of_partition(metric: str) -> str:
        return f"max by (partition) ({metric}{{{_PART}}})"

    def of_type(metric: str) -> str:
        return f"max by (partition, type) ({metric}{{{_PART}}})"

    return "Room", [
        table(
            "What could start now",
            "What a job could get this moment in each chosen partition, on usable nodes with a CPU and memory to spare "
            "that no active reservation holds, and the most that is left on one node. Partitions share nodes: do not "
            "add them up. Much in all and little on one node is fragmentation: jobs on one big node wait beside it.",
            [
                ("up", f"max by (partition, state) (slurm_partition_state{{{_PART}}} == 1)"),
                ("nodes", of_partition("slurm_partition_startable_nodes")),
                ("CPUs", of_partition("slurm_partition_startable_cpus")),
                ("memory", of_partition("slurm_partition_startable_memory_bytes")),
                ("most CPUs on a node", of_partition("slurm_partition_largest_cpus")),
                ("most memory on a node", of_partition("slurm_partition_largest_memory_bytes")),
                (
                    "CPUs asked for",
                    f'max by (partition) (slurm_partition_queue_cpus{{{_PART},state="pending"}})',
                ),
            ],
            labels=("partition", "state"),
            hidden=("up",),
            units={"memory": "bytes", "most memory on a node": "bytes"},
            sort=("partition", False),
            size=(14, 8),
        ),
        table(
            "GPUs that could start now",
            "GPUs that a job could get this moment in each chosen partition, by type, the most that are left on one "
            "node, and those that waiting jobs ask for (untyped where they take any).",
            [
                ("GPUs", of_type("slurm_partition_startable_gpus")),
                ("most on a node", of_type("slurm_partition_largest_gpus")),
                (
                    "asked for",
                    f'max by (partition, type) (slurm_partition_queue_gpus{{{_PART},state="pending"}})',
                ),
            ],
            labels=("partition", "type"),
            sort=("partition", False),
            size=(10, 8),
        ),
        series(
            "CPUs that could start now",
            "CPUs that jobs could get at once in each chosen partition.",
            [ask(of_partition("slurm_partition_startable_cpus"), "{{partition}}")],
            size=(8, 8),
        ),
        series(
            "Largest block of CPUs on one node",
            "The largest job on one node that could start at once in each chosen partition. 0: nothing starts there "
            "before something ends.",
            [ask(of_partition("slurm_partition_largest_cpus"), "{{partition}}")],
            size=(8, 8),
        ),
        series(
            "Largest block of GPUs on one node",
            "The most GPUs of a type that a job on one node could get at once in each chosen partition.",
            [ask(of_type("slurm_partition_largest_gpus"), "{{partition}} {{type}}")],
            size=(8, 8),
        ),
    ]


def policy() -> Row:
    # A limit of 0 forbids; it has no fullness.
    full = "topk(15, slurm_limit_used{} / (slurm_limit{} > 0))"
    of_limit = "max by (kind, account, user, partition, qos, name, tres)"  # without the metrics' names, to be merged
    least = 'bottomk(15, slurm_share_factor{user!=""})'
    timestamps = "1000 * max by (reservation) (slurm_reservation_{}_timestamp_seconds{{}})"
    return "Policy", [
        table(
            "Limits nearest to full",
            "The fifteen limits of associations and QOSs of which most is used. Jobs behind a full one wait with a "
            "reason that begins with Assoc or QOS. Counts, bytes for memory, seconds for times; the name is "
            "sacctmgr's. Above 100 %: it was lowered under what was in use. Limits of 0 are left out. Nothing here: no "
            "limit is set, or slurmscope's user may not see them.",
            [
                ("full", f"{of_limit} ({full})"),
                ("used", f"{of_limit} (slurm_limit_used{{}} and {full})"),
                ("limit", f"{of_limit} (slurm_limit{{}} and {full})"),
            ],
            labels=("kind", "account", "user", "partition", "qos", "name", "tres"),
            units={"full": "percentunit", "used": "sishort", "limit": "sishort"},
            gauges={"full": _thresholds((None, GREEN), (0.8, YELLOW), (0.95, RED))},
            sort=("full", True),
            size=(24, 11),
        ),
        table(
            "Lowest fair-share factors",
            "The fifteen users whose jobs come last by fair share: from 0 (used most) to 1. Usage is the user's part "
            "of the cluster's decayed use, shares what was assigned among those of the same parent. Somebody who "
            "complains of waiting and is on this list has had more than others.",
            [
                ("factor", f"max by (account, user, partition) ({least})"),
                ("usage", f"max by (account, user, partition) (slurm_share_norm_usage{{}} and {least})"),
                ("shares", f"max by (account, user, partition) (slurm_share_norm_shares{{}} and {least})"),
            ],
            labels=("user", "account", "partition"),
            units={"factor": "none", "usage": "percentunit", "shares": "percentunit"},
            gauges={"factor": _thresholds((None, ORANGE), (0.1, YELLOW), (0.5, GREEN))},
            sort=("factor", False),
            size=(12, 10),
        ),
        series(
            "Licences in use",
            "Licences that jobs hold as a part of all that Slurm knows. At 100 % jobs wait with the reason Licenses.",
            [
                ask(
                    'slurm_license_seats{use="used"} / on (cluster, license) group_left () '
                    "(slurm_license_capacity{} > 0)",
                    "{{license}}",
                    step=_SLOW,
                )
            ],
            unit="percentunit",
            size=(12, 10),
        ),
        table(
            "Reservations",
            "Reservations that are open or to come. Nodes that a reservation will take soon run no jobs that would "
            "last into it: a reason for idle nodes beside a long queue.",
            [
                (
                    "window",
                    "max by (reservation, flags, users, accounts, partition) (slurm_reservation_active{} "
                    "* on (cluster, reservation) group_left (flags, users, accounts, partition) "
                    "slurm_reservation_info{})",
                ),
                ("begins", timestamps.format("start")),
                ("ends", timestamps.format("end")),
                ("nodes", "max by (reservation) (slurm_reservation_nodes{})"),
                ("cores", "max by (reservation) (slurm_reservation_cores{})"),
            ],
            labels=("reservation", "flags", "users", "accounts", "partition"),
            units={"begins": "dateTimeAsIso", "ends": "dateTimeAsIso"},
            texts={"window": _mappings(is_1=("open", GREEN), is_0=("closed", GREY))},
            sort=("begins", False),
            size=(24, 7),
        ),
    ]


def slurmctld() -> Row:
    def cycle(scheduler: str) -> list[Json]:
        return [
            ask(f'slurm_scheduler_cycle_{what}_seconds{{scheduler="{scheduler}"}}', what)
            for what in ("last", "mean", "max")
        ]

    answers = _mappings(is_1=("answers", GREEN), is_0=("silent", RED))
    return "slurmctld", [
        timeline(
            "Who answered",
            "Whether slurmctld answered all of each poll, which controllers answered a ping, and whether slurmdbd gave "
            "its statistics. slurmdbd may be red because slurmscope's user may not ask: it must be an operator.",
            [
                ask("slurm_up{}", "all of the poll"),
                ask("slurm_controller_up{}", "{{role}} {{host}}"),
                ask("slurm_dbd_up{}", "slurmdbd"),
            ],
            answers,
            size=(8, 8),
        ),
        series(
            "Cycles per minute",
            "Cycles of the main and of the backfill scheduler in a minute. No backfill for minutes: it is disabled, or "
            "one cycle takes that long.",
            [ask("60 * sum by (scheduler) (rate(slurm_scheduler_cycles_total{}[$__rate_interval]))", "{{scheduler}}")],
            size=(8, 8),
        ),
        series(
            "Why cycles ended",
            "What ended the cycles, per minute (from Slurm 23.02 on). End of job queue is good. Timeout or a limit "
            "that was hit: jobs far down the queue are never looked at; see max_sched_time, bf_max_time and "
            "bf_max_job_test. Reasons that never occurred are left out.",
            [
                ask(
                    "60 * (sum by (scheduler, reason) (rate(slurm_scheduler_exits_total{}[$__rate_interval])) "
                    "and sum by (scheduler, reason) (slurm_scheduler_exits_total{}) > 0)",
                    "{{scheduler}}: {{reason}}",
                )
            ],
            stacked=True,
            size=(8, 8),
        ),
        series(
            "Main cycle",
            "How long the main scheduler's cycles take: the last, and the mean and the longest since the statistics "
            "began (midnight, mostly). Locks are held meanwhile: above a second, commands of users begin to wait.",
            cycle("main"),
            unit="s",
            size=(8, 8),
        ),
        series(
            "Backfill cycle",
            "How long backfill's cycles take, the pauses in which it gives way (bf_yield_interval) included. As long "
            "as bf_max_time: the end of the queue is not looked at.",
            cycle("backfill"),
            unit="s",
            size=(8, 8),
        ),
        series(
            "How deep backfill looks",
            "Jobs in the queue when the last backfill cycle began, jobs that it looked at, and jobs that it tried to "
            "start. Looked at far below the queue: bf_max_job_test and the limits per user and partition end it early.",
            [
                ask('slurm_scheduler_queue_length{scheduler="backfill"}', "in the queue"),
                ask("slurm_scheduler_backfill_last_depth{}", "looked at"),
                ask("slurm_scheduler_backfill_last_depth_tried{}", "tried"),
            ],
            size=(8, 8),
        ),
        series(
            "Questions by type",
            "RPCs to slurmctld per second of the ten types asked most in the time shown. REQUEST_JOB_INFO is squeue: "
            "a rise is somebody's loop, which the panel beside it names.",
            [ask(most_asked("slurm_rpcs_total", "type"), "{{type}}")],
            unit="reqps",
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 9),
        ),
        series(
            "Questions by user",
            "RPCs to slurmctld per second of the ten users that asked most in the time shown. slurm and root are the "
            "daemons themselves. Write to anybody else who is near them, or set rl_enable in SlurmctldParameters.",
            [ask(most_asked("slurm_user_rpcs_total", "user"), "{{user}}")],
            unit="reqps",
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 9),
        ),
        series(
            "Time spent on questions by type",
            "Seconds per second that slurmctld spends on the ten types that took most in the time shown. 1 is one "
            "thread that does nothing else.",
            [ask(most_asked("slurm_rpc_seconds_total", "type"), "{{type}}")],
            unit="none",
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 9),
        ),
        series(
            "Time spent on questions by user",
            "Seconds per second that slurmctld spends on the questions of the ten users that took most in the time "
            "shown.",
            [ask(most_asked("slurm_user_rpc_seconds_total", "user"), "{{user}}")],
            unit="none",
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 9),
        ),
        series(
            "Threads",
            "Threads of slurmctld that are busy with an RPC. At 256 it takes no more questions, and clients time out. "
            "A plateau means that they wait for a lock: see what takes the time above.",
            [
                ask("slurm_scheduler_threads{}", "on questions"),
                ask("slurm_scheduler_agent_threads{}", "of agents"),
            ],
            size=(8, 8),
        ),
        series(
            "Queues",
            "Messages that wait: to nodes (agents) and to slurmdbd. The first grows when nodes do not answer. The "
            "second grows while slurmdbd is down or slow; at MaxDBDMsgs records of jobs are lost: act before.",
            [
                ask("slurm_scheduler_agent_queue_length{}", "to nodes"),
                ask("slurm_scheduler_dbd_queue_length{}", "to slurmdbd"),
            ],
            size=(8, 8),
        ),
        series(
            "Questions that wait",
            "Questions that wait for slurmctld by type, where its version tells. Nothing here is good; what stays here "
            "says that slurmctld is behind.",
            [ask("sum by (type) (slurm_rpcs_pending{})", "{{type}}")],
            stacked=True,
            size=(8, 8),
        ),
        series(
            "slurmdbd: questions by user",
            "RPCs to slurmdbd per second of the ten users that asked most in the time shown. sacct in loops is what "
            "makes it slow.",
            [ask(most_asked("slurm_dbd_user_rpcs_total", "user"), "{{user}}", step=_SLOW)],
            unit="reqps",
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 8),
        ),
        series(
            "slurmdbd: time spent by type",
            "Seconds per second that slurmdbd spends on the ten types that took most in the time shown.",
            [ask(most_asked("slurm_dbd_rpc_seconds_total", "type"), "{{type}}", step=_SLOW)],
            unit="none",
            stacked=True,
            beside=True,
            calcs=(_LAST, "mean"),
            size=(12, 8),
        ),
    ]


def itself() -> Row:
    own = "slurm_user_rpcs_total{}[$__rate_interval]"
    # The older exporters' families are capped alike and would only say the same again.
    capped = 'family=~"slurm_(account_queue_[*]|user_queue_[*]|share_[*]|limit[*]|user_rpcs_total|dbd_user_rpcs_total)"'
    return "slurmscope itself", [
        table(
            "Which part",
            "Every part of the picture: whether it was read when last asked for, how old what is shown is, how many of "
            "its rows could not be read, and what its last run took. A part that is red keeps its last values; "
            "slurmscope's log says why.",
            [
                ("how", "max by (part, source) (slurm_source_info{})"),
                ("read", "max by (part) (slurm_part_up{})"),
                ("age", "max by (part) (slurm_part_age_seconds{})"),
                ("rows skipped", "max by (part) (slurm_part_rows_skipped{})"),
                ("last run", "max by (part) (slurm_command_last_seconds{})"),
                ("failures", "max by (part) (slurm_command_failures_total{})"),
            ],
            labels=("part", "source"),
            hidden=("how",),
            units={"age": "s", "last run": "s"},
            texts={"read": _mappings(is_1=("yes", GREEN), is_0=("no", RED))},
            sort=("part", False),
            size=(12, 10),
        ),
        series(
            "Age by part",
            "How old what is shown of each part is. Saws up to 10 s, to a minute and to an hour are the three paces of "
            "polling; one that climbs on is a part that cannot be read.",
            [ask("max by (part) (slurm_part_age_seconds{})", "{{part}}")],
            unit="s",
            beside=True,
            size=(12, 10),
        ),
        series(
            "Seconds per command",
            "What the last run of each command took, reading its answer included. A rise of all is slurmctld, a rise "
            "of one is more to tell: jobs, nodes, limits.",
            [ask("max by (part, command) (slurm_command_last_seconds{})", "{{part}} ({{command}})")],
            unit="s",
            size=(8, 8),
        ),
        series(
            "Bytes read",
            "Output of the commands that was read per second, by part.",
            [ask("sum by (part) (rate(slurm_command_read_bytes_total{}[$__rate_interval]))", "{{part}}", step=_SLOW)],
            unit="Bps",
            stacked=True,
            size=(8, 8),
        ),
        series(
            "Failures per minute",
            "Commands that failed, were killed or answered something else, per minute. 0 is what should be here; the "
            "log has the message of each.",
            [
                ask(
                    "60 * sum by (part) (rate(slurm_command_failures_total{}[$__rate_interval]))",
                    "{{part}}",
                    step=_SLOW,
                )
            ],
            size=(8, 8),
        ),
        series(
            "Rows skipped",
            "Rows of what is shown that could not be read and were left out. Above 0 something in Slurm's answer is "
            "not understood: please report it.",
            [ask("sum by (part) (slurm_part_rows_skipped{})", "{{part}}")],
            size=(8, 8),
        ),
        series(
            "Series left out",
            "Users, accounts and limits beyond the cap (metrics.top), which are shown as `other` or not at all. Raise "
            "the cap if you want them by name; Prometheus pays.",
            [ask(f"sum by (family) (slurm_series_dropped{{{capped}}})", "{{family}}")],
            size=(8, 8),
        ),
        series(
            "Own part of the questions",
            "The part of slurmctld's RPCs that came from the user that slurmscope runs as, since the statistics began "
            "and around each moment. With a user of its own, this is what slurmscope costs slurmctld.",
            [
                ask("slurm_own_rpc_ratio{}", "since they began ({{user}})"),
                ask(
                    f"sum(rate({own}) and on (cluster, user) slurm_own_rpc_ratio{{}}) "
                    "/ sum(rate(slurm_rpcs_total{}[$__rate_interval]))",
                    "around each moment",
                ),
            ],
            unit="percentunit",
            size=(8, 8),
        ),
        series(
            "CPU",
            "CPUs that slurmscope and the commands that it runs use on this machine.",
            [
                ask("rate(process_cpu_seconds_total{}[$__rate_interval])", "slurmscope"),
                ask("rate(slurm_children_cpu_seconds_total{}[$__rate_interval])", "commands"),
            ],
            unit="none",
            stacked=True,
            size=(6, 8),
        ),
        series(
            "Memory",
            "Memory of the slurmscope process. It grows with the queue and stays there.",
            [ask("process_resident_memory_bytes{}", "resident")],
            unit="bytes",
            size=(6, 8),
        ),
        series(
            "Scrapes",
            "Answers given to requests for a page of metrics per second, by status. 401 is a password or token that is "
            "missing.",
            [ask("sum by (code) (rate(slurm_scrapes_total{}[$__rate_interval]))", "{{code}}")],
            unit="reqps",
            size=(6, 8),
        ),
        stat(
            "Versions",
            "Of slurmctld, of slurmscope, and of slurmd on the nodes: with several of those an update is not finished.",
            [
                ask_now("slurm_version_info{}", "slurmctld {{version}}"),
                ask_now("slurmscope_info{}", "slurmscope {{version}}"),
                ask_now("count by (version) (slurm_node_info{})", "slurmd {{version}}"),
            ],
            text="name",
            size=(6, 8),
        ),
    ]


# The dashboard


def _placed(rows: Sequence[Row]) -> list[Json]:
    """Panels from left to right, line by line, under their row's title."""
    found: list[Json] = []
    y = 0
    for title, panels in rows:
        grid = {"h": 1, "w": 24, "x": 0, "y": y}
        found.append({"type": "row", "title": title, "collapsed": False, "gridPos": grid, "panels": []})
        y += 1
        x = tallest = 0
        for panel in panels:
            grid = panel["gridPos"]
            if x + grid["w"] > 24:
                x, y, tallest = 0, y + tallest, 0
            found.append({**panel, "gridPos": {**grid, "x": x, "y": y}})
            x += grid["w"]
            tallest = max(tallest, grid["h"])
        y += tallest
    return [{"id": at, **panel} for at, panel in enumerate(found, 1)]


def _variable(name: str, label: str, query: str, **more: Any) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "current": {},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
        **more,
    }


def _variables() -> list[Json]:
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {"selected": True, "text": "${DS_PROMETHEUS}", "value": "${DS_PROMETHEUS}"},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }
    everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
    partitions = 'label_values(slurm_partition_state{cluster="$cluster"}, partition)'
    return [
        source,
        _variable("cluster", "Cluster", "label_values(slurm_up, cluster)"),
        _variable("partition", "Partition", partitions, multi=True, includeAll=True, allValue=".*", current=everything),
    ]


def _annotations() -> list[Json]:
    silent = ask("slurm_up{} == 0")
    return [
        {
            "builtIn": 1,
            "datasource": {"type": "grafana", "uid": "-- Grafana --"},
            "enable": True,
            "hide": True,
            "iconColor": "rgba(0, 211, 255, 1)",
            "name": "Annotations & Alerts",
            "type": "dashboard",
        },
        {
            "datasource": _SOURCE,
            "enable": True,
            "expr": silent["expr"],
            "iconColor": RED,
            "name": "slurmctld was silent",
            "step": _SCRAPE,
            "textFormat": "What is shown is what was last known.",
            "titleFormat": "slurmctld did not answer",
        },
    ]


def build() -> Json:
    rows = [now(), nodes(), cpus_and_memory(), gpus(), queue(), room(), policy(), slurmctld(), itself()]
    panels = _placed(rows)
    kinds = sorted({panel["type"] for panel in panels} - {"row"})
    return {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "description": "The Prometheus that scrapes slurmscope",
                "type": "datasource",
                "pluginId": "prometheus",
                "pluginName": "Prometheus",
            }
        ],
        "__elements": {},
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": _GRAFANA},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
            *({"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds),
        ],
        "annotations": {"list": _annotations()},
        "description": "A Slurm cluster as slurmscope reads it: nodes, CPUs, GPUs, queue, policy and slurmctld.",
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": [],
        "liveNow": False,
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["slurm", "slurmscope"],
        "templating": {"list": _variables()},
        "time": {"from": "now-24h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": "Slurm",
        "uid": "slurmscope",
        "version": 1,
        "weekStart": "",
    }


def page() -> str:
    return json.dumps(build(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(page())
    print("dashboards/slurmscope.json")
