# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of a test's own, whatever this machine has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from slurmscope import config
from slurmscope.config import Config, ConfigError


def alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, and with a /etc of one's own."""
    monkeypatch.chdir(folder)
    here, system = config.PLACES
    assert (here, system) == (Path("slurmscope.toml"), Path("/etc/slurmscope/slurmscope.toml"))
    monkeypatch.setattr(config, "PLACES", (here, folder / "etc" / "slurmscope.toml"))


def from_toml(text: str, env: Mapping[str, str] | None = None) -> Config:
    Path("given.toml").write_text(text)
    return config.load(Path("given.toml"), env=env or {})


def problems(text: str = "", env: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        from_toml(text, env)
    assert str(caught.value).split("\n") == list(caught.value.problems)
    return list(caught.value.problems)
