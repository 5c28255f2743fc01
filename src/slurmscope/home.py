# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A page for whoever opens the address in a browser: how the clusters are, what is served, and whether it is well."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from html import escape

from slurmscope import __version__
from slurmscope.metrics.book import Issue
from slurmscope.metrics.pages import Edition
from slurmscope.metrics.view import gpu_type
from slurmscope.model import PARTS, Node

_PROFILES = {
    "slurmscope": "our own names alone",
    "rivosinc": "the names of rivosinc's prometheus-slurm-exporter",
    "vpenso": "the names of vpenso's prometheus-slurm-exporter",
    "sinfo": "the names of sinfo.py",
}


_OTHERS = {
    "/metrics/jobs": "what jobs use, as agents on their nodes measured it",
    "/metrics/constants": "what the site has set: allocations, weights, numbers of its own",
    "/constants": "the same as JSON",
}


def served(*others: Collection[str]) -> dict[str, str]:
    """Pages of metrics, and what each has; of `others` those that are served, besides those of every cluster."""
    pages = {f"/metrics/{name}": told for name, told in _PROFILES.items()}
    return pages | {path: told for path, told in _OTHERS.items() if any(path in some for some in others)}


def home(issue: Issue, *others: Collection[str]) -> str:
    editions = issue.editions
    pages = served(*others)
    links = "".join(f'<li><a href="{path[1:]}">{path}</a> {told}' for path, told in pages.items())
    listed = _SERVED.format(links=links)
    if len(editions) == 1:
        title = _name(editions[0])
        content = f"<h1>{title}</h1>{_state(editions[0])}{listed}<h2>What is read</h2>{_read(editions[0])}"
    else:
        title = f"{len(editions)} clusters"
        index = "".join(_entry(edition, at, at in issue.left_out) for at, edition in enumerate(editions))
        sections = "".join(_section(edition, at, at in issue.left_out) for at, edition in enumerate(editions))
        content = f"<h1>{title}</h1><table class=index>{index}</table>{listed}{sections}"
    return _PAGE.format(title=title, content=content, version=__version__)


def _name(edition: Edition) -> str:
    return escape(edition.snapshot.cluster or "no cluster yet")


def _answers(edition: Edition) -> str:
    mark, told = ("up", "answers") if edition.up else ("down", "does not answer")
    return f"<span class={mark}>slurmctld {told}</span>"


def _state(edition: Edition) -> str:
    return f"<p>{_answers(edition)}{_overview(edition)}"


def _entry(edition: Edition, at: int, left_out: bool) -> str:
    """A cluster in the index of several."""
    state = "<span class=down>left out</span>" if left_out else _answers(edition)
    return f'<tr><th scope=row><a href="#cluster-{at}">{_name(edition)}</a><td>{state}<td>{_jobs(edition)}'


def _section(edition: Edition, at: int, left_out: bool) -> str:
    head = f"<h2 id=cluster-{at}>{_name(edition)}</h2>{_LEFT_OUT if left_out else ''}"
    return f"<section>{head}{_state(edition)}<h3>What is read</h3>{_read(edition)}</section>"


def _read(edition: Edition) -> str:
    return _READ.format(rows="".join(_row(edition, name) for name in PARTS))


def _age(edition: Edition, when: float | None) -> str:
    return "never" if when is None else f"{max(0.0, edition.clock() - when):.0f} s ago"


def _row(edition: Edition, name: str) -> str:
    part = edition.snapshot.part(name)
    told = escape(part.error or (f"{part.rows_skipped} rows could not be read" if part.rows_skipped else ""))
    age = _age(edition, part.time)
    return f"<tr><th scope=row>{name}<td>{age}<td>{part.seconds:.2f} s<td>{escape(part.source)}<td>{told}"


def _overview(edition: Edition) -> str:
    snapshot = edition.snapshot
    nodes = snapshot.nodes.value
    if nodes is None or snapshot.jobs.value is None:
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
    bars = [_bar("Nodes", states), _bar("CPUs", cpus)]
    bars += [_bar(f"GPUs {gpu_type(kind)}", uses) for kind, uses in sorted(gpus.items())]
    return f"<p class=big>{_jobs(edition)}<table class=bars>{''.join(bars)}</table>"


def _jobs(edition: Edition) -> str:
    jobs = edition.snapshot.jobs.value
    if jobs is None:
        return ""
    running = sum(job.tasks for job in jobs if job.holding)
    waiting = sum(job.tasks for job in jobs if job.waiting)
    age = _age(edition, edition.snapshot.jobs.time)
    return f"<b>{running:,}</b> jobs run, <b>{waiting:,}</b> wait <small>({age})</small>"


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
<title>slurmscope · {title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ margin-bottom: 0 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th, td {{ text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #8883; font-weight: normal }}
thead th {{ font-weight: 600 }}
.up::before {{ content: "● "; color: #2a9d57 }}
.down::before {{ content: "▲ "; color: #c8372d }}
section {{ margin-top: 3rem }} section h2 {{ margin-bottom: 0 }}
.index {{ width: auto; margin-top: 1rem }}
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
{content}
<p><small>slurmscope {version} · this page is of the moment it was opened</small>
"""
_SERVED = """
<p><a href="metrics">/metrics</a> is the page for Prometheus. Others:
<ul>{links}</ul>
"""
_READ = """
<div style="overflow-x: auto"><table>
<thead><tr><th>part<th>read<th>took<th>by<th>trouble</thead>
{rows}
</table></div>
"""
_LEFT_OUT = """
<p class=down>Another cluster has the same name, so that this one is on no page of metrics. Give each a name of its own
in the settings: <code>[clusters.NAME]</code>.
"""
