# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The dashboard: its rows with their panels in place, its variables and its annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tools.dashboard.itself import ITSELF
from tools.dashboard.nodes import CPUS_AND_MEMORY, GPUS, NODES, NOW
from tools.dashboard.panels import GRAFANA, RED, Row
from tools.dashboard.policy import POLICY, ROOM
from tools.dashboard.queries import SCRAPE, SOURCE, Json, chosen
from tools.dashboard.queue import QUEUE
from tools.dashboard.slurmctld import SLURMCTLD

ROWS = (NOW, NODES, CPUS_AND_MEMORY, GPUS, QUEUE, ROOM, POLICY, SLURMCTLD, ITSELF)


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
        "datasource": SOURCE,
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
            "datasource": SOURCE,
            "enable": True,
            "expr": chosen("slurm_up{} == 0"),
            "iconColor": RED,
            "name": "slurmctld was silent",
            "step": SCRAPE,
            "textFormat": "What is shown is what was last known.",
            "titleFormat": "slurmctld did not answer",
        },
    ]


def build() -> Json:
    panels = _placed(ROWS)
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
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": GRAFANA},
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
