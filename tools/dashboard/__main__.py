# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboards/slurmscope.json: `make docs`. A test fails when it is old."""

from __future__ import annotations

from pathlib import Path

from tools.dashboard.build import page

if __name__ == "__main__":
    (Path(__file__).parents[2] / "dashboards" / "slurmscope.json").write_text(page())
    print("dashboards/slurmscope.json")
