# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""OpenSearch, which speaks Elasticsearch's protocol, with TLS and users by its own security plugin."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
from servers.process import Elsewhere, Server, built, program

USER, PASSWORD = "tester", "secret"
GUEST = "guest"  # with the same password, and no rights
_HASH = "$2y$12$81uMkvbeMSBa2gZsGb3jVuXc/PF4BBLkjs2F25F261TtNIQGjBfVW"  # of the password, as bcrypt has it

_USERS = f"""
_meta: {{type: internalusers, config_version: 2}}
{USER}: {{hash: "{_HASH}", backend_roles: [admin]}}
{GUEST}: {{hash: "{_HASH}"}}
"""

# Small, and soon up: it serves a few hundred requests in all. Its own security manager must be allowed since Java 18.
_JAVA = """
-Xms512m
-Xmx512m
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Djava.io.tmpdir=${OPENSEARCH_TMPDIR}
-Djava.util.concurrent.ForkJoinPool.common.threadFactory=org.opensearch.secure_sm.SecuredForkJoinWorkerThreadFactory
18-:-Djava.security.manager=allow
"""


class Elasticsearch(Server):
    """What tests need to know of one, whoever started it."""

    user: str
    password: str
    ca: Path | None  # the certificate to trust, where that is not one of the system's

    def client(self) -> httpx.Client:
        trusted = ssl.create_default_context(cafile=self.ca)
        return httpx.Client(base_url=self.url, auth=(self.user, self.password), verify=trusted, timeout=30)

    def look(self) -> str:
        with self.client() as client:
            health = client.get("/_cluster/health").raise_for_status().json()
            if health["status"] == "red":
                raise RuntimeError("its indices are not there yet")
            return str(client.get("/").json()["version"]["number"])


class OtherElasticsearch(Elsewhere, Elasticsearch):
    """One that was there before, told as https://USER:PASSWORD@HOST:PORT."""

    def __init__(self, name: str, url: str) -> None:
        told = httpx.URL(url)
        super().__init__(name, str(told.copy_with(userinfo=b"")).rstrip("/"))
        self.user, self.password, self.ca = told.username, told.password, None


class OpenSearch(Elasticsearch):
    """At https, with a certificate of its own in `ca` (and its private key in `key`)."""

    name = "OpenSearch"
    ca: Path
    patience = 180.0
    user, password = USER, PASSWORD
    account = ("nobody", "nogroup")

    def __init__(self, port: int | None = None) -> None:
        self._home = built("opensearch")
        self._java = Path(program("java", "default-jre-headless")).resolve().parent.parent
        # It refuses to run as root, and the account it runs as then must not be kept out by root's folders.
        super().__init__(Path(tempfile.mkdtemp(prefix="slurmscope-opensearch-")), port)
        self._config = self.folder / "config"
        shutil.copytree(self._home / "config", self._config)
        self.ca, self.key = self._config / "cert.pem", self._config / "key.pem"
        _certify(self.ca, self.key)
        (self._config / "opensearch-security" / "internal_users.yml").write_text(_USERS)
        (self._config / "jvm.options").write_text(_JAVA)
        (self._config / "opensearch.yml").write_text(self._settings())
        if os.geteuid() == 0:
            for path in (self.folder, *self.folder.rglob("*")):
                shutil.chown(path, *self.account)

    def _settings(self) -> str:
        lines = [
            "discovery.type: single-node",
            "network.host: 127.0.0.1",
            f"http.port: {self.port}",
            "transport.port: 0",
            f"path.data: {self.folder}/data",
            f"path.logs: {self.folder}/logs",
            # a disk that is nearly full is no reason to refuse a test's few documents
            "cluster.routing.allocation.disk.threshold_enabled: false",
            "plugins.security.allow_default_init_securityindex: true",
            "plugins.security.ssl.http.enabled: true",
            "plugins.security.ssl.transport.enforce_hostname_verification: false",
        ]
        for layer in ("http", "transport"):
            lines += [
                f"plugins.security.ssl.{layer}.pemcert_filepath: cert.pem",
                f"plugins.security.ssl.{layer}.pemkey_filepath: key.pem",
                f"plugins.security.ssl.{layer}.pemtrustedcas_filepath: cert.pem",
            ]
        return "\n".join(lines) + "\n"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        return [self._home / "bin" / "opensearch"]

    def environment(self) -> Mapping[str, str]:
        return {
            "OPENSEARCH_JAVA_HOME": str(self._java),
            "OPENSEARCH_PATH_CONF": str(self._config),
            "OPENSEARCH_TMPDIR": str(self.folder),
            "HOME": str(self.folder),
        }

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _certify(certificate: Path, key: Path) -> None:
    """A certificate for loopback that vouches for itself."""
    names = ["-subj", "/CN=slurmscope-tests", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    new = [program("openssl", "openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", *names]
    subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
