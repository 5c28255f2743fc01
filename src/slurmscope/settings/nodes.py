# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is measured on nodes and within jobs."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    listen: Annotated[
        str,
        Meta(
            description="Address at which `slurmscope agent` serves its page: `host:port`, `:9095` for all interfaces. "
            "`none`: it serves none, and only sends."
        ),
    ] = "127.0.0.1:9095"
    interval: Annotated[
        float, Meta(ge=1, le=3600, description="Seconds between two looks at the jobs of the node.")
    ] = 15.0
    node: Annotated[
        str,
        Meta(
            description="The node's name as Slurm has it, for the label `node`. Empty: the host's name up to its first "
            "dot, or what the cgroups say where one host runs several slurmd."
        ),
    ] = ""
    scratch: Annotated[
        list[str],
        Meta(
            description="What the paths of files on a scratch file system look like (`*` is anything), "
            "for `jobs_uses_scratch`."
        ),
    ] = msgspec.field(default_factory=lambda: ["*scratch*"])
    programs: Annotated[
        int, Meta(ge=0, le=1000, description="How many programs of a job are named; the others are `other`.")
    ] = 10
    serve_url: Annotated[
        str,
        Meta(
            description="Where `slurmscope serve` is, which takes what is measured (`agents.enabled` there): the "
            "address without `/agent`. Empty: it is sent to none."
        ),
    ] = ""
    serve_token_file: Annotated[
        str,
        Meta(
            description="File that holds the token that it wants (`agents.tokens` there); read anew when it is refused."
        ),
    ] = ""
    serve_ca: Annotated[
        str, Meta(description="File of the certificates (PEM) that `https://` is checked against. Empty: the system's.")
    ] = ""


class Agents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Whether `serve` takes what agents measured, at `/agent`, and shows it as `/metrics/jobs`."),
    ] = False
    tokens: Annotated[
        list[str],
        Meta(
            description="SHA-256 hashes, in hex, of the bearer tokens that agents may come with "
            "(`slurmscope hash-password --token`). None: whoever reaches it may send.",
            extra={"secret": True},
        ),
    ] = []


class Trace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool, Meta(description="Whether `serve` takes what jobs tell of themselves (`slurmscope run`).")
    ] = False
    path: Annotated[str, Meta(description="Where they send it.")] = "/trace"
    tokens: Annotated[
        list[str],
        Meta(
            description="SHA-256 hashes, in hex, of the bearer tokens that jobs may come with "
            "(`slurmscope hash-password --token`).",
            extra={"secret": True},
        ),
    ] = []
    munge: Annotated[
        bool,
        Meta(
            description="Whether a job may prove by munge whose it is; it is then believed only of that user's own "
            "jobs. With neither tokens nor munge, whoever reaches it may send."
        ),
    ] = False
    jobs: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="How many jobs are traced at a time, at most; further ones are refused."),
    ] = 1000
    processes: Annotated[
        int, Meta(ge=1, le=100_000, description="How many processes of a job, at most, over all its hosts.")
    ] = 64
    keep_seconds: Annotated[
        float, Meta(ge=1, le=86400, description="Seconds after which a process that was not heard of is forgotten.")
    ] = 60.0
