# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the rules: `slurmscope rules list`, `show`, `test` and `replay`."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from slurmscope.cli_store import opened
from slurmscope.findings.about import fires_when, meant, written
from slurmscope.findings.case import Case, case
from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.cost import Prices
from slurmscope.findings.ground import Ground
from slurmscope.findings.history import StorePast
from slurmscope.findings.judgement import Judgement, judge, weight
from slurmscope.findings.policy import Policy, PolicyError, nearest
from slurmscope.findings.replay import Replay, Told, replay
from slurmscope.findings.rule import Exempt, Finding, NoData, Outcome, Rule, Waste
from slurmscope.life import Life
from slurmscope.reports.data import harmless
from slurmscope.settings import RuleSetting, Settings
from slurmscope.store.protocol import Lives, Store
from slurmscope.summary import moments
from slurmscope.terminal import bar, config_option, fail, load, show, show_json, show_table
from slurmscope.words import amount, date, printable

_DAY = 86400
_WIDTH = 100
_MOST_ROWS = 40
_ID = re.compile(r"(\d{1,10})(?:_(\d{1,10}))?")
_CSV = (
    "cluster", "user", "rule", "severity", "jobs", "cpu_seconds", "gpu_seconds", "memory_byte_seconds", "energy_joules",
    "energy_measured", "co2_grams", "money", "currency", "worst_job", "worst_name", "worst_headline",
    "lost_cpu_seconds", "lost_gpu_seconds",
)  # fmt: skip

cluster_option = click.option("--cluster", help="Of which cluster. Default: all of which something is kept.")
json_option = click.option("--json", "as_json", is_flag=True, help="For scripts, in base units.")


@click.group("rules")
def rules_group() -> None:
    """Look at the rules by which jobs are judged, and try them out.

    Nobody is told anything by these. docs/rules.md has every rule; `[[rules]]` of the settings turn them off or change
    their thresholds.
    """


def _policy(settings: Settings) -> Policy:
    try:
        return Policy(settings.rules)
    except PolicyError as error:
        fail(str(error).replace("\n", "\nslurmscope: "), 2)


def _named(name: str, place: str) -> Rule:
    found = catalogue().get(name)
    if found is None:
        fail(f"{place}: expected the name of a rule, found {printable(name)}{nearest(name, catalogue())}", 2)
    return found


# --- what rules there are ---------------------------------------------------------------------------------------------


@rules_group.command("list")
@config_option
@json_option
def list_command(path: Path | None, as_json: bool) -> None:
    """List all rules, how bad what they say is, and which are on.

    "in part" is on in some clusters or partitions, and off in others.
    """
    settings = load(path).settings
    policy = _policy(settings)
    rows = [(one.name, one.title, one.severity, _state(one, policy, settings.rules)) for one in catalogue().values()]
    if as_json:
        show_json([dict(zip(("name", "title", "severity", "state"), row, strict=True)) for row in rows])
    else:
        show_table(("rule", "what it finds", "severity", "state"), rows)


def _state(rule: Rule, policy: Policy, settings: list[RuleSetting]) -> str:
    places = {("", "")} | {(one.cluster, one.partition) for one in settings if one.rule == rule.name}
    on = {any(one is rule for one, _ in policy.rules(*place)) for place in places}
    return "in part" if len(on) > 1 else "on" if True in on else "off"


@rules_group.command("show")
@click.argument("name")
@config_option
@json_option
def show_command(name: str, path: Path | None, as_json: bool) -> None:
    """Say everything about one rule: what it needs, when it fires, its thresholds and where they were changed."""
    settings = load(path).settings
    policy, rule = _policy(settings), _named(name, "NAME")
    state = _state(rule, policy, settings.rules)
    changes = [one for one in settings.rules if one.rule == rule.name]
    if as_json:
        show_json(_document(rule, state, changes))
        return
    lines = [f"{rule.name}: {rule.title} ({rule.severity}, {state})", ""]
    for label, text in (
        ("fires", fires_when(rule)),
        ("why", rule.about),
        ("needs", rule.needs),
        ("spares", rule.exempt),
        ("change", rule.cure),
        ("wrong", rule.false_positives),
        ("hides", ", ".join(sorted(rule.hides))),
    ):
        if text:
            lines.append(click.wrap_text(text, _WIDTH, f"{label + ':':9}", " " * 9))
    show("\n".join(lines))
    if rule.thresholds:
        show("")
        show_table(("threshold", "in force", "", "where", "set by", "what it does"), _thresholds(rule, changes))
    for one in changes:
        if one.enabled is not None:
            show(f"turned {'on' if one.enabled else 'off'}: {_where(one)}, by {printable(one.place)}")


def _document(rule: Rule, state: str, changes: list[RuleSetting]) -> dict[str, Any]:
    texts = ("name", "title", "severity", "about", "needs", "exempt", "cure", "false_positives", "hides", "thresholds")
    found = {name: getattr(rule, name) for name in texts}
    return found | {"fires": fires_when(rule), "state": state, "settings": changes}


def _thresholds(rule: Rule, changes: list[RuleSetting]) -> list[tuple[str, ...]]:
    """In force everywhere, and below each where it is another one."""
    rows: list[tuple[str, ...]] = []
    for one in rule.thresholds:
        value, place = one.default, "default"
        for change in changes:
            if not change.cluster and not change.partition and one.name in change.thresholds:
                value, place = change.thresholds[one.name], change.place
        rows.append((one.name, written(value), meant(value, one.unit), "", printable(place), one.about))
        for change in changes:
            if (change.cluster or change.partition) and one.name in change.thresholds:
                own = change.thresholds[one.name]
                rows.append(("", written(own), meant(own, one.unit), _where(change), printable(change.place), ""))
    return rows


def _where(one: RuleSetting) -> str:
    places = [f"on {one.cluster}" if one.cluster else "", f"in {one.partition}" if one.partition else ""]
    return printable(" ".join(filter(None, places)) or "everywhere")


# --- one job ----------------------------------------------------------------------------------------------------------


@rules_group.command("test")
@click.argument("name", required=False)
@click.option(
    "--job", "job", metavar="JOBID", help="A number, or 123_4. Default: the last one that was submitted and ended."
)
@config_option
@cluster_option
@json_option
def test_command(name: str | None, job: str | None, path: Path | None, cluster: str | None, as_json: bool) -> None:
    """Ask all rules, or the one of that NAME, what they say of a job, and why they say nothing.

    \b
    fires            something is wrong; with NAME, all that is told of it
    fires, hidden    it is told by another rule, which says more
    fine             it was looked at, and is not so
    does not apply   to such a job, and why
    no verdict       what is missing
    """
    settings = load(path).settings
    policy = _policy(settings)
    if name is not None:
        _named(name, "NAME")
    with opened(settings) as store:
        _known(store, cluster)
        found = _case(store, _life(store, job, cluster), settings.findings.interactive)
        judged = judge(found, policy)
        outcomes = {rule: one for rule, one in judged.outcomes.items() if name in (None, rule)}
    if as_json:
        told = {rule: {"outcome": _verdict(rule, one, judged)[0]} | _fields(one) for rule, one in outcomes.items()}
        show_json({"job": found.life.document_id, "outcomes": told})
        return
    life = found.life
    show(printable(f"job {life.id} {life.name}, of {life.user}, on {life.cluster}: {life.state}"))
    show("")
    if name is not None and name not in outcomes:
        show(f"{name}: off for {printable(life.cluster)}, partition {printable(life.partition)}")
        return
    rows = [(rule, *_verdict(rule, one, judged)) for rule, one in outcomes.items()]
    show_table(("rule", "", ""), [tuple(map(printable, row)) for row in rows])
    for one in outcomes.values() if name is not None else ():
        if isinstance(one, Finding):
            _show_finding(one, found, Prices(settings.cost))


def _life(store: Store, job: str | None, cluster: str | None) -> Life:
    if job is None:
        found = store.lives(Lives(cluster=cluster, open=False, limit=1))
        return found[0] if found else _none("no job that has ended is kept")
    wanted = _ID.fullmatch(job)
    if wanted is None:
        fail(f"--job: expected a number, or 123_4 for the task of an array, found {printable(job)!r}", 2)
    found = store.lives(Lives(cluster=cluster, id=int(wanted[1]), limit=None))
    if wanted[2] is not None:
        found = [life for life in found if life.array_id == int(wanted[1]) and life.array_tasks == wanted[2]]
    return found[0] if found else _none(f"no job {job} is kept")


def _none(what: str) -> NoReturn:
    fail(f"{what}: `slurmscope store stats` says since when jobs are, `slurmscope import` reads more")


def _case(store: Store, life: Life, interactive: Sequence[str]) -> Case:
    cluster, summary = life.cluster, store.summary(life.cluster, *life.key)
    course = store.course(cluster, *life.key)
    ground = Ground(kept.node for kept in store.nodes(cluster))
    line = [] if course is None else moments(course)
    return case(life, summary, ground, StorePast(store, cluster), int(time.time()), line, interactive)


def _verdict(rule: str, outcome: Outcome, judged: Judgement) -> tuple[str, str]:
    match outcome:
        case Finding():
            hidden = all(one.rule != rule for one in judged.findings)
            return "fires, hidden" if hidden else "fires", f"{outcome.severity}: {outcome.headline}"
        case Exempt():
            return "does not apply", outcome.why
        case NoData():
            return "no verdict", f"not known: {outcome.missing}"
    return "fine", ""


def _fields(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in outcome.__struct_fields__}


def _show_finding(found: Finding, of: Case, prices: Prices) -> None:
    lines = ["", click.wrap_text(found.text, _WIDTH), click.wrap_text(found.advice, _WIDTH)]
    for one in found.changes:
        line = f"#SBATCH {one.option}={one.after}" if one.after is not None else f"leave out {one.option}"
        before = f" (it was {one.before})" if one.before is not None else ""
        lines.append(f"  {line}{before}{': ' + one.why if one.why else ''}")
    if found.lost == Waste():
        lines.append(f"It cost {prices.waste(of.life, of.summary, of.now, found.waste).words()}.")
    else:
        lines.append(f"Lost by nodes: {prices.waste(of.life, of.summary, of.now, found.lost).words()}.")
    lines += [f"  {name} {written(value)}" for name, value in found.figures.items()]
    show("\n".join(map(printable, lines)))


# --- all jobs ---------------------------------------------------------------------------------------------------------


@rules_group.command("replay")
@click.option("--days", type=click.IntRange(1, 3660), default=30, show_default=True, help="Jobs that ended since then.")
@config_option
@cluster_option
@click.option("--user", help="Only this one's jobs.")
@click.option("--rule", "rule", metavar="NAME", help="Only what this rule says.")
@click.option("--least-jobs", type=click.IntRange(1), default=1, help="Leave out what is said of fewer jobs of a user.")
@click.option("--least-core-hours", type=click.FloatRange(0), default=0.0, help="Leave out what cost less, …")
@click.option("--least-gpu-hours", type=click.FloatRange(0), default=0.0, help="… and fewer GPU-hours.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="A row for each user and rule, in base units.")
def replay_command(
    days: int,
    path: Path | None,
    cluster: str | None,
    user: str | None,
    rule: str | None,
    least_jobs: int,
    least_core_hours: float,
    least_gpu_hours: float,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Judge all jobs of the last days: who would have been told what, and what it cost.

    Nobody is told. Jobs that ended in that time are judged, and those that run now. With both of --least-core-hours and
    --least-gpu-hours, what reaches one of them is shown.
    """
    if as_json and as_csv:
        fail("--json and --csv: expected one of them", 2)
    settings = load(path).settings
    policy, now = _policy(settings), int(time.time())
    if rule is not None:
        _named(rule, "--rule")
    with opened(settings) as store, bar("judging") as (progress, task):
        found = replay(
            store,
            [cluster] if _known(store, cluster) and cluster is not None else store.clusters(),
            now - days * _DAY,
            now,
            policy,
            Prices(settings.cost),
            user=user,
            rules=[rule] if rule is not None else [],
            interactive=settings.findings.interactive,
            progress=lambda done, of: progress.update(task, completed=done, total=of),
        )
    rows = tuple(row for row in found.rows if _enough(row, least_jobs, least_core_hours, least_gpu_hours))
    shown = msgspec.structs.replace(found, rows=rows)
    if as_json:
        show_json(shown)
    elif as_csv:
        show(_csv(shown))
    else:
        _show_replay(shown, len(found.rows) - len(rows))


def _known(store: Store, cluster: str | None) -> bool:
    there = store.clusters()
    if cluster is not None and cluster not in there:
        fail(f"--cluster: expected one of {', '.join(there) or 'none'}, found {printable(cluster)}", 2)
    return True


def _enough(row: Told, jobs: int, core_hours: float, gpu_hours: float) -> bool:
    if row.jobs < jobs:
        return False
    cost = row.cost + row.lost
    least = ((cost.cpu_seconds, core_hours), (cost.gpu_seconds, gpu_hours))
    return not any(one for _, one in least) or any(one and found >= one * 3600 for found, one in least)


def _show_replay(found: Replay, left_out: int) -> None:
    several = len({row.cluster for row in found.rows}) > 1
    head = (*(("cluster",) if several else ()), "user", "rule", "", "jobs", "it cost", "the worst job")
    table = []
    _show_by_rule(found)
    for row in found.rows[:_MOST_ROWS]:
        worst = f"{row.worst[0].job}: {row.worst[0].headline}"
        cost = row.cost.words() if not weight(row.lost) else f"lost by nodes: {row.lost.words()}"
        cells = (row.user, row.rule, row.severity, f"{row.jobs:,}", cost, worst)
        table.append(tuple(map(printable, (row.cluster, *cells) if several else cells)))
    if table:
        show_table(head, table)
        show("")
    if len(found.rows) > _MOST_ROWS:
        show(f"… and {amount(len(found.rows) - _MOST_ROWS, 'row')} of less; --json and --csv have all.")
    if left_out:
        show(f"{amount(left_out, 'row')} below what --least-… says {'is' if left_out == 1 else 'are'} not shown.")
    people = amount(found.people, "person", "people")
    show(
        f"{date(found.since)} to {date(found.until)}: {amount(found.judged, 'job')} judged, "
        f"{found.measured:,} of them measured. {people} would have been told of {amount(found.told, 'job')}.\n"
        f"All of them held {found.held.words()}; wasted were {found.wasted.words()}."
        + (f" Lost by nodes were {found.lost.words()}." if weight(found.lost) else "")
    )


def _show_by_rule(found: Replay) -> None:
    """How often each would have spoken: the first thing to look at before anybody is told."""
    rules: dict[str, list[Told]] = {}
    for row in found.rows:
        rules.setdefault(row.rule, []).append(row)
    if len(rules) < 2:
        return
    table = []
    for rule, rows in sorted(rules.items(), key=lambda one: -sum(row.jobs for row in one[1])):
        people = len({(row.cluster, row.user) for row in rows})
        table.append((rule, f"{sum(row.jobs for row in rows):,}", f"{people:,}"))
    show_table(("rule", "jobs", "people"), table)
    show("")


def _csv(found: Replay) -> bytes:
    """RFC 4180. What is unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(_CSV)
    for row in found.rows:
        cost, worst = row.cost, row.worst[0]
        known = row.cluster, row.user, row.rule, row.severity, row.jobs
        costs = [getattr(cost, name) for name in _CSV[5:13]]
        lost = row.lost.cpu_seconds, row.lost.gpu_seconds
        cells = (*known, *costs, worst.job, worst.name, worst.headline, *lost)
        writer.writerow([harmless(one) if isinstance(one, str) else one for one in cells])
    return out.getvalue().encode("utf-8", "backslashreplace")
