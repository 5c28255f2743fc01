# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tells systemd how the service is doing (sd_notify), where there is a systemd to tell."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

# systemd reads its socket at once; this only bounds what a stuck one may cost the caller.
_SEND_SECONDS = 0.5


class Notifier:
    """Sends to `$NOTIFY_SOCKET`; does nothing where that is not set, and never raises."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        path = (os.environ if env is None else env).get("NOTIFY_SOCKET", "")
        # An abstract socket is written with @ and addressed with a NUL.
        self._address = "\0" + path[1:] if path.startswith("@") else path

    def ready(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """One line that `systemctl status` shows."""
        # A newline would start another assignment.
        self._send("STATUS=" + " ".join(text.split()))

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A dead or missing manager is no reason to stop serving.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_SECONDS)
            sender.sendto(message.encode("utf-8", "backslashreplace"), self._address)


def watchdog_interval(env: Mapping[str, str] | None = None) -> float | None:
    """Seconds between calls of `Notifier.watchdog`: half of what systemd allows. None: it is not watching."""
    env = os.environ if env is None else env
    # The variables are inherited: a process other than the one systemd started is not the one watched.
    if env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        allowed = int(env.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return allowed / 2e6 if allowed > 0 else None
