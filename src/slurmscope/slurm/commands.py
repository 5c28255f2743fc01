# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The table of every question that slurmscope asks, and why it has the form that it has.

Nothing else is ever asked: a transport takes a Command of this table and no argument list. The argument lists
themselves are in probe.py, the one file that can be copied to a cluster.

There are four ways of asking. All of them give the same parts of the same Snapshot.

- text: Slurm's commands as they have always been. The cheapest, and the only one that knows everything.
- json: the same commands with --json.
- rest: slurmrestd over HTTP.
- pyslurm: PySlurm, in a process of its own (probe.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slurmscope.slurm import associations, history, probe, pyslurm, scripts, statistics, text
from slurmscope.slurm.openapi import history as accounted
from slurmscope.slurm.openapi import jobs, nodes, reports
from slurmscope.slurm.probe import JSON, PYSLURM, TEXT, Row
from slurmscope.slurm.text import Marks, Parsed

REST = "rest"
WAYS = (TEXT, JSON, REST, PYSLURM)

FAST, SLOW, RARE, ASKED, WANTED = "fast", "slow", "rare", "asked", "wanted"
# How often a part is asked for, whatever the way.
EVERY = {
    "jobs": FAST,
    "nodes": FAST,
    "scheduler": FAST,
    "controllers": FAST,
    "partitions": SLOW,
    "reservations": SLOW,
    "licenses": SLOW,
    "limits": SLOW,
    "shares": SLOW,
    "accounting": SLOW,
    "coordinators": SLOW,
    "config": RARE,
    "history": ASKED,
}
Parser = Callable[[bytes, Marks, Mapping[bytes, Any]], Parsed[Any]]


class Command(msgspec.Struct, frozen=True):
    row: Row
    answers: str
    why: str  # why this form and no other
    cost: str
    parse: Parser
    recording: str  # what guards the parser, in tests/recordings/
    lacks: Mapping[str, str] = {}  # fields that this way cannot know, and why; they are then None, or empty
    window: tuple[str, str] = probe.WINDOW  # the time that the accounting is asked for
    job: str = ""  # that it is about, where it is about one

    def within(self, since: int, until: int) -> Command:
        """The same question for another time. `uts` is Slurm's own word for epoch seconds."""
        return msgspec.structs.replace(self, window=(f"uts{since}", f"uts{until}"))

    def of(self, job: str) -> Command:
        """The same question for a job: 31, or 31_4."""
        return msgspec.structs.replace(self, job=job)

    @property
    def way(self) -> str:
        return self.row.way

    @property
    def part(self) -> str:
        """The part of the snapshot that it fills."""
        return self.row.part

    @property
    def argv(self) -> tuple[str, ...]:
        return self.row.argv

    @property
    def program(self) -> str:
        """Who is asked: the label of what it costs."""
        return {REST: "slurmrestd", PYSLURM: PYSLURM, JSON: f"{self.argv[0]} --json"}.get(self.way, self.argv[0])

    @property
    def every(self) -> str:
        return EVERY.get(self.part, WANTED)


_ROWS = {(row.way, row.part): row for row in probe.ROWS}

_TEXT = (
    Command(
        row=_ROWS[TEXT, "jobs"],
        answers="Every job that slurmctld still knows, finished ones included (for MinJobAge seconds).",
        why=(
            "Text takes a tenth of the time and a twentieth of the memory of --json. Arrays stay folded: one row "
            "for 100,000 waiting tasks. --all shows hidden partitions, --local only this cluster of a federation. "
            "Fields have no width, so that nothing is cut. What a user wrote comes last and ends in marks "
            "that are random for each run, so that no job's name can forge a field or a row. No field that changes by "
            "itself (time used, time left) is asked for, so that an unchanged job is an unchanged row."
        ),
        cost="One REQUEST_JOB_INFO. 20,000 rows take slurmctld a few ms and squeue about 0.3 s.",
        parse=text.parse_jobs,
        recording="squeue.txt",
        lacks={
            "records": (
                "a waiting task of an array that was changed by itself has a record of its own, which squeue puts into "
                "the array's: its id and reason are not told; the number of tasks is"
            )
        },
    ),
    Command(
        row=_ROWS[TEXT, "nodes"],
        answers="Every node: state with its flags, CPUs, memory, GPUs allocated by type, load, reason.",
        why=(
            "A hundred times cheaper than sinfo -N -O on 5,000 nodes, and one record a node, where sinfo has one a "
            "node and partition. --future shows nodes that are yet to come. --details adds GresUsed, which tells "
            "allocated GPUs even where they are not accounted as TRES."
        ),
        cost="One REQUEST_NODE_INFO and one REQUEST_PARTITION_INFO. 5,000 nodes take about 0.03 s.",
        parse=text.parse_nodes,
        recording="scontrol-nodes.txt",
    ),
    Command(
        row=_ROWS[TEXT, "scheduler"],
        answers="The schedulers' cycles, slurmctld's queues and threads, RPCs by type and by user.",
        why="Text: 22.05 has no sdiag --json.",
        cost="One REQUEST_STATS_INFO, a few kB.",
        parse=statistics.parse_scheduler,
        recording="sdiag.txt",
    ),
    Command(
        row=_ROWS[TEXT, "controllers"],
        answers="Each controller: host, role, whether it answers.",
        why=(
            "The cheapest question there is. While the controller is down it is the only one asked. It exits with "
            "1 when a controller is down, which is an answer."
        ),
        cost="One REQUEST_PING to each controller.",
        parse=text.parse_controllers,
        recording="scontrol-ping.txt",
    ),
    Command(
        row=_ROWS[TEXT, "partitions"],
        answers="Every partition: state, nodes, limits, priority.",
        why="One record a partition; sinfo folds nodes of one state into rows.",
        cost="One REQUEST_PARTITION_INFO.",
        parse=text.parse_partitions,
        recording="scontrol-partitions.txt",
    ),
    Command(
        row=_ROWS[TEXT, "reservations"],
        answers="Every reservation: window, nodes, who may use it.",
        why="The window is compared with the clock at each poll, so that the slow interval does no harm.",
        cost="One REQUEST_RESERVATION_INFO.",
        parse=text.parse_reservations,
        recording="scontrol-reservations.txt",
    ),
    Command(
        row=_ROWS[TEXT, "licenses"],
        answers="Every licence: total, used, free, reserved.",
        why="slurmctld's own count, remote licences included.",
        cost="One REQUEST_LICENSE_INFO.",
        parse=text.parse_licenses,
        recording="scontrol-licenses.txt",
    ),
    Command(
        row=_ROWS[TEXT, "limits"],
        answers="Every limit of an association or a QOS that is set, with what counts against it now.",
        why=(
            "The only place that has limit and use side by side; sacctmgr knows the limits alone. With PrivateData, "
            "users other than operators see their own associations only."
        ),
        cost="One REQUEST_ASSOC_MGR_INFO, about 1 kB for each association.",
        parse=associations.parse_limits,
        recording="scontrol-assoc_mgr.txt",
    ),
    Command(
        row=_ROWS[TEXT, "shares"],
        answers="The fair-share tree: shares, use, factor, of every account and user.",
        why="Only --parsable2 keeps long names whole; the tree is in the indentation of the first column.",
        cost="One REQUEST_SHARE_INFO, about 100 bytes for each association.",
        parse=associations.parse_shares,
        recording="sshare.txt",
    ),
    Command(
        row=_ROWS[TEXT, "accounting"],
        answers="slurmdbd's own statistics: rollups, RPCs by type and by user.",
        why="Says at once whether slurmdbd answers. It gives them to administrators only (AdminLevel=Admin).",
        cost="Goes to slurmdbd, not to slurmctld; no query to its database.",
        parse=statistics.parse_accounting,
        recording="sacctmgr-stats.txt",
    ),
    Command(
        row=_ROWS[TEXT, "coordinators"],
        answers="Who coordinates which account, be it through an account above it.",
        why=(
            "The accounting alone knows them for everybody. One row an account. Accounts are of slurmdbd, and so the "
            "same for all clusters that share it."
        ),
        cost="Goes to slurmdbd, which asks its database for the accounts: about 50 bytes for each.",
        parse=associations.parse_coordinators,
        recording="sacctmgr-accounts.txt",
    ),
    Command(
        row=_ROWS[TEXT, "config"],
        answers="The cluster's name, Slurm's version and boot time, and the few settings that change a meaning.",
        why="Names the cluster without being told.",
        cost="One REQUEST_BUILD_INFO.",
        parse=text.parse_config,
        recording="scontrol-config.txt",
    ),
    Command(
        row=_ROWS[TEXT, "history"],
        answers="Every job of a time and its steps, as the accounting has them; each life of a requeued one by itself.",
        why=(
            "For the store (`slurmscope import`, and a regular pass of `serve`), a window after the other. Every field "
            "ends in a mark that is random for each run, so that no job's name can forge a field or a row. States are "
            "named, for else sacct leaves out jobs that were cancelled before they could ever run."
        ),
        cost="Goes to slurmdbd, which asks its database for the jobs of that time; nothing goes to slurmctld.",
        parse=history.parse_history,
        recording="sacct.txt",
    ),
)

_LIKE_TEXT = "The same as by text."
_BUNDLE = "bundle.json.gz"


def _by_pyslurm(part: str, parse: Parser, lacks: dict[str, str]) -> Command:
    return Command(
        row=Row(PYSLURM, part, ("probe.py", "--ways", PYSLURM, "--parts", part), most_bytes=2 << 30),
        answers=_LIKE_TEXT,
        why="In a process of its own: a PySlurm that does not match its Slurm may crash, and takes nothing with it.",
        cost="The same question to slurmctld as by text, and a Python that loads PySlurm.",
        parse=parse,
        recording="pyslurm",
        lacks=lacks,
    )


# What Slurm's JSON does not tell, by part. By "before" a version is meant that of data_parser or openapi.
_UNTOLD: dict[str, dict[str, str]] = {
    "jobs": {
        "login_node": "not told before v0.0.39",
        "array_tasks": "cut by slurmrestd unless SLURM_BITSTR_LEN=0 is in its environment; tasks is then a floor",
    },
    "nodes": {"memory_reserved": "not told before v0.0.39"},
    "scheduler": {
        "backfill.max_seconds": "not told by v0.0.39 and v0.0.40",
        "backfill_more.last_depth": "not told before v0.0.39",
        "backfill_more.last_depth_tried": "not told before v0.0.39",
        "backfill_more.last_table_size": "not told before v0.0.38",
        "backfill_more.mean_table_size": "not told before v0.0.39",
        "rpcs": "not told before v0.0.38",
        "rpc_users": "not told before v0.0.38",
        "rpcs_pending": "not told before v0.0.41",
    },
    "partitions": {
        "default": "not told by v0.0.39 to v0.0.44",
        "hidden": "not told by v0.0.39 to v0.0.44",
        "default_time": "not told before v0.0.38",
        "preempt_mode": "not told before v0.0.38 and by v0.0.39 to v0.0.44; later where it is the cluster's own",
    },
    "reservations": {"state": "not told; it follows from the times"},
    "accounting": {
        "time": "not told",
        "rpcs.id": "not told",
        "rpc_users.id": "not told",
    },
    "history": {
        "job.reservation": "not told before v0.0.39",
        "job.exit_code": "not told before v0.0.39",
        "derived_exit_code": "not told before v0.0.39",
        "steps.exit_code": "not told before v0.0.39",
        "cancelled_by": "told as a name, by some versions, where text has a user's number",
        "submit_line": "not told before v0.0.39",
    },
    "config": {
        "cluster": "not told before v0.0.40",
        "boot_time": "not told",
        "settings": "not told",
    },
}


def _by_json(part: str, parse: Parser) -> Command:
    return Command(
        row=_ROWS[JSON, part],
        answers=_LIKE_TEXT,
        why="For a Slurm whose text cannot be read. One reader takes openapi v0.0.37 and every data_parser since.",
        cost="The same question to slurmctld as by text; the command itself takes longer and prints far more.",
        parse=parse,
        recording=_BUNDLE,
        lacks=_UNTOLD.get(part, {}),
    )


def _by_rest(part: str, path: str, parse: Parser, old: str = "") -> Command:
    return Command(
        row=Row(REST, part, ("GET", path), most_bytes=2 << 30, old=("GET", old) if old else ()),
        answers=_LIKE_TEXT,
        why="Needs no command of Slurm's here. {version} is the newest that slurmrestd's own document names.",
        cost="The same question to slurmctld as by text, and no process is started.",
        parse=parse,
        recording=_BUNDLE,
        lacks=_UNTOLD.get(part, {}),
    )


_JSON = (
    _by_json("jobs", jobs.parse_jobs),
    _by_json("nodes", nodes.parse_nodes),
    _by_json("scheduler", reports.parse_scheduler),
    _by_json("controllers", reports.parse_controllers),
    _by_json("partitions", nodes.parse_partitions),
    _by_json("reservations", nodes.parse_reservations),
    _by_json("licenses", nodes.parse_licenses),
    _by_json("shares", reports.parse_shares),
    _by_json("accounting", reports.parse_accounting),
    _by_json("coordinators", reports.parse_coordinators),
    _by_json("history", accounted.parse_history),
)
# Without ALL what is hidden is not shown; without DETAIL no GPU that is in use, without MIXED no node that is mixed.
# Jobs are a third shorter without DETAIL.
_NODE_FLAGS = "flags=ALL&flags=DETAIL&flags=MIXED&flags=FUTURE"
# As v0.0.40 calls it, and those since; what is not known is passed over, and before that asked for without.
_WITH_COORDINATORS = "with_coords=true&WithCoordinators=true"
_REST = (
    _by_rest("jobs", "/slurm/{version}/jobs?flags=ALL&flags=LOCAL", jobs.parse_jobs),
    _by_rest("nodes", f"/slurm/{{version}}/nodes?{_NODE_FLAGS}", nodes.parse_nodes),
    _by_rest("scheduler", "/slurm/{version}/diag", reports.parse_scheduler),
    _by_rest("controllers", "/slurm/{version}/ping", reports.parse_controllers),
    _by_rest("partitions", "/slurm/{version}/partitions?flags=ALL", nodes.parse_partitions),
    _by_rest("reservations", "/slurm/{version}/reservations", nodes.parse_reservations),
    _by_rest("licenses", "/slurm/{version}/licenses", nodes.parse_licenses),
    _by_rest("shares", "/slurm/{version}/shares", reports.parse_shares),
    _by_rest("accounting", "/slurmdb/{version}/diag", reports.parse_accounting),
    _by_rest(
        "coordinators",
        f"/slurmdb/{{version}}/accounts?{_WITH_COORDINATORS}",
        reports.parse_coordinators,
        old="/slurmdb/{version}/accounts",
    ),
    _by_rest("config", "/slurm/{version}/ping", reports.parse_config),
)
_ONE_API = "The old API does not tell it; the new one does."
_PYSLURM = (
    _by_pyslurm(
        "jobs",
        pyslurm.parse_jobs,
        {
            "memory": "The new API tells it of a job that runs, or that asked for a number.",
            "gpus": "The new API tells those that a job holds; of those asked for, only what was asked for by node.",
            "dependency": "The new API takes it apart, and loses which are fulfilled.",
            "exit_code": "The new API takes 128 off a status from 128 on, so that only success and signals are told.",
        },
    ),
    _by_pyslurm("nodes", pyslurm.parse_nodes, {}),
    _by_pyslurm(
        "scheduler",
        pyslurm.parse_scheduler,
        {
            "agents": _ONE_API,
            "agent_threads": _ONE_API,
            "dbd_queue": _ONE_API,
            "main.exits": _ONE_API,
            "backfill.exits": "The old API does not tell them, and the new one takes two of them for each other.",
            "backfill_more.het_components": _ONE_API,
            "backfill_more.last_table_size": _ONE_API,
            "backfill_more.mean_table_size": _ONE_API,
            "latency_seconds": _ONE_API,
            "rpcs_pending": _ONE_API,
            "job_states_time": "The new API does not tell it; the old one does.",
        },
    ),
    _by_pyslurm(
        "partitions",
        pyslurm.parse_partitions,
        {"preempt_mode": "The old API calls it GANG,UNKNOWN where a partition has none of its own."},
    ),
    _by_pyslurm("reservations", pyslurm.parse_reservations, {}),
    _by_pyslurm(
        "config", pyslurm.parse_config, {"settings": "All but AccountingStoreFlags, which neither API tells by name."}
    ),
)

COMMANDS = (*_TEXT, *_JSON, *_REST, *_PYSLURM)
BY_WAY = {way: {command.part: command for command in COMMANDS if command.way == way} for way in WAYS}
BY_PART = BY_WAY[TEXT]  # text knows every part

# --- of one job -------------------------------------------------------------------------------------------------------

_JOB_ROWS = {row.part: row for row in probe.JOB_ROWS}
JOB_COMMANDS = (
    Command(
        row=_JOB_ROWS["queued"],
        answers="When a job was submitted, if slurmctld still knows it.",
        why="Numbers are used again: a script is shown only if it is of the job that was meant.",
        cost="One REQUEST_JOB_INFO_SINGLE.",
        parse=scripts.parse_queued,
        recording="squeue-job.txt",
    ),
    Command(
        row=_JOB_ROWS["script"],
        answers="The batch script of a job that slurmctld still knows.",
        why="The script as it was submitted, to the byte. Slurm gives it to the job's user and to operators alone.",
        cost="One REQUEST_BATCH_SCRIPT, for which slurmctld reads a file.",
        parse=scripts.parse_script,
        recording="scontrol-script.txt",
    ),
    Command(
        row=_JOB_ROWS["accounted"],
        answers="When the latest job of a number was submitted, as the accounting has it.",
        why="As in the queue: numbers are used again.",
        cost="Goes to slurmdbd, which looks for one job.",
        parse=scripts.parse_accounted,
        recording="sacct-job.txt",
    ),
    Command(
        row=_JOB_ROWS["kept_script"],
        answers="The batch script of a job as the accounting keeps it.",
        why="For jobs that slurmctld has forgotten. Only where AccountingStoreFlags has job_script.",
        cost="Goes to slurmdbd, which looks for one job.",
        parse=scripts.parse_kept,
        recording="sacct-script.txt",
    ),
    Command(
        row=Row(
            REST,
            "kept_script",
            ("GET", "/slurmdb/{version}/jobs?step={job}&show_batch_script=true&skip_steps=true"),
            most_bytes=4 << 20,
        ),
        answers="The same by slurmrestd, from v0.0.40 on.",
        why="For clusters of which only slurmrestd is at hand. slurmctld's own script it does not tell.",
        cost="Goes to slurmdbd, which looks for one job.",
        parse=accounted.parse_scripts,
        recording="rest-script.json",
    ),
)
OF_A_JOB = {way: {command.part: command for command in JOB_COMMANDS if command.way == way} for way in WAYS}
