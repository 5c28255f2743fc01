# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""slurmctld stopped, frozen and started again under a running `serve`; and many scrapers at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.cluster import Lab
from lab.served import Served, serving

INTERVAL = 2.0
TIMEOUT = 3.0
# What is asked at each poll.
FAST = ("squeue", "sdiag", "scontrol show nodes", "scontrol ping")


def counting_wrappers(bin_dir: Path, folder: Path) -> Path:
    """The lab's commands, each run of which leaves a line in `runs`."""
    made = folder / "bin"
    made.mkdir()
    for command in bin_dir.iterdir():
        wrapper = made / command.name
        wrapper.write_text(f'#!/bin/sh\necho "{command.name} $*" >>{folder}/runs\nexec {command} "$@"\n')
        wrapper.chmod(0o755)
    return made


def counted(runs: Path, *commands: str) -> int:
    return sum(line.startswith(commands) for line in runs.read_text().splitlines())


@pytest.fixture
def served(lab: Lab, tmp_path: Path) -> Iterator[Served]:
    environment = {
        "SLURMSCOPE_SLURM_BIN_DIR": str(counting_wrappers(lab.bin, tmp_path)),
        "POLL_LIMIT": str(INTERVAL),
        "CLI_TIMEOUT": str(TIMEOUT),
    }
    with serving(tmp_path, 1, **environment) as found:
        yield found


# What must not fall while nothing is known anew: counts that the lab always has.
STEADY = (
    "slurm_queue_jobs",
    "slurm_cluster_cpus",
    "slurm_cluster_nodes",
    "slurm_share_raw_shares",
    "slurm_license_capacity",
)


@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_slurmctld_goes_away_and_comes_back(lab: Lab, served: Served, tmp_path: Path, how: str) -> None:
    before = served.page()
    lab.ctld("kill" if how == "stopped" else "stop")
    try:
        served.wait(lambda page: page.sum("slurm_up") == 0)
        ages = []
        for _ in range(12):
            page = served.page()
            assert page.sum("slurm_up") == 0
            for name in STEADY:
                assert page.sum(name) == before.sum(name), name
            ages.append(page.sum("slurm_part_age_seconds", part="jobs"))
            time.sleep(0.5)
        assert ages == sorted(ages) and ages[-1] - ages[0] > 4, "ages grow while nothing is read"
    finally:
        back = time.monotonic()
        lab.ctld("start" if how == "stopped" else "cont")
    asked = counted(tmp_path / "runs", "scontrol ping")
    served.wait(lambda page: page.sum("slurm_up") == 1)
    # the first that is asked from now on finds it; the poll that follows asks too, and a page may come after that
    assert counted(tmp_path / "runs", "scontrol ping") <= asked + 3
    page = served.wait(lambda page: all(value == 1 for _, value in page.samples["slurm_part_up"]))
    assert page.sum("slurm_controller_up") == 1
    # all of it was read since then, and not before
    served.wait(lambda page: all(age < time.monotonic() - back for _, age in page.samples["slurm_part_age_seconds"]))


def test_ten_scrapers_run_no_more_commands_than_none(lab: Lab, served: Served, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    def commands_in(seconds: float) -> int:
        """Fast commands only: whether a slow one falls into the window is chance."""
        count = counted(runs, *FAST)
        time.sleep(seconds)
        return counted(runs, *FAST) - count

    seconds = 20.0
    alone = commands_in(seconds)
    stop = threading.Event()
    scrapes = []

    def scrape() -> None:
        while not stop.is_set():
            scrapes.append(served.page().sum("slurm_up"))
            stop.wait(0.1)

    threads = [threading.Thread(target=scrape) for _ in range(10)]
    for thread in threads:
        thread.start()
    crowded = commands_in(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(scrapes) > 20
    assert set(scrapes) == {1.0}
    polls = seconds / INTERVAL
    for commands in (alone, crowded):
        assert 0 < commands <= len(FAST) * (polls + 1), f"{alone} alone, {crowded} with {len(scrapes)} scrapes"


def test_every_command_that_was_run_is_in_the_table(served: Served, tmp_path: Path) -> None:
    from slurmscope.slurm.commands import COMMANDS

    served.wait(lambda page: all(value == 1 for _, value in page.samples["slurm_part_up"]))
    known = {" ".join(command.argv[:3]) for command in COMMANDS}
    for line in (tmp_path / "runs").read_text().splitlines():
        assert " ".join(line.split()[:3]) in known, line


def test_it_stops_at_once_and_leaves_no_command(lab: Lab, served: Served) -> None:
    lab.ctld("stop")
    try:
        served.wait(lambda page: page.sum("slurm_up") == 0)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
    finally:
        lab.ctld("cont")
