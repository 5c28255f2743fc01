# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmscope.slurm.text import Marks, Parsed


def parse_jobs(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_nodes(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_scheduler(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_controllers(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_partitions(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_reservations(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_licenses(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_shares(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_accounting(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError


def parse_config(data: bytes, marks: Marks, memo: Mapping[bytes, Any] = {}) -> Parsed[Any]:
    raise NotImplementedError
