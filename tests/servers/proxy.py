# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""API keys before a server that has none: OpenSearch has users, Elasticsearch has users and keys.

The key is the proxy's own and is checked by it alone; a request that has it goes on with a user and a password.
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from servers.opensearch import OpenSearch

REFUSAL = b'{"error":{"type":"security_exception","reason":"the proxy knows no such key"},"status":401}'


@dataclass(frozen=True)
class Keyed:
    """At https, with the certificate of the server behind it."""

    url: str
    ca: Path
    key: str = base64.b64encode(b"tester:of-the-proxy").decode()  # as Elasticsearch tells it: to be sent as it is


@contextmanager
def api_key(server: OpenSearch) -> Iterator[Keyed]:
    """A second address of the server, which wants `Authorization: ApiKey …`."""
    with server.client() as behind:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Authorization") != f"ApiKey {Keyed.key}":
                    refusal = (
                        b'{"error":{"type":"security_exception","reason":"the proxy knows no such key"},"status":401}'
                    )
                    self._answer(401, "application/json", refusal)
                    return
                kept = {n: v for n, v in self.headers.items() if n.lower() in ("content-type", "content-encoding")}
                try:
                    answer = behind.request(self.command, self.path, headers=kept, content=body)
                except httpx.TransportError as error:
                    self._answer(502, "text/plain", str(error).encode())
                    return
                self._answer(answer.status_code, answer.headers.get("content-type", "text/plain"), answer.content)

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass  # the tests say what went wrong

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        trusted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trusted.load_cert_chain(server.ca, server.key)
        proxy.socket = trusted.wrap_socket(proxy.socket, server_side=True)
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield Keyed(f"https://127.0.0.1:{proxy.server_port}", server.ca)
        finally:
            proxy.shutdown()
            thread.join()
            proxy.server_close()
