# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The document of a job: what it says, and that it says no more than is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from findings import cases
from findings.cases import GIB, RAN, START

from slurmscope.findings.case import Case
from slurmscope.findings.cost import Prices
from slurmscope.findings.judgement import judge
from slurmscope.findings.policy import Policy
from slurmscope.findings.request import Request, next_request
from slurmscope.life import Life
from slurmscope.reports.document import Bars, Changes, Chart, Document, Facts, Heat, Table, Timeline
from slurmscope.reports.job import JobFacts, job_document
from slurmscope.reports.rendering import FORMATS, rendered
from slurmscope.summary import NodeLine, NodeLines


def no_waits(partition: str, cpus: int, gpus: int, memory: float | None, time: float | None) -> float | None:
    return None


def document(case: Case, attempts: Sequence[Life] = (), request: Request | None = None) -> Document:
    return job_document(
        JobFacts(
            case=case,
            judgement=judge(case, Policy()),
            cost=Prices().job(case.life, case.summary, case.now),
            attempts=attempts or [case.life],
            request=request,
            not_measured="nobody told of it",
        )
    )


def rows(found: Document, name: str) -> dict[str, tuple[str, ...]]:
    table = next(one for one in found.tables() if one.name == name)
    return {row[0].text: tuple(cell.text for cell in row[1:]) for row in table.rows}


def facts(found: Document) -> dict[str, str]:
    blocks = [block for section in found.sections for block in section.blocks if isinstance(block, Facts)]
    return {name: cell.text for block in blocks for name, cell in block.rows}


def test_one_that_did_well() -> None:
    found = document(cases.of(measured=cases.summary()))
    assert found.verdict.level == "fine"
    assert found.verdict.headline == "7 train: it completed, and nothing stands out"
    assert found.verdict.lead == "It used 90 % of its CPU time, 75 % of its memory and 50 % of its time."
    assert rows(found, "asked_and_used") == {
        "CPU": ("4 cores", "3.6 cores", "4 cores", "90 %"),
        "Memory": ("8 GiB", "5 GiB", "6 GiB", "75 %"),
        "Time": ("4 h 0 min", "2 h 0 min", "–", "50 %"),
    }
    assert not [section for section in found.sections if section.title == "What to change"]


@pytest.mark.parametrize(
    ("state", "used", "level"),
    [("COMPLETED", 0.75, "fine"), ("COMPLETED", 0.97, "note"), ("OUT_OF_MEMORY", 0.99, "bad")],
)
def test_memory_that_is_full_is_nothing_good(state: str, used: float, level: str) -> None:
    """Though all of it was used."""
    found = document(
        cases.of(cases.life(state), cases.summary(memory=cases.figures(5 * GIB, used * 8 * GIB), memory_share=used))
    )
    table = next(one for one in found.tables() if one.name == "asked_and_used")
    assert {row[0].text: row[4].level for row in table.rows}["Memory"] == level


@pytest.mark.parametrize(
    ("cpus", "share", "told"),
    [(1, 1.0, "1 core"), (2, 0.50001, "1 core"), (64, 0.1101, "7.046 cores"), (20480, 0.9, "18,432 cores")],
)
def test_what_was_used_has_digits_that_say_something(cpus: int, share: float, told: str) -> None:
    found = document(cases.of(cases.life(cpus=cpus, told={"cpu_seconds": share * cpus * RAN})))
    assert rows(found, "asked_and_used")["CPU"][1] == told


def test_who_told_it_is_beside_it() -> None:
    found = document(cases.of(cases.life("RUNNING"), cases.summary(coverage=0.93)))
    table = next(one for one in found.tables() if one.name == "asked_and_used")
    assert {row[0].text: row[0].source for row in table.rows} == {
        "CPU": "agent 93 %",
        "Memory": "agent 93 %",
        "Time": "slurm",
    }


def test_one_that_wasted_its_cores_is_told_what_to_change() -> None:
    life = cases.life(told={"cpu_seconds": 0.24 * 4 * RAN})
    request = next_request(cases.of(life), [(life, None)], Prices(), no_waits)
    found = document(cases.of(life), request=request)
    assert found.verdict.level == "bad"
    assert found.verdict.headline.startswith("7 train: ")
    assert found.sections[0].title == "What to change"
    (changes,) = [block for block in found.sections[0].blocks if isinstance(block, Changes)]
    options = {line.option: (line.before, line.after) for line in changes.lines}
    assert options["--ntasks"] == options["--cpus-per-task"] == (None, "1")
    assert "From 1 run; saves" in changes.note


def test_unknown_is_unknown_and_never_zero() -> None:
    found = document(cases.of(cases.life(told={"cpu_seconds": None, "steps": ()}, time_limit=None)))
    assert found.verdict.level == "unknown"
    assert found.verdict.headline == "7 train: it completed; what it used is not known"
    assert found.verdict.lead == "Nobody told of it."
    assert rows(found, "asked_and_used")["CPU"] == ("4 cores", "–", "–", "–")
    assert facts(found)["Measured"] == "nobody told of it"


@pytest.mark.parametrize(("limit", "of"), [(864000, " of 10 d 0 h"), (None, "")])
def test_of_one_that_runs_and_is_not_measured_it_is_told_how_long(limit: int | None, of: str) -> None:
    told = {"cpu_seconds": None, "steps": ()}
    found = document(cases.of(cases.life("RUNNING", end_time=None, told=told, time_limit=limit)))
    assert found.verdict.headline == "7 train: it runs; what it uses is not known"
    assert found.verdict.lead.startswith("It has run for ") and found.verdict.lead.endswith(f"{of}. Nobody told of it.")


@pytest.mark.parametrize(
    ("state", "fields", "headline"),
    [
        ("FAILED", {"exit_code": "3:0"}, "it failed"),
        ("CANCELLED", {}, "it was cancelled"),
        ("PREEMPTED", {}, "it was preempted"),
    ],
)
def test_how_it_ended_is_told_where_nothing_else_was_found(state: str, fields: dict[str, Any], headline: str) -> None:
    found = document(cases.of(cases.life(state, **fields)))
    assert found.verdict.headline == f"7 train: {headline}"
    assert found.verdict.level != "fine"


def test_cancelled_before_it_ran() -> None:
    life = cases.life("CANCELLED", start_time=None, node_list="", told={"steps": (), "cpu_seconds": None})
    found = document(cases.of(life))
    assert found.verdict.headline == "7 train: it was cancelled before it ran"


def test_the_charts_have_the_request_and_the_80_percent_line() -> None:
    moments = cases.line(gpu=lambda at: 0.5, gpu_memory=lambda at: 20 * GIB)
    case = cases.of(cases.life(gpus={"a100": 2}), cases.summary(gpus=(cases.gpu(0), cases.gpu(1))), moments=moments)
    charts = {one.name: one for one in document(case).charts() if isinstance(one, Chart)}
    assert [(level.name, level.value) for level in charts["cpu"].levels] == [("asked 4", 4.0), ("80 %: 3.2", 3.2)]
    assert [(level.name, level.value) for level in charts["memory"].levels] == [("asked 8 GiB", 8.0)]
    assert charts["gpu"].unit == "%"
    assert set(charts["gpu"].series[0].values) == {50.0}
    assert charts["gpu_memory"].levels[0].value == 80.0
    assert {"read", "written"} <= charts.keys()


def test_a_gap_stays_a_gap_and_is_explained() -> None:
    moments = cases.line(cpu=lambda at: None if 100 <= at < 120 else 3.0)
    charts = document(cases.of(measured=cases.summary(), moments=moments)).charts()
    cpu = next(one for one in charts if isinstance(one, Chart) and one.name == "cpu")
    assert cpu.series[0].values[100:120] == (None,) * 20
    assert cpu.note.startswith("Not measured from ")


def test_nodes_cores_and_modes_have_charts_of_their_own() -> None:
    nodes = tuple(
        cases.node_summary(name, user_seconds=3600.0, system_seconds=1800.0, core_seconds={0: 3600.0, 1: 7200.0})
        for name in ("n1", "n2")
    )
    life = cases.life(nodes=2, node_list="n[1-2]", cpus=8)
    found = document(cases.of(life, cases.summary(nodes=nodes), nodes=[cases.node("n1"), cases.node("n2")]))
    charts = {one.name: one for one in found.charts() if isinstance(one, Bars)}
    assert charts["modes"].series[0].values == (1.0, 1.0)
    assert charts["modes"].series[1].values == (0.5, 0.5)
    assert charts["cores"].series[0].values == (1.0, 2.0, 1.0, 2.0)
    assert {"cpu_by_node", "memory_by_node"} <= charts.keys()


def test_what_happened_in_the_order_of_time() -> None:
    first = cases.life("NODE_FAIL", ran=100)
    found = document(cases.of(cases.life()), [first, cases.life()])
    (line,) = [block for section in found.sections for block in section.blocks if isinstance(block, Timeline)]
    assert [event.title for event in line.events] == ["Submitted", "Waited 1 min 40 s", "Started", "Completed"]
    times = [event.time for event in line.events if event.time is not None]
    assert times == sorted(times)
    assert times[-1] == START + RAN


def test_for_scripts_it_is_all_there_in_base_units() -> None:
    case = cases.of(measured=cases.summary(), moments=cases.line())
    found = msgspec.json.decode(rendered(document(case), "json"))
    assert found["efficiency"]["cpu"]["share"] == pytest.approx(0.9)
    assert found["efficiency"]["memory"]["peak"] == 6 * GIB
    assert found["job"]["id"] == 7
    assert len(found["course"]) == 240


HOSTILE = "\x1b[31m<script>alert(1)</script>\n#panic()$x$ \\ \" ' \u202e \ud800 =1+1"


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_names_are_words_and_nothing_else(form: str) -> None:
    life = cases.life(name=HOSTILE, user=HOSTILE, account=HOSTILE, partition="main", login_node=HOSTILE)
    made = rendered(document(cases.of(life, cases.summary(programs={HOSTILE: 3}), moments=cases.line())), form)
    assert made
    if form in ("text", "html", "csv"):
        assert b"\x1b[31m" not in made
    if form == "html":
        assert b"<script>" not in made


def test_tables_have_as_many_cells_as_columns() -> None:
    case = cases.of(cases.life(gpus={"a100": 1}), cases.summary(gpus=(cases.gpu(),), gpu=cases.figures(0.8)))
    for table in document(case).tables():
        assert isinstance(table, Table)
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_its_nodes_over_time_are_shares_of_their_own_cores() -> None:
    case = cases.of(cases.life(nodes=3, node_list="n[1-3]"), cases.summary())
    lines = NodeLines(START, 60, (NodeLine("n1", 4, (4.0, None, 1.0)), NodeLine("n2", None, (1.0, 1.0, 1.0))))
    facts = JobFacts(
        case=case,
        judgement=judge(case, Policy()),
        cost=Prices().job(case.life, case.summary, case.now),
        attempts=[case.life],
        by_node=lines,
    )
    found = job_document(facts)
    (heat,) = (one for one in found.charts() if isinstance(one, Heat))
    assert [(row.name, row.values) for row in heat.rows] == [("n1", (1.0, None, 0.25)), ("n2", (None, None, None))]
    assert (heat.times, heat.note) == ((START, START + 60, START + 120), "Of 2 of its 3 nodes.")
    assert found.data["by_node"] == lines
    for form in FORMATS:
        assert rendered(found, form)
