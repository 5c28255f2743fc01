# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One look at the clusters, or at a recording of one: what the commands share that read now and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from slurmscope.metrics.book import Book
from slurmscope.model import PARTS
from slurmscope.serve import Watched, assemble, clusters_of
from slurmscope.settings import Cluster, Settings
from slurmscope.slurm import bundle as bundles
from slurmscope.slurm.bundle import Bundle
from slurmscope.slurm.clusters import recorded_source
from slurmscope.terminal import fail
from slurmscope.words import printable

from_option = click.option(
    "--from",
    "recording",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read this recording (`slurmscope capture`, probe.py) in place of a cluster.",
)


def bundle(path: Path, status: int = 1) -> Bundle:
    try:
        return bundles.load(path)
    except bundles.BundleError as error:
        fail(str(error), status)


def watched(settings: Settings, recording: Path | None, *, from_zero: bool) -> list[Watched]:
    """The clusters that the settings name, or the one of a recording, as of its own moment."""
    if recording is None:
        return clusters_of(settings, from_zero=from_zero)
    found = bundle(recording)
    cluster = Cluster(msgspec.structs.replace(settings.slurm, cluster=""), settings.poll)
    source = recorded_source(found, settings.slurm.source)
    return [assemble(cluster, settings, source, from_zero=from_zero, clock=lambda: found.time)]


async def look(clusters: Sequence[Watched], profile: str | None, openmetrics: bool) -> bytes:
    """One poll of each, and a page of them all."""
    # what fails is told at the end, once
    logging.getLogger("slurmscope.poll").setLevel(logging.CRITICAL)
    book = Book([one.pages for one in clusters])
    try:
        await asyncio.gather(*(one.poll.once() for one in clusters))
    finally:
        await asyncio.gather(*(one.source.close() for one in clusters))
    return b"" if profile is None else b"".join(await book.body(profile, openmetrics=openmetrics, gzip=False))


def complain(clusters: Sequence[Watched]) -> None:
    """Says what could not be read; gives up when that is everything."""
    for one in clusters:
        snapshot = one.poll.snapshot
        errors: dict[str, list[str]] = {}
        for part in PARTS:
            if error := snapshot.part(part).error:
                errors.setdefault(error, []).append(part)
        whose = f"{snapshot.cluster}: " if len(clusters) > 1 else ""
        for error, parts in errors.items():
            click.echo(f"slurmscope: {whose}{', '.join(parts)}: {printable(error)}", err=True)
    if all(one.poll.snapshot.part(part).value is None for one in clusters for part in PARTS):
        fail("nothing could be read; `slurmscope doctor` says what to do")
