# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The table of reasons is whole, and a reason is found in whatever way it is printed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting.slurm_reasons import GENERATIONS

from slurmscope.waiting.explanation import MAKERS
from slurmscope.waiting.reason import ASSOCIATION_LIMIT, QOS_LIMIT, LimitOf
from slurmscope.waiting.reasons import REASONS, ROWS, Told, parse, reason_of

ALL = sorted({name for names in GENERATIONS.values() for name in names})


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_reason_of_slurm_is_in_the_table(generation: str) -> None:
    assert not set(GENERATIONS[generation]) - set(REASONS)


def test_the_table_has_each_once_and_invents_none() -> None:
    assert sorted(row.name for row in ROWS) == ALL


def test_every_row_is_told_in_full() -> None:
    for row in ROWS:
        assert row.words.endswith(".") and len(row.words) < 200, row.name
        assert row.actions and row.decides, row.name
        assert set(row.facts) <= set(MAKERS), row.name
        assert set(re.findall(r"{(\w+)}", " ".join(row.actions))) <= {"job", "user", "account", "qos"}, row.name


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("AssocGrpCpuLimit", LimitOf(ASSOCIATION_LIMIT, "GrpTRES", "cpu")),
        ("AssocGrpCPURunMinutesLimit", LimitOf(ASSOCIATION_LIMIT, "GrpTRESRunMins", "cpu")),
        ("AssocGrpCPUMinutesLimit", LimitOf(ASSOCIATION_LIMIT, "GrpTRESMins", "cpu")),
        ("AssocGrpMemLimit", LimitOf(ASSOCIATION_LIMIT, "GrpTRES", "mem")),
        ("AssocGrpGRES", LimitOf(ASSOCIATION_LIMIT, "GrpTRES", "gres/")),
        ("AssocGrpBillingRunMinutes", LimitOf(ASSOCIATION_LIMIT, "GrpTRESRunMins", "billing")),
        ("AssocMaxNodePerJobLimit", LimitOf(ASSOCIATION_LIMIT, "MaxTRESPJ", "node")),
        ("AssocMaxMemPerNode", LimitOf(ASSOCIATION_LIMIT, "MaxTRESPN", "mem")),
        ("AssocMaxGRESMinutesPerJob", LimitOf(ASSOCIATION_LIMIT, "MaxTRESMinsPJ", "gres/")),
        ("AssocMaxJobsLimit", LimitOf(ASSOCIATION_LIMIT, "MaxJobs")),
        ("AssocMaxWallDurationPerJobLimit", LimitOf(ASSOCIATION_LIMIT, "MaxWallPJ")),
        ("QOSGrpMemLimit", LimitOf(QOS_LIMIT, "GrpTRES", "mem")),
        ("QOSGrpMemoryRunMinutes", LimitOf(QOS_LIMIT, "GrpTRESRunMins", "mem")),
        ("QOSMaxMemoryPerJob", LimitOf(QOS_LIMIT, "MaxTRESPJ", "mem")),
        ("QOSMaxGRESPerUser", LimitOf(QOS_LIMIT, "MaxTRESPU", "gres/")),
        ("QOSMaxCpuPerUserLimit", LimitOf(QOS_LIMIT, "MaxTRESPU", "cpu")),
        ("QOSMaxJobsPerUserLimit", LimitOf(QOS_LIMIT, "MaxJobsPU")),
        ("QOSMinCpuNotSatisfied", LimitOf(QOS_LIMIT, "MinTRESPJ", "cpu")),
        ("MaxCpuPerAccount", LimitOf(QOS_LIMIT, "MaxTRESPA", "cpu")),
        ("MaxLicenseRunMinsPerUser", LimitOf(QOS_LIMIT, "MaxTRESRunMinsPU", "license/")),
    ],
)
def test_which_limit_a_reason_is(name: str, limit: LimitOf) -> None:
    assert REASONS[name].limit == limit


def test_all_that_are_named_after_a_limit_are_one() -> None:
    family = re.compile(r"Assoc(Grp|Max)|QOS(Grp|Max|Min)|Max\w+Per(Account|User)$")
    for name in ALL:
        assert bool(family.match(name)) == (REASONS[name].limit is not None), name


def test_a_limit_is_found_by_its_resource() -> None:
    gres = LimitOf(QOS_LIMIT, "GrpTRES", "gres/")
    assert gres.fits("qos", "GrpTRES", "gres/gpu:a100")
    assert not gres.fits("qos", "GrpTRES", "cpu")
    assert not gres.fits("association", "GrpTRES", "gres/gpu")
    assert not LimitOf(QOS_LIMIT, "GrpTRES", "mem").fits("qos", "GrpTRES", "memory-like")
    assert LimitOf(QOS_LIMIT, "GrpJobs").fits("qos", "GrpJobs", None)
    assert LimitOf(QOS_LIMIT, "GrpTRES", "").fits("qos", "GrpTRES", "fs/disk")


@pytest.mark.parametrize(
    ("said", "name", "text"),
    [
        (None, "None", ""),
        ("", "None", ""),
        ("None", "None", ""),
        ("Priority", "Priority", ""),
        ("(Resources)", "Resources", ""),
        ("((Priority))", "Priority", ""),
        ("priority", "Priority", ""),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-3],n7", "ReqNodeNotAvail", "UnavailableNodes:n[1-3],n7"),
        ("(ReqNodeNotAvail, Reserved for maintenance)", "ReqNodeNotAvail", "Reserved for maintenance"),
        ("ReqNodeNotAvail(Unavailable:n1)", "ReqNodeNotAvail", "Unavailable:n1"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "ReqNodeNotAvail", "UnavailableNodes:n1"),
        ("Reserved for maintenance", "ReqNodeNotAvail", "Reserved for maintenance"),
        ("launch failed requeued held", "JobHeldAdmin", "launch failed requeued held"),
        ("launch_failure_limit_exceeded_requeued_held", "JobHeldAdmin", "launch_failure_limit_exceeded_requeued_held"),
        ("job requeued in special exit state", "JobHeldUser", "job requeued in special exit state"),
        (
            "Job's account not permitted to use this partition (gpu allows a not b)",
            "AccountNotAllowed",
            "Job's account not permitted to use this partition (gpu allows a not b)",
        ),
        ("burst_buffer/lua: slurm_bb_paths failed", "BurstBufferOperation", "burst_buffer/lua: slurm_bb_paths failed"),
        ("PriorityOfTomorrow", "PriorityOfTomorrow", ""),
    ],
)
def test_a_reason_is_found_however_it_is_printed(said: str | None, name: str, text: str) -> None:
    assert parse(said) == Told(name, text)


def test_the_long_one_of_slurmctld() -> None:
    said = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
    assert parse(f"({said})") == Told("Resources", said)
    assert parse(said.replace(" ", "_")).name == "Resources"


@given(st.sampled_from(ALL), st.sampled_from(["{}", "({})", " {} ", "({})\n"]), st.booleans())
def test_every_name_is_found_in_brackets_and_in_any_case(name: str, form: str, lower: bool) -> None:
    assert parse(form.format(name.lower() if lower else name)) == Told(name)


@given(st.sampled_from(ALL), st.text(max_size=60))
def test_words_behind_a_comma_do_not_hide_a_reason(name: str, text: str) -> None:
    assert parse(f"{name}, {text}").name == name


@given(st.text(max_size=300))
def test_whatever_is_printed_has_a_row(said: str) -> None:
    told = parse(said)
    row = reason_of(told)
    assert row.words and row.actions
    if not told.known:
        assert "does not know" in row.words and row.name == told.name
