# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The list of jobs: filters in the address, one line a job or array, and how well each used what it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slurmscope.findings.catalogue import catalogue
from slurmscope.findings.efficiency import Efficiency, efficiency, ran
from slurmscope.life import Life
from slurmscope.reports import cells
from slurmscope.reports.document import Cell, Column, Document, Section, Sheet, Table, Verdict
from slurmscope.reports.job import asked_for, cpus_asked, job_link, number_of
from slurmscope.store.protocol import Fold, JobKey, Lives, NameKind
from slurmscope.summary import Summary
from slurmscope.usage import DAY
from slurmscope.web import addresses, states
from slurmscope.web.errors import Wrong
from slurmscope.web.page import Crumb, Page
from slurmscope.web.request import address_of
from slurmscope.web.translation import Translation
from slurmscope.web.visit import Visit

ROWS = 50
_MOST_LINES, _PIECE = 20_000, 1000  # of a spreadsheet, and how many are read at a time
_MOST_COUNTED = 2000
_MOST_PAGES = 200
_MOST_CHOICES = 50
EVERYBODY = "*"
_TIMES = {
    "1d": (DAY, "in the last day"),
    "7d": (7 * DAY, "in the last 7 days"),
    "30d": (30 * DAY, "in the last 30 days"),
}
_TIMES["90d"] = (90 * DAY, "in the last 90 days")
ALWAYS = "all"
SORTS = ("submitted", "started", "ended", "waited", "ran", "cpus", "gpus", "memory")

Sort = Literal["submitted", "started", "ended", "waited", "ran", "cpus", "gpus", "memory"]
Time = Literal["1d", "7d", "30d", "90d", "all"]


class JobsAsked(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="Of which cluster; all where it is not given.")] = ""
    state: Annotated[
        tuple[str, ...],
        Meta(
            description="Slurm's states, or waiting, running, completed, failed, cancelled; may be given several times."
        ),
    ] = ()
    user: Annotated[str, Meta(description="Whose; your own where it is not given, * for all that you may see.")] = ""
    account: Annotated[str, Meta(description="Of which account.")] = ""
    partition: Annotated[str, Meta(description="In which partition.")] = ""
    qos: Annotated[str, Meta(description="Of which QOS.")] = ""
    node: Annotated[str, Meta(description="On which node.")] = ""
    gpu: Annotated[str, Meta(description="With GPUs of which type.")] = ""
    name: Annotated[str, Meta(description="What their names hold, large letters or small.")] = ""
    finding: Annotated[str, Meta(description="Of which a rule found something: its name.")] = ""
    time: Annotated[Time, Meta(description="Those that waited, ran or ended in the last days.")] = "7d"
    arrays: Annotated[Literal["fold", "each"], Meta(description="An array as one line, or each of its tasks.")] = "fold"
    sort: Annotated[Sort, Meta(description="By what they are sorted.")] = "submitted"
    ascending: Annotated[bool, Meta(description="The least first.")] = False
    after: Annotated[
        str, Meta(description="Go on behind this one, as the page before tells.", pattern=r"^(\d{1,11}\.\d{1,10})?$")
    ] = ""
    page: Annotated[
        int,
        Meta(description="Which page, where jobs are not sorted by when they were submitted.", ge=1, le=_MOST_PAGES),
    ] = 1
    columns: Annotated[tuple[str, ...], Meta(description="Which columns are shown; may be given several times.")] = ()


class _Row(msgspec.Struct, frozen=True):
    fold: Fold
    used: Efficiency
    findings: tuple[str, ...]
    now: int
    t: Translation

    @property
    def life(self) -> Life:
        return self.fold.life

    @property
    def many(self) -> bool:
        return self.fold.tasks > 1 or len(self.fold.states) > 1


def _job(row: _Row) -> Cell:
    life = row.life
    if row.many:
        return Cell(f"{life.array_id}_[…]", life.array_id, link=f"job:{life.cluster}/{life.array_id}")
    return Cell(number_of(life), life.id, link=job_link(life))


def _name(row: _Row) -> Cell:
    if not row.many:
        return cells.words(row.life.name)
    left = sum(count for state, count in row.fold.states.items() if not states.ended(state))
    values = {"left": f"{left:,}", "count": f"{row.fold.tasks:,}"}
    told = row.t("{left} of {count} left", **values) if left else row.t("{count} tasks", **values)
    return Cell(f"{row.life.name} [{told}]", row.life.name)


def _state(row: _Row) -> Cell:
    if not row.many:
        return Cell(states.words(row.life, row.t), row.life.state, level=states.shape(row.life))
    most = sorted(row.fold.states.items(), key=lambda one: -one[1])
    return Cell(states.counted(most[:3], row.t), row.life.state, level=states.shape(row.life))


def _briefly(row: _Row) -> str:
    """What makes it large: its GPUs, or its CPUs."""
    if row.life.gpus:
        return ", ".join(f"{count:,} × {kind or 'GPU'}" for kind, count in row.life.gpus.items())
    return cpus_asked(row.life, row.t)


def _waited(row: _Row) -> Cell:
    return cells.seconds(None if row.many else row.life.waited(row.now))


def _ran(row: _Row) -> Cell:
    return cells.seconds(ran(row.life, row.now) if row.life.started and not row.many else None)


def _used(name: str) -> Callable[[_Row], Cell]:
    def cell(row: _Row) -> Cell:
        use = getattr(row.used, name)
        share = use.share if row.life.started and not row.many else None
        if name == "memory":
            return cells.memory(share, row.life.state)
        # a limit that is not used up takes nothing from anybody
        return cells.meter(share, judged=name != "time")

    return cell


COLUMNS: dict[str, tuple[Column, Callable[[_Row], Cell]]] = {
    one.name: (one, make)
    for one, make in (
        (Column("cluster", "cluster"), lambda row: cells.words(row.life.cluster, f"cluster:{row.life.cluster}")),
        (Column("job", "job"), _job),
        (Column("name", "name"), _name),
        (Column("user", "user"), lambda row: cells.words(row.life.user, f"user:{row.life.user}")),
        (
            Column("account", "account"),
            lambda row: cells.words(row.life.account, f"account:{row.life.cluster}/{row.life.account}"),
        ),
        (Column("state", "state"), _state),
        (Column("partition", "partition"), lambda row: cells.words(row.life.partition)),
        (Column("qos", "QOS"), lambda row: cells.words(row.life.qos)),
        (Column("asked", "asked for"), lambda row: Cell(_briefly(row), asked_for(row.life))),
        (Column("nodes", "nodes"), lambda row: cells.words(row.life.node_list)),
        (Column("submitted", "submitted"), lambda row: cells.moment(row.life.submit_time)),
        (Column("started", "started"), lambda row: cells.moment(row.life.start_time if row.life.started else None)),
        (Column("ended", "ended"), lambda row: cells.moment(row.life.end_time if row.life.ended else None)),
        (Column("waited", "waited", True), _waited),
        (Column("ran", "ran", True), _ran),
        (Column("cpu", "CPU"), _used("cpu")),
        (Column("memory", "memory"), _used("memory")),
        (Column("gpu", "GPU"), _used("gpu")),
        (Column("time", "time"), _used("time")),
        (Column("findings", "found"), lambda row: cells.words(", ".join(row.findings))),
    )
}
DEFAULT = ("job", "name", "user", "state", "partition", "asked", "ran", "cpu", "memory", "gpu", "time")


_NONE = "There are none. Remove a filter, or look further back."
_UNREAD = "No cluster has been read yet."
_NONE_OF_YOURS = "You have none. Look further back, or remove the filter with your name to see those of others."


def _empty(visit: Visit, asked: JobsAsked) -> str:
    if not visit.site.clusters():
        return _UNREAD
    return _NONE_OF_YOURS if visit.viewer.name and not asked.user else _NONE


def jobs(visit: Visit, asked: JobsAsked) -> Page:
    if asked.cluster:
        visit.site.must_know(asked.cluster)
    wanted = _lives(visit, asked)
    folds = _folds(visit, asked, wanted)
    more = len(folds) > ROWS
    rows = _rows(visit, folds[:ROWS])
    sentence = _sentence(visit, asked, _count(visit, asked, wanted, folds))
    names = [one for one in asked.columns if one in COLUMNS] or _default(visit, asked)
    table = Table(
        "jobs",
        tuple(COLUMNS[name][0] for name in names),
        tuple(tuple(COLUMNS[name][1](row) for name in names) for row in rows),
        empty=visit.t(_empty(visit, asked)),
    )
    document = Document(
        kind="jobs",
        title=visit.t("Jobs"),
        subtitle=asked.cluster,
        made=visit.now,
        verdict=Verdict("", visit.t("Jobs"), sentence),
        sections=(Section("", (table,)),),
        data={"shown": sentence, "jobs": [_datum(row) for row in rows], "next": _next(asked, folds) if more else None},
        sheet=lambda: _sheet(visit, asked),
    )
    here = addresses.within(asked.cluster, "jobs")
    given = msgspec.structs.asdict(asked) | {"cluster": None}
    return Page(
        document=document,
        template="jobs.html",
        crumbs=tuple(visit.crumbs(asked.cluster, Crumb(visit.t("jobs"), here))),
        cluster=asked.cluster,
        live=True,
        shown={
            "asked": asked,
            "here": here,
            "chips": _chips(visit, asked, here, given),
            "columns": [(name, column.title, name in names) for name, (column, _) in COLUMNS.items()],
            "groups": list(states.GROUPS),
            "times": {**{name: words for name, (_, words) in _TIMES.items()}, ALWAYS: "at any time"},
            "sorts": SORTS,
            "older": address_of(here, _changed(given, **_next(asked, folds))) if more else "",
            "newest": address_of(here, _changed(given)) if asked.after or asked.page > 1 else "",
            "question": address_of("", _changed(given)),
            "choices": _choices(visit, asked),
        },
    )


def _default(visit: Visit, asked: JobsAsked) -> list[str]:
    """Without what is the same in every line."""
    names = list(DEFAULT) if asked.cluster or len(visit.site.clusters()) == 1 else ["cluster", *DEFAULT]
    return [one for one in names if not (one == "user" and asked.user not in ("", EVERYBODY))]


def _whose(visit: Visit, asked: JobsAsked) -> str | None:
    """The one whose jobs are asked for: mine, unless somebody else's are, or all."""
    if asked.user:
        return None if asked.user == EVERYBODY else asked.user
    return visit.viewer.name or None


def _lives(visit: Visit, asked: JobsAsked) -> Lives:
    seconds = _TIMES[asked.time][0] if asked.time in _TIMES else None
    submit, _, fold = asked.after.partition(".")
    return Lives(
        cluster=asked.cluster or None,
        states=states.states_of(asked.state),
        user=_whose(visit, asked),
        account=asked.account or None,
        partition=asked.partition or None,
        qos=asked.qos or None,
        node=asked.node or None,
        gpu_type=asked.gpu or None,
        named=asked.name or None,
        finding=asked.finding or None,
        active_since=None if seconds is None else visit.now - seconds,
        sight=visit.viewer.sight,
        order=asked.sort,
        ascending=asked.ascending,
        after=(int(submit), int(fold)) if asked.after else None,
        limit=ROWS + 1,
        offset=(asked.page - 1) * ROWS if asked.sort != "submitted" else 0,
    )


def _is_folded(asked: JobsAsked) -> bool:
    """The tasks of an array are one line: only where they stand together."""
    return asked.sort == "submitted" and asked.arrays == "fold" and not asked.ascending


def _folds(visit: Visit, asked: JobsAsked, wanted: Lives) -> list[Fold]:
    if _is_folded(asked):
        return visit.store.folded(wanted)
    if asked.sort == "submitted" and asked.page > 1:
        wanted = msgspec.structs.replace(wanted, offset=(asked.page - 1) * ROWS)
    return [Fold(life, life.tasks, {life.state: life.tasks}) for life in visit.store.lives(wanted)]


def _next(asked: JobsAsked, folds: Sequence[Fold]) -> dict[str, str | int]:
    """What stands in the address of the page behind this one."""
    if _is_folded(asked):
        submit, fold = folds[ROWS - 1].after
        return {"after": f"{submit}.{fold}"}
    if asked.page >= _MOST_PAGES:
        raise Wrong("Only the first {count} pages are shown.", "Filters find what is further back.", count=_MOST_PAGES)
    return {"page": asked.page + 1}


def _rows(visit: Visit, folds: Sequence[Fold]) -> list[_Row]:
    summaries: dict[tuple[str, JobKey], Summary] = {}
    findings: dict[tuple[str, JobKey], tuple[str, ...]] = {}
    for cluster in {one.life.cluster for one in folds}:
        keys = [one.life.key for one in folds if one.life.cluster == cluster]
        summaries |= {(cluster, key): one for key, one in visit.store.summaries(cluster, keys).items()}
        findings |= {(cluster, key): one for key, one in visit.store.findings(cluster, keys).items()}
    t, found = visit.t, []
    for one in folds:
        key = one.life.cluster, one.life.key
        used = efficiency(one.life, summaries.get(key), visit.now)
        found.append(_Row(one, used, findings.get(key, ()), visit.now, t))
    return found


_TOLD = (
    *("cluster", "id", "array_id", "array_tasks", "name", "user", "account", "partition", "qos", "state", "reason"),
    *(
        "submit_time",
        "eligible_time",
        "start_time",
        "end_time",
        "time_limit",
        "cpus",
        "memory",
        "gpus",
        "nodes",
        "node_list",
    ),
)


_SHARES = ("cpu", "memory", "gpu", "time")


def _datum(row: _Row) -> dict[str, object]:
    """A line for scripts: base units, nothing rounded."""
    life = row.life
    shares = {name: getattr(row.used, name).share for name in _SHARES}
    return {
        **{name: getattr(life, name) for name in _TOLD},
        "tasks": row.fold.tasks,
        "task_states": row.fold.states,
        "shares": shares,
        "findings": row.findings,
    }


# --- for spreadsheets -------------------------------------------------------------------------------------------------


def _sheet(visit: Visit, asked: JobsAsked) -> Sheet:
    """All that match, from the first on, with the columns that were chosen; where none were, with all that is known of
    each, in UTC."""
    if chosen := [COLUMNS[name] for name in asked.columns if name in COLUMNS]:
        columns = tuple(column for column, _ in chosen)
        return Sheet(columns, _lines(visit, asked, lambda row: tuple(make(row) for _, make in chosen)))
    numbers = {"time_limit", "cpus", "memory", "nodes", "tasks"}
    names = (*_TOLD, "tasks", *(f"{name}_share" for name in _SHARES), "findings")
    return Sheet(tuple(Column(name, name, name in numbers) for name in names), _lines(visit, asked, _line))


def _lines(visit: Visit, asked: JobsAsked, make: Callable[[_Row], tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    asked = msgspec.structs.replace(asked, after="", page=1)
    wanted = msgspec.structs.replace(_lives(visit, asked), limit=_PIECE)
    for at in range(_PIECE, _MOST_LINES + 1, _PIECE):
        folds = _folds(visit, asked, wanted)
        yield from map(make, _rows(visit, folds))
        if len(folds) < _PIECE:
            return
        if _is_folded(asked):
            wanted = msgspec.structs.replace(wanted, after=folds[-1].after)
        else:
            wanted = msgspec.structs.replace(wanted, offset=at)


def _line(row: _Row) -> tuple[Cell, ...]:
    return (
        *(_told(name, getattr(row.life, name)) for name in _TOLD),
        Cell("", row.fold.tasks),
        *(Cell("", getattr(row.used, name).share) for name in _SHARES),
        Cell("", " ".join(row.findings)),
    )


def _told(name: str, value: Any) -> Cell:
    if value is None:
        return Cell("", "")
    if name.endswith("_time"):
        return Cell("", f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M:%S}")
    return Cell("", " ".join(f"{kind or 'gpu'}:{count}" for kind, count in value.items()) if name == "gpus" else value)


def _count(visit: Visit, asked: JobsAsked, wanted: Lives, folds: Sequence[Fold]) -> int:
    """How many there are. Where all of them are shown, and none is an array, they need not be looked for again."""
    first = not asked.after and asked.page == 1
    if first and len(folds) <= ROWS and (asked.arrays == "each" or all(one.life.array_id is None for one in folds)):
        return len(folds)
    return visit.store.count(msgspec.structs.replace(wanted, after=None, offset=0), most=_MOST_COUNTED)


def _sentence(visit: Visit, asked: JobsAsked, count: int) -> str:
    """What is shown, as a person would say it."""
    t, whose = visit.t, _whose(visit, asked)
    if count >= _MOST_COUNTED:
        told = t("More than {count} jobs", count=f"{_MOST_COUNTED:,}")
    else:
        told = t("1 job") if count == 1 else t("{count} jobs", count=f"{count:,}")
    parts = [
        told,
        t("of {user}", user=whose) if whose else "",
        t("on {cluster}", cluster=asked.cluster) if asked.cluster else "",
        t(_TIMES[asked.time][1]) if asked.time in _TIMES else "",
    ]
    return f"{' '.join(filter(None, parts))}, {_order(t, asked)}."


def _order(t: Translation, asked: JobsAsked) -> str:
    if asked.sort == "submitted":
        return t("the oldest first") if asked.ascending else t("the newest first")
    by = t(asked.sort)
    return (
        t("by {column}, the least first", column=by) if asked.ascending else t("by {column}, the most first", column=by)
    )


def _choices(visit: Visit, asked: JobsAsked) -> dict[str, list[str]]:
    """What a filter may be, where there are few of them; of people and names there are too many."""
    kinds: tuple[tuple[str, NameKind], ...] = (("partition", "partition"), ("qos", "qos"), ("gpu", "gpu_type"))
    cluster = asked.cluster or None
    found = {name: visit.store.names(kind, cluster=cluster, limit=_MOST_CHOICES) for name, kind in kinds}
    none: dict[str, list[str]] = {name: [] for name in _CHIPS}
    return none | {"user": []} | found | {"finding": sorted(catalogue())}


_CHIPS = ("state", "account", "partition", "qos", "node", "gpu", "name", "finding")


def _chips(visit: Visit, asked: JobsAsked, here: str, given: dict[str, object]) -> list[tuple[str, str]]:
    """(what is filtered by, the address without it)."""
    found = []
    if asked.cluster:
        all_clusters = address_of(addresses.within("", "jobs"), _changed(given))
        found.append((f"{visit.t('cluster')} {asked.cluster}", all_clusters))
    whose = _whose(visit, asked)
    if whose:
        found.append((f"{visit.t('user')} {whose}", address_of(here, _changed(given, user=EVERYBODY))))
    if asked.time in _TIMES:
        found.append((visit.t(_TIMES[asked.time][1]), address_of(here, _changed(given, time=ALWAYS))))
    for name in _CHIPS:
        value = getattr(asked, name)
        if value:
            told = ", ".join(visit.t(one) for one in value) if isinstance(value, tuple) else value
            found.append((f"{visit.t(name)} {told}", address_of(here, _changed(given, **{name: None}))))
    return found


def _changed(given: dict[str, object], **news: object) -> dict[str, object]:
    """What stands in an address, with something else in it, from its first page on; defaults are left out."""
    found = {**given, "after": None, "page": None, **news}
    defaults = {"time": "7d", "arrays": "fold", "sort": "submitted", "ascending": False}
    return {name: value for name, value in found.items() if value not in (None, "", ()) and value != defaults.get(name)}
