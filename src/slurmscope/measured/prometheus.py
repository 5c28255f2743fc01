# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What jobs used, from Prometheus: of a job that it was told of by agents' pages, the course."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec

from slurmscope import course as courses
from slurmscope.course import MIB, Course
from slurmscope.measure import GpuUse, Measure
from slurmscope.model import Job
from slurmscope.slurm.values import hosts
from slurmscope.worker import compute

_TIMEOUT = 30.0  # seconds for a whole request
_MOST_ANSWER = 32 << 20
_POINTS, _FEWEST = 720, 30  # of a series: twice the buckets of a course, and fewer for jobs of many nodes
_MOST_VALUES = 400_000
_HOLE = 5  # times the usual distance of two samples, of which nobody knows what was between

# Families of an agent, and what each says of a Measure.
_OWN = {
    "slurm_job_cpus": "cpus",
    "slurm_job_cpu_seconds_total": "cpu_seconds",
    "slurm_job_cpu_throttled_seconds_total": "throttled_seconds",
    "slurm_job_memory_bytes": "memory",
    "slurm_job_memory_anonymous_bytes": "anonymous",
    "slurm_job_memory_shared_bytes": "shared",
    "slurm_job_memory_rss_bytes": "rss",
    "slurm_job_memory_peak_bytes": "peak",
    "slurm_job_memory_limit_bytes": "limit",
    "slurm_job_oom_kills_total": "oom_kills",
    "slurm_job_processes": "processes",
    "slurm_job_threads": "threads",
    "slurm_job_open_files": "open_files",
    "slurm_job_uses_scratch": "scratch",
    "slurm_job_read_bytes_total": "read_bytes",
    "slurm_job_written_bytes_total": "written_bytes",
}
# … of a GpuUse.
_GPU = {
    "slurm_job_gpu_utilization_ratio": "utilization",
    "slurm_job_gpu_memory_bytes": "memory_used",
    "slurm_job_gpu_memory_total_bytes": "memory_total",
    "slurm_job_gpu_power_watts": "power",
    "slurm_job_gpu_processes": "processes",
}
# The names of an older exporter: the field, and what its unit is in ours.
_OLD = {
    "jobs_cpu_time_total": ("cpu_seconds", 1),
    "jobs_rss": ("rss", MIB),
    "jobs_spawned_processes": ("processes", 1),
    "jobs_opened_files": ("open_files", 1),
    "jobs_uses_scratch": ("scratch", 1),
    "jobs_read_mb": ("read_bytes", MIB),
    "jobs_write_mb": ("written_bytes", MIB),
}
_FRACTIONS = frozenset({"cpu_seconds", "throttled_seconds", "utilization", "power"})


class PrometheusError(Exception):
    """It cannot be asked now; the message says why and what to do."""


class QueryRefused(PrometheusError):
    """It answers, but not this question."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Matrix = msgspec.field(default_factory=_Matrix)
    error: str = ""


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        # a password may be in it
        self._shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def course(self, cluster: str, job: Job) -> Course | None:
        """Of a job that has started and ended; None when nothing is known of it. Raises PrometheusError."""
        own = f'cluster={_quoted(cluster)},jobid="{job.id}"', (*_OWN, *_GPU), "slurm_job_processes"
        old = f'slurm_job="{job.id}"', tuple(_OLD), "jobs_spawned_processes"
        for labels, families, always in (own, old):
            told = await self._ask(f'{{__name__=~"{"|".join(families)}",{labels}}}', job)
            if told:
                # Prometheus goes on telling a sample for 5 minutes: when it was taken is to be asked for
                taken = await self._ask(f"timestamp({always}{{{labels}}})", job)
                return await compute(_course, told, taken, job)
        return None

    async def _ask(self, query: str, job: Job) -> list[_Series]:
        start, end = job.start_time or 0, job.end_time or 0
        families = len(_OWN) + len(_GPU) * sum(job.gpus.values())
        points = max(_FEWEST, min(_POINTS, _MOST_VALUES // (families * max(1, job.nodes))))
        step = max(1, math.ceil((end - start) / points))
        form = {"query": query, "start": str(start), "end": str(end + step), "step": str(step)}
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, body = await self._post(form)
        except (TimeoutError, httpx.TimeoutException):
            raise PrometheusError(f"{self._shown} did not answer in {_TIMEOUT:g} s (prometheus.url)") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = str(error) or type(error).__name__
            raise PrometheusError(f"{self._shown} cannot be reached: {why} (prometheus.url)") from error
        if status in (400, 422):
            raise QueryRefused(f"{self._shown} refused to tell of job {job.id}: {_words(body)}")
        if status != 200:
            raise PrometheusError(f"{self._shown} answers with {status}: {_words(body)} (prometheus.url)")
        try:
            return (await compute(_decode, body)).data.result
        except ValueError as error:
            told = f"{self._shown} answers not as Prometheus does: {str(error)[:200]}"
            raise PrometheusError(f"{told} (prometheus.url)") from None

    async def _post(self, form: Mapping[str, str]) -> tuple[int, bytes]:
        if self._client is None:
            # no proxy and no .netrc of the environment: who is asked is told by the settings alone
            context = ssl.create_default_context()
            self._client = httpx.AsyncClient(verify=context, timeout=_TIMEOUT, trust_env=False)
        body = bytearray()
        async with self._client.stream("POST", f"{self._url}/api/v1/query_range", data=dict(form)) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_ANSWER:
                    raise QueryRefused(f"{self._shown} answers with more than {_MOST_ANSWER >> 20} MiB")
        return response.status_code, bytes(body)


_decode = msgspec.json.Decoder(_Answer).decode


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _words(body: bytes) -> str:
    return " ".join(body.decode("utf-8", "replace").split())[:200] or "no message"


# --- from series to a course ------------------------------------------------------------------------------------------

_Points = dict[float, float]
_Place = tuple[str, str, str]  # a node, and by which way it is scraped


class _Node:
    """What is known of a job on a node: the points of each field, and of each GPU's."""

    def __init__(self) -> None:
        self.fields: dict[str, _Points] = {}
        self.gpus: dict[str, tuple[GpuUse, dict[str, _Points]]] = {}

    @property
    def times(self) -> list[float]:
        points = [*self.fields.values(), *(one for _, fields in self.gpus.values() for one in fields.values())]
        return sorted({time for one in points for time in one})

    def measures(self, job: Job, taken: _Points) -> list[tuple[float, Measure]]:
        """What was taken when; what is told again is left out."""
        found: list[tuple[float, Measure]] = []
        last = float(job.start_time or 0)
        for time in self.times:
            at = taken.get(time, time if not taken else 0.0)
            if at > last:
                found.append((at, self._measure(job, time)))
                last = at
        return found

    def _measure(self, job: Job, time: float) -> Measure:
        gpus = [
            msgspec.structs.replace(gpu, **_at(fields, time))
            for gpu, fields in self.gpus.values()
            if any(time in points for points in fields.values())
        ]
        told = _at(self.fields, time)
        return Measure(job=job.id, start_time=job.start_time, gpus=tuple(gpus) if gpus else None, **told)


def _at(fields: Mapping[str, _Points], time: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, points in fields.items():
        value = points.get(time)
        if value is not None:
            found[name] = value if name in _FRACTIONS else bool(value) if name == "scratch" else int(value)
    return found


def _course(told: list[_Series], taken: list[_Series], job: Job) -> Course | None:
    own = set(hosts(job.node_list))
    nodes: dict[str, tuple[_Place, _Node]] = {}
    for place, node in _nodes(told).items():
        # an agent that is scraped by two ways is listened to once
        known = nodes.get(place[0])
        if (not own or place[0] in own) and (known is None or len(known[1].times) < len(node.times)):
            nodes[place[0]] = place, node
    times = {_place(one.metric): _points(one) for one in taken}
    found: Course | None = None
    for name, (place, node) in nodes.items():
        found = _added(found, name, node.measures(job, times.get(place, {})), job)
    return found


def _place(labels: Mapping[str, str]) -> _Place:
    node = labels.get("node", "")
    if not node:  # by the older names
        node = (labels.get("exported_instance") or labels.get("instance", "")).partition(":")[0].partition(".")[0]
    return node, labels.get("instance", ""), labels.get("job", "")


def _points(series: _Series) -> _Points:
    return {time: value for time, text in series.values if math.isfinite(value := float(text)) and value >= 0}


def _nodes(series: Iterable[_Series]) -> dict[_Place, _Node]:
    found: dict[_Place, _Node] = {}
    for one in series:
        labels, points = one.metric, _points(one)
        family = labels.get("__name__", "")
        node = found.setdefault(_place(labels), _Node())
        if family in _OLD:
            field, unit = _OLD[family]
            node.fields[field] = {time: value * unit for time, value in points.items()}
        elif family in _OWN:
            node.fields[_OWN[family]] = points
        elif family in _GPU:
            uuid = labels.get("uuid", "")
            node.gpus.setdefault(uuid, (_gpu(labels), {}))[1][_GPU[family]] = points
    return found


def _gpu(labels: Mapping[str, str]) -> GpuUse:
    index, _, instance = labels.get("gpu", "").partition(".")
    return GpuUse(
        uuid=labels.get("uuid", ""),
        index=int(index) if index.isdecimal() else 0,
        instance=int(instance) if instance.isdecimal() else None,
        model=labels.get("model", ""),
    )


def _added(course: Course | None, node: str, measures: list[tuple[float, Measure]], job: Job) -> Course | None:
    hole = _HOLE * median([later - earlier for (earlier, _), (later, _) in pairwise(measures)] or [0.0])
    end = float(job.end_time or 0)
    before: tuple[float, Measure] | None = None
    for time, measure in measures:
        if before is None:
            sample = courses.between(None, measure, node, time, time, courses.PROMETHEUS)
        elif time - before[0] <= hole:
            sample = courses.between(before[1], measure, node, before[0], min(time, end), courses.PROMETHEUS)
        else:
            sample = None
        if sample is not None:
            course = courses.add(course, sample)
        before = time, measure
    return course
