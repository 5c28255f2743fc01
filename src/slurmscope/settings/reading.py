# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""How clusters are read."""

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
            description="Seconds between polls of limits, shares, coordinators, partitions, reservations, "
            "licences and slurmdbd statistics. At least `poll.interval`, to which the default is stretched.",
        ),
    ] = 60.0
