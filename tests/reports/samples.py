# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Documents for the tests of their renderings: a job's, a cluster's, and one whose every word means harm."""

from __future__ import annotations

import math

from slurmscope.reports.document import (
    BAD,
    FINE,
    NOTE,
    UNKNOWN,
    Bars,
    Cell,
    Changes,
    Chart,
    Column,
    Document,
    Drawn,
    Event,
    Facts,
    Heat,
    HeatRow,
    Level,
    Line,
    Paragraph,
    Section,
    Series,
    Table,
    Timeline,
    Verdict,
)

NOW = 1_763_212_020  # 2025-11-15 13:07 UTC
START = 1_763_107_200  # 2025-11-14 08:00 UTC
GIB = 1 << 30
HOSTILE = (
    "<script>alert(1)</script>",
    '#panic() $x$ *b* _i_ @ref <label> // no \\ `raw` ~ #import "/etc/passwd"',
    "\x1b[31mred\x1b[0m\x07\x00\r\nFrom: root",
    "[bold red]markup[/] :smile: {{ 7 * 7 }} {% raw %} ]]> --> &amp; &#0;",
    "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\U0001f600 \u6f22\u5b57 e\u0301\u0302",
    "\udcff\ud800 half\ufffe",
    '=HYPERLINK("http://x")',
    "'\"><img src=x onerror=alert(1)>",
    "x" * 400,
)


def wave(count: int, least: float, most: float, phase: float = 0.0) -> tuple[float, ...]:
    middle, high = (least + most) / 2, (most - least) / 2
    return tuple(round(middle + high * math.sin(at / 7 + phase) * math.cos(at / 23), 3) for at in range(count))


def gapped(values: tuple[float, ...], first: int, last: int) -> tuple[float | None, ...]:
    return tuple(None if first <= at < last else value for at, value in enumerate(values))


def job() -> Document:
    return Document(
        kind="job",
        title="48211907 vit-large",
        subtitle="bob (def-bengio), on narval, running since 14 Nov",
        made=NOW,
        verdict=Verdict(
            NOTE,
            "The GPUs wait for the CPUs",
            "Four H100 were busy 22 % of the time, while 16 threads shared 16 CPUs at a third of their power. "
            "Two GPUs would have done the same work in the same time.",
        ),
        sections=(
            Section("What to change", (_changes(),)),
            Section("Asked and used", (_asked(),)),
            Section("What happened", (_timeline(),), half=True),
            Section("Facts", (_facts(), Paragraph("From the job's last 6 runs.", soft=True)), half=True),
            Section("Over time", _charts()),
        ),
        data={"job": {"id": 48211907, "name": "vit-large"}, "cpu_share": 0.34, "network": None},
    )


def _changes() -> Changes:
    return Changes(
        (
            Line("--gpus-per-node", "h100:4", "h100:2", "busy 22 % of the time"),
            Line("--mem", "256G", "80G", "at most 61 GiB, plus 30 %"),
            Line("--exclusive", "", None, "it leaves 48 cores to nobody"),
            Line("--signal", None, "B:USR1@300", ""),
        ),
        note="Saves about 22 GPU-hours a run.",
    )


def _asked() -> Table:
    def row(what: str, asked: str, used: str, share: float | None, level: str, source: str) -> tuple[Cell, ...]:
        meter = Cell("unknown" if share is None else f"{share:.0%}".replace("%", " %"), share, share, level, source)
        return Cell(what), Cell(asked), Cell(used), meter

    return Table(
        "asked",
        (
            Column("what", ""),
            Column("asked", "asked", number=True),
            Column("used", "used, mean", number=True),
            Column("share", "share of what was asked"),
        ),
        (
            row("CPU", "16 cores", "5.4 cores", 0.34, NOTE, "agent 98 %"),
            row("Memory", "256 GiB", "41 GiB", 0.16, BAD, "agent 98 %"),
            row("GPU", "4 × H100", "0.88", 0.22, BAD, "nvml 94 %"),
            row("Time", "24 h 0 min", "23 h 2 min", 0.96, FINE, "slurm"),
            row("Threads", "16", "40", 2.5, NOTE, "agent 98 %"),
            row("Network", "–", "–", None, UNKNOWN, ""),
        ),
        note="The share is of the mean.",
    )


def _timeline() -> Timeline:
    return Timeline(
        (
            Event(START - 8400, "Submitted", "by bob to gpu"),
            Event(None, "Waited", "2 h 20 min: Priority, then Resources"),
            Event(START, "Started", "on gn031, attempt 1"),
            Event(START + 22_200, "GPU 2 throttled", "for 25 min: power cap", bad=True),
            Event(None, "Running", "11 h 2 min so far"),
        )
    )


def _facts() -> Facts:
    return Facts(
        (
            ("Account, QOS", Cell("def-bengio, normal")),
            ("Node", Cell("gn031", link="node:narval/gn031", source="slurm")),
            (
                "Submit line",
                Cell("sbatch train.sh --model vit-l --data /lustre/projects/def-bengio/imagenet/full/train"),
            ),
            ("Energy", Cell("18 kWh", 64_800_000.0, source="nvml 94 %")),
            ("Scratch used", Cell("unknown", level=UNKNOWN)),
        )
    )


def _charts() -> tuple[Drawn, ...]:
    times = tuple(range(START, START + 39_600, 300))
    count = len(times)
    gpus = tuple(Series(f"GPU {at}", gapped(wave(count, 4, 45, at / 3), 74, 81)) for at in range(4))
    return (
        Chart(
            "cpu", "CPU, cores busy", "cores", times, 300, (Series("used", wave(count, 2, 9)),), (Level("asked", 16),)
        ),
        Chart(
            *(
                "memory",
                "Memory",
                "GiB",
                times,
                300,
                (Series("used", wave(count, 20, 61)), Series("cache", wave(count, 1, 30))),
            ),
            levels=(Level("asked", 256), Level("advised", 80)),
        ),
        Chart(
            *("gpu", "GPU, each", "%", times, 300, gpus),
            note="No data from 14:10 to 14:45: the agent on gn031 was restarted.",
            ceiling=100,
        ),
        Chart("network", "Network", "MiB/s", times, 300, (Series("sent", (None,) * count),)),
        Bars(
            *("cores", "CPU time by core", "%", tuple(map(str, range(64)))),
            (
                Series("user", gapped(wave(64, 5, 60), 20, 22)),
                Series("system", gapped(wave(64, 1, 12), 20, 22)),
            ),
            levels=(Level("even", 34),),
        ),
        Heat(
            *("nodes", "Its nodes over time", "of its cores busy", times[::4], 1200),
            tuple(
                HeatRow(f"gn{31 + at:03}", gapped(wave(count // 4, 0.02, 0.97, at / 2), 8 * at, 8 * at + 5))
                for at in range(4)
            ),
            note="Of 4 of its 6 nodes.",
        ),
    )


def cluster() -> Document:
    days = tuple(range(START - START % 86400 - 29 * 86400, START, 86400))
    return Document(
        kind="cluster",
        title="narval, October 2025",
        subtitle="1,345 nodes, 632 GPUs; 1 to 31 October",
        made=NOW,
        verdict=Verdict(
            FINE, "narval was 84 % busy", "Jobs waited 41 min in the middle. 27 GPUs were never asked for."
        ),
        sections=(
            Section("By account", (_accounts(),)),
            Section("By partition", (_partitions(),), half=True),
            Section("Waiting", (Paragraph("Half of the jobs started within 41 min."), _waiting(days)), half=True),
            Section("Failed", (Table("failed", (Column("user", "User"),), (), empty="no job failed"),), half=True),
        ),
        data={"cluster": "narval", "accounts": 60},
        table="by_account",
    )


def _accounts() -> Table:
    rows = []
    for at in range(60):
        share = round(0.95 - at * 0.015, 3)
        level = FINE if share > 0.6 else NOTE if share > 0.2 else BAD
        name = f"def-account-{at:02}" if at % 7 else f"rrg-a-long-name-of-an-account-{at:02}"
        hours = 900_000 - at * 14_000
        rows.append(
            (
                Cell(name, link=f"account:narval/{name}"),
                Cell(f"{4_000 - at * 61:,}", 4_000 - at * 61),
                Cell(f"{hours:,} CPU-hours", hours * 3600),
                Cell(f"{share * 100:.1f} %", share, share, level),
                Cell("unknown" if at % 9 == 4 else f"{at * 3} min", None if at % 9 == 4 else at * 180),
            )
        )
    columns = (
        Column("account", "Account"),
        Column("jobs", "Jobs", number=True),
        Column("cpu_seconds", "CPU time", number=True),
        Column("efficiency", "CPU efficiency"),
        Column("wait_seconds", "Wait, median", number=True),
    )
    return Table("by_account", columns, tuple(rows))


def _partitions() -> Bars:
    return Bars(
        *("partitions", "CPU time by partition", "thousand core-hours"),
        ("cpubase_bycore_b1", "gpubase_bygpu_b3", "a-partition-with-a-name-that-does-not-end", "debug", "idle", "lost"),
        (
            Series("used", (2_410.0, 1_130.5, 402.0, 3.25, 0.0, None)),
            Series("unused", (612.0, 440.0, 80.0, 0.5, 0.0, None)),
        ),
        levels=(Level("capacity of one", 3_200),),
        note="Nothing is known of lost.",
    )


def _waiting(days: tuple[int, ...]) -> Chart:
    return Chart(
        "wait", "Wait, median of a day", "min", days, 86400, (Series("wait", gapped(wave(30, 10, 90), 12, 15)),)
    )


def hostile() -> Document:
    """Users' words wherever a text may stand."""
    words = HOSTILE
    cells = tuple((Cell(word, word, 0.5, NOTE, word[:40], f"user:{word}"), Cell("1", 1)) for word in words)
    values = (1.0, float("nan"), float("inf"), None, -3.0, 1e308)
    times = tuple(range(START, START + 360, 60))
    return Document(
        kind="job",
        title=words[0] + words[2],
        subtitle=words[1],
        made=NOW,
        verdict=Verdict(BAD, words[3], " ".join(words)),
        sections=tuple(
            Section(
                word,
                (
                    Paragraph(word),
                    Changes((Line(word, word, word[::-1], word), Line(word, None, word), Line(word, word, None)), word),
                    Table(word, (Column(word, word), Column("n", word, number=True)), cells, note=word),
                    Timeline((Event(START, word, word, bad=True),)),
                    Facts(((word, Cell(word, link=word)),)),
                    Chart(word, word, word, times, 60, (Series(word, values),) * 3, (Level(word, 3),), word),
                    Bars(word, word, word, words, (Series(word, (1.0, 2.0)),) * 2, (Level(word, 3),), word),
                    Heat(word, word, word, times, 60, (HeatRow(word, values, f"/x?{word}"),) * 2, word),
                ),
                half=at % 2 == 0,
            )
            for at, word in enumerate(words)
        ),
        data={"name": words},
    )


SAMPLES = {"job": job, "cluster": cluster, "hostile": hostile}
