# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is sent: whether each sink's server is there, lets us in, and would take it. Nothing is sent."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import os
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from slurmscope.doctor.finding import Chart, Check, Wrong
from slurmscope.settings import CloudWatch, Elasticsearch, Pushgateway, Settings
from slurmscope.sinks.documents import HISTORY, JOBS, NODES
from slurmscope.sinks.http import Answer, Server, words
from slurmscope.sinks.sink import BatchError, SendError
from slurmscope.store import place

_PATIENCE = 5.0
_OLDEST = (7, 9)
_REFUSED = re.compile(r" refused \S+ \S+ with (\d+)")  # as http.py says it
_JSON = {"Content-Type": "application/json"}
_NO_ACCESS = 403

# What is said of a server that cannot be asked, and what to do. The first that fits.
_CURES = (
    (
        ("Hostname mismatch", "IP address mismatch"),
        "{section}.url must name the server as its certificate does: "
        "`openssl s_client -connect {host}:{port} </dev/null | openssl x509 -noout -text` shows its names",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "set {section}.ca to the certificate (PEM) of who signed the server's: "
        "`openssl s_client -showcerts -connect {host}:{port} </dev/null` shows it",
    ),
    (("cannot be used as certificates",), "{section}.ca must name a file of certificates in PEM, or be empty"),
    (("password_file",), "let {section}.password_file name a file that the user of slurmscope may read"),
    (("WRONG_VERSION_NUMBER", "record layer"), "the server has no TLS there: {section}.url must begin with http://"),
    (("Server disconnected",), "if the server has TLS there, {section}.url must begin with https://"),
    (
        ("Name or service not known", "name resolution", "No address associated"),
        "correct the host in {section}.url: `getent hosts {host}` must know it",
    ),
    (("is busy",), "wait, or look at the server's own log; what is to be sent waits meanwhile"),
)
_ELSE = "start the server, or correct {section}.url: `curl {url}` must answer"


# Servers by HTTP


async def _look(
    chart: Chart,
    check: Check,
    settings: Elasticsearch | Pushgateway,
    look: Callable[[Server], Awaitable[str]],
) -> None:
    server = Server(check, settings)
    try:
        async with asyncio.timeout(_PATIENCE):
            chart.ok(check, await look(server))
    except Wrong as wrong:
        chart.wrong(check, wrong)
    except TimeoutError:
        chart.failed(check, f"{settings.url} did not answer in {_PATIENCE:g} s", _cure(check, settings, ""))
    except (SendError, BatchError) as error:
        chart.failed(check, _hidden(settings, str(error)), _cure(check, settings, str(error)))
    finally:
        await server.close()


def _hidden(settings: Elasticsearch | Pushgateway, said: str) -> str:
    """What a server says may hold what we sent to it."""
    password = settings.password
    if settings.password_file:
        with suppress(OSError, UnicodeDecodeError):
            password = Path(settings.password_file).read_text("utf-8").rstrip("\r\n")
    pair = base64.b64encode(f"{settings.user}:{password}".encode()).decode() if password else ""
    for secret in filter(None, (pair, password, getattr(settings, "api_key", ""))):
        said = said.replace(secret, "********")
    return said


def _cure(section: str, settings: Elasticsearch | Pushgateway, said: str) -> str:
    if _status(said):
        if isinstance(settings, Elasticsearch) and settings.api_key:
            return "correct elasticsearch.api_key: the `encoded` form of a key that has not expired"
        if settings.user:
            password = "password_file" if settings.password_file else "password"
            return f"correct {section}.user and {section}.{password}"
        key = ", or elasticsearch.api_key" if isinstance(settings, Elasticsearch) else ""
        return f"set {section}.user and {section}.password{key}"
    url = urlsplit(settings.url)
    port = url.port or (443 if url.scheme == "https" else 80)
    cure = next((cure for signs, cure in _CURES if any(sign in said for sign in signs)), _ELSE)
    return cure.format(section=section, url=settings.url, host=url.hostname, port=port)


def _status(said: str) -> int:
    found = _REFUSED.search(said)
    return int(found[1]) if found else 0


async def _asked(server: Server, method: str, path: str, body: object = None) -> Answer | None:
    """None where we are known, and may not do this."""
    content, headers = (msgspec.json.encode(body), _JSON) if body is not None else (b"", {})
    try:
        return await server.request(method, path, content, headers)
    except SendError as error:
        if _status(str(error)) == _NO_ACCESS:
            return None
        raise


# Elasticsearch


class _Version(msgspec.Struct):
    number: str
    distribution: str = "Elasticsearch"


class _Root(msgspec.Struct):
    version: _Version


class _Privileges(msgspec.Struct):
    cluster: dict[str, bool] = {}
    index: dict[str, dict[str, bool]] = {}


async def elasticsearch(chart: Chart, settings: Settings) -> None:
    given = settings.elasticsearch
    if not given.url:
        return
    if place.url_of(settings.store) == place.NONE:
        chart.failed(
            Check.ELASTICSEARCH,
            "it needs a store, which knows each job's life, and store.url is none",
            "set store.url, or leave elasticsearch.url empty",
        )
        return
    await _look(chart, Check.ELASTICSEARCH, given, lambda server: _elasticsearch(server, given))


async def _elasticsearch(server: Server, given: Elasticsearch) -> str:
    answer = await _asked(server, "GET", "/")
    product = "the server" if answer is None else _product(given, answer)
    missing = None if product.startswith("OpenSearch") else await _missing(server, given)
    told = "index templates may be made, and documents written"
    if missing is None:
        missing = [] if await _may_make_templates(server, given) else ["making index templates"]
        told = "index templates may be made; whether documents may be written shows with the first"
    if missing:
        raise Wrong(
            f"{product} at {given.url} lets us in, but does not grant: {', '.join(missing)}",
            f'give the user or the key these rights: docs/sinks.md, "Rights", has them for {given.prefix}-*',
        )
    return f"{product} at {given.url} lets us in: {told}"


def _product(given: Elasticsearch, answer: Answer) -> str:
    try:
        version = msgspec.json.decode(answer.body, type=_Root).version
        release = tuple(int(one) for one in version.number.split(".")[:2])
    except ValueError:
        raise Wrong(
            f"{given.url} answers with {answer.status} and not as Elasticsearch does",
            f"look what is there (`curl {given.url}`), and correct elasticsearch.url",
        ) from None
    name = {"opensearch": "OpenSearch"}.get(version.distribution, version.distribution)
    if name == "Elasticsearch" and release < _OLDEST:
        raise Wrong(f"{name} {version.number} at {given.url} is too old", "7.9 or later is needed")
    return f"{name} {version.number}"


async def _missing(server: Server, given: Elasticsearch) -> list[str] | None:
    """The rights that Elasticsearch says that we have not; None where it does not know the question."""
    kinds = (JOBS, NODES, HISTORY) if given.history else (JOBS, NODES)
    indices = {"names": [f"{given.prefix}-{kind}" for kind in kinds], "privileges": ["create_index", "index"]}
    asked = {"cluster": ["manage_index_templates"], "index": [indices]}
    answer = await _asked(server, "POST", "/_security/user/_has_privileges", asked)
    if answer is None or answer.status != 200:
        return None
    try:
        found = msgspec.json.decode(answer.body, type=_Privileges)
    except ValueError:
        return None
    return [name for name, has in found.cluster.items() if not has] + [
        f"{name} on {index}" for index, rights in found.index.items() for name, has in rights.items() if not has
    ]


async def _may_make_templates(server: Server, given: Elasticsearch) -> bool:
    """By one that is made of what is not there: it is refused, but first of all whoever may not make any."""
    name = f"{given.prefix}-doctor"
    asked = {"index_patterns": [name], "composed_of": [f"{name}-which-is-not-there"]}
    answer = await _asked(server, "PUT", f"/_index_template/{name}?create=true", asked)
    if answer is not None and answer.status != 400:
        raise Wrong(
            f"{given.url} answered the question for an index template with {answer.status}: {words(answer.body)}",
            "look at the server's own log",
        )
    return answer is not None


# Pushgateway


class _Build(msgspec.Struct):
    version: str


class _Status(msgspec.Struct):
    build_information: _Build


class _StatusAnswer(msgspec.Struct):
    data: _Status


async def pushgateway(chart: Chart, settings: Settings) -> None:
    given = settings.pushgateway
    if given.url:
        await _look(chart, Check.PUSHGATEWAY, given, lambda server: _pushgateway(server, given))


async def _pushgateway(server: Server, given: Pushgateway) -> str:
    status = await server.request("GET", "/api/v1/status")
    version = ""
    with suppress(ValueError):
        version = f" {msgspec.json.decode(status.body, type=_StatusAnswer).data.build_information.version}"
    if not version:  # before 1.0 it has no such page
        ready = await server.request("GET", "/-/ready")
        if ready.status != 200:
            raise Wrong(
                f"{given.url} answers with {ready.status} and not as a Pushgateway does",
                f"look what is there (`curl {given.url}/-/ready`), and correct pushgateway.url",
            )
    return f"Pushgateway{version} at {given.url} lets us in; nothing was pushed"


# CloudWatch


async def cloudwatch(chart: Chart, settings: Settings) -> None:
    given = settings.cloudwatch
    if not given.enabled:
        return
    try:
        told = await asyncio.to_thread(_credentials, given)
        if given.endpoint_url:
            await _reach(given.endpoint_url)
            told += f"; {given.endpoint_url} can be reached"
    except Wrong as wrong:
        chart.wrong(Check.CLOUDWATCH, wrong)
    else:
        chart.ok(
            Check.CLOUDWATCH,
            f"{told}. Whether they may send (cloudwatch:PutMetricData) was not tried: only a metric would show it",
        )


def _credentials(given: CloudWatch) -> str:
    """As the sink will look for them; the machine's own role is asked for over the network."""
    if importlib.util.find_spec("boto3") is None:
        raise Wrong("boto3 is not installed", "`pip install 'slurmscope[cloudwatch]'`")
    import boto3  # noqa: PLC0415 - an extra, and slow to load
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    try:
        session: Any = boto3.session.Session(region_name=given.region or None)
        found = session.get_credentials()
    except BotoCoreError as error:
        raise Wrong(
            f"boto3 finds no credentials: {error}", "correct ~/.aws/config, ~/.aws/credentials or AWS_PROFILE"
        ) from error
    if session.region_name is None:
        raise Wrong("boto3 knows no region", 'set cloudwatch.region = "eu-north-1", or whichever it is')
    if found is None:
        raise Wrong(
            "boto3 finds no credentials",
            "give the machine a role, or the user that runs slurmscope ~/.aws/credentials or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY: `aws sts get-caller-identity` must then work for that user",
        )
    return f"boto3 {boto3.__version__}, region {session.region_name}, credentials from {found.method}"


async def _reach(url: str) -> None:
    """Any answer will do. As boto3 does it: with the environment's proxies and its certificates."""
    try:
        context = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE") or None)
        async with httpx.AsyncClient(verify=context, timeout=_PATIENCE) as client:
            await client.get(url)
    except (httpx.HTTPError, OSError) as error:
        told = f"no answer within {_PATIENCE:g} s" if isinstance(error, httpx.TimeoutException) else str(error)
        raise Wrong(
            f"{url} cannot be reached: {told or type(error).__name__}",
            f"correct cloudwatch.endpoint_url, or leave it empty for that of the region: `curl {url}` must answer",
        ) from error
