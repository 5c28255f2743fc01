# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A page for whoever opens the address in a browser: how the cluster is, what is served, and whether it is well."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from html import escape

from slurmscope import __version__
from slurmscope.metrics.pages import Pages
from slurmscope.metrics.view import gpu_type
from slurmscope.model import PARTS, Node, Snapshot

_PROFILES = {
    "slurmscope": "our own names alone",
    "rivosinc": "the names of rivosinc's prometheus-slurm-exporter",
    "vpenso": "the names of vpenso's prometheus-slurm-exporter",
    "sinfo": "the names of sinfo.py",
}


def home(pages: Pages) -> str:
    snapshot = pages.snapshot
    links = "".join(f'<li><a href="metrics/{name}">/metrics/{name}</a> {told}' for name, told in _PROFILES.items())
    return _PAGE.format(
        cluster=escape(snapshot.cluster or "no cluster yet"),
        state="answers" if pages.up() else "does not answer",
        mark="up" if pages.up() else "down",
        overview=_overview(snapshot),
        links=links,
        rows="".join(_row(snapshot, name) for name in PARTS),
        version=__version__,
    )


def _age(when: float | None) -> str:
    return "never" if when is None else f"{max(0.0, time.time() - when):.0f} s ago"


def _row(snapshot: Snapshot, name: str) -> str:
    part = snapshot.part(name)
    told = escape(part.error or (f"{part.rows_skipped} rows could not be read" if part.rows_skipped else ""))
    return f"<tr><th scope=row>{name}<td>{_age(part.time)}<td>{part.seconds:.2f} s<td>{escape(part.source)}<td>{told}"


def _overview(snapshot: Snapshot) -> str:
    nodes, jobs = snapshot.nodes.value, snapshot.jobs.value
    if nodes is None or jobs is None:
        return "<p>Nothing was read yet."
    states = Counter(_condition(node) for node in nodes)
    cpus = {
        "allocated": sum(node.cpus_allocated for node in nodes),
        "idle": sum(node.cpus_idle for node in nodes),
        "other": sum(node.cpus_other for node in nodes),
    }
    gpus: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for kind, uses in node.gpu_use().items():
            gpus[kind].update(uses)
    running = sum(job.tasks for job in jobs if job.holding)
    waiting = sum(job.tasks for job in jobs if job.waiting)
    bars = [_bar("Nodes", states), _bar("CPUs", cpus)]
    bars += [_bar(f"GPUs {gpu_type(kind)}", uses) for kind, uses in sorted(gpus.items())]
    age = _age(snapshot.jobs.time)
    told = f"<p class=big><b>{running:,}</b> jobs run, <b>{waiting:,}</b> wait <small>({age})</small>"
    return told + "<table class=bars>" + "".join(bars) + "</table>"


def _condition(node: Node) -> str:
    """One word for a node, for a bar that has no room for flags."""
    if not node.usable:
        return "unavailable"
    return "idle" if node.state == "IDLE" else "allocated" if node.state == "ALLOCATED" else "mixed"


def _bar(label: str, counts: dict[str, int]) -> str:
    total = sum(counts.values()) or 1
    pieces, words = [], []
    for name in ("allocated", "mixed", "idle", "stranded", "other", "unavailable"):
        if count := counts.get(name, 0):
            pieces.append(f'<i class={name} style="width:{100 * count / total:.2f}%"></i>')
            words.append(f"{count:,} {name}")
    return f"<tr><th scope=row>{escape(label)}<td><span class=bar>{''.join(pieces)}</span><td>{', '.join(words)}"


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>slurmscope · {cluster}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ margin-bottom: 0 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th, td {{ text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #8883; font-weight: normal }}
thead th {{ font-weight: 600 }}
.up::before {{ content: "● "; color: #2a9d57 }}
.down::before {{ content: "▲ "; color: #c8372d }}
td:nth-child(-n+4) {{ white-space: nowrap }}
.bars td {{ white-space: normal }}
.big {{ font-size: 1.3rem }}
.bars th {{ white-space: nowrap }}
.bars td:nth-child(2) {{ width: 45% }}
.bar {{ display: flex; height: 1rem; background: #8882; border-radius: 2px; overflow: hidden }}
.allocated {{ background: #2d6cb3 }} .mixed {{ background: #7fa9d6 }} .idle {{ background: #8fce9f }}
.stranded {{ background: #e0a030 }}
.other, .unavailable {{ background: repeating-linear-gradient(45deg, #999 0 4px, #666 4px 8px) }}
small {{ opacity: .7 }}
</style>
<h1>{cluster}</h1>
<p class={mark}>slurmctld {state}
{overview}
<p><a href="metrics">/metrics</a> is the page for Prometheus. Others:
<ul>{links}</ul>
<h2>What is read</h2>
<div style="overflow-x: auto"><table>
<thead><tr><th>part<th>read<th>took<th>by<th>trouble</thead>
{rows}
</table></div>
<p><small>slurmscope {version} · this page is of the moment it was opened</small>
"""
