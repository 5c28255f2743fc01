# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The dashboards: their rows with panels in place, their variables and their annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tools.dashboard import jobs
from tools.dashboard.itself import ITSELF
from tools.dashboard.nodes import CPUS_AND_MEMORY, GPUS, NODES, NOW
from tools.dashboard.panels import GRAFANA, RED, Row
from tools.dashboard.policy import POLICY, ROOM
from tools.dashboard.queries import SCRAPE, SOURCE, Json, chosen
from tools.dashboard.queue import QUEUE
from tools.dashboard.slurmctld import SLURMCTLD


class Dashboard(NamedTuple):
    uid: str  # and the name of its file
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: list[Json]
    annotations: list[Json]
    links: list[Json]
    hours: int  # that are shown at first


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


def _some(name: str, label: str, query: str, **more: Any) -> Json:
    """A variable of which any number, or all, may be chosen."""
    everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
    return _variable(name, label, query, multi=True, includeAll=True, allValue=".*", current=everything, **more)


def _source() -> Json:
    return {
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


_OWN_ANNOTATIONS: Json = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": "rgba(0, 211, 255, 1)",
    "name": "Annotations & Alerts",
    "type": "dashboard",
}
_SILENT: Json = {
    "datasource": SOURCE,
    "enable": True,
    "expr": chosen("slurm_up{} == 0"),
    "iconColor": RED,
    "name": "slurmctld was silent",
    "step": SCRAPE,
    "textFormat": "What is shown is what was last known.",
    "titleFormat": "slurmctld did not answer",
}
_TO_THE_CLUSTER: Json = {
    "type": "link",
    "title": "The cluster",
    "icon": "dashboard",
    "tooltip": "Nodes, queue, policy and slurmctld of the same cluster",
    "url": "/d/slurmscope?${cluster:queryparam}",
    "keepTime": True,
    "includeVars": False,
    "targetBlank": False,
    "asDropdown": False,
    "tags": [],
}

CLUSTER = Dashboard(
    "slurmscope",
    "Slurm",
    "A Slurm cluster as slurmscope reads it: nodes, CPUs, GPUs, queue, policy and slurmctld.",
    (NOW, NODES, CPUS_AND_MEMORY, GPUS, QUEUE, ROOM, POLICY, SLURMCTLD, ITSELF),
    [
        _source(),
        _variable("cluster", "Cluster", "label_values(slurm_up, cluster)"),
        _some("partition", "Partition", 'label_values(slurm_partition_state{cluster="$cluster"}, partition)'),
    ],
    [_OWN_ANNOTATIONS, _SILENT],
    [],
    24,
)

# Agents, traces or both may be there. `.*`, which stands for all, matches a label that a series does not have: so
# series of the one that lack a label of the other are listed until something is chosen.
_JOBS = '{__name__=~"slurm_job_processes|slurm_proc_cpu_usage",cluster="$cluster",user=~"$user"}'
_NODES = '{__name__=~"slurm_job_processes|slurm_agent_info",cluster="$cluster",user=~"$user",jobid=~"$jobid"}'

JOBS = Dashboard(
    "slurmscope-jobs",
    "Slurm jobs",
    "What jobs use, as slurmscope's agents on the nodes, and jobs themselves, tell it: CPUs, memory, GPUs, files.",
    jobs.ROWS,
    [
        _source(),
        _variable(
            "cluster",
            "Cluster",
            'label_values({__name__=~"slurm_job_processes|slurm_proc_cpu_usage|slurm_agent_info"}, cluster)',
        ),
        _some("user", "User", 'label_values(slurm_job_processes{cluster="$cluster"}, user)'),
        _some("jobid", "Job", f"label_values({_JOBS}, jobid)", sort=4),  # the newest, that is the highest, first
        _some("node", "Node", f"label_values({_NODES}, node)"),
    ],
    [_OWN_ANNOTATIONS],
    [_TO_THE_CLUSTER],
    3,
)

DASHBOARDS = (CLUSTER, JOBS)


def build(dashboard: Dashboard) -> Json:
    panels = _placed(dashboard.rows)
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
        "annotations": {"list": dashboard.annotations},
        "description": dashboard.about,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "id": None,
        "links": dashboard.links,
        "liveNow": False,
        "panels": panels,
        "refresh": "30s",
        "schemaVersion": 39,
        "tags": ["slurm", "slurmscope"],
        "templating": {"list": dashboard.variables},
        "time": {"from": f"now-{dashboard.hours}h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "title": dashboard.title,
        "uid": dashboard.uid,
        "version": 1,
        "weekStart": "",
    }


def page(dashboard: Dashboard) -> str:
    return json.dumps(build(dashboard), indent=2, ensure_ascii=False) + "\n"
