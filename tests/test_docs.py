# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing is undocumented, and the pages made from the tables are new."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurmscope import config
from slurmscope.cli import main
from slurmscope.findings.about import fires_when, written
from slurmscope.findings.catalogue import catalogue as rules
from slurmscope.metrics import agent, catalogue, constants, jobs
from slurmscope.metrics.exposition import Topic
from slurmscope.slurm.commands import COMMANDS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tools import docs  # noqa: E402 - the tools are not installed

DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", sorted(docs.PAGES))
def test_made_pages_are_new(name: str) -> None:
    assert (DOCS / name).read_text() == docs.PAGES[name](), f"docs/{name} is old: run `make docs`"


def test_every_metric_setting_and_command_is_documented() -> None:
    metrics = (DOCS / "metrics.md").read_text()
    topics: tuple[Topic[Any], ...] = (*catalogue.OWN, *jobs.TOPICS, agent.TOPIC, constants.TOPIC)
    for topic in topics:
        for family in topic.families:
            assert f"`{family.name}`" in metrics
            assert family.help.endswith(".") and '"' not in family.help
    for profile in catalogue.PROFILES:
        for topic in catalogue.PROFILES[profile]:
            assert all(f"`{family.name}`" in metrics for family in topic.families)
    settings = (DOCS / "configuration.md").read_text()
    for setting in config.describe():
        assert f"`{setting.key}`" in settings
    commands = (DOCS / "commands.md").read_text()
    for command in COMMANDS:
        assert " ".join(command.argv) in commands
    cli = (DOCS / "cli.md").read_text()
    for name in main.commands:
        assert f"## {name}\n" in cli


def test_every_rule_is_documented_and_tested() -> None:
    page = (DOCS / "rules.md").read_text()
    files = {path.stem for path in (ROOT / "src/slurmscope/findings/rules").glob("*.py")} - {"__init__"}
    assert files == set(rules()), "a rule has the name of its file"
    for rule in rules().values():
        assert f"### {rule.name}\n" in page
        for text in (rule.title, rule.about, rule.needs, rule.exempt, rule.cure, rule.false_positives):
            assert text and text in page, f"{rule.name} leaves something unsaid"
        for told in (rule.about, rule.needs, rule.exempt, rule.cure, rule.false_positives, fires_when(rule)):
            assert told.endswith("."), f"{rule.name}: {told}"
        for one in rule.thresholds:
            assert f"| `{one.name}` | {written(one.default)} |" in page and one.about
        assert (ROOT / f"tests/findings/rules/test_{rule.name}.py").exists(), f"{rule.name} has no test"
        assert set(rule.hides) <= set(rules()) - {rule.name}, f"{rule.name} hides what there is not"


def test_every_older_name_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    for profile in ("rivosinc", "vpenso", "sinfo"):
        for topic in catalogue.PROFILES[profile]:
            for family in topic.families:
                if family.name.startswith(("process_", "promhttp_")):
                    continue
                tail = any(
                    family.name.endswith(tail) and family.name.removesuffix(tail) in changelog
                    for tail in re.findall(r"`(_\w+)`", changelog)
                )
                assert family.name in changelog or tail, f"{family.name} is not in CHANGELOG.md"


def test_links_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *DOCS.glob("*.md"), ROOT / "tests" / "lab" / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_dependencies_have_a_reason() -> None:
    reasons = (DOCS / "dependencies.md").read_text()
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in (*project["dependencies"], *project["optional-dependencies"]["dev"]):
        name = re.split(r"[<>=\[]", line)[0]
        assert name in reasons, f"{name} is not in docs/dependencies.md"


def test_every_file_has_a_licence() -> None:
    """SPDX headers, on every tracked file that can hold one."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    free = re.compile(
        r"(^LICENSE|^LICENSES/|\.json$|\.png$|^tests/golden/|^tests/recordings/|py\.typed$|^\.gitignore$)"
    )
    made = {f"docs/{name}" for name in docs.PAGES}
    for name in tracked:
        if not free.search(name) and name not in made and (ROOT / name).exists():
            head = (ROOT / name).read_text()[:400]
            assert "SPDX-License-" + "Identifier: Apache-2.0" in head, name  # in two, for checkers read this line too


def test_nothing_is_left_to_be_filled_in() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        assert not re.search(r"@[A-Z]+@|TODO|TBD", path.read_text()), path.name
