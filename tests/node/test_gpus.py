# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""All drivers together: stand-ins that hang, fail or are absent as no driver can be made to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from slurmscope.measure import Gpu
from slurmscope.node.driver import AbsentError, DriverError
from slurmscope.node.gpus import Gpus


class MadeDriver:
    """Does what it is told at each read."""

    def __init__(self, name: str, does: Callable[[], list[Gpu]]) -> None:
        self.name = name
        self.does = does
        self.trouble = ""
        self.reads = 0
        self.closed = False

    def read(self) -> list[Gpu]:
        self.reads += 1
        return self.does()

    def close(self) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def gpu(index: int) -> Gpu:
    return Gpu(uuid=f"GPU-{index}", index=index)


def fails(error: Exception) -> Callable[[], list[Gpu]]:
    def read() -> list[Gpu]:
        raise error

    return read


def threads(name: str) -> int:
    return sum(one.name == f"gpu-{name}" for one in threading.enumerate())


def test_made_drivers_are_read_together() -> None:
    gpus = Gpus([MadeDriver("one", lambda: [gpu(0), gpu(1)]), MadeDriver("two", lambda: [gpu(2)])])
    assert [one.index for one in asyncio.run(gpus.read())] == [0, 1, 2]
    assert gpus.problems == {}


def test_made_driver_that_hangs_costs_its_own_gpus_and_no_second_thread() -> None:
    release = threading.Event()
    stuck = False

    def read() -> list[Gpu]:
        if stuck:
            release.wait(60)
        return [gpu(7)]

    hanging, other = MadeDriver("hanging", read), MadeDriver("other", lambda: [gpu(0)])
    gpus = Gpus([hanging, other], deadline=1)

    async def course() -> None:
        nonlocal stuck
        assert await gpus.read() == (gpu(7), gpu(0))
        stuck = True
        for _ in range(5):
            # what it told before is not told again
            assert await gpus.read() == (gpu(0),)
            assert "has not answered" in gpus.problems["hanging"]
        assert (hanging.reads, other.reads) == (2, 6)
        assert threads("hanging") == 1
        stuck = False
        release.set()
        while threads("hanging"):
            await asyncio.sleep(0.01)
        assert await gpus.read() == (gpu(7), gpu(0))
        assert gpus.problems == {}
        assert hanging.reads == 3

    asyncio.run(course())


def test_made_driver_that_comes_back_after_its_loop_has_ended_is_read_again() -> None:
    release = threading.Event()
    driver = MadeDriver("late", lambda: [gpu(0)] if release.wait(60) else [])
    gpus = Gpus([driver], deadline=1)
    assert asyncio.run(gpus.read()) == ()
    release.set()
    while threads("late"):
        time.sleep(0.01)
    assert asyncio.run(gpus.read()) == (gpu(0),)


def test_made_read_that_was_cancelled_leaves_its_call_to_the_next() -> None:
    release = threading.Event()
    driver = MadeDriver("slow", lambda: [gpu(0)] if release.wait(60) else [])
    gpus = Gpus([driver], deadline=30)

    async def course() -> None:
        first = asyncio.create_task(gpus.read())
        while not driver.reads:
            await asyncio.sleep(0.01)
        first.cancel()
        second, third = asyncio.create_task(gpus.read()), asyncio.create_task(gpus.read())
        await asyncio.sleep(0)
        release.set()
        assert await second == await third == (gpu(0),)
        assert driver.reads == 1
        assert gpus.problems == {}

    asyncio.run(course())


def test_made_driver_that_fails_is_asked_again_at_growing_intervals() -> None:
    clock = Clock()
    driver = MadeDriver("failing", fails(DriverError("reboot the node")))
    gpus = Gpus([driver], clock=clock)

    async def course() -> None:
        asked = []
        for _ in range(1000):
            before = driver.reads
            assert await gpus.read() == ()
            assert gpus.problems == {"failing": "reboot the node"}
            if driver.reads > before:
                asked.append(clock.now)
            clock.now += 1
        waits = [later - sooner for sooner, later in pairwise(asked)]
        assert waits == [10, 20, 40, 80, 160, 300, 300]
        clock.now += 300
        driver.does = lambda: [gpu(0)]
        assert await gpus.read() == (gpu(0),)
        assert gpus.problems == {}

    asyncio.run(course())


def test_made_driver_with_a_fault_of_its_own_is_a_problem_and_not_the_end() -> None:
    gpus = Gpus([MadeDriver("odd", fails(ZeroDivisionError("oh"))), MadeDriver("good", lambda: [gpu(0)])])
    assert asyncio.run(gpus.read()) == (gpu(0),)
    assert gpus.problems == {"odd": "ZeroDivisionError: oh"}


def test_made_absent_driver_is_no_problem_and_is_seldom_looked_for() -> None:
    clock = Clock()
    driver = MadeDriver("absent", fails(AbsentError("no card")))
    gpus = Gpus([driver], clock=clock)

    async def course() -> None:
        for _ in range(60):
            assert await gpus.read() == ()
            clock.now += 1
        assert gpus.problems == {}
        assert driver.reads == 1
        driver.does = lambda: [gpu(0)]
        assert await gpus.read() == (gpu(0),)

    asyncio.run(course())


def test_made_trouble_with_one_gpu_is_said_beside_the_others() -> None:
    driver = MadeDriver("some", lambda: [gpu(0)])
    driver.trouble = "GPU 1: is lost"
    gpus = Gpus([driver])
    assert asyncio.run(gpus.read()) == (gpu(0),)
    assert gpus.problems == {"some": "GPU 1: is lost"}


def test_made_problem_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    driver = MadeDriver("some", lambda: [gpu(0)])
    gpus = Gpus([driver])

    async def course() -> None:
        for trouble in ("", "GPU 1: is lost", "GPU 1: is lost", "", ""):
            driver.trouble = trouble
            await gpus.read()

    asyncio.run(course())
    assert [one.getMessage() for one in caplog.records] == ["GPUs cannot be read", "GPUs can be read again"]


def test_made_drivers_are_closed_and_not_read_again() -> None:
    release = threading.Event()
    good, hanging = MadeDriver("good", list), MadeDriver("stuck", lambda: [gpu(0)] if release.wait(60) else [])
    gpus = Gpus([good, hanging], deadline=1)

    async def course() -> None:
        await gpus.read()
        await gpus.close()
        assert (good.closed, hanging.closed) == (True, False)
        assert await gpus.read() == ()
        assert good.reads == 1

    asyncio.run(course())
    release.set()


def test_made_driver_that_hangs_does_not_keep_the_process_from_ending() -> None:
    program = """
import asyncio, threading
from slurmscope.node.gpus import Gpus
class Stuck:
    name, trouble = "stuck", ""
    def read(self): threading.Event().wait()
    def close(self): pass
gpus = Gpus([Stuck()], deadline=0.1)
assert asyncio.run(gpus.read()) == ()
print(gpus.problems["stuck"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "has not answered for 0.1 s" in done.stdout


def test_this_machine_whatever_it_has_is_read_without_a_word_of_python() -> None:
    gpus = Gpus()

    async def course() -> None:
        found = await gpus.read()
        await gpus.close()
        assert len({one.uuid for one in found}) == len(found)
        assert not any("Error:" in problem for problem in gpus.problems.values())

    asyncio.run(course())
