# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Other servers: Prometheus, and those to which things are sent."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Prometheus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str,
        Meta(
            description="Where Prometheus is: `slurmscope doctor` asks it whether it scrapes us, and `serve` what "
            "jobs used, where no agent told. Empty: unknown."
        ),
    ] = ""


class Elasticsearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str,
        Meta(
            description="Where Elasticsearch (7.9 or later) or OpenSearch is, to which jobs and nodes are sent. "
            "Empty: nothing is sent."
        ),
    ] = ""
    user: Annotated[str, Meta(description="Name for HTTP Basic. Empty: an API key, or none is needed.")] = ""
    password: Annotated[str, Meta(description="The user's password.", extra={"secret": True})] = ""
    password_file: Annotated[str, Meta(description="File that holds the password; read anew when it is refused.")] = ""
    api_key: Annotated[
        str,
        Meta(
            description="API key, as Elasticsearch gives it out `encoded`, in place of a user.", extra={"secret": True}
        ),
    ] = ""
    ca: Annotated[
        str, Meta(description="File of the certificates (PEM) that `https://` is checked against. Empty: the system's.")
    ] = ""
    prefix: Annotated[
        str,
        Meta(description="What the names of the indices begin with: `PREFIX-jobs`, `PREFIX-nodes`, `PREFIX-history`."),
    ] = "slurmscope"
    history: Annotated[
        bool,
        Meta(
            description="Whether each state that a job comes into, and each condition of a node, is sent as an event "
            "of its own, to the data stream `PREFIX-history`."
        ),
    ] = False
    spool_megabytes: Annotated[
        int,
        Meta(ge=1, description="What waits on disk while the server is away, at most; beyond that the oldest is lost."),
    ] = 512


class CloudWatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(
            description="Whether metrics are sent to Amazon CloudWatch. Needs `slurmscope[cloudwatch]`; "
            "credentials are found as boto3 finds them."
        ),
    ] = False
    region: Annotated[str, Meta(description="AWS region. Empty: as boto3 finds it.")] = ""
    endpoint_url: Annotated[
        str, Meta(description="Another address than AWS' own: a VPC endpoint. Empty: that of the region.")
    ] = ""
    namespace: Annotated[str, Meta(description="Namespace of the metrics.")] = "Slurm"
    dimensions: Annotated[
        dict[str, str],
        Meta(
            description="Dimensions of every metric. `ClusterName`, which is the cluster's name, is added "
            "unless it is among them."
        ),
    ] = {}
    high_resolution: Annotated[
        bool,
        Meta(description="Whether CloudWatch tells single seconds apart (StorageResolution 1), and not minutes (60)."),
    ] = False
    interval: Annotated[
        float,
        Meta(ge=1, description="Seconds between the values that are sent of a cluster, at least: each costs money."),
    ] = 60.0
    spool_megabytes: Annotated[
        int,
        Meta(ge=1, description="What waits on disk while CloudWatch is away, at most; beyond that the oldest is lost."),
    ] = 512


class Pushgateway(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str, Meta(description="Where the Pushgateway is, to which the page of metrics is sent. Empty: it is not sent.")
    ] = ""
    job: Annotated[str, Meta(description="The `job` label of the group that is pushed.")] = "slurmscope"
    grouping: Annotated[
        dict[str, str],
        Meta(description="More labels of the group. None that a series has already, such as `cluster`."),
    ] = {}
    user: Annotated[str, Meta(description="Name for HTTP Basic. Empty: none is needed.")] = ""
    password: Annotated[str, Meta(description="The user's password.", extra={"secret": True})] = ""
    password_file: Annotated[str, Meta(description="File that holds the password; read anew when it is refused.")] = ""
    ca: Annotated[
        str, Meta(description="File of the certificates (PEM) that `https://` is checked against. Empty: the system's.")
    ] = ""
    interval: Annotated[
        float,
        Meta(
            ge=1,
            description="Seconds between pushes, at least; a page is pushed when a poll made it new. "
            "The agent does not follow it: it pushes what is new, once a second at most.",
        ),
    ] = 10.0
    delete_on_stop: Annotated[
        bool,
        Meta(
            description="Whether the group is deleted when slurmscope stops, and its series end with it. "
            "The agent always deletes its own."
        ),
    ] = False
