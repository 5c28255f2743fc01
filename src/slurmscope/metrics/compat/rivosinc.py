# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The page of rivosinc/prometheus-slurm-exporter: its names and labels, with true values.

Names are those that its code exposes and, where they differ, those that its README has as well.
docs/compatibility.md lists every difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from slurmscope.metrics.compat.samples import Samples, capped, micros, of_scheduler
from slurmscope.metrics.compat.states import BUSY_WORDS, WORDS, word_of
from slurmscope.metrics.exposition import COUNTER, GAUGE, Family, Sample, Topic
from slurmscope.metrics.view import OTHER, Amount, Amounts, View, reason_label
from slurmscope.model import HOLDING_STATES, JOB_STATES, PENDING, RUNNING, WAITING_STATES, License, Node, Rpc
from slurmscope.slurm.commands import BY_PART

# --- nodes ----------------------------------------------------------------------------------------------------


def _sum(nodes: Iterable[Node], value: Callable[[Node], float | None]) -> float | None:
    """None when there are nodes and none of them tells it."""
    found = [value(node) for node in nodes]
    told = [one for one in found if one is not None]
    return round(sum(told), 2) if told or not found else None


def _cluster(value: Callable[[Node], float | None]) -> Samples:
    return lambda view: [((), _sum(view.nodes, value))]


def _partition(value: Callable[[Node], float | None]) -> Samples:
    return lambda view: (((name,), _sum(nodes, value)) for name, nodes in view.nodes_of.items())


def _by_state(nodes: Iterable[Node], value: Callable[[Node], int], always: tuple[str, ...]) -> Counter[str]:
    found = Counter(dict.fromkeys(always, 0))
    for node in nodes:
        found[word_of(node)] += value(node)
    return found


def _cluster_states(value: Callable[[Node], int]) -> Samples:
    return lambda view: (((state,), count) for state, count in _by_state(view.nodes, value, WORDS).items())


def _partition_states(value: Callable[[Node], int], always: tuple[str, ...]) -> Samples:
    return lambda view: (
        ((name, state), count)
        for name, nodes in view.nodes_of.items()
        for state, count in _by_state(nodes, value, always).items()
    )


_P, _PS = ("partition",), ("partition", "state")
_FREE = "Memory that the kernels call free, whoever it is allocated to, in bytes"

NODES: Topic[View] = Topic(
    "rivosinc nodes",
    "nodes",
    frozenset({"partitions"}),
    (
        Family("slurm_partition_total_cpus", GAUGE, "CPUs of the partition's nodes.", _P, _partition(lambda node: node.cpus)),
        Family("slurm_partition_idle_cpus", GAUGE, "CPUs of the partition's nodes that a job could get now.", _P, _partition(lambda node: node.cpus_idle)),
        Family("slurm_partition_real_mem", GAUGE, "Memory of the partition's nodes in bytes.", _P, _partition(lambda node: node.memory)),
        Family("slurm_partition_free_mem", GAUGE, f"{_FREE}.", _P, _partition(lambda node: node.memory_free)),
        Family("slurm_partition_weight", GAUGE, "Sum of the scheduling weights of the partition's nodes.", _P, _partition(lambda node: node.weight)),
        Family("slurm_partition_cpu_load", GAUGE, "Sum of the load averages of the partition's nodes.", _P, _partition(lambda node: node.load)),
        Family("slurm_partition_alloc_cpus", GAUGE, "Allocated CPUs of the partition's nodes by the nodes' state.", _PS, _partition_states(lambda node: node.cpus_allocated, BUSY_WORDS)),
        Family("slurm_partition_alloc_mem", GAUGE, "Allocated memory of the partition's nodes in bytes, by the nodes' state.", _PS, _partition_states(lambda node: node.memory_allocated, BUSY_WORDS)),
        Family("slurm_partition_node_count", GAUGE, "The partition's nodes by state.", _PS, _partition_states(lambda node: 1, WORDS)),
        Family("slurm_cpus_total", GAUGE, "CPUs.", (), _cluster(lambda node: node.cpus)),
        Family("slurm_cpus_idle", GAUGE, "CPUs that a job could get now.", (), _cluster(lambda node: node.cpus_idle)),
        Family("slurm_cpu_load", GAUGE, "Sum of the nodes' load averages.", (), _cluster(lambda node: node.load)),
        Family("slurm_cpus_per_state", GAUGE, "CPUs by their node's state.", ("state",), _cluster_states(lambda node: node.cpus)),
        Family("slurm_node_count_per_state", GAUGE, "Nodes by state.", ("state",), _cluster_states(lambda node: 1)),
        Family("slurm_mem_real", GAUGE, "Memory in bytes.", (), _cluster(lambda node: node.memory)),
        Family("slurm_mem_free", GAUGE, f"{_FREE}.", (), _cluster(lambda node: node.memory_free)),
        Family("slurm_mem_alloc", GAUGE, "Allocated memory in bytes.", (), _cluster(lambda node: node.memory_allocated)),
    ),
)  # fmt: skip

# --- jobs -----------------------------------------------------------------------------------------------------

_Find = Callable[[View], Amounts]


def _everything(view: View) -> Amounts:
    found = view.queue.by(lambda group: [(group.state,)])
    found.setdefault((RUNNING,), Amount(gpus={}))  # an empty queue is told with zeros
    return found


def _partitions(view: View) -> Amounts:
    found = view.queue.by(lambda group: [(name, group.state) for name in group.partition.split(",")])
    for name in view.partitions:
        found.setdefault((name, RUNNING), Amount(gpus={}))
    return found


def _capped(family: str, field: str) -> _Find:
    return lambda view: capped(view, family, field)


def _states(found: Amounts, value: Callable[[Amount], int], always: tuple[str, ...]) -> Iterable[Sample]:
    """The sums, and a 0 for each of the states in `always` that has none."""
    for place in dict.fromkeys(key[:-1] for key in found):
        for state in always:
            if (*place, state) not in found:
                yield (*place, state), 0
    for key, amount in found.items():
        yield key, value(amount)


def _count(find: _Find) -> Samples:
    return lambda view: _states(find(view), lambda one: one.jobs, JOB_STATES)


def _held(find: _Find, value: Callable[[Amount], int]) -> Samples:
    return lambda view: _states(find(view), value, (PENDING, RUNNING))


def _allocated(find: _Find, value: Callable[[Amount], int]) -> Samples:
    """What jobs hold, whatever the state in which they hold it."""

    def samples(view: View) -> Iterable[Sample]:
        found = find(view)
        sums = dict.fromkeys((place for place, _ in found), 0)
        for (place, state), amount in found.items():
            if state in HOLDING_STATES:
                sums[place] += value(amount)
        return (((place,), total) for place, total in sums.items())

    return samples


# a constraint may be "a&b", "[a|b]", "(a&b)|c", "a*2&b*4": what is between the signs is a feature
_FEATURE = re.compile(r"([^&|()\[\]{},*]+)(?:\*\d+)?")


def _features(value: Callable[[Amount], int]) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        asked: dict[str, Amount] = {}  # by constraint, of which there are few
        for job in view.jobs:
            if not job.features:
                continue
            amount = asked.setdefault(job.features, Amount(gpus={}))
            amount.jobs += job.tasks
            if job.holding:
                amount.cpus += job.cpus * job.tasks
                amount.memory += (job.memory or 0) * job.tasks
        sums: Counter[str] = Counter()
        for constraint, amount in asked.items():
            for feature in dict.fromkeys(_FEATURE.findall(constraint)):
                sums[feature] += value(amount)
        return (((feature,), count) for feature, count in sums.items())

    return samples


def _reasons(view: View) -> Iterable[Sample]:
    found = view.queue.by(lambda group: [(reason_label(group.reason),)] if group.state in WAITING_STATES else [])
    return ((reason, amount.jobs) for reason, amount in found.items())


_US, _AS = ("username", "state"), ("account", "state")
_HELD = "held by jobs that run and asked for by jobs that wait"

JOBS: Topic[View] = Topic(
    "rivosinc jobs",
    "jobs",
    frozenset({"partitions"}),
    (
        Family("slurm_job_count_per_state", GAUGE, "Jobs by state.", ("state",), _count(_everything)),
        Family("slurm_user_state_total", GAUGE, "Jobs of a user by state.", _US, _count(_capped("slurm_user_state_total", "user"))),
        Family("slurm_user_cpu_alloc", GAUGE, f"CPUs of a user by state of the job: {_HELD}.", _US, _held(_capped("slurm_user_cpu_alloc", "user"), lambda one: one.cpus)),
        Family("slurm_user_mem_alloc", GAUGE, f"Memory of a user in bytes, by state of the job: {_HELD}.", _US, _held(_capped("slurm_user_mem_alloc", "user"), lambda one: one.memory)),
        Family("slurm_partition_job_state_total", GAUGE, "Jobs of a partition by state. A job that waits in two is counted in both.", _PS, _count(_partitions)),
        Family("slurm_account_job_state_total", GAUGE, "Jobs of an account by state.", _AS, _count(_capped("slurm_account_job_state_total", "account"))),
        Family("slurm_account_job_state_cpu_alloc", GAUGE, f"CPUs of an account by state of the job: {_HELD}.", _AS, _held(_capped("slurm_account_job_state_cpu_alloc", "account"), lambda one: one.cpus)),
        Family("slurm_account_job_state_mem_alloc", GAUGE, f"Memory of an account in bytes, by state of the job: {_HELD}.", _AS, _held(_capped("slurm_account_job_state_mem_alloc", "account"), lambda one: one.memory)),
        Family("slurm_account_cpu_alloc", GAUGE, "CPUs that an account's jobs hold.", ("account",), _allocated(_capped("slurm_account_cpu_alloc", "account"), lambda one: one.cpus)),
        Family("slurm_account_mem_alloc", GAUGE, "Memory that an account's jobs hold, in bytes.", ("account",), _allocated(_capped("slurm_account_mem_alloc", "account"), lambda one: one.memory)),
        Family("slurm_feature_total", GAUGE, "Jobs that ask for a feature.", ("feature",), _features(lambda one: one.jobs)),
        Family("slurm_feature_cpu_alloc", GAUGE, "CPUs held by jobs that asked for a feature.", ("feature",), _features(lambda one: one.cpus)),
        Family("slurm_feature_mem_alloc", GAUGE, "Memory held by jobs that asked for a feature, in bytes.", ("feature",), _features(lambda one: one.memory)),
        Family("slurm_pending_reason_total", GAUGE, "Waiting jobs by the reason that Slurm gives.", ("reason",), _reasons),
    ),
)  # fmt: skip

# --- sdiag ----------------------------------------------------------------------------------------------------


def _rpcs_by_type(value: Callable[[Rpc], float | None]) -> Samples:
    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.scheduler.value
        return (((rpc.name,), value(rpc)) for rpc in found.rpcs) if found else ()

    return samples


def _rpcs_by_user(family: str, value: Callable[[Rpc], int | None]) -> Samples:
    """The users that ask most, and all others as one: these are gauges, which may fall."""

    def samples(view: View) -> Iterable[Sample]:
        found = view.snapshot.scheduler.value
        if found is None:
            return ()
        ranked = sorted(found.rpc_users, key=lambda rpc: (-rpc.calls, rpc.name))
        view.dropped[family] = max(0, len(ranked) - view.top)
        sums: Counter[str] = Counter()
        for place, rpc in enumerate(ranked):
            sums[rpc.name if place < view.top else OTHER] += value(rpc) or 0
        return (((user,), total) for user, total in sums.items())

    return samples


def _mean(rpc: Rpc) -> int | None:
    return micros(rpc.seconds / rpc.calls) if rpc.calls else None


DIAGNOSTICS: Topic[View] = Topic(
    "rivosinc diagnostics",
    "scheduler",
    frozenset(),
    (
        Family("slurm_rpc_user_count", GAUGE, "Questions to slurmctld by user since its statistics began.", ("user",), _rpcs_by_user("slurm_rpc_user_count", lambda rpc: rpc.calls)),
        Family("slurm_rpc_user_total_time", GAUGE, "Time that slurmctld spent on a user's questions, in microseconds.", ("user",), _rpcs_by_user("slurm_rpc_user_total_time", lambda rpc: micros(rpc.seconds))),
        Family("slurm_rpc_msg_type_count", GAUGE, "Questions to slurmctld by type since its statistics began.", ("type",), _rpcs_by_type(lambda rpc: rpc.calls)),
        Family("slurm_rpc_msg_type_avg_time", GAUGE, "Mean time that slurmctld spent on a question of a type, in microseconds.", ("type",), _rpcs_by_type(_mean)),
        Family("slurm_rpc_msg_type_total_time", GAUGE, "Time that slurmctld spent on the questions of a type, in microseconds.", ("type",), _rpcs_by_type(lambda rpc: micros(rpc.seconds))),
        Family("slurm_daemon_thread_count", GAUGE, "Threads of slurmctld that are busy with an RPC.", (), of_scheduler(lambda one: one.threads)),
        Family("slurm_dbd_agent_queue_size", GAUGE, "Messages that wait for slurmdbd.", (), of_scheduler(lambda one: one.dbd_queue)),
        Family("slurm_backfill_job_count", GAUGE, "Jobs started by backfill since slurmctld started.", (), of_scheduler(lambda one: one.backfill_more.jobs_since_start)),
        Family("slurm_backfill_cycle_count", GAUGE, "Backfill cycles since the statistics began.", (), of_scheduler(lambda one: one.backfill.total)),
        Family("slurm_backfill_cycle_counter", GAUGE, "Backfill cycles since the statistics began.", (), of_scheduler(lambda one: one.backfill.total)),
        Family("slurm_backfill_last_depth", GAUGE, "Jobs that the last backfill cycle looked at.", (), of_scheduler(lambda one: one.backfill_more.last_depth)),
        Family("slurm_backfill_last_depth_try_sched", GAUGE, "Jobs that the last backfill cycle tried to start.", (), of_scheduler(lambda one: one.backfill_more.last_depth_tried)),
    ),
)  # fmt: skip

# --- licences and limits --------------------------------------------------------------------------------------


def _licenses(value: Callable[[License], int]) -> Samples:
    return lambda view: (((one.name,), value(one)) for one in view.snapshot.licenses.value or ())


LICENSES: Topic[View] = Topic(
    "rivosinc licenses",
    "licenses",
    frozenset(),
    (
        Family("slurm_lic_total", GAUGE, "Licences that there are.", ("name",), _licenses(lambda one: one.total)),
        Family("slurm_lic_used", GAUGE, "Licences in use.", ("name",), _licenses(lambda one: one.used)),
        Family("slurm_lic_free", GAUGE, "Licences that are free.", ("name",), _licenses(lambda one: one.free)),
        Family("slurm_lic_reserved", GAUGE, "Licences that are reserved.", ("name",), _licenses(lambda one: one.reserved)),
    ),
)  # fmt: skip


def _limits(name: str, tres: str | None = None) -> Samples:
    """A limit of the accounts themselves; those of a user in an account are not on this page."""

    def samples(view: View) -> Iterable[Sample]:
        for one in view.snapshot.limits.value or ():
            if one.kind == "association" and one.user is None and (one.name, one.tres) == (name, tres):
                yield (one.account or "",), one.limit

    return samples


LIMITS: Topic[View] = Topic(
    "rivosinc limits",
    "limits",
    frozenset(),
    (
        Family("slurm_account_cpu_limit", GAUGE, "CPUs that an account's jobs may hold together.", ("account",), _limits("GrpTRES", "cpu")),
        Family("slurm_account_mem_limit", GAUGE, "Memory that an account's jobs may hold together, in bytes.", ("account",), _limits("GrpTRES", "mem")),
        Family("slurm_account_job_alloc_limit", GAUGE, "Jobs of an account that may run at the same time.", ("account",), _limits("GrpJobs")),
        Family("slurm_account_job_limit", GAUGE, "Jobs of an account that may run and wait at the same time.", ("account",), _limits("GrpSubmitJobs")),
    ),
)  # fmt: skip

# --- the exporter itself --------------------------------------------------------------------------------------


def _took(view: View, part: str) -> float | None:
    asked = view.spent(part, lambda cost: cost.runs)
    return round(view.snapshot.part(part).seconds * 1000, 3) if asked else None


def _duration(name: str, part: str) -> Family[View]:
    # the format of squeue is long and has marks in it that are new with each run
    command = " ".join("…" if "{" in arg else arg for arg in BY_PART[part].argv)
    told = f"How long the command [{command}] took, in milliseconds."
    return Family(name, GAUGE, told, (), lambda view: [((), _took(view, part))])


def _errors(name: str, part: str) -> Family[View]:
    told = f"Failures of [{BY_PART[part].argv[0]}], and rows of its output that could not be read ({part})."
    return Family(
        name, COUNTER, told, (), lambda view: [((), view.spent(part, lambda cost: cost.failures + cost.rows_skipped))]
    )


def _requests(view: View) -> Iterable[Sample]:
    found = dict.fromkeys((200, 500, 503), 0) | view.requests.total
    return (((str(code),), count) for code, count in sorted(found.items()))


EXPORTER: Topic[View] = Topic(
    "rivosinc exporter",
    None,
    frozenset(),
    (
        _duration("slurm_node_scrape_duration", "nodes"),
        _errors("slurm_node_scrape_error", "nodes"),
        _duration("slurm_job_scrape_duration", "jobs"),
        # the first is the name in its README, the second the one that it really exposes
        _errors("slurm_job_scrape_error", "jobs"),
        _errors("job_scrape_errors", "jobs"),
        _duration("slurm_diag_scrape_duration", "scheduler"),
        _errors("slurm_diag_scrape_error", "scheduler"),
        _errors("slurm_lic_scrape_error", "licenses"),
        _duration("slurm_limit_scrape_duration", "limits"),
        _errors("slurm_account_collect_error", "limits"),
    ),
)

REQUESTS: Topic[View] = Topic(
    "rivosinc requests",
    None,
    frozenset(),
    (
        Family("promhttp_metric_handler_requests_total", COUNTER, "Total number of scrapes by HTTP status code.", ("code",), _requests),
        Family("promhttp_metric_handler_requests_in_flight", GAUGE, "Current number of scrapes being served.", (), lambda view: [((), view.requests.in_flight)]),
    ),
    common=True,
)  # fmt: skip

TOPICS: tuple[Topic[View], ...] = (NODES, JOBS, DIAGNOSTICS, LICENSES, LIMITS, EXPORTER, REQUESTS)
