# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmscope.notify import Notifier, watchdog_interval


@pytest.fixture(params=["filesystem", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """systemd's end of the socket, and what it would put in $NOTIFY_SOCKET."""
    name = str(tmp_path / "notify") if request.param == "filesystem" else f"@slurmscope-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0"))
        receiver.settimeout(5)
        yield receiver, name


def test_each_call_is_one_message(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    notifier.ready()
    notifier.status("polling")
    notifier.watchdog()
    notifier.stopping()
    received = [receiver.recv(4096) for _ in range(4)]
    assert received == [b"READY=1", b"STATUS=polling", b"WATCHDOG=1", b"STOPPING=1"]


def test_the_socket_comes_from_the_environment(
    manager: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, name = manager
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    Notifier().ready()
    assert receiver.recv(4096) == b"READY=1"


def test_a_status_cannot_smuggle_in_another_assignment(manager: tuple[socket.socket, str]) -> None:
    receiver, name = manager
    Notifier({"NOTIFY_SOCKET": name}).status("bad\nREADY=1 \udcff")
    assert receiver.recv(4096) == b"STATUS=bad READY=1 \\udcff"


@pytest.mark.parametrize("name", ["/nonexistent/notify", "@nobody-listens-here", "/" + "x" * 500, "vsock:2:1"])
def test_a_dead_socket_is_no_error(name: str) -> None:
    Notifier({"NOTIFY_SOCKET": name}).ready()


def test_a_stuck_manager_holds_nobody_up_for_long(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            with pytest.raises(BlockingIOError):
                for _ in range(100_000):
                    filler.sendto(b"x", name)
            Notifier({"NOTIFY_SOCKET": name}).watchdog()


def test_without_the_variable_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    notifier = Notifier({})
    notifier.ready()
    notifier.status("x")
    notifier.watchdog()
    notifier.stopping()


@pytest.mark.parametrize(
    ("env", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval_is_half_of_what_is_allowed(env: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(env) == seconds
