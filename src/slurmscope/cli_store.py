# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of what is kept: `slurmscope import` and `slurmscope store …`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from slurmscope.config import MIGRATE_TO
from slurmscope.keeper import Archive
from slurmscope.settings import Settings
from slurmscope.slurm.clusters import source_of
from slurmscope.slurm.source import SourceError
from slurmscope.slurm.transport import TransportError
from slurmscope.store import place, recorder
from slurmscope.store.accountant import DAY, Accountant
from slurmscope.store.accountant import Progress as Read
from slurmscope.store.copy import copy, differences
from slurmscope.store.protocol import Store, StoreError
from slurmscope.terminal import bar, config_option, fail, load, named, run, show, show_json, show_table
from slurmscope.words import size

_RECENT = 3600
_FIRST_SLURM = 1_000_000_000  # September 2001: no accounting is older
_AGO = re.compile(r"(\d+)([dhw])")
_UNITS = {"h": 3600, "d": DAY, "w": 7 * DAY}


class Moment(click.ParamType[int]):
    """90d, 12h, 4w; a date; a date and a time. Dates are those of UTC."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if found := _AGO.fullmatch(value):
            return int(time.time()) - int(found[1]) * _UNITS[found[2]]
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"expected 90d, 12h, 4w, 2026-01-31 or 2026-01-31T12:00, found {value!r}", param, ctx)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


@contextmanager
def opened(settings: Settings) -> Iterator[Store]:
    """The store that the settings mean; it must be there."""
    url = place.url_of(settings.store)
    if url == place.NONE:
        fail("store.url is none: nothing is kept", 2)
    try:
        store = place.open_store(url, must_exist=True)
        try:
            yield store
        finally:
            store.close()
    except StoreError as error:
        fail(str(error))


# --- import -----------------------------------------------------------------------------------------------------------


@click.command("import")
@config_option
@click.option("--since", type=Moment(), default="90d", show_default=True, help="From when on: 90d, 12h, 4w, or a date.")
@click.option("--until", type=Moment(), default=None, help="Until when. Default: now.")
@click.option("--cluster", help="Which one, where the settings name several ([clusters.NAME]).")
@click.option("--again", is_flag=True, help="Read also what has been read before.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def import_command(
    path: Path | None, since: int, until: int | None, cluster: str | None, again: bool, as_json: bool
) -> None:
    """Read the accounting (sacct) of a time into the store, with steps.

    What has been read already is not asked for again, so that an import that was stopped goes on where it was; to run
    it twice does no harm. `slurmscope serve` may run meanwhile, and reads what is new by itself.
    """
    settings = load(path).settings
    now = int(time.time())
    end = now if until is None else min(until, now)
    if since >= end:
        fail("--since must be in the past, and before --until", 2)
    since = max(since, _FIRST_SLURM)
    done = run(_import(settings, cluster, since, end, again=again))
    if as_json:
        show_json(done)
        return
    if done.of < _RECENT:
        show("all of that time had been read but the last minutes; --again reads it again")
    more = f", {done.skipped:,} rows could not be read" if done.skipped else ""
    time_read = f"{done.of / DAY:,.1f} days" if done.of >= DAY else f"{done.of // 60:,} minutes"
    show(f"{time_read} read: {done.changed:,} jobs new or changed (of {done.jobs:,} records{more})")


async def _import(settings: Settings, cluster: str | None, since: int, until: int, *, again: bool) -> Read:
    one = named(settings, cluster)
    url = place.prepared_url(settings.store)
    if url == place.NONE:
        fail("store.url is none: there is nothing to import into", 2)
    source, archive = source_of(one), Archive(url, quiet=True)
    try:
        name = one.slurm.cluster or (await source.read("config")).value.cluster
        if not name:
            fail("nothing told the cluster's name: slurm.cluster gives it one")
        with bar(f"{name}: reading") as (progress, task):

            def shown(done: Read) -> None:
                progress.update(task, total=done.of, completed=done.seconds, description=f"{name}: {done.jobs:,} jobs")

            return await Accountant(source, name, archive.call).read(since, until, again=again, progress=shown)
    except (TransportError, SourceError) as error:
        kept = (
            "; what was read so far is kept, and the same command goes on from there" if archive.tally.calls > 1 else ""
        )
        fail(f"{error}{kept}")
    finally:
        await source.close()
        await archive.close()


# --- store ------------------------------------------------------------------------------------------------------------


@click.group("store")
def store_group() -> None:
    """Look after what is kept: jobs with their lives, usage, nodes, totals.

    The store is a SQLite file, or MongoDB, as store.url says (docs/stores.md).
    """


@store_group.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def stats(path: Path | None, as_json: bool) -> None:
    """Say where the store is, how large, and what is in it."""
    with opened(load(path).settings) as store:
        found = store.stats()
    if as_json:
        show_json(found)
        return
    rows = [("store", found.where), ("schema", str(found.schema)), ("clusters", ", ".join(found.clusters) or "none")]
    if found.bytes is not None:
        rows.append(("size", size(found.bytes)))
    rows += [(kind.replace("_", " "), f"{count:,}") for kind, count in found.counts.items()]
    for name, moment in (("oldest job", found.oldest), ("newest job", found.newest)):
        if moment is not None:
            rows.append((name, datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")))
    show_table(("", ""), rows)


@store_group.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def check(path: Path | None, as_json: bool) -> None:
    """Look whether the store is whole, and whether usage is what follows from the jobs.

    Exits with 1 when something is wrong. On millions of jobs it takes minutes. Sums that somebody changed meanwhile are
    looked at again, for which writers wait.
    """
    with opened(load(path).settings) as store, bar("checking"):
        found = store.check()
        for cluster in store.clusters():
            found += [f"{cluster}: {wrong}" for wrong in recorder.wrong_usage(store, cluster)]
    if as_json:
        show_json(found)
    else:
        show("\n".join(found) or "all is well")
    if found:
        sys.exit(1)


@store_group.command()
@config_option
def rebuild(path: Path | None) -> None:
    """Make the daily sums of usage anew from the jobs.

    They are kept as jobs change, and a rebuild makes the same sums. Days whose jobs are not kept any more
    (store.jobs_days) stay as they are.
    """
    with opened(load(path).settings) as store, bar("adding up"):
        days = sum(recorder.rebuild(store, cluster) for cluster in store.clusters())
    show(f"{days:,} sums made anew")


@store_group.command()
@config_option
def vacuum(path: Path | None) -> None:
    """Give room back to the disk that is not needed any more.

    A SQLite file is written anew for that, so that as much room as it takes must be free; writers wait.
    """
    with opened(load(path).settings) as store:
        before = store.stats().bytes
        with bar("vacuuming"):
            store.vacuum()
        after = store.stats().bytes
    show(f"{size(before)} before, {size(after)} now" if before is not None and after is not None else "done")


@store_group.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
def backup(file: Path, path: Path | None) -> None:
    """Write a copy of the store, as it is at one moment, into FILE, while it is used.

    FILE is a SQLite store, whatever the store is: to go back to it, put it in the place of the store (`store.url`), or
    `slurmscope store migrate` it.
    """
    if str(file).startswith(("sqlite:", "mongodb:")):
        fail(f"{file}: expected the path of a file, and no URL", 2)
    with opened(load(path).settings) as store, bar("copying") as (progress, task):
        store.backup(str(file), lambda done, of: progress.update(task, completed=done, total=of))
    show(f"{file}: {size(file.stat().st_size)}")


@store_group.command()
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL",
    envvar=MIGRATE_TO,
    help="sqlite:/path/to/file.db or mongodb://…; a password is better given by $SLURMSCOPE_MIGRATE_TO.",
)
@config_option
def migrate(target: str, path: Path | None) -> None:
    """Copy the store into another one, and check that they are the same.

    Stop `slurmscope serve` first, or what it writes meanwhile is missing. Running it again does no harm.
    """
    with opened(load(path).settings) as store:
        other = place.open_store(target)
        try:
            if other.identity == store.identity:
                fail("--to names the store itself", 2)
            with bar("copying") as (progress, task):
                copy(store, other, lambda done, of: progress.update(task, completed=done, total=of))
            with bar("comparing"):
                wrong = differences(store, other)
        finally:
            other.close()
    if wrong:
        fail("they are not the same:\n  " + "\n  ".join(wrong))
    show(f"{other.where}: the same as {store.where}. Set store.url to it.")
