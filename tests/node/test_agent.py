# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`slurmscope agent` as a process, with jobs that are real processes in real cgroups."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from node.agents import SLURMSCOPE, running, until
from node.real import V2, groups, told, trees
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from served import serving
from servers.process import Server
from sinks.made import Question, Reply, mock

from slurmscope import settings as given
from slurmscope.doctor.finding import Finding
from slurmscope.measure import Gpu, Measure, Report
from slurmscope.node import agent as agents
from slurmscope.node import check
from slurmscope.node.agent import Agent
from slurmscope.node.page import Pages
from slurmscope.notify import Notifier

# of a name of its own, so that jobs of a lab on the same host are not taken for the test's
NODE = "agentnode"
SCOPE = f"system.slice/{NODE}_slurmstepd.scope"
SEED_NAMES = {
    "jobs_cpu_percent",
    "jobs_cpu_percent_per_core",
    "jobs_rss",
    "jobs_spawned_processes",
    "jobs_opened_files",
    "jobs_thread_count",
    "jobs_user_time",
    "jobs_system_time",
    "jobs_cpu_time_total",
    "jobs_uses_scratch",
    "jobs_read_mb",
    "jobs_write_mb",
    "jobs_write_count",
    "jobs_read_count",
}


def jobs(text: str) -> set[str]:
    """The test's own, as a page of ours or the Pushgateway's shows them."""
    return {
        sample.labels["jobid"]
        for family in parse_text(text)
        for sample in family.samples
        if sample.name == "slurm_job_processes" and sample.labels["node"] == NODE
    }


def test_the_page(tmp_path: Path, promtool: str) -> None:
    with groups(trees(V2), SCOPE) as made:
        made.work("job_31/step_0/user/task_0", told(31, SLURM_CPUS_ON_NODE="1"), cpu=0.2, threads=2)
        with running(tmp_path, "interval = 1", SLURMSCOPE_SLURM_CLUSTER="alpha") as agent:
            until(lambda: 'jobs_cpu_percent{cluster="alpha",instance="agentnode"' in agent.get()[2])
            status, kind, text = agent.get("/metrics/slurmscope")
            assert status == 200 and kind.startswith("text/plain") and jobs(text) == {"31"}
            line = [promtool, "check", "metrics"]
            checked = subprocess.run(line, input=text, capture_output=True, text=True, check=False)
            assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
            assert "slurm_agent_looks_total" in text and "process_resident_memory_bytes" in text
            whole = {family.name for family in parse_text(agent.get()[2])}
            assert whole >= SEED_NAMES
            status, kind, text = agent.get("/metrics", Accept="application/openmetrics-text")
            assert kind.startswith("application/openmetrics-text") and list(parse_openmetrics(text))
            assert "<td>31<td>" in agent.get("/")[2]
            assert agent.get("/nothing")[0] == 404
            # another site's name may be made to lead here
            for path in ("/", "/metrics"):
                assert (agent.get(path, Host="evil.example")[0], agent.get(path, Host="localhost")[0]) == (421, 200)
        assert "stopped" in agent.log.read_text()


def test_the_older_names_can_be_left_out_and_the_page_closed(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    with running(tmp_path, f'[metrics]\ncompat = false\n[serve]\ntokens = ["{digest}"]') as agent:
        assert agent.get()[0] == 401
        until(lambda: agent.get("/metrics", Authorization="Bearer secret")[0] == 200)
        assert "\njobs_" not in agent.get("/metrics", Authorization="Bearer secret")[2]
        assert agent.get("/healthz")[0] == 200


def test_one_look(tmp_path: Path) -> None:
    with groups(trees(V2), SCOPE) as made:
        made.work("job_32/step_0/user/task_0", told(32), memory=8)
        line = [str(SLURMSCOPE), "agent", "--once"]
        done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert jobs(done.stdout) == {"32"} and done.stderr == ""
        done = subprocess.run([*line, "--json"], capture_output=True, text=True, check=True, cwd=tmp_path)
        (report,) = [one for one in json.loads(done.stdout) if one["node"] == NODE]
        assert report["jobs"][0]["job"] == 32 and report["jobs"][0]["cores"] is not None


def test_what_can_be_measured_here(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=alpha\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/cgroup\n"
    )
    environment = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    line = [str(SLURMSCOPE), "agent", "--check", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert found["agent-slurm-conf"]["status"] == "warning" and done.returncode == 1
    assert "ProctrackType=proctrack/linuxproc" in found["agent-slurm-conf"]["message"]
    assert "JobAcctGatherType=(not set)" in found["agent-slurm-conf"]["message"]
    assert "task/cgroup" not in found["agent-slurm-conf"]["message"]
    assert found["agent-jobs"]["status"] == "ok"
    assert found["agent-cluster"]["message"] == "the cluster is alpha (ClusterName in the file slurm.conf)"
    assert found["agent-processes"]["status"] == ("ok" if os.geteuid() == 0 else "warning")


def checks(settings: given.Settings) -> dict[str, Finding]:
    return {finding.check.value: finding for finding in asyncio.run(check.check(settings))}


def test_a_cluster_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.node.slurm.CONFS", ())
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "other.conf"))
    slurm = given.Slurm(conf=str(tmp_path / "slurm.conf"))
    found = checks(given.Settings(slurm=slurm))
    for name, status in (("agent-cluster", "warning"), ("agent-slurm-conf", "skipped")):
        assert found[name].status == status
        assert f"{tmp_path}/slurm.conf (setting slurm.conf), {tmp_path}/other.conf (variable SLURM_CONF)" in (
            found[name].message
        )
    (tmp_path / "slurm.conf").write_text("ProctrackType=proctrack/cgroup\n")
    assert "no ClusterName in" in checks(given.Settings(slurm=slurm))["agent-cluster"].message
    named = checks(given.Settings(slurm=given.Slurm(cluster="alpha")))["agent-cluster"]
    assert (named.status, named.message) == ("ok", "the cluster is alpha (slurm.cluster)")


@pytest.mark.parametrize(
    ("reply", "said", "cure"),
    [
        ((404, {}, b"not here"), "takes nothing from agents", "agent.serve_url is the address without /agent"),
        ((405, {}, b"only GET"), "takes nothing from agents", "set agents.enabled there"),
        ((400, {}, b"cluster: expected beta, found 'alpha'"), "refuses reports of this cluster", "set slurm.cluster"),
        ((500, {}, b"oh"), "answers 500: oh", "see its log"),
        ((200, {}, b""), "takes what is measured of alpha", ""),
    ],
)
def test_what_a_server_says_to_a_report_without_jobs_mock(reply: Reply, said: str, cure: str) -> None:
    got: list[dict[str, object]] = []

    def answer(question: Question) -> Reply:
        got.extend(json.loads(question.body))
        return reply

    with mock(answer) as url:
        settings = given.Settings(
            agent=given.Agent(serve_url=url, node="n1", listen="none"), slurm=given.Slurm(cluster="alpha")
        )
        found = checks(settings)["agent-serve"]
    assert said in found.message and cure in found.next_step
    assert (found.status == "ok") == (reply[0] == 200)
    assert [(one["cluster"], one["node"], one["jobs"]) for one in got] == [("alpha", "n1", [])]
    assert isinstance(got[0]["time"], float) and got[0]["time"] < time.time() - 300  # what is shown of now stays


def test_addresses_that_cannot_be_had_and_gateways_that_do_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.1)
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        settings = given.Settings(
            agent=given.Agent(listen=taken), pushgateway=given.Pushgateway(url="http://127.0.0.1:1")
        )
        found = checks(settings)
    assert found["agent-listen"].status == "failed" and f"cannot listen on {taken}" in found["agent-listen"].message
    assert found["pushgateway"].status == "failed"
    free = checks(given.Settings(agent=given.Agent(listen=taken)))
    assert free["agent-listen"].message == f"{taken} is free" and "pushgateway" not in free


def test_what_the_host_denies_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    found = checks(given.Settings(agent=given.Agent(listen="none")))["agent-gpus"]
    assert found.status == "failed" and "can't start new thread" in found.message


def test_no_gpus_is_nothing_to_do_about() -> None:
    found = checks(given.Settings(agent=given.Agent(listen="none")))["agent-gpus"]
    if found.status == "skipped" and not list(Path("/dev").glob("nvidia*")):
        assert (found.message, found.next_step) == ("no GPUs here", "")


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with running(tmp_path) as agent:
        line = [str(SLURMSCOPE), "agent", "--listen", f"127.0.0.1:{agent.port}"]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)
        assert done.returncode == 1 and "agent.listen (or --listen) names another" in done.stderr
        ours = checks(given.Settings(agent=given.Agent(listen=f"127.0.0.1:{agent.port}")))["agent-listen"]
        assert ours.status == "ok" and "an agent serves" in ours.message


PUSHED = re.compile(r"^push_time_seconds\{.*\} (\S+)$", re.MULTILINE)


@contextlib.contextmanager
def watched(server: Server) -> Iterator[list[tuple[float, set[str] | None]]]:
    """What the gateway shows, all the while: when it was last pushed to, and the jobs; None while it is away."""
    seen: list[tuple[float, set[str] | None]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            shown: set[str] | None = None
            pushed = 0.0
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
                page = answer.read().decode()
                shown = jobs(page)
                pushed = max(map(float, PUSHED.findall(page)), default=0.0)
            seen.append((pushed, shown))
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def test_the_pushgateway(tmp_path: Path, pushgateway: Server) -> None:
    """It never shows a job that has ended once the agent has looked anew, always those that run, and may be killed."""
    url = f'[pushgateway]\nurl = "{pushgateway.url}"'
    with groups(trees(V2), SCOPE) as made, running(tmp_path, url) as agent:
        stays, _ = made.work("job_41/step_0/user/task_0", told(41))
        with watched(pushgateway) as seen:

            def shows(*wanted: str) -> None:
                until(lambda: bool(seen) and seen[-1][1] == set(wanted))

            def pushed_late(job: str, ended: float) -> int:
                """How often it was pushed though it had ended."""
                return len({when for when, shown in seen if when > ended and job in (shown or ())})

            shows("41")
            ends, _ = made.work("job_42/step_0/user/task_0", told(42))
            shows("41", "42")
            begun = len(seen)
            ends.kill()
            ends.wait()
            ended = time.time()
            shows("41")
            time.sleep(6)  # as long as it must not come back
            assert all(shown is not None and "41" in shown for _, shown in seen[begun:])  # no hole
            assert pushed_late("42", ended) <= 1  # the agent may have been looking when it ended
            assert "42" not in (seen[-1][1] or ())

            # one that ends while the gateway is away, which comes back with what it had written down
            third, _ = made.work("job_43/step_0/user/task_0", told(43))
            shows("41", "43")
            time.sleep(1.5)
            pushgateway.kill()
            third.kill()
            third.wait()
            until(lambda: seen[-1][1] is None)
            pushgateway.start()
            back = time.time()
            shows("41")
            time.sleep(6)
            assert pushed_late("43", back) == 0
            assert "41" in (seen[-1][1] or ())
            stays.kill()
            stays.wait()
            shows()
        assert agent.process.poll() is None
    with urllib.request.urlopen(f"{pushgateway.url}/metrics") as answer:
        assert "slurm_agent_info" not in answer.read().decode()  # it took its group along


def test_what_is_measured_is_posted(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"agents").hexdigest()
    taking = f'[agents]\nenabled = true\ntokens = ["{digest}"]\n[store]\nurl = "none"'
    (tmp_path / "token").write_text("agents\n")
    (tmp_path / "serve").mkdir()
    (tmp_path / "agent").mkdir()
    with (
        groups(trees(V2), SCOPE) as made,
        serving(tmp_path / "serve", taking) as served,
    ):
        served.wait()
        settings = f"""interval = 1
        serve_url = "http://127.0.0.1:{served.port}"
        serve_token_file = "{tmp_path}/token"
        """
        made.work("job_51/step_0/user/task_0", told(51))
        with running(tmp_path / "agent", settings) as agent:
            until(lambda: jobs(served.get("/metrics/jobs")[2].decode()) == {"51"})
            assert b'<a href="metrics/jobs">' in served.get("/")[2]
            until(lambda: 'slurm_agent_sink_up{cluster="",node=' in agent.get()[2])
            line = [str(SLURMSCOPE), "agent", "--check", "--json", "--config", str(tmp_path / "agent/agent.toml")]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            found = {one["check"]: one for one in json.loads(done.stdout)}
            assert found["agent-serve"]["status"] == "ok"
            # a wrong token is said, and what is measured waits
            (tmp_path / "token").write_text("wrong")
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            found = {one["check"]: one for one in json.loads(done.stdout)}
            assert found["agent-serve"]["status"] == "failed" and "401" in found["agent-serve"]["message"]
            assert done.returncode == 2


@pytest.mark.parametrize("status", [500, 400])
def test_a_server_that_refuses_mock(tmp_path: Path, status: int) -> None:
    """What is refused as wrong is given up, one by one; what fails is kept, and sent again."""
    got: list[int] = []

    def answer(question: Question) -> Reply:
        got.append(len(json.loads(gzip.decompress(question.body))))
        return (status if len(got) < 4 else 200), {}, b"no"

    with mock(answer) as url, running(tmp_path, f'interval = 1\nserve_url = "{url}"') as agent:
        until(lambda: len(got) > 6)
        lost = next(line for line in agent.get()[2].splitlines() if line.startswith("slurm_agent_sink_lost_total"))
        assert (float(lost.split()[-1]) > 0) == (status == 400)


# --- the agent itself, with what it looks at made up ------------------------------------------------------------------


class Hangs:
    """Stands for the collector: the first look tells of a job, those after it wait until they are let go."""

    def __init__(self, agent: Agent) -> None:
        self.let_go = threading.Event()
        self.looks = 0
        self.learnt: list[dict[str, int]] = []
        self.unknown: list[str] = []
        self._collector = agent._collector

    def __getattr__(self, name: str) -> object:
        return getattr(self._collector, name)

    def collect(self, gpus: object) -> list[Report]:
        self.looks += 1
        if self.looks == 2:
            self.let_go.wait(30)
        job = Measure(job=61, user="alice", account="", processes=1)
        return [Report(cluster="alpha", node=NODE, time=time.time(), seconds=0.0, jobs=(job,))]

    def learn(self, told: dict[str, int]) -> None:
        self.learnt.append(told)


def made_up(interval: float) -> tuple[Agent, Hangs]:
    agent = agents.of_settings(given.Settings(agent=given.Agent(interval=interval)))
    collector = Hangs(agent)
    agent._collector = collector  # type: ignore[assignment]
    return agent, collector


class Fed(Notifier):
    def __init__(self) -> None:
        super().__init__({})
        self.times = 0

    def watchdog(self) -> None:
        self.times += 1


async def comes(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


def test_no_job_is_shown_while_looks_hang(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "_LEAST_PATIENCE", 0.0)
    monkeypatch.setattr(agents, "_TICK", 0.05)

    async def scenario() -> None:
        agent, collector = made_up(0.3)
        pages, fed = Pages(agent, compat=False), Fed()
        told: list[int] = []

        async def listen(reports: list[Report]) -> None:
            told.append(len(reports))

        async def page() -> str:
            return b"".join(await pages.body("default", openmetrics=False, gzip=False)).decode()

        agent.listeners.append(listen)
        tasks = [asyncio.create_task(one) for one in (agent.run(), agent.mind(), agents._watch(fed, 0.05, agent))]
        await comes(lambda: collector.looks == 2)
        waits = asyncio.create_task(page())  # it is rendered by the thread that hangs
        await comes(lambda: agent.stale)
        await comes(lambda: not agent.reports)
        times = fed.times
        assert times > 0
        for text in (await waits, await page()):
            assert "slurm_job_processes{" not in text
            assert "slurm_agent_looks_total{" in text and "slurm_agent_timestamp_seconds{" in text
        await asyncio.sleep(0.2)
        assert fed.times == times
        collector.let_go.set()
        await comes(lambda: bool(agent.reports))
        assert 'jobid="61"' in await page()
        await comes(lambda: fed.times > times)
        assert told[:3] == [1, 0, 1]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await agent.close()

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if record.name == "slurmscope.node.agent"] == [
        "no look at the jobs comes to an end, and none is shown any more",
    ]


def test_looks_go_on_while_slurmctld_is_asked() -> None:
    async def scenario() -> None:
        agent, collector = made_up(15)
        collector.let_go.set()
        answered = asyncio.Event()
        asked: list[list[str]] = []

        async def ask(keys: list[str]) -> dict[str, int]:
            asked.append(keys)
            await answered.wait()
            return {"scope/sFV1M7EWC9FF00": 7}

        agent._scheduler.ask = ask  # type: ignore[method-assign,assignment]
        collector.unknown = ["scope/sFV1M7EWC9FF00"]
        await asyncio.wait_for(agent.look(), 120)
        await asyncio.wait_for(agent.look(), 120)
        assert (collector.looks, collector.learnt) == (2, [])
        answered.set()
        await comes(lambda: collector.learnt == [{"scope/sFV1M7EWC9FF00": 7}])
        assert asked == [["scope/sFV1M7EWC9FF00"]]
        await agent.close()

    asyncio.run(scenario())


def test_a_driver_that_tells_of_some_gpus_is_up() -> None:
    class Some:
        problems: ClassVar = {"nvidia": "one is lost", "amd": "hangs"}

        async def read(self) -> tuple[Gpu, ...]:
            return (Gpu(uuid="GPU-1", index=0, vendor="nvidia"),)

        async def close(self) -> None: ...

    async def scenario() -> None:
        agent, _ = made_up(15)
        agent._gpus = Some()  # type: ignore[assignment]
        await agent.look()
        assert agent.view.drivers == {"nvidia": True, "amd": False}
        await agent.close()

    asyncio.run(scenario())


def test_nowhere_to_show_it_and_nowhere_to_send_it(tmp_path: Path) -> None:
    line = [str(SLURMSCOPE), "agent", "--listen", "none"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=False)
    assert done.returncode == 2 and "agent.serve_url or pushgateway.url" in done.stderr


def test_files_are_counted_out_after_their_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr("slurmscope.listening.raise_file_limit", lambda: order.append("limit"))
    monkeypatch.setattr(agents, "Collector", lambda *_, **__: order.append("collector"))
    agents.of_settings(given.Settings())
    assert order == ["limit", "collector"]
