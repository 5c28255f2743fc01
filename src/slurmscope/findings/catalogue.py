# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All rules, by name: every module in rules/ has one."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from slurmscope.findings import rules
from slurmscope.findings.rule import Rule


@cache
def catalogue() -> dict[str, Rule]:
    """In the order of their names. They are loaded when they are first asked for."""
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    found = [import_module(f"{rules.__name__}.{name}").RULE for name in names]
    return {rule.name: rule for rule in found}
