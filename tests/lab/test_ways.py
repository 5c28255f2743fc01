# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Ways in that come and go, tokens, and several clusters, over real Slurms."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import agreement
import pytest
from lab.cluster import Lab
from lab.page import Page
from lab.served import serving
from sshd import HOST, Sshd

from slurmscope.model import PARTS
from slurmscope.settings import Cluster, Slurm
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.commands import BY_WAY, REST
from slurmscope.slurm.local import Local
from slurmscope.slurm.probe import TEXT
from slurmscope.slurm.rest import Rest
from slurmscope.slurm.source import SourceError, Way
from slurmscope.slurm.ssh import Ssh
from slurmscope.slurm.transport import Failed, Output, TransportError, Unanswered, Unreachable

INTERVAL = "1"


def sources(page: Page, **labels: str) -> dict[str, str]:
    """How each part is read: `text`, `rest`, …"""
    found = page.by("slurm_source_info", "part", "source", **labels)
    return {part: source.partition(":")[0] for part, source in found}


def addresses(lab: Lab) -> tuple[str, str]:
    """Where slurmrestd takes everybody, and where it wants a token."""
    socket, address = lab.script("rest").stdout.decode().split()
    return socket, address


def test_slurmrestd_is_killed_text_stands_in_and_slurmrestd_comes_back(lab: Lab, tmp_path: Path) -> None:
    socket, _ = addresses(lab)
    environment = {
        "SLURMSCOPE_SLURM_BIN_DIR": str(lab.bin),
        "SLURMSCOPE_SLURM_REST_URL": socket,
        "POLL_LIMIT": INTERVAL,
        "SLURMSCOPE_LOG_FORMAT": "json",
    }
    with serving(tmp_path, 1, **environment) as served:
        assert sources(served.page())["scheduler"] == "rest"
        assert sources(served.page())["jobs"] == "text"
        lab.script("rest", "kill")
        try:
            page = served.wait(lambda page: sources(page)["scheduler"] == "text")
            assert page.sum("slurm_up") == 1
            assert page.sum("slurm_source_fallbacks_total", part="scheduler", source="rest") >= 1
            assert page.sum("slurm_part_up", part="scheduler") == 1
            before = page.sum("slurm_command_runs_total", part="scheduler", command="sdiag")
            served.wait(
                lambda page: page.sum("slurm_command_runs_total", part="scheduler", command="sdiag") >= before + 5
            )
        finally:
            lab.script("up")
        served.wait(lambda page: sources(page)["scheduler"] == "rest")
        records = [json.loads(line) for line in served.log.read_text().splitlines()]
        failed = [record for record in records if record["msg"] == "a way failed, another stands in"]
        assert [(record["way"], record["part"]) for record in failed] == [("rest", "all")]
        assert [record["way"] for record in records if record["msg"] == "a way works again"] == ["rest"]


def test_a_slurmctld_too_busy_to_answer_is_asked_once_however_many_ways_there_are(lab: Lab) -> None:
    """With more patience than Slurm's own MessageTimeout of 10 s, squeue gives up by itself and says why."""
    socket, _ = addresses(lab)

    async def read() -> None:
        source = source_of(Cluster(Slurm(bin_dir=str(lab.bin), rest_url=socket, timeout=25)))
        try:
            with pytest.raises(Unanswered, match="Socket timed out"):
                await source.read("jobs")
            assert {command: cost.runs for (_, command), cost in source.costs.items()} == {"squeue": 1}
        finally:
            await source.close()

    lab.ctld("stop")
    try:
        asyncio.run(read())
    finally:
        lab.ctld("cont")


def ask(slurm: Slurm) -> Output:
    async def once() -> Output:
        rest = Rest(slurm)
        try:
            return await rest.run(BY_WAY[REST]["scheduler"])
        finally:
            await rest.close()

    return asyncio.run(once())


def token(lab: Lab, seconds: int = 600) -> str:
    printed = lab.run("scontrol", "token", f"lifespan={seconds}").stdout.decode()
    return printed.strip().removeprefix("SLURM_JWT=")


def test_a_token_that_is_given(lab: Lab) -> None:
    _, address = addresses(lab)
    assert b"req_time" in ask(Slurm(rest_url=address, rest_token=token(lab))).data
    with pytest.raises(Unreachable, match=r"refused the token: none was given \(`scontrol token` makes one\)"):
        ask(Slurm(rest_url=address))
    with pytest.raises(Unreachable, match=r"refused the token: is it for this cluster\?"):
        ask(Slurm(rest_url=address, rest_token=token(lab)[:-6] + "AAAAAA", rest_user="root"))


def test_a_token_that_has_expired(lab: Lab) -> None:
    _, address = addresses(lab)
    short = token(lab, 1)
    time.sleep(2.5)
    with pytest.raises(Unreachable, match="refused the token: it has expired"):
        ask(Slurm(rest_url=address, rest_token=short))


def test_a_token_in_a_file_is_read_anew(lab: Lab, tmp_path: Path) -> None:
    _, address = addresses(lab)
    file = tmp_path / "token"
    file.write_text("a.b.c\n")

    async def twice() -> None:
        rest = Rest(Slurm(rest_url=address, rest_token_file=str(file), rest_user="root"))
        command = BY_WAY[REST]["scheduler"]
        try:
            with pytest.raises(Unreachable):
                await rest.run(command)
            file.write_text(f"SLURM_JWT={token(lab)}\n")
            assert (await rest.run(command)).data
            file.unlink()
            with pytest.raises(Failed, match="the token cannot be read"):
                await rest.run(command)
        finally:
            await rest.close()

    asyncio.run(twice())


def test_a_command_prints_the_token_and_is_run_anew_when_it_is_refused(lab: Lab, tmp_path: Path) -> None:
    _, address = addresses(lab)
    runs = tmp_path / "runs"
    good = token(lab)
    # the first that it prints is not taken
    script = tmp_path / "token"
    script.write_text(
        f"#!/bin/sh\necho x >>{runs}\n[ $(wc -l <{runs}) -gt 1 ] && echo SLURM_JWT={good} || echo a.b.c\n"
    )
    script.chmod(0o755)

    async def thrice() -> None:
        rest = Rest(Slurm(rest_url=address, rest_token_command=str(script), rest_user="root"))
        try:
            for part in ("scheduler", "nodes", "jobs"):
                assert (await rest.run(BY_WAY[REST][part])).data
        finally:
            await rest.close()

    asyncio.run(thrice())
    assert runs.read_text() == "x\nx\n"


def test_a_real_slurm_through_a_real_sshd_is_the_same(lab: Lab, tmp_path: Path) -> None:
    sshd = Sshd(tmp_path)
    sshd.start()
    try:
        at_home = Way(TEXT, Local(str(lab.bin)))
        there = Way(TEXT, Ssh(HOST, config=str(sshd.config), bin_dir=str(lab.bin), timeout=30))

        async def compare() -> None:
            try:
                for part in [part for part in PARTS if part not in ("scheduler", "accounting")]:
                    for _ in range(10):
                        one, other = await at_home.read(part), await there.read(part)
                        found = agreement.differences(one.value, other.value, {})
                        if not found:
                            break
                    assert not found, (part, found[:3])
            finally:
                await there.close()

        asyncio.run(compare())
    finally:
        sshd.stop()


def test_two_clusters_in_one_process_one_of_which_hangs(lab: Lab, other_lab: Lab, tmp_path: Path) -> None:
    settings = tmp_path / "slurmscope.toml"
    settings.write_text(
        f"[poll]\ninterval = 1\n[clusters.here]\nbin_dir = '{lab.bin}'\n"
        f"[clusters.there]\nbin_dir = '{other_lab.bin}'\ntimeout = 8\n"
    )

    def polls(page: Page, cluster: str) -> float:
        return page.sum("slurm_command_runs_total", cluster=cluster, part="jobs")

    def failures(page: Page) -> float:
        return page.sum("slurm_command_failures_total", cluster="there", part="jobs")

    with serving(tmp_path, 2, "--config", str(settings)) as served:
        page = served.page()
        versions = page.by("slurm_version_info", "cluster", "version")
        assert {cluster: version[:5] for cluster, version in versions} == {
            "here": lab.generation,
            "there": other_lab.generation,
        }
        other_lab.ctld("stop")
        try:
            before = served.page()
            # one question of the one hangs for 8 s, in which the other is asked every second
            hung = served.wait(lambda page: failures(page) >= 1)
            assert polls(hung, "here") - polls(before, "here") >= 5
            down = served.wait(lambda page: page.sum("slurm_up", cluster="there") == 0)
            assert down.sum("slurm_up", cluster="here") == 1
            served.wait(lambda page: polls(page, "here") >= polls(down, "here") + 5)
        finally:
            other_lab.ctld("cont")
        served.wait(lambda page: page.sum("slurm_up") == 2)


def test_another_cluster_of_the_same_slurmdbd(lab: Lab) -> None:
    """As -M reads it: here it is the same one, by the address that slurmdbd knows."""
    plain, named = Way(TEXT, Local(str(lab.bin))), Way(TEXT, Local(str(lab.bin), multi_cluster=lab.cluster))
    moving = {"scheduler", "accounting"}
    # 26.05 calls the controller by the cluster's name then
    renamed = {"controllers"} if lab.generation == "26.05" else set()

    async def compare() -> None:
        for part in [part for part in PARTS if part not in moving | renamed]:
            for _ in range(10):
                one, other = await plain.read(part), await named.read(part)
                found = agreement.differences(one.value, other.value, {})
                if not found:
                    break
            assert not found, (part, found[:3])
        for part in moving | renamed:
            assert (await named.read(part)).value

    asyncio.run(compare())


def test_a_cluster_that_slurmdbd_does_not_know_is_never_this_one(lab: Lab) -> None:
    way = Way(TEXT, Local(str(lab.bin), multi_cluster="elsewhere"))

    async def ask() -> None:
        for part in PARTS:
            if part in ("accounting", "coordinators"):  # slurmdbd's own
                continue
            with pytest.raises((TransportError, SourceError)):
                await way.read(part)

    asyncio.run(ask())
