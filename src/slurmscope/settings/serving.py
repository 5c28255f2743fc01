# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is served, to whom, and what is logged."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Metrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    compat: Annotated[bool, Meta(description="Whether the default page has the names of rivosinc's exporter too.")] = (
        True
    )
    top: Annotated[
        int,
        Meta(
            ge=1,
            description="Per-user and per-account families name this many of the busiest; "
            "the rest are summed as `other`, or left out where a sum has no meaning (shares, limits, RPCs).",
        ),
    ] = 100


class Serve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    listen: Annotated[
        str,
        Meta(description="Address to listen on: `host:port`, `[::1]:9092` for IPv6, `:9092` for all interfaces."),
    ] = "127.0.0.1:9092"
    names: Annotated[
        list[str],
        Meta(
            description="Further names by which this machine may be asked where it listens on loopback: those that a "
            "proxy, a tunnel or a container's gateway (`host.docker.internal`) puts into the Host header."
        ),
    ] = []
    tls_cert: Annotated[str, Meta(description="File of the TLS certificate chain (PEM). Empty: plain HTTP.")] = ""
    tls_key: Annotated[str, Meta(description="File of the certificate's private key (PEM).")] = ""
    users: Annotated[
        dict[str, str],
        Meta(
            description="Names and password hashes (`slurmscope hash-password`) for HTTP Basic. "
            "With neither users nor tokens, everyone may read.",
            extra={"secret": True},
        ),
    ] = {}
    tokens: Annotated[
        list[str],
        Meta(description="SHA-256 hashes, in hex, of the bearer tokens accepted.", extra={"secret": True}),
    ] = []


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    level: Annotated[
        Literal["debug", "info", "warn", "error"],
        Meta(description="The least severe messages that are logged.", extra={"alias": "LOGLEVEL"}),
    ] = "info"
    format: Annotated[Literal["logfmt", "json"], Meta(description="How a line of the log is written.")] = "logfmt"
