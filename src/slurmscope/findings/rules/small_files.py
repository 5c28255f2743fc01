# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Very many files were open, and little was in each."""

from slurmscope.findings import common
from slurmscope.findings.case import Case
from slurmscope.findings.rule import BYTES, COUNT, NOTE, Finding, Limits, Rule, Threshold
from slurmscope.words import amount, size


def lacks(case: Case, limits: Limits) -> str | None:
    if (missing := common.unmeasured(case, limits)) is not None or case.summary is None:
        return missing
    if case.summary.read_bytes is None and case.summary.written_bytes is None:
        return "how much it read and wrote"
    told = [node for node in case.summary.nodes if node.open_files_peak is not None]
    if not told:
        return "how many files it had open"
    return "how many processes it had" if any(node.processes_peak is None for node in told) else None


def fires(case: Case, limits: Limits) -> Finding | None:
    if case.summary is None:
        return None
    told = [node for node in case.summary.nodes if node.open_files_peak is not None]
    files = sum(node.open_files_peak or 0 for node in told)
    processes = sum(node.processes_peak or 0 for node in told)
    if files < limits["files"] or files < limits["files_per_process"] * processes:
        return None
    moved = (case.summary.read_bytes or 0) + (case.summary.written_bytes or 0)
    each = moved / max(1, files)
    if each >= limits["bytes"]:
        return None
    return Finding(
        headline=f"it had {amount(files, 'file')} open, with {size(each)} in each",
        text=f"It read and wrote {size(moved)} in all, and had up to {amount(files, 'file')} open at once: "
        f"{size(each)} a file.",
        advice="Put many small files into few large ones (HDF5, Zarr in a zip, SQLite, WebDataset, a tar file that is "
        "unpacked on the node's own disk), and close what is not needed.",
        figures={"files": float(files), "bytes_per_file": each},
    )


RULE = Rule(
    name="small_files",
    title="Many small files",
    severity=NOTE,
    about="To open a file on a shared file system takes longer than to read a small one, and keeps its servers from "
    "serving others.",
    needs="The files that the job has open, its processes and what it reads and writes, from an agent that may see "
    "them.",
    exempt="Interactive jobs, and those that ran for less than `least_seconds`.",
    cure="Few large files in place of many small ones.",
    false_positives="What is read from the page cache counts as open and not as read. Databases and servers keep many "
    "files open by design.",
    thresholds=(
        Threshold("files", 1000, COUNT, "Told where at least so many files were open at once, and …"),
        Threshold("bytes", 5e6, BYTES, "… less than this was read and written for each of them."),
        Threshold("files_per_process", 10, COUNT, "Where each process has fewer, there are just many processes."),
        common.LEAST,
        common.COVERAGE,
    ),
    hides=("scratch",),
    spares=common.short_or_watched,
    lacks=lacks,
    fires=fires,
)
