# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The portal over a real Slurm with real jobs, in a real browser: pages beside what Slurm's own commands say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from lab.cluster import Lab
from lab.served import serving
from playwright.sync_api import Browser, Page, expect
from web.browser import looks
from web.browser.tabs import Tabs, opened, started

from slurmscope.web.route import GET, HTML
from slurmscope.web.states import GROUPS
from slurmscope.web.table import ROUTES

pytestmark = pytest.mark.browser

STAFF = "root"
NAME = "shown-in-the-portal"
SETTINGS = f"""
[portal]
sign_in = ["proxy"]
proxies = ["127.0.0.1"]
staff = ["{STAFF}"]
"""
PATHS = [
    path for route in ROUTES if route.method == GET and HTML in route.forms and not route.open for path in route.paths
]


@pytest.fixture(scope="module", autouse=True)
def jobs(lab: Lab) -> Iterator[list[str]]:
    """Of two people, some that run and some that are held; the lab may have many others by now."""
    ids = []
    for user in ("alice", "bob"):
        for more in ((), (), ("--hold",), ("--hold",)):
            argv = (
                "sbatch",
                "--parsable",
                "-o/dev/null",
                "--mem=10",
                "-t30",
                "-J",
                NAME,
                *more,
                "--wrap",
                "sleep 1800",
            )
            ids.append(lab.run(*argv, user=user).stdout.decode().strip().partition(";")[0])
    yield ids
    lab.run("scancel", *ids)


@pytest.fixture(scope="module")
def url(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("portal")
    (folder / "settings.toml").write_text(SETTINGS)
    own = {
        "SLURMSCOPE_CONFIG": str(folder / "settings.toml"),
        "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
        "SLURMSCOPE_SLURM_CLUSTER": lab.cluster,
        "SLURMSCOPE_STORE_FOLDER": str(folder),
        "SLURMSCOPE_ACCOUNTING_INTERVAL": "10",
        "SLURMSCOPE_POLL_INTERVAL": "3",
    }
    with serving(folder, 1, **own) as served:
        served.wait(lambda page: page.sum("slurm_command_runs_total", part="history") >= 2)
        yield f"http://127.0.0.1:{served.port}"


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with started(chromium) as found:
        yield found


@pytest.fixture
def tabs(browser: Browser, url: str) -> Iterator[Tabs]:
    with opened(browser, url) as found:
        yield found


def of(tabs: Tabs, name: str, **options: Any) -> Page:
    return tabs(extra_http_headers={"X-Remote-User": name}, **options)


def squeue(lab: Lab, *argv: str) -> list[list[str]]:
    """Number, user, state, reason and nodes of each."""
    said = lab.run("squeue", "-h", "-o", "%A|%u|%T|%r|%N", *argv).stdout.decode()
    return [line.split("|") for line in said.splitlines()]


@pytest.fixture
def things(lab: Lab) -> dict[str, str]:
    """What stands in an address for what is in braces."""
    job = squeue(lab, "-t", "running,pending", "-u", "alice", "-n", NAME)[0][0]
    account = lab.run("squeue", "-h", "-j", job, "-o", "%a").stdout.decode().split()[0]
    return {"cluster": lab.cluster, "job": job, "user": "alice", "account": account, "node": "n1"}


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page(tabs: Tabs, things: dict[str, str], theme: str, width: int) -> None:
    page = of(tabs, STAFF, color_scheme=theme)
    wrong = {}
    for path in PATHS:
        # of a month before there was a cluster nothing can be told
        answer = page.goto(path.format(**things) + ("?days=1" if path.endswith("/report") else ""))
        assert answer is not None and answer.status == 200, path
        if found := looks.wrong(page, f"lab/{theme}-{width}/{looks.name_of(path)}", width):
            wrong[path] = found
    assert wrong == {}


@pytest.mark.parametrize("scripts", [True, False], ids=["javascript", "plain"])
@pytest.mark.parametrize("state", ["running", "waiting"])
def test_jobs_are_those_of_squeue(lab: Lab, tabs: Tabs, scripts: bool, state: str) -> None:
    page = of(tabs, STAFF, java_script_enabled=scripts)

    def same() -> bool:
        page.goto(f"/jobs?user=*&state={state}&name={NAME}")
        return numbers(page) == {row[0] for row in squeue(lab, "-t", "all", "-n", NAME) if row[2] in GROUPS[state]}

    lab.wait_for(same)
    assert state == "running" or len(numbers(page)) >= 4, "those that are held"


def numbers(page: Page) -> set[str]:
    """Of the jobs that are listed."""
    return set(re.findall(r'href="[^"]*/jobs/(\d+)', page.locator(".jobs tbody").inner_html()))


def test_nodes_are_those_of_sinfo(lab: Lab, tabs: Tabs) -> None:
    page = of(tabs, STAFF)

    def same() -> bool:
        page.goto("/nodes?view=table")
        rows = page.locator(".nodes tbody tr")
        shown = {row.locator("th, td").first.inner_text(): row.inner_text() for row in rows.all()}
        said = [line.split() for line in lab.run("sinfo", "-h", "-N", "-o", "%N %C").stdout.decode().splitlines()]
        told = page.request.get("/nodes.json").json()["nodes"]
        cpus = {one["node"]["name"]: (one["node"]["cpus_allocated"], one["node"]["cpus"]) for one in told}
        wanted = {name: (int(counts.split("/")[0]), int(counts.split("/")[3])) for name, counts in said}
        return bool(wanted) and set(shown) == set(wanted) and cpus == wanted

    lab.wait_for(same)


def test_people_see_their_own(lab: Lab, tabs: Tabs, jobs: list[str]) -> None:
    hers, others = jobs[:4], jobs[4:]
    page = of(tabs, "alice")
    page.goto(f"/jobs?user=*&name={NAME}")
    assert numbers(page) == set(hers)
    staff = of(tabs, STAFF)
    for job in others:
        assert staff.request.get(f"/clusters/{lab.cluster}/jobs/{job}.json").status == 200
        for form in ("", ".json", ".csv", ".pdf"):
            assert page.request.get(f"/clusters/{lab.cluster}/jobs/{job}{form}").status == 404


def test_why_a_job_waits(lab: Lab, tabs: Tabs) -> None:
    page = of(tabs, STAFF)

    def told() -> bool:
        """Of some, what squeue tells at the same time."""
        waiting = [row for row in squeue(lab, "-t", "pending") if row[3] not in ("None", "")][:5]
        for job, _, _, reason, _ in waiting:
            page.goto(f"/clusters/{lab.cluster}/jobs/{job}")
            if reason.strip("()") not in page.locator("main").inner_text():
                return False
        return bool(waiting)

    lab.wait_for(told)


def test_a_job_from_its_first_moment_to_its_last(lab: Lab, tabs: Tabs) -> None:
    """On a page that stays open, and changes by itself."""
    page = of(tabs, "alice")
    page.goto("/jobs?time=all")
    page.evaluate("window.mark = 1")
    script = "#!/bin/sh\n#SBATCH -J seen-live\nexec sleep 600\n"
    argv = ("sbatch", "--parsable", "-o/dev/null", "--mem=10", "-t5")
    job = lab.run(*argv, user="alice", input=script.encode()).stdout.decode().strip().partition(";")[0]
    try:
        row = page.locator("tbody tr", has_text="seen-live")
        expect(row).to_have_count(1)
        expect(row.locator("td[data-title=state]")).to_contain_text(re.compile("running|waiting"))
        own = of(tabs, "alice")
        own.goto(f"/clusters/{lab.cluster}/jobs/{job}/script")
        expect(own.locator("main")).to_contain_text("exec sleep 600")
        own.goto(f"/clusters/{lab.cluster}/jobs/{job}")
        assert own.locator("main h1").count() == 1
    finally:
        lab.run("scancel", job)
    expect(row.locator("td[data-title=state]")).to_contain_text("cancelled")
    assert page.evaluate("window.mark") == 1, "it was loaded anew"
    # its own page, that was open all the time, says so too
    expect(own.locator("main")).to_contain_text(re.compile("cancelled", re.IGNORECASE))
