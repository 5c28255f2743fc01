# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A real `slurmscope serve` to which agents send: right reports, wrong ones and hostile ones."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from measured.agents import AGENTS, TOKEN, measure, post, report
from processes import until
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from served import Served, serving

from slurmscope.measure import Gpu, GpuUse, Program
from slurmscope.node.post import Poster
from slurmscope.settings import Agent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), AGENTS + '[store]\nurl = "none"\n') as served:
        yield served.wait()


def metric(served: Served, name: str) -> float:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))


def refused(served: Served, reason: str) -> float:
    lines = served.get("/metrics/slurmscope")[2].decode().splitlines()
    return next(
        float(line.rpartition(" ")[2]) for line in lines if f'refused_total{{cluster="lab24",reason="{reason}"' in line
    )


def resident(served: Served) -> int:
    """MiB."""
    pages = int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def test_what_was_told_last_is_a_page(served: Served) -> None:
    now = time.time()
    gpu = GpuUse(uuid="GPU-1", index=0, model="H200", utilization=0.5, memory_used=1 << 30)
    told = report("g1", now - 2, measure(2, 60, gpus=(gpu,), programs=(Program("py\nthon", 1, 2, 2, 5, 1.5),)))
    assert post(served, told) == (200, "taken: 1\n")
    assert post(served, [told, report("g1", now, measure(2, 62, gpus=(gpu,)))], packed=True) == (200, "taken: 2\n")
    for reader, accept in ((read_text, "text/plain"), (read_openmetrics, "application/openmetrics-text")):
        status, headers, body = served.get("/metrics/jobs", accept=accept, accept_encoding="gzip")
        assert (status, headers["content-encoding"], headers["content-type"].split(";")[0]) == (200, "gzip", accept)
        page = {sample.name: sample for family in reader(gzip.decompress(body).decode()) for sample in family.samples}
        used = page["slurm_job_cpu_seconds_total"]
        assert (used.value, used.labels["node"], used.labels["jobid"]) == (124.0, "g1", "2")
        assert page["slurm_job_gpu_utilization_ratio"].value == 0.5
        assert "slurm_job_program_threads" not in page, "the newest report tells of no programs"
    assert metric(served, "slurm_agents") == 1
    assert metric(served, "slurm_agent_reports_total") == 3
    assert 0 <= metric(served, "slurm_agent_oldest_seconds") < 60


def test_a_node_that_is_not_heard_of_any_more_is_not_shown(served: Served) -> None:
    assert post(served, report("old", time.time() - 296, measure(1, 5)))[0] == 200
    assert post(served, report("older", time.time() - 400, measure(1, 5)))[0] == 200
    body = served.get("/metrics/jobs")[2].decode()
    assert 'node="older"' not in body
    assert until(lambda: 'node="old"' not in served.get("/metrics/jobs")[2].decode(), 120)


def test_what_the_agent_itself_sends_is_taken(served: Served, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    now = time.time()
    told = [report("posted", now - 100 + at, measure(1, at)) for at in range(100)]

    async def send() -> int:
        poster = Poster(Agent(serve_url=f"http://127.0.0.1:{served.port}", serve_token_file=str(token)))
        await poster.take(told)
        running = asyncio.create_task(poster.run())
        async with asyncio.timeout(120):
            while poster.tally.queued:
                await asyncio.sleep(0.01)
        running.cancel()
        await poster.close()
        return poster.tally.sent

    assert asyncio.run(send()) == 100
    line = 'slurm_job_cpu_seconds_total{cluster="lab24",jobid="1",user="somebody",account="else",node="posted"} 198.0'
    # a page that took long to make is shown for a while
    assert until(lambda: line in served.get("/metrics/jobs")[2].decode())


def test_without_the_right_token_nothing_is_taken(served: Served) -> None:
    for token in (None, "wrong", ""):
        status, said = post(served, report("n1", time.time()), token=token)
        assert status == 401
        assert "agent.serve_token_file" in said
    assert refused(served, "token") >= 3
    assert served.get("/agent")[0] == 200, "what it is for, whoever asks"


def test_of_a_cluster_that_is_not_read_here(served: Served) -> None:
    status, said = post(served, report("n1", time.time(), cluster="elsewhere"))
    assert (status, said) == (400, "cluster: expected lab24, for no other is read here, found 'elsewhere'\n")
    assert post(served, report("n9", time.time(), cluster=""))[0] == 200, "there is but one"
    assert 'node="n9"' not in served.get("/metrics/jobs")[2].decode(), "it told of no jobs"


WRONG = {
    b"": "expected a report",
    b"null": "expected a report",
    b"[" * 100_000: "expected a report",
    b'{"cluster":' * 50_000: "expected a report",
    b'{"cluster":"lab24"}': "missing required field `node`",
    b'\xff\xfe{"a":1}': "expected a report",
    b'{"cluster":"lab24","node":"n1","time":"now","seconds":1,"jobs":[]}': "$.time",
    b'{"cluster":"lab24","node":"n1","time":1,"seconds":1,"jobs":[{"job":1e400}]}': "expected a report",
    b"[" + b"{}," * 300_000 + b"{}]": "too many things",
}


@pytest.mark.parametrize("body", WRONG, ids=[str(at) for at in range(len(WRONG))])
def test_what_is_no_report_is_refused_with_the_place(served: Served, body: bytes) -> None:
    for packed in (False, True):
        status, said = post(served, body, packed=packed)
        assert (status, WRONG[body] in said) == (400, True), said


def test_reports_that_cannot_be_are_refused_with_the_place(served: Served) -> None:
    now = time.time()
    one = measure(7, 10)
    cases = {
        "$.node": report("../../etc", now),
        "$.node: expected the name of a node, found ''": report("", now),
        "$.time: expected a time of the last day, found one of +3600 s": report("n1", now + 3600.5),
        "$.time": report("n1", now - 90000),
        "$.jobs: at most 10000": report("n1", now, *(measure(at, 1) for at in range(10_001))),
        "$.jobs: the same is there twice": report("n1", now, one, one),
        "$[1].jobs[0].cpu_seconds: expected a number": [report("n1", now), report("n1", now, measure(7, -1))],
        "$.jobs[0].anonymous: expected a number": report("n1", now, measure(7, 1, anonymous=1 << 61)),
        "$.jobs[0].user: at most 256": report("n1", now, measure(7, 1, user="x" * 257)),
        "$.jobs[0].programs[0].name: at most 256": report(
            "n1", now, measure(7, 1, programs=(Program("x" * 999, 1, 1, 1, 1, 1.0),))
        ),
        "$.gpus: the same": report("n1", now, gpus=(Gpu(uuid="a", index=0), Gpu(uuid="a", index=1))),
        "at most 64 reports": [report("n1", now)] * 65,
    }
    for place, body in cases.items():
        status, said = post(served, body)
        assert (status, place in said) == (400, True), (place, said)
    assert refused(served, "time") >= 2
    assert refused(served, "body") >= 8


def test_bodies_that_are_too_long_or_not_what_they_say(served: Served) -> None:
    assert post(served, b"x" * (10 << 20))[0] == 413
    before = resident(served)
    bomb = gzip.compress(b" " * (1 << 30))
    assert len(bomb) < 4 << 20
    status, said = post(served, bomb, content_encoding="gzip")
    assert (status, "once they are unpacked" in said) == (400, True), said
    assert post(served, b"no gzip", content_encoding="gzip")[1].startswith("the body: is no gzip")
    cut = gzip.compress(msgspec.json.encode(report("n1", time.time())))
    assert post(served, cut[:-9], content_encoding="gzip")[1] == "the body: is not one whole piece of gzip\n"
    assert post(served, cut + cut, content_encoding="gzip")[0] == 400
    assert post(served, b"{}", content_encoding="br")[1] == "Content-Encoding: expected gzip, or none\n"
    dense = b'{"cluster":"lab24","node":"n1","time":1,"seconds":1,"jobs":[{"job":1,"core_seconds":{%s}}]}'
    cores = b",".join(b'"%d":1' % at for at in range(2_500_000))
    assert post(served, dense % cores, packed=True)[0] in (400, 413)
    assert resident(served) < before + 200


def test_more_nodes_than_there_can_be(served: Served) -> None:
    before, now = resident(served), time.time()
    statuses = set()
    for at in range(0, 100_000, 64):
        some = [report(f"made-up-{number}", now, measure(1, 5)) for number in range(at, at + 64)]
        statuses.add(post(served, some)[0])
    assert statuses == {200, 503}
    assert metric(served, "slurm_agents") == 20_000
    assert refused(served, "room") > 1000
    assert resident(served) < before + 300
    assert served.get("/metrics")[0] == 200


def test_a_cluster_that_has_another_name_here(tmp_path: Path) -> None:
    with serving(
        tmp_path, AGENTS + '[store]\nurl = "none"\n[clusters.ours]\n[clusters.theirs]\nbin_dir = "/nowhere"\n'
    ) as served:
        served.wait()
        assert until(lambda: post(served, report("n1", time.time(), measure(1, 5), cluster="lab24"))[0] == 200, 120)
        assert 'slurm_job_cpus{cluster="ours",' in served.get("/metrics/jobs")[2].decode()
        status, said = post(served, report("n1", time.time(), cluster=""))
        assert (status, said) == (400, "cluster: expected ours or theirs, for no other is read here, found none\n")


def test_without_agents_there_is_no_such_address(tmp_path: Path) -> None:
    with serving(tmp_path, '[store]\nurl = "none"\n') as served:
        served.wait()
        assert served.get("/agent")[0] == 404
        status, said = post(served, report("n1", time.time()))
        assert (status, "agents.enabled" in said) == (404, True)
        assert served.get("/metrics/jobs")[0] == 404
        assert "slurm_agent" not in served.get("/metrics/slurmscope")[2].decode()
