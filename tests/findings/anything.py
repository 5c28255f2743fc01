# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs of which anything may be told, and anything may be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import lives
import msgspec
from findings import cases, cores, several
from findings.cases import GIB, START
from hypothesis import strategies as st

from slurmscope.findings.case import Case
from slurmscope.findings.past import NodeRecord
from slurmscope.life import Life
from slurmscope.model import HOLDING_STATES, JOB_STATES
from slurmscope.summary import Figures, Moment, Summary

S = TypeVar("S", bound=msgspec.Struct)
_MOST = 5  # fields of a struct that are changed

SIZES = st.sampled_from([0, 1, 3, 1000, 1 << 20, 1 << 30, 5 << 30, 100 << 30, 1 << 50])
TIMES = st.sampled_from([START - 100, START, START + 1, START + 500, START + 7200, START + 10 * 86400])
STATES = st.sampled_from(sorted({*JOB_STATES, *HOLDING_STATES, "REQUEUED", "VANISHED", "REVOKED", "odd"}))
HOSTS = st.sampled_from(["", "n1", "n[1-2]", "n[1-4]", "elsewhere"])
NAMES = st.sampled_from(["", "train", "jupyter", "\x1b[31m\n\udcff", "<b>"])


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Amounts are not negative; whatever may be unknown sometimes is."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind is UnionType:
        return st.one_of(st.none(), *(of_type(one) for one in inner if one is not NoneType))
    if kind is dict:
        return st.dictionaries(of_type(inner[0]), of_type(inner[1]), max_size=4)
    if kind is tuple:
        return st.lists(of_type(inner[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct(hint)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(0, 200) | SIZES,
        float: st.floats(0, 2) | st.floats(0, 1e6),
        str: NAMES,
        bool: st.booleans(),
    }
    return plain[hint]


def struct(kind: type[S], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[S]:
    return st.fixed_dictionaries(_fields(kind, given)).map(lambda fields: kind(**fields))


def changed(bases: Sequence[S], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[S]:
    """One of them, some fields of which are anything: what is wild altogether is no job that a rule looks at."""
    fields = _fields(type(bases[0]), given)

    @st.composite
    def one(draw: st.DrawFn) -> S:
        names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=_MOST, unique=True))
        news = {name: draw(fields[name]) for name in names}
        return msgspec.structs.replace(draw(st.sampled_from(bases)), **news)

    return one()


def _fields(kind: type[msgspec.Struct], given: dict[str, st.SearchStrategy[Any]]) -> dict[str, st.SearchStrategy[Any]]:
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__}
    return {name: given.get(name, of_type(hint)) for name, hint in hints.items()}


FIGURES = st.lists(st.floats(0, 64) | st.floats(0, 1e12), min_size=7, max_size=7).map(lambda all_: Figures(*all_))
SHARES = st.none() | st.floats(0, 1.2)
STEPS = changed(
    [lives.step(), lives.step("0", tasks=4)], id=st.sampled_from(["batch", "extern", "interactive", "0"]), state=STATES
)
NODES = changed(
    [
        cases.node_summary(),
        cases.node_summary("n2", cpu_seconds=0.0, swap_peak=GIB, reads=1 << 30, writes=0),
        cases.node_summary("n1", core_seconds={0: 7000.0, 1: 7000.0, 2: 0.0, 3: 900.0}, user_seconds=9.0),
        cases.node_summary("n1", threads_peak=2, open_files_peak=5000, cpu_seconds=7000.0),
    ],
    node=st.sampled_from(["n1", "n2", "n3"]),
    cpus=st.none() | st.integers(0, 16),
)
GPUS = changed([cases.gpu(), cases.gpu(1, mean=0.0, peak=0.0, node="n2")], mean=SHARES, peak=SHARES)
HELD = {"gpus": (cases.gpu(), cases.gpu(1)), "gpu": cases.figures(0.1, 1.0)}
SUMMARIES = changed(
    [
        cases.summary(),
        cases.summary(scratch=False, read_bytes=1 << 40, programs={"java": 90}),
        cases.summary(cpu_seconds=7200.0, cpu_share=0.25, cpu=Figures(1, 4, 0, 0, 1, 1, 4)),
        cases.summary(**HELD),
        cores.measured(cores.cores(1, 0, 0, 0)),
        several.measured(several.node("n1", 0.9), several.node("n2", 0.2)),
        several.measured(several.node("n1", 0.9), several.node("n2", 0.0)),
    ],
    coverage=SHARES,
    cpu=st.none() | FIGURES,
    memory=st.none() | FIGURES,
    gpu=st.none() | st.sampled_from([cases.figures(0.0), cases.figures(0.1, 0.9)]),
    cpu_share=SHARES,
    memory_share=SHARES,
    nodes=st.lists(NODES, max_size=3).map(tuple),
    gpus=st.lists(GPUS, max_size=3).map(tuple),
)
TWO: dict[str, Any] = {"nodes": 2, "node_list": "n[1-2]", "cpus": 8}
IDLE = {"cpu_seconds": 100.0}
LIVES = changed(
    [
        cases.life(),
        cases.life("RUNNING"),
        cases.life("RUNNING", **TWO),
        cases.life("RUNNING", **TWO, gpus={"a100": 2}),
        cases.life(**TWO, told=IDLE),
        cases.life(told={"cpu_seconds": 7200.0}),
        cases.life("TIMEOUT", memory=40 * GIB),
        cases.life(gpus={"a100": 1}, memory=17 * GIB),
        cases.life("FAILED", ran=20),
        cases.life("PENDING"),
    ],
    state=STATES,
    partition=st.sampled_from(["main", "main,other", "gone"]),
    submit_time=st.none() | TIMES,
    eligible_time=st.none() | TIMES,
    start_time=st.none() | TIMES,
    end_time=st.none() | TIMES,
    time_limit=st.none() | st.sampled_from([0, 60, 3600, 86400, 30 * 86400]),
    cpus=st.integers(0, 64),
    nodes=st.integers(0, 4),
    node_list=HOSTS,
    gpus=st.dictionaries(st.sampled_from(["", "a100", "gone"]), st.integers(0, 8), max_size=2),
    suspended_seconds=st.none() | st.integers(0, 100_000),
    steps=st.lists(STEPS, max_size=3).map(tuple),
    transitions=st.just(()),
    guess=st.none(),
)
GROUNDS = [
    [],
    [cases.node()],
    [cases.node(), cases.node("n2", memory=0)],
    [cases.node(name, gpus={"a100": 4}) for name in ("n1", "n2")],
]
# What the accounting tells of a life, and was not told of these.
SEEN = LIVES.map(
    lambda life: msgspec.structs.replace(
        life, accounted=False, cpu_seconds=None, memory_used=None, max_rss=None, energy=None, gpu_share=None, steps=()
    )
)


@st.composite
def lines(draw: st.DrawFn) -> list[Moment]:
    """As of a job that works, that stands still, that takes more and more memory; some moments are anything."""
    line = draw(
        st.sampled_from(
            [
                cases.line(60, 120),
                cases.line(60, 120, cpu=lambda at: 0.0, gpu=lambda at: 0.0),
                cases.line(60, 120, memory=lambda at: at << 27),
                cases.line(2),
                [],
            ]
        )
    )
    odd = draw(st.dictionaries(st.integers(0, 59), struct(Moment), max_size=2))
    return [msgspec.structs.replace(odd.get(at, one), time=one.time) for at, one in enumerate(line)]


@st.composite
def any_case(
    draw: st.DrawFn, found: st.SearchStrategy[Life], summaries: st.SearchStrategy[Summary | None], *, lined: bool
) -> Case:
    others = st.lists(found, max_size=2)
    records = st.lists(struct(NodeRecord, node=st.sampled_from(["n1", "n2"])), max_size=2)
    past = cases.Past(draw(others), draw(others), draw(others), draw(records))
    nodes = draw(st.sampled_from(GROUNDS))
    moments = draw(lines()) if lined else ()
    now = draw(st.just(START + 7200) | TIMES)
    return cases.of(draw(found), draw(summaries), nodes=nodes, past=past, moments=moments, now=now)
