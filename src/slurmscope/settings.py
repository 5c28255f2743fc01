# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Every setting that there is: its type, its bounds, its default, and what it is for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Slurm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster: Annotated[str, Meta(description="Name used as the `cluster` label. Empty: Slurm is asked for it.")] = ""
    source: Annotated[
        Literal["auto", "text", "json", "rest", "pyslurm"],
        Meta(
            description="How the cluster is read. `auto`: for each part the best way that works. "
            "A way that is named comes first; the others stand in where it cannot tell a part, or fails."
        ),
    ] = "auto"
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
    multi_cluster: Annotated[
        str,
        Meta(
            description="Ask for this cluster through the slurmdbd that it shares with the one of slurm.conf, "
            "as `-M` does. Empty: the cluster of slurm.conf."
        ),
    ] = ""
    timeout: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Seconds before a question is given up, and the Slurm command killed with its children.",
            extra={"alias": "CLI_TIMEOUT"},
        ),
    ] = 10.0
    python: Annotated[
        str,
        Meta(
            description="The Python that runs the probe: the one that has PySlurm, and over `ssh` any from 3.6 on. "
            "Empty: the one that runs slurmscope; over `ssh`, `python3`."
        ),
    ] = ""
    ssh: Annotated[
        str,
        Meta(
            description="`host` or `user@host` of a login node on which the commands are run. "
            "The key must need no passphrase, and the host must be known. Empty: they are run here."
        ),
    ] = ""
    ssh_config: Annotated[
        str, Meta(description="File that `ssh` is given as `-F`: ports, keys, jump hosts. Empty: its own.")
    ] = ""
    ssh_probe: Annotated[
        str, Meta(description="Where probe.py is on the cluster. Empty: it is sent anew with each question.")
    ] = ""
    rest_url: Annotated[
        str,
        Meta(
            description="Where slurmrestd listens: `http://…`, `https://…`, or `unix:/run/slurmrestd.sock`. "
            "Empty: there is none, or it is not asked."
        ),
    ] = ""
    rest_user: Annotated[
        str, Meta(description="The user that slurmrestd's token is for. Empty: as the token says.")
    ] = ""
    rest_token: Annotated[
        str,
        Meta(
            description="A JSON Web Token for slurmrestd (`scontrol token`). "
            "Empty: none is needed, or the file or the command gives it.",
            extra={"secret": True},
        ),
    ] = ""
    rest_token_file: Annotated[str, Meta(description="File that holds the token; read anew when it changes.")] = ""
    rest_token_command: Annotated[
        str,
        Meta(
            description="Command that prints the token (`SLURM_JWT=…` is understood); "
            "run anew before it expires, and when slurmrestd refuses it."
        ),
    ] = ""
    rest_ca: Annotated[
        str, Meta(description="File of the certificates (PEM) that `https://` is checked against. Empty: the system's.")
    ] = ""


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


class Cluster(msgspec.Struct, frozen=True):
    """One cluster of those that are read, with what holds for it."""

    slurm: Slurm = Slurm()
    poll: Poll = Poll()
    own: frozenset[str] | None = None  # what its section says itself; None: it is the one of [slurm]

    @property
    def has_commands(self) -> bool:
        """Whether this machine's commands ask this cluster, and not whichever one this machine belongs to."""
        if self.own is None or not self.slurm.rest_url or self.slurm.source not in ("auto", "rest"):
            return True
        return not self.own.isdisjoint(("ssh", "conf", "bin_dir", "multi_cluster"))


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


class Prometheus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str,
        Meta(
            description="Where Prometheus is: `slurmscope doctor` asks it whether it scrapes us, and `serve` what "
            "jobs used, where no agent told. Empty: unknown."
        ),
    ] = ""


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[
        str,
        Meta(
            description="Where history is kept: `sqlite:/path/to/file.db`, or `mongodb://user:password@host/database`. "
            "Empty: slurmscope.db in `store.folder`. `none`: nothing is kept.",
            extra={"secret": True},
        ),
    ] = ""
    folder: Annotated[
        str,
        Meta(
            description="Folder of all that is kept on this machine: the SQLite file, and what waits to be sent. "
            "Empty: `$STATE_DIRECTORY`, as systemd sets it; else /var/lib/slurmscope, if it may be written; else "
            "slurmscope in `$XDG_STATE_HOME` (~/.local/state)."
        ),
    ] = ""
    jobs_days: Annotated[int, Meta(ge=0, description="Days that a job is kept after its end. 0: for ever.")] = 1825
    usage_days: Annotated[
        int,
        Meta(ge=0, description="Days that the daily sums of usage are kept; as long as jobs, at least. 0: for ever."),
    ] = 0
    series_days: Annotated[
        int,
        Meta(
            ge=0,
            description="Days that the course of what a job used is kept after its end; its summary stays as long "
            "as the job. 0: as long as the job.",
        ),
    ] = 90
    node_changes_days: Annotated[
        int, Meta(ge=0, description="Days that the changes of nodes' states are kept. 0: for ever.")
    ] = 1825
    totals_fine_days: Annotated[
        int, Meta(ge=1, description="Days that totals are kept as each poll saw them; after that, means of 5 minutes.")
    ] = 1
    totals_middle_days: Annotated[
        int, Meta(ge=1, description="Days that totals are kept as means of 5 minutes; after that, of an hour.")
    ] = 60
    totals_coarse_days: Annotated[
        int, Meta(ge=0, description="Days that totals are kept as means of an hour. 0: for ever.")
    ] = 1825


class Accounting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        bool,
        Meta(description="Whether `serve` reads what `sacct` tells into the store, from time to time."),
    ] = True
    interval: Annotated[
        float, Meta(ge=10, description="Seconds between two readings of the accounting; each is of what is new.")
    ] = 300.0
    reach_days: Annotated[
        int,
        Meta(
            ge=1,
            description="How far back `serve` reads the accounting at its first start, and after a long stop. "
            "`slurmscope import` reads further.",
        ),
    ] = 7


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


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    slurm: Slurm = Slurm()
    poll: Poll = Poll()
    metrics: Metrics = Metrics()
    serve: Serve = Serve()
    log: Log = Log()
    prometheus: Prometheus = Prometheus()
    store: Store = Store()
    accounting: Accounting = Accounting()
    elasticsearch: Elasticsearch = Elasticsearch()
    cloudwatch: CloudWatch = CloudWatch()
    pushgateway: Pushgateway = Pushgateway()
    agents: Agents = Agents()
    trace: Trace = Trace()
    agent: Agent = Agent()
    clusters: Annotated[
        dict[str, Cluster],
        Meta(
            description="A section for each cluster, where several are read: NAME is its `cluster` label. "
            "It may set whatever `slurm` and `poll` have; what it leaves out is as those have it."
        ),
    ] = {}

    @property
    def read(self) -> tuple[Cluster, ...]:
        """The clusters that are read."""
        return tuple(self.clusters.values()) or (Cluster(self.slurm, self.poll),)
