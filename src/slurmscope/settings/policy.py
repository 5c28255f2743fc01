# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What is expected of jobs, what things cost, and what was promised to whom."""

import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Cost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    currency: Annotated[str, Meta(description="In which money is told: `EUR`. Empty: no money is told.")] = ""
    core_hour: Annotated[float, Meta(ge=0, description="Price of a core for an hour.")] = 0.0
    gpu_hour: Annotated[
        dict[str, float],
        Meta(description="Price of a GPU for an hour, by its type; `default` is for those that are not named."),
    ] = {}
    core_watts: Annotated[
        float,
        Meta(ge=0, description="Watts of a core with its memory, where nothing measured them. 0: no energy is told."),
    ] = 7.0
    gpu_watts: Annotated[
        dict[str, float],
        Meta(
            description="Watts of a GPU, by its type, where nothing measured them; `default` is for those that are not "
            "named."
        ),
    ] = msgspec.field(default_factory=lambda: {"default": 300.0})
    co2_grams: Annotated[
        float, Meta(ge=0, description="Grams of CO2 for a kWh, as the site's supplier tells it. 0: none are told.")
    ] = 0.0
    gpu_unit: Annotated[
        str, Meta(description="What GPUs of different types are counted in, where `cost.gpu_weights` is set.")
    ] = "RGU"
    gpu_weights: Annotated[
        dict[str, float],
        Meta(
            description="How many of these units a GPU of a type is; `default` is for those that are not named, 1 "
            "where it is missing. Empty: GPUs are counted, whatever their type."
        ),
    ] = {}


class Findings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    interactive: Annotated[
        list[str],
        Meta(
            description="What jobs are called that somebody sits in front of (`*` is anything, capitals are as small "
            "letters). Most rules spare them, as they do a job that `salloc` gave a shell."
        ),
    ] = msgspec.field(
        default_factory=lambda: [
            *("interactive*", "salloc", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"),
            *("jupyter*", "spawner-jupyterhub*", "rstudio*", "vscode*", "code-server*", "codeserver*"),
            *("sys/dashboard/*", "sys-dashboard-*", "dev/dashboard/*", "ondemand/*"),
        ]
    )


class RuleSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[rules]]`: later ones win over earlier ones."""

    rule: str
    cluster: str = ""
    partition: str = ""
    enabled: bool | None = None
    thresholds: dict[str, float] = {}
    place: str = ""  # where it is written


class Allocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[allocations]]`: what was promised to whom, from a day until before another."""

    cluster: str = ""  # "": over all
    account: str = ""  # "": to the whole cluster
    resource: Literal["gpu", "core", "unit"]  # `unit`: cost.gpu_unit
    amount: float  # in years of one: 12.5 GPU-years
    start: datetime.date
    end: datetime.date
