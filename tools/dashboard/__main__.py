# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboards/*.json: `make docs`. A test fails when one is old."""

from __future__ import annotations

from pathlib import Path

from tools.dashboard.build import DASHBOARDS, page

if __name__ == "__main__":
    for one in DASHBOARDS:
        (Path(__file__).parents[2] / "dashboards" / f"{one.uid}.json").write_text(page(one))
        print(f"dashboards/{one.uid}.json")
