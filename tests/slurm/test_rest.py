# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What slurmrestd may do to us. The real one is in tests/lab; here is what it does not do on request: a server of our
own that hangs, lies and breaks off."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slurmscope.settings import Slurm
from slurmscope.slurm.commands import BY_WAY, REST
from slurmscope.slurm.rest import Rest, versions
from slurmscope.slurm.source import SourceError, Way
from slurmscope.slurm.token import expiry
from slurmscope.slurm.transport import Failed, NotFound, TimedOut, TooLong, TransportError, Unanswered, Unreachable

PARTS = {part: command.argv[1].partition("?")[0] for part, command in BY_WAY[REST].items()}
DOCUMENT = json.dumps({"paths": {path.replace("{version}", "v0.0.42") + "/": {} for path in PARTS.values()}}).encode()
PING = b'{"pings": [{"hostname": "c", "pinged": "UP", "mode": "primary"}], "meta": {"slurm": {"release": "24.11.5"}}}'
Answer = Callable[[str, dict[str, str]], bytes | None]  # to a path and headers; None: none ever


def reply(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def good(path: str, headers: dict[str, str]) -> bytes:
    return reply(DOCUMENT if path.startswith("/openapi") else PING)


@asynccontextmanager
async def served(answer: Answer, socket: Path, tls: ssl.SSLContext | None = None) -> AsyncIterator[list[str]]:
    """A mock of slurmrestd at a socket; yields the requests that it got."""
    asked: list[str] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode().splitlines()
                headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in rest if line}
                asked.append(first)
                said = answer(first.split()[1], headers)
                if said is None:
                    await asyncio.sleep(3600)
                    return
                writer.write(said)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(talk, socket)
    try:
        yield asked
    finally:
        server.close()


def ask(tmp_path: Path, answer: Answer, part: str = "controllers", times: int = 1, **settings: object) -> list[str]:
    """Asks the mock; what it was asked."""

    async def run() -> list[str]:
        async with served(answer, tmp_path / "s") as asked:
            rest = Rest(Slurm(rest_url=f"unix:{tmp_path / 's'}", **settings))  # type: ignore[arg-type]
            way = Way(REST, rest)
            try:
                for _ in range(times):
                    await way.read(part)
            finally:
                await way.close()
            return asked

    return asyncio.run(run())


def test_the_newest_version_that_is_spoken_is_found() -> None:
    paths = ["/slurm/v0.0.9/jobs/", "/slurm/v0.0.42/jobs", "/slurm/v0.0.100/jobs/", "/slurm/v0.0.42/job/{id}"]
    assert versions(paths) == ["v0.0.42", "v0.0.100"]
    assert versions(["/slurm/v0.0.36/jobs/", "/nonsense"]) == []


def test_the_document_is_asked_for_once_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    asked = ask(tmp_path, good, times=3)
    assert asked == ["GET /openapi/v3 HTTP/1.1"] + ["GET /slurm/v0.0.42/ping HTTP/1.1"] * 3


def test_what_a_version_does_not_have_is_not_asked_for_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    def old(path: str, headers: dict[str, str]) -> bytes:
        return reply(b'{"paths": {"/slurm/v0.0.38/jobs": {}, "/slurm/v0.0.38/ping": {}}}')

    with pytest.raises(NotFound, match=r"slurmrestd has no /slurm/v0.0.38/shares"):
        ask(tmp_path, old, "shares")


def test_an_update_of_slurmrestd_is_found_out_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    """The version is gone: 404, and the document is read anew at the next question."""
    document = {"now": DOCUMENT}

    def answer(path: str, headers: dict[str, str]) -> bytes:
        if path.startswith("/openapi"):
            return reply(document["now"])
        return reply(PING) if "v0.0.45" in path else reply(b"Unable find requested URL", "404 Not Found")

    async def run() -> None:
        async with served(answer, tmp_path / "s"):
            rest = Rest(Slurm(rest_url=f"unix:{tmp_path / 's'}"))
            with pytest.raises(NotFound, match=r"has no /slurm/v0.0.42/ping"):
                await rest.run(BY_WAY[REST]["controllers"])
            document["now"] = DOCUMENT.replace(b"v0.0.42", b"v0.0.45")
            assert (await rest.run(BY_WAY[REST]["controllers"])).argv == ("GET", "/slurm/v0.0.45/ping")
            await rest.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "status", "error", "words"),
    [
        (b"", "200 OK", SourceError, "answered something else"),
        (b"<html>a proxy's page</html>", "200 OK", SourceError, "not Slurm's JSON"),
        (PING[:40], "200 OK", SourceError, "not Slurm's JSON"),
        (b'{"errors": [{"error": "no", "description": "never"}]}', "200 OK", SourceError, "Slurm says: no never"),
        (b"oops", "500 Internal Server Error", Failed, "with 500: oops"),
        (b'{"errors":[{"error":"Unable to contact slurm controller"}]}', "500 Oh", Unanswered, "Unable to contact"),
        (b"Authentication failure", "401 Unauthorized", Unreachable, "refused the token: none was given"),
    ],
)
def test_an_answer_that_is_none_by_a_mock_of_slurmrestd(
    tmp_path: Path, body: bytes, status: str, error: type[Exception], words: str
) -> None:
    def answer(path: str, headers: dict[str, str]) -> bytes:
        return reply(DOCUMENT) if path.startswith("/openapi") else reply(body, status)

    with pytest.raises(error, match=words):
        ask(tmp_path, answer)


def test_a_server_that_is_no_slurmrestd_by_a_mock_of_it(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="is not slurmrestd: no OpenAPI document at /openapi/v3"):
        ask(tmp_path, lambda path, headers: reply(b"<html>"))
    with pytest.raises(NotFound, match=r"speaks no version from v0\.0\.37 on"):
        (tmp_path / "s").unlink(missing_ok=True)
        ask(tmp_path, lambda path, headers: reply(b'{"paths": {}}'))


def test_one_that_hangs_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    with pytest.raises(TimedOut, match=r"did not answer /slurm/v0.0.42/ping in 3 s \(slurm.timeout\)"):
        ask(tmp_path, lambda path, headers: reply(DOCUMENT) if path.startswith("/openapi") else None, timeout=3)


def test_one_that_breaks_off_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    cut = reply(PING)[:-5]

    def answer(path: str, headers: dict[str, str]) -> bytes:
        return reply(DOCUMENT) if path.startswith("/openapi") else cut

    with pytest.raises(TransportError):
        ask(tmp_path, answer, timeout=0.5)


def test_one_that_never_ends_by_a_mock_of_slurmrestd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmscope.slurm.rest._MOST_DOCUMENT", 1000)
    with pytest.raises(TooLong, match="of answer, which no cluster has to say"):
        ask(tmp_path, lambda path, headers: reply(b"x" * 100_000))


def test_a_connection_that_was_closed_meanwhile_is_made_anew_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    async def run() -> None:
        rest = Rest(Slurm(rest_url=f"unix:{tmp_path / 's'}"))
        async with served(good, tmp_path / "s"):
            await rest.run(BY_WAY[REST]["controllers"])
        (tmp_path / "s").unlink(missing_ok=True)
        async with served(good, tmp_path / "s"):  # it was started again
            await rest.run(BY_WAY[REST]["controllers"])
        await rest.close()

    asyncio.run(run())


def test_nobody_there() -> None:
    async def run() -> None:
        rest = Rest(Slurm(rest_url="unix:/nonexistent/socket"))
        with pytest.raises(Unreachable, match="slurmrestd at unix:/nonexistent/socket cannot be reached"):
            await rest.run(BY_WAY[REST]["controllers"])
        await rest.close()

    asyncio.run(run())


def test_the_user_of_a_token_is_named_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    """22.05 wants both."""
    seen: list[dict[str, str]] = []

    def answer(path: str, headers: dict[str, str]) -> bytes:
        seen.append(headers)
        return good(path, headers)

    token = "e30.eyJleHAiOjk5OTk5OTk5OTksInN1biI6ImFsaWNlIn0.x"
    ask(tmp_path, answer, rest_token=token)
    assert (seen[-1]["x-slurm-user-name"], seen[-1]["x-slurm-user-token"]) == ("alice", token)
    ask(tmp_path, answer, rest_token=token, rest_user="bob")
    assert seen[-1]["x-slurm-user-name"] == "bob"
    assert expiry(token) == 9999999999


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.", "é.é.é", "....", "a." + "A" * 99 + ".c"])
def test_what_is_no_token_has_no_expiry(token: str) -> None:
    assert expiry(token) is None


@pytest.mark.parametrize("token", ["good\r\nx-forged: yes", "e\0y\0J\0", "\ufeffeyJ", "two words"])
def test_what_is_no_token_is_neither_sent_nor_told_by_a_mock_of_slurmrestd(tmp_path: Path, token: str) -> None:
    seen: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> bytes:
        seen.append(path)
        return good(path, headers)

    with pytest.raises(Failed, match=r"^slurm\.rest_token is no token: it must be one line of ASCII") as caught:
        ask(tmp_path, answer, rest_token=token)
    assert not seen and "ey" not in str(caught.value) and "forged" not in str(caught.value)


def test_all_parts_wait_once_for_one_that_hangs_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    """Not one after the other for its document."""
    asked: list[str] = []

    async def run() -> list[BaseException | object]:
        async with served(lambda path, headers: None, tmp_path / "s") as seen:
            rest = Rest(Slurm(rest_url=f"unix:{tmp_path / 's'}", timeout=3))
            try:
                found = await asyncio.gather(
                    *(rest.run(command) for command in BY_WAY[REST].values()), return_exceptions=True
                )
            finally:
                await rest.close()
            asked.extend(seen)
            return list(found)

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [Unreachable] * len(BY_WAY[REST])
    assert len(asked) == 1


def test_one_command_prints_the_token_for_all_questions_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = tmp_path / "token"
    script.write_text(f"#!/bin/sh\necho x >>{runs}\nsleep 0.1\necho a.b.c\n")
    script.chmod(0o755)

    async def run() -> None:
        async with served(good, tmp_path / "s"):
            rest = Rest(Slurm(rest_url=f"unix:{tmp_path / 's'}", rest_token_command=str(script)))
            try:
                await asyncio.gather(*(rest.run(command) for command in BY_WAY[REST].values()))
            finally:
                await rest.close()

    asyncio.run(run())
    assert runs.read_text() == "x\n"


def test_https_is_verified_by_a_mock_of_slurmrestd(tmp_path: Path) -> None:
    key, cert = tmp_path / "key", tmp_path / "cert"
    request = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    argv = ["openssl", *request.split(), "-keyout", str(key), "-out", str(cert)]
    subprocess.run(argv, check=True, capture_output=True)

    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(good(head.decode().split()[1], {}))

        server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            trusting = Rest(Slurm(rest_url=url, rest_ca=str(cert)))
            assert (await trusting.run(BY_WAY[REST]["controllers"])).data == PING
            await trusting.close()
            strict = Rest(Slurm(rest_url=url))
            with pytest.raises(Unreachable, match=r"(?i)certificate"):
                await strict.run(BY_WAY[REST]["controllers"])
            await strict.close()
        finally:
            server.close()

    asyncio.run(run())


def test_one_that_does_not_know_an_option_is_asked_without(tmp_path: Path) -> None:
    """As 22.05, which tells the accounts beside the complaint."""
    told = {"accounts": [{"name": "bio", "coordinators": [{"name": "carol", "direct": 1}]}], "errors": []}
    refused = {**told, "errors": [{"description": "Unknown query field", "error": "Query empty"}]}

    def answer(path: str, headers: dict[str, str]) -> bytes:
        if path.startswith("/openapi"):
            return reply(DOCUMENT)
        return reply(json.dumps(refused if "?" in path else told).encode())

    assert ask(tmp_path, answer, "coordinators")[1:] == [
        "GET /slurmdb/v0.0.42/accounts?with_coords=true&WithCoordinators=true HTTP/1.1",
        "GET /slurmdb/v0.0.42/accounts HTTP/1.1",
    ]
