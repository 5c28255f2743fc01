# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every setting that there is: its type, its bounds, its default, and what it is for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster: Annotated[str, Meta(description="Name used as the `cluster` label. Empty: Slurm is asked for it.")] = ""
    bin_dir: Annotated[
        str,
        Meta(
            description="Folder of squeue, scontrol and the others. "
            "Empty: `$SLURM_HOME/bin` if that is set, else the `PATH`."
        ),
    ] = ""
    conf: Annotated[
        str,
        Meta(description="The slurm.conf that commands are given as `SLURM_CONF`. Empty: as the environment has it."),
    ] = ""
    timeout: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds before a Slurm command is killed, with its children.",
            extra={"alias": "CLI_TIMEOUT"},
        ),
    ] = 10.0


class Poll(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    interval: Annotated[
        float,
        Meta(
            ge=1,
            description="Seconds between polls of jobs, nodes and scheduler: "
            "the floor that protects slurmctld, however often Prometheus scrapes.",
            extra={"alias": "POLL_LIMIT"},
        ),
    ] = 10.0
    slow_interval: Annotated[
        float,
        Meta(
            ge=1,
            description="Seconds between polls of limits, shares, partitions, reservations, licences "
            "and slurmdbd statistics. At least `poll.interval`, to which the default is stretched.",
        ),
    ] = 60.0


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


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slurm: Slurm = Slurm()
    poll: Poll = Poll()
    metrics: Metrics = Metrics()
    serve: Serve = Serve()
    log: Log = Log()
