# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The table of every command that slurmscope runs, and why it has the form that it has.

Nothing else is ever run: the transport takes a Command of this table and no argument list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slurmscope.slurm import associations, statistics, text
from slurmscope.slurm.text import Marks, Parsed

FAST, SLOW, RARE = "fast", "slow", "rare"
Parser = Callable[[bytes, Marks, Mapping[bytes, Any]], Parsed[Any]]

# The same for all of them. %s makes every time an epoch second, so that the cluster's time zone never matters;
# 0 makes squeue print the task ids of an array whole.
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}

# Variables that begin so hold defaults for options, and are kept from the commands.
DEFAULTS = ("SQUEUE_", "SINFO_", "SCONTROL_", "SSHARE_", "SACCTMGR_", "SLURM_CLUSTERS")


class Command(msgspec.Struct, frozen=True):
    part: str  # the part of the snapshot that it fills
    argv: tuple[str, ...]  # {field} and {end} stand for the marks of the run
    answers: str
    why: str  # why this form and no other
    cost: str
    every: str  # FAST, SLOW or RARE
    parse: Parser
    recording: str  # in tests/recordings/<version>/: what guards the parser
    good: frozenset[int] = frozenset({0})  # exit statuses that come with an answer
    most_bytes: int = 64 << 20  # an answer that is longer is none

    def arguments(self, marks: Marks) -> list[str]:
        return [arg.replace("{field}", marks.field).replace("{end}", marks.end) for arg in self.argv]


_SQUEUE_FORMAT = ",".join(
    (
        *(f"{field}:|" for field in text.PLAIN_FIELDS),
        *(f"{field}:{{field}}" for field in text.FREE_FIELDS[:-1]),
        f"{text.FREE_FIELDS[-1]}:{{end}}",
    )
)

COMMANDS = (
    Command(
        part="jobs",
        argv=("squeue", "--local", "--noheader", "--all", "--states=all", "--Format", _SQUEUE_FORMAT),
        answers="Every job that slurmctld still knows, finished ones included (for MinJobAge seconds).",
        why=(
            "Text takes a tenth of the time and a twentieth of the memory of --json. Arrays stay folded: one row "
            "for 100,000 waiting tasks. --all shows hidden partitions, --local only this cluster of a federation. "
            "Fields have no width, so that nothing is cut. What a user wrote comes last and ends in marks "
            "that are random for each run, so that no job's name can forge a field or a row. No field that changes by "
            "itself (time used, time left) is asked for, so that an unchanged job is an unchanged row."
        ),
        cost="One REQUEST_JOB_INFO. 20,000 rows take slurmctld a few ms and squeue about 0.3 s.",
        every=FAST,
        parse=text.parse_jobs,
        recording="squeue.txt",
        most_bytes=256 << 20,  # a million rows
    ),
    Command(
        part="nodes",
        argv=("scontrol", "show", "nodes", "--all", "--future", "--details", "--oneliner"),
        answers="Every node: state with its flags, CPUs, memory, GPUs allocated by type, load, reason.",
        why=(
            "A hundred times cheaper than sinfo -N -O on 5,000 nodes, and one record a node, where sinfo has one a "
            "node and partition. --future shows nodes that are yet to come. --details adds GresUsed, which tells "
            "allocated GPUs even where they are not accounted as TRES."
        ),
        cost="One REQUEST_NODE_INFO and one REQUEST_PARTITION_INFO. 5,000 nodes take about 0.03 s.",
        every=FAST,
        parse=text.parse_nodes,
        recording="scontrol-nodes.txt",
    ),
    Command(
        part="scheduler",
        argv=("sdiag",),
        answers="The schedulers' cycles, slurmctld's queues and threads, RPCs by type and by user.",
        why="Text: 22.05 has no sdiag --json.",
        cost="One REQUEST_STATS_INFO, a few kB.",
        every=FAST,
        parse=statistics.parse_scheduler,
        recording="sdiag.txt",
    ),
    Command(
        part="controllers",
        argv=("scontrol", "ping"),
        answers="Each controller: host, role, whether it answers.",
        why=(
            "The cheapest question there is. While the controller is down it is the only one asked. It exits with "
            "1 when a controller is down, which is an answer."
        ),
        cost="One REQUEST_PING to each controller.",
        every=FAST,
        parse=text.parse_controllers,
        recording="scontrol-ping.txt",
        good=frozenset({0, 1}),
    ),
    Command(
        part="partitions",
        argv=("scontrol", "show", "partitions", "--all", "--oneliner"),
        answers="Every partition: state, nodes, limits, priority.",
        why="One record a partition; sinfo folds nodes of one state into rows.",
        cost="One REQUEST_PARTITION_INFO.",
        every=SLOW,
        parse=text.parse_partitions,
        recording="scontrol-partitions.txt",
    ),
    Command(
        part="reservations",
        argv=("scontrol", "show", "reservations", "--oneliner"),
        answers="Every reservation: window, nodes, who may use it.",
        why="The window is compared with the clock at each poll, so that the slow interval does no harm.",
        cost="One REQUEST_RESERVATION_INFO.",
        every=SLOW,
        parse=text.parse_reservations,
        recording="scontrol-reservations.txt",
    ),
    Command(
        part="licenses",
        argv=("scontrol", "show", "licenses", "--oneliner"),
        answers="Every licence: total, used, free, reserved.",
        why="slurmctld's own count, remote licences included.",
        cost="One REQUEST_LICENSE_INFO.",
        every=SLOW,
        parse=text.parse_licenses,
        recording="scontrol-licenses.txt",
    ),
    Command(
        part="limits",
        argv=("scontrol", "show", "assoc_mgr", "--oneliner"),
        answers="Every limit of an association or a QOS that is set, with what counts against it now.",
        why=(
            "The only place that has limit and use side by side; sacctmgr knows the limits alone. With PrivateData, "
            "users other than operators see their own associations only."
        ),
        cost="One REQUEST_ASSOC_MGR_INFO, about 1 kB for each association.",
        every=SLOW,
        parse=associations.parse_limits,
        recording="scontrol-assoc_mgr.txt",
    ),
    Command(
        part="shares",
        argv=(
            "sshare",
            "--all",
            "--noheader",
            "--parsable2",
            "--format",
            ",".join(associations.SHARE_FIELDS),
        ),
        answers="The fair-share tree: shares, use, factor, of every account and user.",
        why="Only --parsable2 keeps long names whole; the tree is in the indentation of the first column.",
        cost="One REQUEST_SHARE_INFO, about 100 bytes for each association.",
        every=SLOW,
        parse=associations.parse_shares,
        recording="sshare.txt",
    ),
    Command(
        part="accounting",
        argv=("sacctmgr", "show", "stats"),
        answers="slurmdbd's own statistics: rollups, RPCs by type and by user.",
        why="Says at once whether slurmdbd answers. It gives them to administrators only (AdminLevel=Admin).",
        cost="Goes to slurmdbd, not to slurmctld; no query to its database.",
        every=SLOW,
        parse=statistics.parse_accounting,
        recording="sacctmgr-stats.txt",
    ),
    Command(
        part="config",
        argv=("scontrol", "show", "config"),
        answers="The cluster's name, Slurm's version and boot time, and the few settings that change a meaning.",
        why="Names the cluster without being told.",
        cost="One REQUEST_BUILD_INFO.",
        every=RARE,
        parse=text.parse_config,
        recording="scontrol-config.txt",
    ),
)
BY_PART = {command.part: command for command in COMMANDS}
