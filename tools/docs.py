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
from slurmscope.findings.about import fires_when, meant, written
from slurmscope.findings.catalogue import catalogue as rules
from slurmscope.findings.rule import BAD, Rule
from slurmscope.metrics import agent, catalogue, constants, jobs
from slurmscope.metrics.exposition import Topic
from slurmscope.slurm.commands import BY_PART, BY_WAY, JOB_COMMANDS, REST, Command
from slurmscope.slurm.probe import ENVIRONMENT, JSON, PYSLURM, TEXT
from slurmscope.trace import body
from slurmscope.waiting import record
from slurmscope.waiting.reasons import ROWS
from slurmscope.web import openapi
from slurmscope.web.table import ROUTES

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
    pages.append("\n\n## The page of constants\n\n`/metrics/constants` of `serve`, from the settings.\n")
    pages.append(_families((constants.TOPIC,)))
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


def _question(one: Command, *more: str) -> list[str]:
    return [
        f"### {one.part}\n\n```\n{' '.join(one.argv)}\n```\n",
        f"- **Answers:** {one.answers}\n- **Why this form:** {one.why}\n- **Cost:** {one.cost}",
        *more,
        f"- **Read by:** `{one.parse.__module__}.{one.parse.__name__}`, guarded by `{one.recording}`\n",
    ]


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
        lines += _question(one, f"- **Every:** {one.every}")
    lines.append(
        "## Of one job\n\nAsked when somebody wants to read a job's script, and never else; `{job}` is its number. "
        "No recording has the answers.\n"
    )
    for one in JOB_COMMANDS:
        lines += _question(one)
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
        _MADE.format(source="src/slurmscope/settings"),
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


_WAITING = """# Why a job waits

`slurmscope why JOBID` says why a job waits, who or what can let it go on, what its owner can do, and when it may
start:

```
$ slurmscope why 24
job        24 wide, of alice (physics), in all on lab24
submitted  2026-11-15 11:25:48 UTC
reason     AssocGrpCpuLimit
means      All running jobs of the account together hold so much (CPUs) that this one would go beyond its limit.
up to      a limit of the account
limit      GrpTRES cpu of the account physics: 64 CPUs, 18 CPUs used, this job needs 64 CPUs, 18 CPUs too much
held by    alice 10 CPUs, bob 8 CPUs (8 jobs running)
ahead      no job of a higher priority is in its way in all
to do      wait until jobs that count against the limit end
           ask the administrator for more
           ask for fewer CPUs: `scontrol update JobId=24 NumCPUs=N`
estimate   slurmctld has no guess of its start: it makes some for the first jobs of the queue
```

JOBID is a number, an array's number, or one task's (`123_4`). `slurmscope why --user NAME` and `--all` are tables of
all that waits, by reason. `--json` has the same in base units, `--from FILE` reads a recording.

## What is behind a reason

Facts come from one look at the cluster, the same as `slurmscope snapshot` takes. What could not be read is said to be
unknown, and what is older than 5 minutes is told with its age.

- **Limits**: which one, of whom, how much of it is used and by whose running jobs, how much the job needs, how much
  is missing. Limits of the accounts above and of the partition's QOS count. Slurm does not tell what energy, billing
  units or burst buffer a waiting job needs, and no way of reading tells `MinTRES`: the explanation says so.
- **The queue**: jobs of a higher priority that wait in one of the same partitions. Those that something else holds
  back (a limit, a hold, a time, another job) are in nobody's way, and are counted apart.
- **Room**: on how many nodes enough CPUs, memory and GPUs are free, if the job is spread evenly over as few nodes as
  it may; by when, by their time limits, so many running jobs must have ended that there is enough. Reserved nodes do
  not count. What a job that wants nodes for itself (`--exclusive`) needs cannot be seen in the queue.
- **Nodes and reservations**: which nodes take no job, their state and reason; which reservations are near, and how
  short the job would have to be to end before them.
- **Never**: what no waiting helps is said plainly: longer than the partition allows, more nodes, CPUs, memory or GPUs
  than it has, more than the limit itself, more licences than there are.

## When it may start

For a job that the queue decides on, the estimate has up to three lines:

- **slurmctld's guess**, where it has one. The backfill scheduler makes them for the first jobs of the queue, from
  time limits; jobs that end early make it too late, and jobs that come with a higher priority make it too early.
- **How good its guesses were**: of the jobs that started in the last {days} days in the same partitions and had a
  guess, how much later than the first guess they started: the median, and between which two values 8 of 10 were.
- **What similar jobs waited**, from when they could have started (not held, no dependency open) until they did: the
  median, and what 9 of 10 did not exceed. Similar are jobs of the same partitions, and of the same class of GPUs (1,
  2 to 4, 5 to 8, 9 to 32, …), or of CPUs where they ask for none (1, 2 to 4, 5 to 16, 17 to 64, …).

Both are from the store, of at most {most:,} jobs of a partition, spread over that time, and say of how many. Of
fewer than {least} jobs no figure is told. Jobs that still wait are not among them, so that in a queue that grows
the figures are too good.

## Every reason

All that Slurm 22.05 to 26.05 has a name for. `JOBID` is the job's. What is printed behind a reason (`ReqNodeNotAvail,
UnavailableNodes:n3`) is read too, and a reason that is not here is shown as it is.
"""


def waiting_page() -> str:
    head = _WAITING.format(days=record.DAYS, most=record.MOST, least=record.LEAST)
    lines = [_MADE.format(source="src/slurmscope/waiting/reasons.py") + head]
    lines.append("| reason | what it means | who decides | what to do | limit |\n|---|---|---|---|---|")
    for row in ROWS:
        actions = "; ".join(row.actions)
        for name, shown in (("job", "JOBID"), ("user", "USER"), ("account", "ACCOUNT"), ("qos", "QOS")):
            actions = actions.replace(f"{{{name}}}", shown)
        limit = ""
        if row.limit is not None:
            limit = f"{row.limit.kind} {row.limit.name}" + (f" {row.limit.tres.rstrip('/')}" if row.limit.tres else "")
        lines.append("| " + " | ".join(map(_cell, (f"`{row.name}`", row.words, row.decides, actions, limit))) + " |")
    return "\n".join(lines) + "\n"


_RULES = """# Rules

A rule looks at one job and says what went wrong with it or was wasted, what that cost, and what to change, as
`#SBATCH` lines. What a rule says is a finding. A rule that does not know what it needs says nothing: no data means no
verdict, and never a finding. `slurmscope job` shows what all rules say of a job; these commands are for whoever looks
after the rules:

```sh
slurmscope rules list                           # all of them, and which are on
slurmscope rules show low_cpu                   # one of them, with the thresholds in force and where they were changed
slurmscope rules test --job 4711                # what each says of a job, and why it says nothing
slurmscope rules replay --days 30               # who would have been told what, and what it cost; nobody is told
```

**Bad** is what went wrong or was wasted for certain, a **note** is worth a look. Of rules that say the same of a job
only the one that says the most is told; it *hides* the others, and is as bad as the worst of them. Jobs that somebody
sits in front of are known by their names: `findings.interactive` of the settings.

## Turned off, or with other thresholds

```toml
[[rules]]                 # everywhere
rule = "low_cpu"
share = 0.4

[[rules]]                 # in one partition of one cluster
rule = "low_cpu"
cluster = "alpha"
partition = "io"
enabled = false
```

Later ones win. A rule or a threshold that there is not is an error that names the place and what was likely meant; so
is a share beyond 0 to 1, or a number of runs that is none.
Run `slurmscope rules replay` after a change: it reads what is kept and tells nobody. 100,000 jobs take it about 25 s
and 450 MB; of what was before the time that it judges, rules know a week of jobs,
and of nodes that failed as many days as they tell of. What `serve` keeps with each job, for lists of jobs by what was
found ([stores.md](stores.md#what-was-found)), is not judged again: there a change holds for jobs that end from then on.

## What it costs

The waste of a finding is what the job would not have taken, had it asked for what it used. Energy is that which was
measured: by Slurm for the job, by an agent for its GPUs. Where nobody measured it is told as "about", by
`cost.core_watts` and `cost.gpu_watts`. Slurm measures whole nodes: of a job that shared them its figure is too much.
Money and CO2 are told where the site has set prices (`cost.core_hour`, `cost.gpu_hour`, `cost.co2_grams`); what has
no price is told without one. In sums over jobs the hours of a job count once, whatever the number of rules that speak
of them.

## The next request

From the last runs of the same work come the `#SBATCH` lines for the next one. The same work is that of the same user
and account, on as many nodes, whose name is the same but for numbers at its end; the tasks of an array are the same
work. Only runs that completed, and took a minute or more, say that less is enough; any other can only say that more
is needed.

- **Memory**: the largest peak and 20 % (of fewer than five runs 30 %, of one 50 %). After a run that was killed for
  want of memory, half as much again as it had.
- **Time**: the longest run and 25 % (35 %, 50 %). After one that was stopped at its limit, half as much again.
- **CPUs**: what the busiest run had in use for 95 % of its time or less; where only `sacct` tells, its mean and a
  quarter more. The number of tasks is left alone unless half of them are enough. Where Slurm counts hardware threads
  as CPUs, a busy thread has a core to itself; where it is not known that it does, such a program seems to need half of
  its CPUs.
- **GPUs**: as many as were ever in use. One whose driver tells nothing is taken to be in use.
- Runs that had more CPUs or GPUs than the job may be of a larger problem: they keep what is asked for from getting
  less, but do not say that more is needed, nor that less time is enough.
- What would change by less than a fifth stays as it is, and what is not known is not advised on.
- Slurm keeps what a job got, and not how it asked for it. There is a line for CPUs where steps of `srun`, or a program
  with as many threads, tell whether they were CPUs of a task or tasks; else it is told in words how many would do.
- Beside fewer CPUs or GPUs stands `--mem`, for memory that was asked for by CPU or by GPU gets less with them.
- No more memory is asked for than the largest node of the partition has, and no more time than the longest limit that
  is known of a job there.

How much earlier it may start is the median wait of jobs of that size in that partition in the last 14 days, of at
least ten of them; an array counts as one.

## All rules

| rule | what it says | |
|---|---|---|
"""


def _rule(rule: Rule) -> str:
    lines = [
        f"### {rule.name}\n",
        f"**{rule.title}** ({'bad' if rule.severity == BAD else 'note'}). {fires_when(rule)}\n",
        f"- **Why it matters:** {rule.about}",
        f"- **Needs:** {rule.needs}",
        f"- **Does not apply to:** {rule.exempt}",
        f"- **What to change:** {rule.cure}",
        f"- **When it is wrong:** {rule.false_positives}",
    ]
    if rule.hides:
        lines.append("- **Hides:** " + ", ".join(f"[{name}](#{name})" for name in sorted(rule.hides)))
    if rule.thresholds:
        lines.append("\n| threshold | default | | |\n|---|---|---|---|")
    for one in rule.thresholds:
        lines.append(f"| `{one.name}` | {written(one.default)} | {meant(one.default, one.unit)} | {_cell(one.about)} |")
    return "\n".join(lines) + "\n"


def rules_page() -> str:
    known = rules().values()
    listed = [f"| [{one.name}](#{one.name}) | {_cell(fires_when(one))} | {one.severity} |" for one in known]
    head = _MADE.format(source="src/slurmscope/findings/rules/") + _RULES
    return head + "\n".join(listed) + "\n\n" + "\n".join(map(_rule, known))


_API = """# API

Every page of the portal can be read by a program. Behind `/api/v1` stands the page's own address:
`/clusters/alpha/jobs` is `/api/v1/clusters/alpha/jobs`, and the first page is `/api/v1`. The address of a page with
`.json` behind it has the same; tables have `.csv`, reports `.pdf`.

```sh
curl -H "Authorization: Bearer $TOKEN" "https://slurmscope.example.org/api/v1/jobs?state=running"
```

- **Tokens** are made and revoked by each user at `/settings`. A program sees what its user sees in the browser: the own
  jobs, those of accounts that the user coordinates, or all. What somebody may not see is answered as what is not there
  (404). Where nobody signs in (`portal.sign_in` is empty) no token is needed.
- **`/api/v1/openapi.json`** has all of this for programs (OpenAPI 3.1), `/api` for people. Both are for those who have
  signed in.
- **Answers** are objects with `kind`, `title`, `made` (when), `verdict` (`level`, `headline`, `lead`: what a person
  would say) and the facts of the page. Units are base units: seconds, bytes, counts; times are seconds since 1970. What
  is unknown is `null`, never 0.
- **What cannot be answered** is an object with `error` and `cure`: 400 it cannot be meant, 401 no token or one that
  does not hold, 404 there is none or none that you may see, 500 a fault that the log tells of, 503 the store cannot be
  read just now, or too many want what takes long: come again after `Retry-After` seconds.
- **Parameters** that are empty or not known are left aside. One that may be given several times is repeated:
  `?state=failed&state=cancelled`. Nobody is sent elsewhere: a search answers with what it found.
- **v1 stays as it is.** Addresses, parameters and names in answers are only added; nothing is renamed or taken away. A
  program should pass over names that it does not know.

## Addresses

"""
_OLDER = """
## Older addresses

Of an older web app, whose scripts go on working. They answer to the same people as all else does, and of a job that has
not ended, too. A number alone is looked for in all clusters; where several have it the answer is 400, and `?cluster=`
says which is meant. `/api/v1/jobs/{job}/usage` and, in the answer of `/api/v1/users/{user}`, `user` and `jobs` are of
that app as well.

"""


def api_page() -> str:
    head = _MADE.format(source="src/slurmscope/web/table.py") + _API
    return head + openapi.markdown(openapi.operations(ROUTES)) + _OLDER + openapi.markdown(openapi.others(ROUTES))


def trace_schema() -> str:
    return msgspec.json.format(msgspec.json.encode(body.schema()), indent=2).decode() + "\n"


PAGES = {
    "api.md": api_page,
    "metrics.md": metrics_page,
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "cli.md": cli_page,
    "rules.md": rules_page,
    "trace.schema.json": trace_schema,
    "waiting.md": waiting_page,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
        print(f"docs/{name}")
