# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""A portal behind a real socket, as `serve` has it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from slurmscope import listening
from slurmscope.settings import Serve
from slurmscope.web.portal import Portal


@contextmanager
def running(portal: Portal, port: int = 0, serve: Serve | None = None) -> Iterator[str]:
    """Gives its address."""
    found = serve or Serve()
    with socket.create_server(("127.0.0.1", port)) as sock:
        server = listening.server(found, portal)
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http{'s' if found.tls_cert else ''}://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
