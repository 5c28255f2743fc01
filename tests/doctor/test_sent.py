# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Those who are sent something: there, away, or not for us. Servers are real, but for what those never answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from doctor.patients import examined, keeping, of, told
from servers import opensearch as servers
from servers.opensearch import Elasticsearch as Server
from servers.process import Server as Process
from servers.process import free_port
from servers.proxy import Keyed
from servers.pushgateway import Pushgateway as PushgatewayServer
from sinks.made import Question, Reply, mock

from slurmscope.doctor import sent
from slurmscope.doctor.finding import Check, Finding, Status
from slurmscope.settings import CloudWatch, Elasticsearch, Pushgateway, Store

HUSH = "hush-hush"


@pytest.fixture(autouse=True)
def nothing_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


def looked(check: Check, **sections: Any) -> Finding:
    started = time.monotonic()
    found = of(examined(keeping(**sections)), check)
    assert time.monotonic() - started < 120
    assert HUSH not in found.message + found.next_step
    return found


def test_what_is_not_set_up_is_not_looked_at() -> None:
    findings = examined(keeping())
    for check in (Check.ELASTICSEARCH, Check.CLOUDWATCH, Check.PUSHGATEWAY, Check.SPOOL):
        assert told(findings, check) == []


def test_all_are_looked_at_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def answer(question: Question) -> Reply:
        if question.path != "/-/ready":
            both.wait(4)
        return 200, {}, b"something"

    with mock(answer) as url:
        findings = examined(keeping(elasticsearch=Elasticsearch(url=url), pushgateway=Pushgateway(url=url)))
    assert of(findings, Check.ELASTICSEARCH).message == f"{url} answers with 200 and not as Elasticsearch does"
    assert of(findings, Check.PUSHGATEWAY).status is Status.OK


def test_nobody_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent, "_PATIENCE", 0.5)
    over = threading.Event()

    def answer(question: Question) -> Reply:
        over.wait(60)
        return 200, {}, b""

    with mock(answer) as url:
        found = elastic(url)
        over.set()
    assert (found.status, found.message) == (Status.FAILED, f"{url} did not answer in 0.5 s")
    assert f"`curl {url}` must answer" in found.next_step


# Elasticsearch


def elastic(server: Server | str, **more: Any) -> Finding:
    if isinstance(server, str):
        return looked(Check.ELASTICSEARCH, elasticsearch=Elasticsearch(url=server, **more))
    given = {"url": server.url, "user": server.user, "password": server.password, "ca": str(server.ca or "")} | more
    return looked(Check.ELASTICSEARCH, elasticsearch=Elasticsearch(**given))


def test_a_server_that_is_well(opensearch: Server) -> None:
    def there() -> list[str]:
        with opensearch.client() as client:
            templates = [one["name"] for one in client.get("/_index_template").json()["index_templates"]]
            return sorted(templates + list(client.get("/_all").json()))

    before = there()
    found = elastic(opensearch, prefix="looked")
    assert (found.status, found.next_step) == (Status.OK, "")
    assert found.message.startswith(f"OpenSearch {opensearch.version} at {opensearch.url} lets us in: index templates ")
    assert there() == before


def test_a_key(opensearch_key: Keyed) -> None:
    good = {"ca": str(opensearch_key.ca), "api_key": opensearch_key.key}
    assert elastic(opensearch_key.url, **good).status is Status.OK
    found = elastic(opensearch_key.url, **good | {"api_key": HUSH})
    assert found.status is Status.FAILED and "with 401" in found.message
    assert found.next_step.startswith("correct elasticsearch.api_key")


def test_a_wrong_password(opensearch: Server, tmp_path: Path) -> None:
    found = elastic(opensearch, password=HUSH)
    assert found.status is Status.FAILED and "refused GET / with 401" in found.message
    assert found.next_step == "correct elasticsearch.user and elasticsearch.password"
    (tmp_path / "password").write_text(HUSH)
    found = elastic(opensearch, password="", password_file=str(tmp_path / "password"))
    assert found.next_step == "correct elasticsearch.user and elasticsearch.password_file"
    found = elastic(opensearch, password="", password_file=str(tmp_path / "none"))
    assert found.status is Status.FAILED and "elasticsearch.password_file" in found.next_step
    found = elastic(opensearch, user="", password="")
    assert found.next_step == "set elasticsearch.user and elasticsearch.password, or elasticsearch.api_key"


def test_a_user_without_rights(opensearch: Server) -> None:
    found = elastic(opensearch, user=servers.GUEST)
    assert found.status is Status.FAILED
    assert found.message == f"the server at {opensearch.url} lets us in, but does not grant: making index templates"
    assert 'docs/sinks.md, "Rights"' in found.next_step


def test_a_certificate_that_we_do_not_know(opensearch: Server, tmp_path: Path) -> None:
    found = elastic(opensearch, ca="")
    assert found.status is Status.FAILED and "CERTIFICATE_VERIFY_FAILED" in found.message
    assert found.next_step.startswith("set elasticsearch.ca to the certificate (PEM)")
    (tmp_path / "ca.pem").write_text("no certificate")
    found = elastic(opensearch, ca=str(tmp_path / "ca.pem"))
    assert found.status is Status.FAILED and "cannot be used as certificates" in found.message
    assert found.next_step.startswith("elasticsearch.ca must name a file of certificates")


def test_a_certificate_for_another_name(opensearch: Server) -> None:
    found = elastic(opensearch, url=opensearch.url.replace("127.0.0.1", "127.1"))
    assert found.status is Status.FAILED and "Hostname mismatch" in found.message
    assert found.next_step.startswith("elasticsearch.url must name the server as its certificate does")


def test_no_tls_where_there_is_some(opensearch: Server) -> None:
    found = elastic(opensearch, url=opensearch.url.replace("https", "http"))
    assert found.status is Status.FAILED
    assert found.next_step == "if the server has TLS there, elasticsearch.url must begin with https://"


def test_tls_where_there_is_none(pushgateway: Process) -> None:
    found = elastic(pushgateway.url.replace("http", "https"))
    assert found.next_step == "the server has no TLS there: elasticsearch.url must begin with http://"


def test_another_server(pushgateway: Process) -> None:
    found = elastic(pushgateway.url)
    assert found.status is Status.FAILED and found.message.endswith(" and not as Elasticsearch does")


def test_no_server() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = elastic(url)
    assert found.status is Status.FAILED and "cannot be reached" in found.message
    assert found.next_step == f"start the server, or correct elasticsearch.url: `curl {url}` must answer"
    found = elastic("https://nowhere.invalid:9200")
    assert found.next_step == "correct the host in elasticsearch.url: `getent hosts nowhere.invalid` must know it"


def test_without_a_store() -> None:
    sections = {"elasticsearch": Elasticsearch(url="http://127.0.0.1:9"), "store": Store(url="none")}
    found = looked(Check.ELASTICSEARCH, **sections)
    assert found.status is Status.FAILED and found.message.startswith("it needs a store")


def answering(**answers: tuple[int, object]) -> Callable[[Question], Reply]:
    """A stand-in for Elasticsearch, of which there is none to be had; by the last word of the path."""

    def answer(question: Question) -> Reply:
        name = question.path.partition("?")[0].strip("/").rpartition("/")[2].replace("-", "_") or "root"
        status, body = answers.get(name, (404, {}))
        return status, {}, body if isinstance(body, bytes) else json.dumps(body).encode()

    return answer


ELASTIC = 200, {"name": "x", "version": {"number": "8.17.0", "build_flavor": "default"}}
RIGHTS = {"cluster": {"manage_index_templates": True}, "index": {"s-jobs": {"create_index": True, "index": True}}}
BAD_TEMPLATE = 400, {"error": {"type": "invalid_index_template_exception"}}


@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        (
            {"root": ELASTIC, "_has_privileges": (200, RIGHTS)},
            Status.OK,
            "Elasticsearch 8.17.0 at URL lets us in: index templates may be made, and documents written",
        ),
        (
            # who has no right to look around has those that are needed
            {"root": (403, {}), "_has_privileges": (200, RIGHTS)},
            Status.OK,
            "the server at URL lets us in: index templates may be made, and documents written",
        ),
        (
            {
                "root": ELASTIC,
                "_has_privileges": (
                    200,
                    {"cluster": {"manage_index_templates": False}, "index": {"s-jobs": {"create_index": False}}},
                ),
            },
            Status.FAILED,
            "Elasticsearch 8.17.0 at URL lets us in, but does not grant: manage_index_templates, "
            "create_index on s-jobs",
        ),
        (
            # without its security
            {"root": ELASTIC, "_has_privileges": (405, {}), "slurmscope_doctor": BAD_TEMPLATE},
            Status.OK,
            "Elasticsearch 8.17.0 at URL lets us in: index templates may be made; whether documents may be written "
            "shows with the first",
        ),
        (
            {"root": ELASTIC, "_has_privileges": (200, b"?"), "slurmscope_doctor": (500, b"oh")},
            Status.FAILED,
            "URL answered the question for an index template with 500: oh",
        ),
        (
            {"root": (200, {"version": {"number": "7.8.1"}})},
            Status.FAILED,
            "Elasticsearch 7.8.1 at URL is too old",
        ),
        ({"root": (200, b"<html>")}, Status.FAILED, "URL answers with 200 and not as Elasticsearch does"),
        ({"root": (503, b"soon")}, Status.FAILED, "URL is busy, 503: soon"),
        (
            {"root": (401, f"you said {HUSH}, Basic YWxpY2U6aHVzaC1odXNo".encode())},
            Status.FAILED,
            "URL refused GET / with 401: is the password of alice right (elasticsearch.password), and may he do this?: "
            "you said ********, Basic ********",
        ),
    ],
)
def test_mock_what_elasticsearch_answers(answers: dict[str, tuple[int, object]], status: Status, words: str) -> None:
    with mock(answering(**answers)) as url:
        found = elastic(url, user="alice", password=HUSH)
    assert (found.status, found.message) == (status, words.replace("URL", url))
    assert bool(found.next_step) == (status is not Status.OK)


# Pushgateway


def push(url: str, **more: Any) -> Finding:
    return looked(Check.PUSHGATEWAY, pushgateway=Pushgateway(url=url, **more))


def test_a_pushgateway(pushgateway: Process) -> None:
    before = httpx.get(f"{pushgateway.url}/api/v1/metrics").json()
    found = push(pushgateway.url)
    assert (found.status, found.message) == (
        Status.OK,
        f"Pushgateway {pushgateway.version} at {pushgateway.url} lets us in; nothing was pushed",
    )
    assert httpx.get(f"{pushgateway.url}/api/v1/metrics").json() == before
    with pushgateway.stopped():
        found = push(pushgateway.url)
    assert found.status is Status.FAILED and "cannot be reached" in found.message
    assert found.next_step.startswith("start the server, or correct pushgateway.url")


class Locked(PushgatewayServer):
    def command(self) -> list[str | Path]:
        return [*super().command(), f"--web.config.file={self.folder}/web.yml"]

    def look(self) -> str:
        answer = httpx.get(f"{self.url}/-/ready", auth=(servers.USER, servers.PASSWORD))
        return str(answer.raise_for_status().status_code)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Process]:
    """One that wants a password."""
    if shutil.which("prometheus-pushgateway") is None:
        pytest.skip("prometheus-pushgateway is missing")
    (tmp_path / "web.yml").write_text(f'basic_auth_users: {{{servers.USER}: "{servers._HASH}"}}\n')
    server = Locked(tmp_path)
    server.start()
    yield server
    server.close()


def test_a_pushgateway_with_a_password(locked: Process) -> None:
    assert push(locked.url, user=servers.USER, password=servers.PASSWORD).status is Status.OK
    found = push(locked.url, user=servers.USER, password=HUSH)
    assert found.status is Status.FAILED and "with 401" in found.message
    assert found.next_step == "correct pushgateway.user and pushgateway.password"
    assert push(locked.url).next_step == "set pushgateway.user and pushgateway.password"


def test_mock_other_pushgateways() -> None:
    with mock(answering(ready=(200, b"OK"))) as url:
        old = push(url)
    assert (old.status, old.message) == (Status.OK, f"Pushgateway at {url} lets us in; nothing was pushed")
    with mock(answering()) as url:
        found = push(url)
    assert (found.status, found.message) == (
        Status.FAILED,
        f"{url} answers with 404 and not as a Pushgateway does",
    )


# CloudWatch


def cloud(**given: Any) -> Finding:
    return looked(Check.CLOUDWATCH, cloudwatch=CloudWatch(enabled=True, **given))


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", HUSH)


@pytest.mark.usefixtures("credentials")
def test_cloudwatch_that_is_well(cloudwatch: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    found = cloud(region="eu-north-1")
    here = f"boto3 {boto3.__version__}, region eu-north-1, credentials from env"
    tried = "Whether they may send (cloudwatch:PutMetricData) was not tried: only a metric would show it"
    assert (found.status, found.message) == (Status.OK, f"{here}. {tried}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    found = cloud(endpoint_url=cloudwatch.url)
    assert (found.status, found.message) == (Status.OK, f"{here}; {cloudwatch.url} can be reached. {tried}")
    with cloudwatch.stopped():
        found = cloud(endpoint_url=cloudwatch.url)
    assert found.status is Status.FAILED and f"{cloudwatch.url} cannot be reached" in found.message
    assert found.next_step.startswith("correct cloudwatch.endpoint_url")


@pytest.mark.usefixtures("credentials")
def test_no_region() -> None:
    found = cloud()
    assert (found.status, found.message) == (Status.FAILED, "boto3 knows no region")
    assert "set cloudwatch.region" in found.next_step


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cloud(region="eu-north-1")
    assert (found.status, found.message) == (Status.FAILED, "boto3 finds no credentials")
    assert "`aws sts get-caller-identity` must then work" in found.next_step
    monkeypatch.setenv("AWS_PROFILE", "none")
    found = cloud(region="eu-north-1")
    assert found.status is Status.FAILED and "The config profile (none) could not be found" in found.message
    assert "AWS_PROFILE" in found.next_step


def test_half_of_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    found = cloud(region="eu-north-1")
    assert found.status is Status.FAILED and "Partial credentials found" in found.message


def test_no_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    found = cloud(region="eu-north-1")
    assert (found.status, found.message) == (Status.FAILED, "boto3 is not installed")
    assert found.next_step == "`pip install 'slurmscope[cloudwatch]'`"


# All of it, as it is typed


def test_as_json(tmp_path: Path, pushgateway: Process) -> None:
    lines = ["[slurm]", 'bin_dir = "/nowhere"', "[store]", f'folder = "{tmp_path}/state"']
    lines += ["[pushgateway]", f'url = "{pushgateway.url}"', 'user = "alice"', f'password = "{HUSH}"']
    (tmp_path / "slurmscope.toml").write_text("\n".join(lines))
    program = "from slurmscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--json", "--config", "slurmscope.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {row["check"]: row["status"] for row in json.loads(done.stdout)}
    assert (found["store"], found["pushgateway"], found["commands"]) == ("ok", "ok", "failed")
    assert done.returncode == 2 and HUSH not in done.stdout + done.stderr
    assert not (tmp_path / "state").exists()
