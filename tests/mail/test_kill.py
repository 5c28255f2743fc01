# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of who sends, at any moment: no mail arrives twice, and none is lost that was not being handed over."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from mail.made import notice
from mail.server import Box, serving, settings

from slurmscope.mail.ledger import Ledger
from slurmscope.mail.message import Content
from slurmscope.mail.post import Post
from slurmscope.settings import Mail

KILLS = 150
EACH = 3  # notices that are new before each kill


def killed_sender(path: Path, mail: Mail, seconds: float) -> bool:
    """Whether it was still at work."""
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            Post(mail, Ledger(path)).run(patience=60)
            os.write(its, b"done")
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(its)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = os.read(ours, 10)
    os.close(ours)
    return not said


def test_the_sender_is_killed_a_hundred_times(tmp_path: Path) -> None:
    path = tmp_path / "notices.db"
    box = Box()
    chance = random.Random(7)
    interrupted = 0
    now = int(time.time())
    with serving(box) as port:
        mail = settings(port)
        for kill in range(KILLS):
            ledger = Ledger(path)
            for number in range(kill * EACH, (kill + 1) * EACH):
                content = Content(subject=f"Job {number}", text="line\n" * chance.choice([1, 100, 5000]))
                ledger.add(notice(number, content=content, time=now, changed=now, next_try=now))
            ledger.close()
            box.slow = chance.choice([0.0, 0.005, 0.02])
            interrupted += killed_sender(path, mail, chance.uniform(0, 0.1))
        ledger = Ledger(path)
        # hours later, for some may be written down to be tried again then
        Post(mail, ledger, clock=lambda: time.time() + 7 * 3600).run(patience=60)
    arrived = Counter(box.ids)
    assert max(arrived.values()) == 1
    states: Counter[str] = Counter()
    for number in range(KILLS * EACH):
        found = ledger.notice(notice(number).id)
        assert found is not None
        states[found.state] += 1
        if not arrived[f"<{found.id}@example.org>"]:
            assert found.state == "uncertain", number
    ledger.close()
    assert set(states) == {"sent", "uncertain"}
    assert interrupted >= 100, "there was nothing to kill"
    assert 10 <= states["uncertain"] <= interrupted, "nobody was killed at the moment that matters"
