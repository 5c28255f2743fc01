# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every setting that there is: its type, its bounds, its default, and what it is for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slurmscope.settings.database import Database
from slurmscope.settings.keeping import Accounting, Store
from slurmscope.settings.mail import Mail
from slurmscope.settings.nodes import Agent, Agents, Trace
from slurmscope.settings.policy import Allocation, Cost, Findings, RuleSetting
from slurmscope.settings.portal import Portal
from slurmscope.settings.reading import Poll, Slurm
from slurmscope.settings.serving import Log, Metrics, Serve
from slurmscope.settings.sinks import CloudWatch, Elasticsearch, Prometheus, Pushgateway

__all__ = [
    "Accounting",
    "Agent",
    "Agents",
    "Allocation",
    "CloudWatch",
    "Cluster",
    "Cost",
    "Database",
    "Elasticsearch",
    "Findings",
    "Log",
    "Mail",
    "Metrics",
    "Poll",
    "Portal",
    "Prometheus",
    "Pushgateway",
    "RuleSetting",
    "Serve",
    "Settings",
    "Slurm",
    "Store",
    "Trace",
]


class Cluster(msgspec.Struct, frozen=True):
    """One cluster of those that are read, with what holds for it."""

    slurm: Slurm = Slurm()
    poll: Poll = Poll()
    own: frozenset[str] | None = None  # what its section says itself; None: it is the one of [slurm]

    @property
    def has_commands(self) -> bool:
        """Whether this machine's commands ask this cluster, and not whichever one this machine belongs to."""
        if self.own is None or not self.slurm.rest_url or self.slurm.source not in ("auto", "rest"):
            return True
        return not self.own.isdisjoint(("ssh", "conf", "bin_dir", "multi_cluster"))


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slurm: Slurm = Slurm()
    poll: Poll = Poll()
    metrics: Metrics = Metrics()
    serve: Serve = Serve()
    log: Log = Log()
    prometheus: Prometheus = Prometheus()
    store: Store = Store()
    accounting: Accounting = Accounting()
    database: Database = Database()
    elasticsearch: Elasticsearch = Elasticsearch()
    cloudwatch: CloudWatch = CloudWatch()
    pushgateway: Pushgateway = Pushgateway()
    agents: Agents = Agents()
    trace: Trace = Trace()
    agent: Agent = Agent()
    cost: Cost = Cost()
    mail: Mail = Mail()
    portal: Portal = Portal()
    findings: Findings = Findings()
    rules: Annotated[
        list[RuleSetting],
        Meta(
            description="Any number of `[[rules]]`: `rule` is the name of one (`slurmscope rules list`), `enabled` "
            "turns it on or off, and its thresholds are set by their names. With `cluster` and `partition` it holds "
            "there only. Later ones win."
        ),
    ] = []
    allocations: Annotated[
        list[Allocation],
        Meta(
            description="Any number of `[[allocations]]`: `amount` years of a `resource` (`gpu`, `core` or `unit`) "
            "that `account` has on `cluster` from `start` until before `end`. Without an account it is the whole "
            "cluster's."
        ),
    ] = []
    constants: Annotated[
        dict[str, float],
        Meta(
            description="Numbers that are served as they are, at `/constants` and `/metrics/constants`: "
            "`students = 120`."
        ),
    ] = {}
    clusters: Annotated[
        dict[str, Cluster],
        Meta(
            description="A section for each cluster, where several are read: NAME is its `cluster` label. "
            "It may set whatever `slurm` and `poll` have; what it leaves out is as those have it."
        ),
    ] = {}

    @property
    def read(self) -> tuple[Cluster, ...]:
        """The clusters that are read."""
        return tuple(self.clusters.values()) or (Cluster(self.slurm, self.poll),)
