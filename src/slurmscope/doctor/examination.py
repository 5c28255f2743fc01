# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The whole of it: this machine, and every cluster at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations

from slurmscope.config import Config
from slurmscope.doctor import accounting, cluster, cures, host, kept, sent, services
from slurmscope.doctor.answers import PING, Answers, interview, recall
from slurmscope.doctor.finding import HOST, Chart, Check, Finding, Made
from slurmscope.settings import Cluster, Settings
from slurmscope.slurm.bundle import Bundle

# what is kept and sent; each by itself, for a server that does not answer takes its time
_KEPT_AND_SENT: Sequence[tuple[Check, Callable[[Chart, Settings], Awaitable[None]]]] = (
    (Check.STORE, kept.store),
    (Check.SPOOL, kept.spools),
    (Check.ELASTICSEARCH, sent.elasticsearch),
    (Check.CLOUDWATCH, sent.cloudwatch),
    (Check.PUSHGATEWAY, sent.pushgateway),
)


async def examine(config: Config, made: Made = lambda finding: None) -> list[Finding]:
    """Every finding; `made` is told of each as soon as there is one. Nothing is left running."""
    settings = config.settings
    chart = Chart(HOST, made)
    with _told(chart, Check.SLURMSCOPE):
        host.look(chart, config)
    with _told(chart, Check.TLS):
        services.tls(chart, settings)
    with _told(chart, Check.LISTEN):
        await services.listen(chart, settings)
    beside, examined = await asyncio.gather(
        asyncio.gather(*(_looked(check, look, settings, made) for check, look in _KEPT_AND_SENT)),
        asyncio.gather(*(_examined(one, settings, made) for one in settings.read)),
    )
    known = [answers for _, answers in examined if answers is not None]
    with _told(chart, Check.SAME_CLUSTER):
        _alike(chart, known)
    with _told(chart, Check.PROMETHEUS):
        names = [answers.name for answers in known if answers.best("jobs") is not None]
        await services.prometheus(chart, settings, names)
    return [finding for one in (chart, *beside, *(chart for chart, _ in examined)) for finding in one.findings]


async def examine_recording(bundle: Bundle) -> list[Finding]:
    """What a recording shows of its cluster."""
    answers = await recall(bundle)
    chart = Chart(answers.name, lambda finding: None)
    with _told(chart, Check.SLURMCTLD):
        cluster.look_back(chart, answers)
    return chart.findings


async def _looked(
    check: Check, look: Callable[[Chart, Settings], Awaitable[None]], settings: Settings, made: Made
) -> Chart:
    chart = Chart(HOST, made)
    with _told(chart, check):
        await look(chart, settings)
    return chart


async def _examined(one: Cluster, settings: Settings, made: Made) -> tuple[Chart, Answers | None]:
    chart = Chart(one.slurm.cluster or "without a name", made, [one.slurm.rest_token])
    answers = None
    with _told(chart, Check.SLURMCTLD):
        answers = await interview(one)
        chart.subject = answers.name
        chart.secrets.add(answers.token)
        cluster.look(chart, answers)
    if answers is not None:
        with _told(chart, Check.ACCOUNTING):
            await accounting.look(chart, one, settings, answers)
    return chart, answers


@contextmanager
def _told(chart: Chart, check: Check) -> Iterator[None]:
    """A fault of ours costs one look, and is a finding like any other."""
    try:
        yield
    except Exception as error:
        chart.failed(check, f"a fault of slurmscope's own: {type(error).__name__}: {error}", cures.report())


def _alike(chart: Chart, known: Sequence[Answers]) -> None:
    """Two that are one: both would show the same cluster under two names."""
    for one, other in combinations(known, 2):
        same = _same(one, other)
        if same:
            names = f"{one.slurm.cluster} and {other.slurm.cluster}"
            chart.warning(
                Check.SAME_CLUSTER,
                f"{names} {same}, and would show one cluster under two names",
                f"give {other.setting('conf')}, .bin_dir, .multi_cluster, .ssh or .rest_url what leads to the other "
                "one, or leave one of the two out",
            )


def _same(one: Answers, other: Answers) -> str:
    """In what two clusters are the same. One host may have the slurmctld of two, and two sites may use one name."""
    names = [answers.value("config").cluster if answers.value("config") else "" for answers in (one, other)]
    hosts = [{found.host for found in answers.value(PING) or ()} for answers in (one, other)]
    if all(names):
        apart = names[0] != names[1] or (all(hosts) and hosts[0] != hosts[1])
        return "" if apart else f"both answer as ClusterName={names[0]}"
    return f"have the same controller, {', '.join(sorted(hosts[0]))}" if all(hosts) and hosts[0] == hosts[1] else ""
