# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of docs/ that are made from the tables in the code: `make docs`. A test fails when they are old."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from slurmscope import config
from slurmscope.cli import main
from slurmscope.metrics import agent, catalogue, jobs
from slurmscope.metrics.exposition import Topic
from slurmscope.slurm.commands import BY_PART, BY_WAY, REST
from slurmscope.slurm.probe import ENVIRONMENT, JSON, PYSLURM, TEXT
from slurmscope.trace import body

DOCS = Path(__file__).parent.parent / "docs"
_MADE = "<!-- Made by `make docs` from {source}; edit that. -->\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _families(topics: tuple[Topic[Any], ...]) -> str:
    lines = []
    for topic in topics:
        parts = ", ".join(sorted({topic.of, *topic.also})) if topic.of else ""
        made = f"of {parts}" if parts else "for each request"
        lines.append(f"\n### {topic.name[0].upper()}{topic.name[1:]}\n\nMade {made}.\n")
        lines.append("| name | type | labels | what it is |\n|---|---|---|---|")
        for family in topic.families:
            labels = ", ".join(f"`{label}`" for label in ("cluster", *family.labels))
            lines.append(f"| `{family.name}` | {family.type} | {labels} | {_cell(family.help)} |")
    return "\n".join(lines)


_AGENT = """`slurmscope agent` serves these ([agent.md](agent.md)). Where agents send to `slurmscope serve`, its
`/metrics/jobs` has all but those of the agent itself. The job's number is `jobid`, for `job` is Prometheus' own label.
"""


def metrics_page() -> str:
    head = (
        _MADE.format(source="src/slurmscope/metrics/")
        + """# Metrics

Every series has the label `cluster`; where one process reads several, what is said of the process itself has it empty,
which to Prometheus is no label. Units are base units: seconds, bytes, counts. What is unknown is absent, never 0;
what can be counted is there at 0 too. `/metrics` has our own names and rivosinc's (`metrics.compat = false` leaves
those out); `/metrics/slurmscope` has ours alone. [compatibility.md](compatibility.md) has the older exporters' pages.

Rules worth knowing:

- **A pending array counts as its tasks**, as slurmctld itself counts. A job that waits in two partitions is counted in
  both in the families by partition, and once everywhere else.
- **CPUs and memory are allocated, idle or other**; these add up to all there is. *Other* is what is neither: the
  node is down, drained, failing, in maintenance, not responding, powering down or rebooting, or keeps it for the
  system. What a job could get on a node that is powered down (`idle~`) is idle: Slurm boots it.
- **A GPU is allocated, idle, stranded or unavailable.** Stranded: free on a usable node that has no free CPU or no free
  memory beside it. Unavailable: free on a node that is not usable.
- **A node's state is a base and flags.** `slurm_cluster_nodes{state="idle",flags="drain"}` is not idle for anybody;
  nothing is folded into "drain".
- **Capacity that can start now** (`slurm_partition_startable_*`, `slurm_partition_largest_*`) is on usable nodes of an
  UP partition that have a free CPU and free memory and are not in an active reservation.
- **Counters go on over a restart of slurmctld**, its reset at midnight and `sdiag --reset`. `slurmscope serve` counts
  from its own start, so that its restart is not taken for new events; `slurmscope metrics` shows what slurmctld has
  counted.
- **The tasks of an array** are counted by slurmctld's own list. `squeue -r` leaves out the last task of an array with a
  step (`1-3000:7`); slurmctld's own metrics and these have it.
- **Per-user and per-account families are capped** (`metrics.top`, 100): the busiest by name, the rest as `other`, and
  `slurm_series_dropped` says how many that are. Counters have no `other`.
- **A part that cannot be read keeps its last values.** `slurm_up` is 0, `slurm_part_age_seconds` grows,
  `slurm_part_up` says which part.
- `slurm_partition_pending_age_seconds` is a histogram of this moment: use it without `rate()`.
  `slurm_job_wait_seconds` is an ordinary one.
- sdiag's *cycles per minute* is `rate(slurm_scheduler_cycles_total[5m]) * 60`.
"""
    )
    pages = [head, "\n## Our own names\n", _families(catalogue.OWN)]
    pages.append("\n\n## The page of the agent\n\n")
    pages.append(_AGENT)
    pages.append(_families((*jobs.TOPICS, agent.TOPIC)))
    for name, topics in catalogue.PROFILES.items():
        if name != "slurmscope":
            pages.append(f"\n\n## The page of {name}\n")
            pages.append(_families(tuple(topic for topic in topics if topic not in catalogue.OWN)))
    return "".join(pages) + "\n"


_WAYS = {
    JSON: "The same commands with `--json`.",
    REST: "slurmrestd over HTTP (`slurm.rest_url`).",
    PYSLURM: "PySlurm, loaded by `probe.py` in a process of its own ([pyslurm.md](pyslurm.md)).",
}


def commands_page() -> str:
    lines = [
        _MADE.format(source="src/slurmscope/slurm/commands.py"),
        "# Every question that is asked\n",
        "slurmscope asks these and nothing else; `slurmscope commands` prints the same. Commands run with "
        + " ".join(f"`{name}={value}`" for name, value in ENVIRONMENT.items())
        + ". `{field}` and `{end}` are marks that are random for each run. What each way costs is in "
        "[ways.md](ways.md).\n",
        "*fast* is every `poll.interval` (10 s), *slow* every `poll.slow_interval` (60 s), *rare* every hour, *asked* "
        "every `accounting.interval` (300 s) where history is kept ([stores.md](stores.md)), and by `import`, "
        "`capture` and `doctor`. `slurmscope doctor` besides runs each command with `--version`, "
        "and the agent on a node may ask for SLUIDs ([agent.md](agent.md#how-jobs-are-found)).\n",
        "## By text\n",
    ]
    for one in BY_WAY[TEXT].values():
        lines.append(f"### {one.part}\n\n```\n{' '.join(one.argv)}\n```\n")
        lines.append(f"- **Answers:** {one.answers}\n- **Why this form:** {one.why}\n- **Cost:** {one.cost}")
        lines.append(f"- **Every:** {one.every}")
        lines.append(f"- **Read by:** `{one.parse.__module__}.{one.parse.__name__}`, guarded by `{one.recording}`\n")
    for way, told in _WAYS.items():
        lines.append(f"## By {way}\n\n{told} {next(iter(BY_WAY[way].values())).why}\n")
        lines.append("| part | question | what it cannot know |\n|---|---|---|")
        for one in BY_WAY[way].values():
            question = " ".join(one.argv) + (f"`, in old versions `{' '.join(one.row.old)}" if one.row.old else "")
            untold = "; ".join(f"`{field}`: {why}" for field, why in one.lacks.items())
            lines.append(f"| {one.part} | `{question}` | {untold or 'nothing'} |".replace("{field}", "field"))
        absent = ", ".join(part for part in BY_PART if part not in BY_WAY[way])
        lines.append(f"\nNot at all: {absent}.\n" if absent else "")
    return "\n".join(lines).rstrip() + "\n"


_VARIABLES_AND_CLUSTERS = """
In a variable a list is separated by commas, and a table is `name=value,name=value`. `$SLURM_HOME` names the folder in
whose `bin` the commands are, when `slurm.bin_dir` is empty.

## Many clusters

One slurmscope reads any number of clusters. Each has a section `[clusters.NAME]`, and NAME is its `cluster` label:

```toml
[slurm] # for all that do not say otherwise
timeout = 20

[poll]
interval = 30

[clusters.alpha] # by ssh: its commands are run on a login node
ssh = "slurmscope@login.alpha.example.org"
ssh_config = "/etc/slurmscope/ssh_config"
bin_dir = "/opt/slurm/bin"

[clusters.beta] # by REST: its slurmrestd is asked
source = "rest"
rest_url = "https://slurm.beta.example.org:6820"
rest_token_file = "/etc/slurmscope/beta.jwt"
interval = 60
```

- A section may set all that `[slurm]` has, but for `cluster`, which is NAME, and all that `[poll]` has. Its settings
  are checked as those are.
- **What a section leaves out is as `[slurm]` and `[poll]` have it**, once the `.env` file, the environment and the
  command line have had their say. Variables set these two, and so every cluster that does not say otherwise; a cluster
  by itself is set in the file alone.
- `rest_token`, `rest_token_file` and `rest_token_command` are alternatives: only one may be set in one place, and a
  section that sets one inherits none of them. `rest_token = ""` makes a cluster without a token. In the same way, one
  in a variable takes the place of another in the file.
- NAME is made of `a-z`, `A-Z`, `0-9`, `_`, `-` and `.`; with a dot it is in quotes, `[clusters."alpha.example"]`.
- Beside clusters `[slurm]` is none of its own, and `slurm.cluster` must be empty.
- `slurmscope config` lists each cluster's settings that are not as `[slurm]` and `[poll]` have them.
"""


def configuration_page() -> str:
    lines = [
        _MADE.format(source="src/slurmscope/settings.py"),
        """# Settings

None is needed. Later sources win: the defaults; a TOML file (`--config`, `$SLURMSCOPE_CONFIG`, `./slurmscope.toml` or
`/etc/slurmscope/slurmscope.toml`); a `.env` file in the current folder; the environment; the command line.
`slurmscope config` prints the settings in force and where each came from. Every wrong setting is told at once, with its
place and what was expected. A file of the current folder that belongs to another user, or that anybody may write to, is
not read unless `--config` names it.

A TOML file has a section for each word before the dot:

```toml
[slurm]
cluster = "mycluster"

[serve]
listen = ":9092"
```

| setting | what it is | expected | default | variables |
|---|---|---|---|---|""",
    ]
    for setting in config.describe():
        names = " or ".join(f"`{name}`" for name in setting.env)
        row = (f"`{setting.key}`", setting.description, setting.type, f"`{setting.default}`", names)
        lines.append("| " + " | ".join(map(_cell, row)) + " |")
    lines.append(_VARIABLES_AND_CLUSTERS)
    return "\n".join(lines)


_WIDE: dict[str, Any] = {"max_content_width": 100, "terminal_width": 100, "help_option_names": ["-h", "--help"]}


def cli_page() -> str:
    lines = [_MADE.format(source="src/slurmscope/cli.py"), "# Commands of slurmscope\n"]
    context = click.Context(main, info_name="slurmscope", **_WIDE)
    lines.append(f"```\n{main.get_help(context)}\n```\n")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, **_WIDE)
        lines.append(f"## {name}\n\n```\n{command.get_help(inner)}\n```\n")
        for sub, found in command.commands.items() if isinstance(command, click.Group) else ():
            innermost = click.Context(found, info_name=sub, parent=inner, **_WIDE)
            lines.append(f"### {name} {sub}\n\n```\n{found.get_help(innermost)}\n```\n")
    return "\n".join(lines)


def trace_schema() -> str:
    return msgspec.json.format(msgspec.json.encode(body.schema()), indent=2).decode() + "\n"


PAGES = {
    "metrics.md": metrics_page,
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "cli.md": cli_page,
    "trace.schema.json": trace_schema,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"docs/{name}")
