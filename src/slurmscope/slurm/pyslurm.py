# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What PySlurm tells, as probe.py wrote it down, to the model: pure functions from bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmscope.model import Config, Job, Node, Partition, Reservation, Scheduler
from slurmscope.slurm.text import Marks, Parsed


def parse_jobs(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Job, ...]]:
    raise NotImplementedError


def parse_nodes(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Node, ...]]:
    raise NotImplementedError


def parse_scheduler(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Scheduler]:
    raise NotImplementedError


def parse_partitions(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Partition, ...]]:
    raise NotImplementedError


def parse_reservations(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[tuple[Reservation, ...]]:
    raise NotImplementedError


def parse_config(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Config]:
    raise NotImplementedError
