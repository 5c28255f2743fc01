# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Amazon CloudWatch: nodes, jobs and the scheduler of each cluster as metrics.

Values are those of the Prometheus pages, from the same snapshot, under the time at which Slurm was asked. A value that
is not known is left out, and one that was sent is not sent again under a later time because nothing newer is known.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from slurmscope.checks import CLUSTER_DIMENSION
from slurmscope.metrics.compat.samples import micros
from slurmscope.metrics.compat.states import word_of
from slurmscope.model import HOLDING_STATES, PENDING, RUNNING, SUSPENDED, WAITING_STATES, Job, Node, Scheduler, Snapshot
from slurmscope.settings import CloudWatch
from slurmscope.sinks.sender import Batch, Receipt, Sender
from slurmscope.sinks.sink import BatchError, SendError, SinkError, Tally
from slurmscope.sinks.spool import Spool
from slurmscope.worker import compute

COUNT, MICROSECONDS = "Count", "Microseconds"
Value = tuple[str, str, float | None]  # a metric's name, its unit, and what it is

# By the word that sinfo prints. All are told at 0 too; nodes in other states (inval, reboot, …) are in none.
NODE_WORDS: Mapping[str, tuple[str, ...]] = {
    "fail": ("fail", "failing"),
    "drain": ("drained", "draining"),
    "drained": ("drained",),
    "draining": ("draining",),
    "down": ("down",),
    "err": ("error",),
    "alloc": ("allocated",),
    "comp": ("completing",),
    "idle": ("idle", "planned"),
    "maint": ("maint",),
    "mix": ("mixed",),
    "resv": ("reserved",),
}
JOB_STATES = (
    PENDING,
    RUNNING,
    SUSPENDED,
    "CANCELLED",
    "COMPLETING",
    "COMPLETED",
    "CONFIGURING",
    "FAILED",
    "TIMEOUT",
    "PREEMPTED",
    "NODE_FAIL",
)
JOB_EVENTS = ("submitted", "started", "completed", "canceled", "failed")
_OWN_NAME = frozenset({RUNNING, SUSPENDED, "COMPLETING", "CONFIGURING"})

_MOST_ITEMS = 1000
# A request may have 1 MB; as a form, which it was in older boto3, it is up to five times as long as our JSON.
_MOST_BYTES = 200_000
_MOST_AGE = 14 * 86400 - 3600  # AWS refuses what is older than two weeks
_MOST_VALUE = 2.0**360
_FLUSH_SECONDS = 5.0
# said of what is wrong with a value, and not with us or with AWS
_BAD = ("InvalidParameterValue", "InvalidParameterCombination", "MissingParameter", "ValidationError", "InvalidFormat")
_LARGE = ("RequestEntityTooLarge", "413")


# --- what the metrics are ---------------------------------------------------------------------------------------------


def of_nodes(nodes: Iterable[Node]) -> Iterator[Value]:
    words = Counter(word_of(node) for node in nodes)
    for name, counted in NODE_WORDS.items():
        yield f"slurm_node_{name}", COUNT, sum(words[word] for word in counted)


def of_jobs(jobs: Iterable[Job]) -> Iterator[Value]:
    """Tasks by state. What waits again is pending, what is being resized or signalled runs."""
    states: Counter[str] = Counter()
    for job in jobs:
        state = job.state
        if state in WAITING_STATES:
            state = PENDING
        elif state in HOLDING_STATES and state not in _OWN_NAME:
            state = RUNNING
        states[state] += job.tasks
    for state in JOB_STATES:
        yield f"slurm_queue_{state.lower()}", COUNT, states[state]


def of_scheduler(one: Scheduler) -> Iterator[Value]:
    yield "slurm_scheduler_threads", COUNT, one.threads
    yield "slurm_scheduler_queue_size", COUNT, one.main.last_queue_length
    yield "slurm_scheduler_agent_queue_size", COUNT, one.agent_queue
    yield "slurm_scheduler_last_cycle", MICROSECONDS, micros(one.main.last_seconds)
    yield "slurm_scheduler_mean_cycle", MICROSECONDS, micros(one.main.mean_seconds)
    yield "slurm_scheduler_cycle_per_minute", COUNT, one.main.per_minute
    yield "slurm_scheduler_backfill_last_cycle", MICROSECONDS, micros(one.backfill.last_seconds)
    yield "slurm_scheduler_backfill_mean_cycle", MICROSECONDS, micros(one.backfill.mean_seconds)
    yield "slurm_scheduler_backfill_depth_mean", COUNT, one.backfill.mean_depth
    for event in JOB_EVENTS:
        # since slurmctld's statistics began; of states, which are of this moment, slurm_queue_* tells
        yield f"slurm_jobs_{event}", COUNT, one.jobs.get(event)


_PARTS: dict[str, Callable[[Any], Iterator[Value]]] = {"nodes": of_nodes, "jobs": of_jobs, "scheduler": of_scheduler}


class _Datum(msgspec.Struct):
    """One value as it waits in the spool."""

    name: str
    unit: str
    value: float
    time: float
    dimensions: dict[str, str]


# --- the sink ---------------------------------------------------------------------------------------------------------


class CloudWatchSink:
    name = "cloudwatch"

    def __init__(self, settings: CloudWatch, folder: Path) -> None:
        if importlib.util.find_spec("boto3") is None:
            raise SinkError("cloudwatch.enabled: boto3 is missing: pip install 'slurmscope[cloudwatch]'")
        self._settings = settings
        spool = Spool(folder / "cloudwatch.db", settings.spool_megabytes << 20)
        self._sender = Sender(self.name, spool, self._send, most_items=_MOST_ITEMS, most_bytes=_MOST_BYTES)
        self._client: Any = None
        self._sent: dict[tuple[str, str], float] = {}  # by cluster and part: the time of the last value
        # polls are not exactly an interval apart
        self._interval = settings.interval - min(5.0, settings.interval / 10)

    @property
    def tally(self) -> Tally:
        return self._sender.tally

    async def run(self) -> None:
        await self._sender.run()

    async def close(self) -> None:
        await self._sender.flush(_FLUSH_SECONDS)
        self._sender.close()

    async def take(self, snapshot: Snapshot) -> None:
        """Sends what is new in a snapshot, if the last of that cluster is long enough ago."""
        if snapshot.cluster:
            await self._sender.add(await compute(lambda: list(self._items(snapshot))))

    def _items(self, snapshot: Snapshot) -> Iterator[bytes]:
        dimensions = self._dimensions(snapshot.cluster)
        for name, values in _PARTS.items():
            part = snapshot.part(name)
            if part.value is None or part.time is None:
                continue
            last = self._sent.get((snapshot.cluster, name))
            if last is not None and 0 <= part.time - last < self._interval:  # a clock may be set back
                continue
            self._sent[snapshot.cluster, name] = part.time
            for metric, unit, value in values(part.value):
                if value is not None and math.isfinite(value) and abs(value) <= _MOST_VALUE:
                    yield msgspec.json.encode(_Datum(metric, unit, value, part.time, dimensions))

    def _dimensions(self, cluster: str) -> dict[str, str]:
        # CloudWatch takes ASCII only
        name = cluster.encode("ascii", "backslashreplace").decode()[:1024]
        return {CLUSTER_DIMENSION: name} | self._settings.dimensions

    async def _send(self, batch: Batch) -> Receipt:
        oldest = time.time() - _MOST_AGE
        data = [(seq, msgspec.json.decode(item, type=_Datum)) for seq, item in batch]
        fresh = [(seq, one) for seq, one in data if one.time > oldest]
        if fresh:
            await asyncio.to_thread(self._put, [self._metric(one) for _, one in fresh])
        return Receipt([seq for seq, _ in fresh], expired=[seq for seq, one in data if one.time <= oldest])

    def _metric(self, one: _Datum) -> dict[str, Any]:
        return {
            "MetricName": one.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in one.dimensions.items()],
            "Timestamp": one.time,
            "Value": one.value,
            "Unit": one.unit,
            "StorageResolution": 1 if self._settings.high_resolution else 60,
        }

    def _put(self, metrics: list[dict[str, Any]]) -> None:
        """In a thread: boto3 waits for answers. It compresses what it sends."""
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError  # noqa: PLC0415

        try:
            if self._client is None:
                self._client = self._connected()
            self._client.put_metric_data(Namespace=self._settings.namespace, MetricData=metrics)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", "unknown")).removesuffix("Exception")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in _LARGE or status == 413:
                raise BatchError(f"too large: {len(metrics)} metrics at a time", large=True) from error
            if code in _BAD:
                raise BatchError(f"{code}: {error}") from error
            raise SendError(f"CloudWatch: {error}") from error
        except ParamValidationError as error:
            raise BatchError(f"ParamValidationError: {error}") from error
        except BotoCoreError as error:
            # credentials may be there later: a file, a role, or another region
            self._client = None
            raise SendError(f"CloudWatch: {' '.join(str(error).split())}") from error

    def _connected(self) -> Any:
        import boto3  # noqa: PLC0415 - an extra, and slow to load
        from botocore.config import Config  # noqa: PLC0415

        # tries again are ours
        config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=10)
        session = boto3.session.Session(region_name=self._settings.region or None)
        return session.client("cloudwatch", endpoint_url=self._settings.endpoint_url or None, config=config)
