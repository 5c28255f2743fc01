# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What panels ask of Prometheus.

Queries are written with bare selectors, `slurm_up{}`: the cluster is put into every one of them. A word in capitals at
the start of a selector, `{PART}`, stands for what else is chosen.
"""

from __future__ import annotations

import re
from typing import Any

from slurmscope.metrics import catalogue

Json = dict[str, Any]
Asked = str | tuple[str, str]  # an expression, or one with its legend

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# How often docs/prometheus.yml scrapes. As the least step of a query it makes Grafana's $__rate_interval four times
# as long, so that a rate never looks at fewer than two samples, whatever the data source's own setting is.
SCRAPE = "30s"
SLOW = "1m"  # poll.slow_interval: what is read less often needs a longer look
SELDOM = "5m"  # jobs do not start every minute in every partition
AGENT = "15s"  # agent.interval, and how often docs/prometheus.yml scrapes agents

# Series of traces call users and nodes otherwise; those of a traced job's allocation know neither.
_CHOICES = {
    "PART": 'partition=~"$partition"',
    "JOB": 'jobid=~"$jobid",user=~"$user",node=~"$node"',
    "JOBID": 'jobid=~"$jobid"',
    "NODE": 'node=~"$node"',
    "TRACED": 'jobid=~"$jobid",username=~"$user",hostname=~"$node"',
}
_CHOICE = re.compile(r"(?<=\{)([A-Z]+)\b")

# What is said of the process has no cluster when that reads several, and the cluster's name when it reads one.
_COMMON = {family.name for topic in catalogue.OWN if topic.common for family in topic.families}
_SELECTOR = re.compile(r"(\w+)\{")


def chosen(expr: str) -> str:
    """An expression of the cluster, and of what else it names, that are chosen."""
    filled = _CHOICE.sub(lambda found: _CHOICES[found[1]], expr)

    def selector(found: re.Match[str]) -> str:
        return found[1] + ('{cluster=~"$cluster|",' if found[1] in _COMMON else '{cluster="$cluster",')

    return _SELECTOR.sub(selector, filled).replace(",}", "}")


def over_time(asked: Asked, step: str = SCRAPE) -> Json:
    """A query over the time shown."""
    return {**_query(asked), "format": "time_series", "instant": False, "interval": step, "range": True}


def of_now(asked: Asked) -> Json:
    """A query of this moment. Where nothing is scraped any more it shows nothing; the last value of a range would go on
    looking well."""
    return {**_query(asked), "format": "time_series", "instant": True, "range": False}


def of_rows(expr: str) -> Json:
    """A query of this moment for a table: a row for each series, a column for each label."""
    return {**_query(expr), "format": "table", "instant": True, "range": False}


def _query(asked: Asked) -> Json:
    expr, legend = (asked, "") if isinstance(asked, str) else asked
    return {"datasource": SOURCE, "editorMode": "code", "expr": chosen(expr), "legendFormat": legend}


def share(part: str, whole: str, by: str = "") -> str:
    """One sum as a part of another."""
    of = f"sum by ({by}) " if by else "sum"
    return f"{of}({part}) / {of}({whole})"


def quantiles(buckets: str) -> list[Asked]:
    """What half of them, nearly all and all but the last few are below."""
    named = ((0.5, "half"), (0.9, "9 in 10"), (0.99, "99 in 100"))
    return [(f"histogram_quantile({q}, {buckets})", legend) for q, legend in named]


def most_asked(metric: str, by: str) -> Asked:
    """The rate of the ten that asked most in the time shown. `topk` alone would choose anew at every step and draw
    many more than ten lines."""
    rate = f"sum by ({by}) (rate({metric}{{}}[$__rate_interval]))"
    return f"{rate} and topk(10, sum by ({by}) (rate({metric}{{}}[$__range] @ end())))", f"{{{{{by}}}}}"


def most_held(metric: str, by: str) -> Asked:
    """What the ten held that held most in the time shown, counted as the area under their lines: somebody who had
    much for a minute is behind somebody who had some all day."""
    held = f'{metric}{{state="running",{by}!="other"}}'
    most = f"topk(10, sum by ({by}) (sum_over_time({held}[$__range] @ end())) > 0)"
    return f"sum by ({by}) ({held}) and {most}", f"{{{{{by}}}}}"
