# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The address, its certificate, and a real Prometheus."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from doctor.patients import examined, healthy, of, one
from processes import until
from served import serving

from slurmscope.config import Config
from slurmscope.doctor.finding import Check, Finding, Status
from slurmscope.settings import Prometheus, Serve, Settings, Slurm


@pytest.fixture(autouse=True)
def without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(argv: list[str], url: str) -> Iterator[None]:
    """A server, as soon as it answers."""
    with Path("server.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        assert until(lambda: _answers(url) or process.poll() is not None, 60), Path("server.log").read_text()
        assert process.poll() is None, Path("server.log").read_text()
        yield
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def test_an_address_that_is_free(tmp_path: Path) -> None:
    found = of(examined(one(bin_dir=str(tmp_path), listen=f"127.0.0.1:{free_port()}")), Check.LISTEN)
    assert found.status is Status.OK and found.message.endswith("is free")


def test_an_address_that_another_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.close()
        with running(
            [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], f"http://127.0.0.1:{port}"
        ):
            found = of(examined(one(bin_dir=str(tmp_path), listen=f"127.0.0.1:{port}")), Check.LISTEN)
    assert found.status is Status.FAILED
    assert found.message == f"another program listens on 127.0.0.1:{port}"
    assert f'serve.listen = "127.0.0.1:{port + 1}"' in found.next_step


def test_an_address_of_another_host(tmp_path: Path) -> None:
    found = of(examined(one(bin_dir=str(tmp_path), listen="192.0.2.1:9092")), Check.LISTEN)
    assert found.status is Status.FAILED and "Cannot assign requested address" in found.message


def test_an_address_that_a_slurmscope_has(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.wait()
        found = of(examined(one(bin_dir=str(tmp_path), listen=f"127.0.0.1:{served.port}")), Check.LISTEN)
    assert (found.status, found.message) == (Status.OK, f"a slurmscope serves 127.0.0.1:{served.port} already")


# Prometheus


def _prometheus(url: str, folder: Path, cluster: str = "") -> Finding:
    settings = Settings(
        prometheus=Prometheus(url=url),
        serve=Serve(listen="127.0.0.1:0"),
        slurm=Slurm(bin_dir=str(folder), cluster=cluster),
    )
    return of(examined(Config(settings, {})), Check.PROMETHEUS)


@contextmanager
def prometheus(target: str) -> Iterator[str]:
    program = shutil.which("prometheus")
    if program is None:
        missing = "prometheus is missing: apt install prometheus"
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    Path("prometheus.yml").write_text(
        "scrape_configs:\n"
        "  - job_name: slurm\n    scrape_interval: 1s\n    scrape_timeout: 1s\n"
        f'    static_configs: [{{targets: ["{target}"]}}]\n'
    )
    url = f"http://127.0.0.1:{free_port()}"
    argv = [program, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with running([*argv, f"--web.listen-address={url.removeprefix('http://')}"], f"{url}/-/ready"):
        yield url


@pytest.mark.prometheus
def test_prometheus_scrapes_us(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "healthy")
    with serving(tmp_path) as served, prometheus(f"127.0.0.1:{served.port}") as url:
        up = {"query": "slurmscope_info"}
        assert until(lambda: bool(httpx.get(f"{url}/api/v1/query", params=up).json()["data"]["result"]))
        (series,) = httpx.get(f"{url}/api/v1/query", params=up).json()["data"]["result"]
        name = series["metric"]["cluster"]
        found = _prometheus(url, folder, name)
        assert (found.status, found.message) == (
            Status.OK,
            f"{url} scrapes 127.0.0.1:{served.port} (job slurm): {name}",
        )
        other = _prometheus(url, folder, "elsewhere")
        assert other.status is Status.WARNING and other.message.endswith(f"which show {name} and not elsewhere")


@pytest.mark.prometheus
def test_prometheus_scrapes_no_slurmscope(tmp_path: Path) -> None:
    with prometheus("127.0.0.1:9") as url:
        found = _prometheus(url, tmp_path)
    assert (found.status, found.message) == (Status.WARNING, f"{url} answers, but scrapes no slurmscope")
    assert '- {job_name: slurm, scrape_interval: 30s, static_configs: [{targets: ["127.0.0.1:0"]}]}' in found.next_step


def test_no_prometheus_there(tmp_path: Path) -> None:
    found = _prometheus(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert found.status is Status.FAILED and "cannot be reached" in found.message


def test_something_else_in_place_of_prometheus(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], url):
        found = _prometheus(url, tmp_path)
    assert (found.status, found.message) == (Status.FAILED, f"{url} answers with 404 and not as Prometheus does")


# Certificates


def _openssl(*words: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def _tls(days: int, key: str = "key.pem") -> Finding:
    _openssl("genrsa", "-out", "key.pem", "2048")
    _openssl("genrsa", "-out", "other.pem", "2048")
    _openssl("genrsa", "-aes128", "-passout", "pass:secret", "-out", "locked.pem", "2048")
    _openssl("req", "-new", "-key", "key.pem", "-subj", "/CN=slurmscope.example.org", "-out", "request.pem")
    _openssl("x509", "-req", "-in", "request.pem", "-signkey", "key.pem", "-days", str(days), "-out", "cert.pem")
    serve = Serve(listen="127.0.0.1:0", tls_cert="cert.pem", tls_key=key)
    return of(examined(Config(Settings(serve=serve, slurm=Slurm(bin_dir="/nowhere")), {})), Check.TLS)


def test_a_certificate_that_holds() -> None:
    found = _tls(365)
    assert found.status is Status.OK and found.message.startswith("cert.pem is valid for 365 more days, until 20")


def test_a_certificate_that_ends_soon() -> None:
    assert _tls(3).status is Status.WARNING


def test_a_certificate_that_has_ended() -> None:
    found = _tls(-1)
    assert (found.status, found.message) == (Status.FAILED, "cert.pem: certificate has expired")


@pytest.mark.parametrize("key", ["other.pem", "locked.pem", "cert.pem", "none.pem"])
def test_a_key_that_is_not_the_certificates(key: str) -> None:
    assert _tls(365, key).status is Status.FAILED
