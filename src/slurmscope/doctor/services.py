# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What slurmscope serves, and who reads it: the address, its certificate, Prometheus."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import time
from collections.abc import Collection
from urllib.parse import urlsplit

import httpx
import msgspec

from slurmscope.config import listen_address
from slurmscope.doctor.finding import Chart, Check
from slurmscope.settings import Serve, Settings

_PATIENCE = 5.0
_DAY = 86400
_SOON = 14 * _DAY
_LOOPBACK = ("127.", "::1", "localhost")
_REALM = 'realm="slurmscope"'
_FAMILY = "slurmscope_info"
_QUERY = "max by (cluster, job, instance) (slurm_source_info)"  # ours alone, and of every cluster


def _client(context: ssl.SSLContext) -> httpx.AsyncClient:
    # a proxy of the environment would be asked for hosts that it does not know
    return httpx.AsyncClient(verify=context, timeout=_PATIENCE, trust_env=False)


# The address


async def listen(chart: Chart, settings: Settings) -> None:
    host, port = listen_address(settings)
    address = settings.serve.listen
    taken = _taken(host, port)
    if taken is None:
        chart.ok(Check.LISTEN, f"{address} is free")
    elif taken.errno == errno.EADDRINUSE:
        if await _is_ours(host, port, tls=bool(settings.serve.tls_cert)):
            chart.ok(Check.LISTEN, f"a slurmscope serves {address} already")
        else:
            chart.failed(
                Check.LISTEN,
                f"another program listens on {address}",
                f'set serve.listen = "{address.rpartition(":")[0]}:{port + 1 if port < 65535 else port - 1}", '
                f"or end the other (`ss -ltnp sport = :{port}` shows it)",
            )
    else:
        told = taken.strerror or os.strerror(taken.errno or 0)
        chart.failed(
            Check.LISTEN,
            f"cannot listen on {address}: {told}",
            'set serve.listen = ":9092" for all addresses of this host, or "127.0.0.1:9092" for this host alone',
        )


def _taken(host: str, port: int) -> OSError | None:
    """Why it cannot be had; tried in the way in which `slurmscope serve` will."""
    both = host == "" and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family, dualstack_ipv6=both).close()
    except OSError as error:
        return error
    return None


async def _is_ours(host: str, port: int, *, tls: bool) -> bool:
    name = f"[{host}]" if ":" in host else host or "127.0.0.1"
    context = ssl.create_default_context()
    # who answers is all that is asked, and the certificate is for another name than this
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with _client(context) as client:
            answer = await client.get(f"http{'s' if tls else ''}://{name}:{port}/metrics/slurmscope")
    except (httpx.HTTPError, OSError):
        return False
    return _REALM in answer.headers.get("www-authenticate", "") or f"\n{_FAMILY}{{" in answer.text


# The certificate


def tls(chart: Chart, settings: Settings) -> None:
    serve = settings.serve
    if not serve.tls_cert:
        reached = not listen_address(settings)[0].startswith(_LOOPBACK)
        cure = "set serve.tls_cert and serve.tls_key" if reached else ""
        chart.skipped(Check.TLS, "not set up: pages are served as plain HTTP", cure)
        return
    try:
        end = _expiry(serve)
    except ssl.SSLCertVerificationError as error:
        chart.failed(
            Check.TLS,
            f"{serve.tls_cert}: {error.verify_message}",
            f"renew the certificate; `openssl x509 -noout -text -in {serve.tls_cert}` shows it",
        )
    except (OSError, ValueError) as error:  # SSLError is an OSError
        chart.failed(
            Check.TLS,
            f"serve.tls_cert and serve.tls_key cannot be used together: {getattr(error, 'reason', None) or error}",
            "the key must be the certificate's own, PEM, and without a passphrase: "
            f"`openssl pkey -in {serve.tls_key} -noout` must not ask for one",
        )
    else:
        left = end - time.time()
        told = f"{serve.tls_cert} is valid for {left / _DAY:.0f} more days, until {_date(end)}"
        if left < _SOON:
            chart.warning(Check.TLS, told, "renew the certificate, then `systemctl restart slurmscope`")
        else:
            chart.ok(Check.TLS, told)


def _date(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(when))


def _expiry(serve: Serve) -> float:
    """When it ends, as a client sees it: the standard library tells of certificates only in a connection."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(serve.tls_cert, serve.tls_key, password="")  # else it would ask the terminal
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.check_hostname = False
    theirs.load_verify_locations(serve.tls_cert)
    theirs.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whoever signed it is not our question
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = theirs.wrap_bio(down, up), ours.wrap_bio(up, down, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = client.getpeercert()
    return ssl.cert_time_to_seconds(str((certificate or {})["notAfter"]))


# Prometheus


class _Series(msgspec.Struct):
    metric: dict[str, str]


class _Result(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Result = msgspec.field(default_factory=_Result)


async def prometheus(chart: Chart, settings: Settings, clusters: Collection[str]) -> None:
    url = settings.prometheus.url.rstrip("/")
    if not url:
        chart.skipped(
            Check.PROMETHEUS,
            "prometheus.url is not set, so that nobody knows whether it scrapes us",
            'set prometheus.url = "http://HOST:9090"',
        )
        return
    try:
        async with _client(ssl.create_default_context()) as client:
            answer = await client.get(f"{url}/api/v1/query", params={"query": _QUERY})
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        told = f"no answer within {_PATIENCE:g} s" if isinstance(error, httpx.TimeoutException) else str(error)
        chart.failed(
            Check.PROMETHEUS,
            f"{url} cannot be reached: {told or type(error).__name__}",
            f"start Prometheus, or correct prometheus.url: `curl {url}/-/ready` must answer",
        )
        return
    try:
        series = msgspec.json.decode(answer.content, type=_Answer).data.result if answer.is_success else None
    except ValueError:
        series = None
    if series is None:
        cure = "ask by an address without a password" if answer.status_code in (401, 403) else "look what is there"
        chart.failed(
            Check.PROMETHEUS,
            f"{url} answers with {answer.status_code} and not as Prometheus does",
            f"`curl '{url}/api/v1/query?query=up'` must answer in JSON; {cure}, and set prometheus.url to it",
        )
        return
    _scraped(chart, settings, clusters, [one.metric for one in series])


def _scraped(chart: Chart, settings: Settings, clusters: Collection[str], series: list[dict[str, str]]) -> None:
    url = settings.prometheus.url
    shown = sorted({one.get("cluster", "") for one in series} - {""})
    places = ", ".join(sorted({f"{one.get('instance', '?')} (job {one.get('job', '?')})" for one in series}))
    missing = [cluster for cluster in clusters if cluster not in shown]
    if not series:
        chart.warning(Check.PROMETHEUS, f"{url} answers, but scrapes no slurmscope", _scrape(settings))
    elif missing:
        chart.warning(
            Check.PROMETHEUS,
            f"{url} scrapes {places}, which show {', '.join(shown) or 'no cluster'} and not {', '.join(missing)}",
            _scrape(settings),
        )
    else:
        chart.ok(Check.PROMETHEUS, f"{url} scrapes {places}: {', '.join(shown)}")


def _scrape(settings: Settings) -> str:
    """The line for prometheus.yml."""
    host, port = listen_address(settings)
    near = (urlsplit(settings.prometheus.url).hostname or "").startswith(_LOOPBACK)
    alone = host.startswith(_LOOPBACK)
    name = socket.gethostname() if host == "" or (alone and not near) else host
    target = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    scheme = "scheme: https, " if settings.serve.tls_cert else ""
    line = f'- {{job_name: slurm, scrape_interval: 30s, {scheme}static_configs: [{{targets: ["{target}"]}}]}}'
    reach = f'set serve.listen = ":{port}" so that it can reach us, and ' if alone and not near else ""
    return f"{reach}add to scrape_configs in prometheus.yml: {line} and reload it; `slurmscope serve` must be running"
