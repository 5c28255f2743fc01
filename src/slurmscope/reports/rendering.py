# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""The one door to all forms of a document."""

from __future__ import annotations

from slurmscope.reports.document import Document

FORMATS = ("text", "html", "pdf", "json", "csv")
TYPES = {
    "text": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "pdf": "application/pdf",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8; header=present",
}


def rendered(document: Document, form: str, *, width: int = 100, colour: bool = False) -> bytes:
    """In one of FORMATS; width and colour are of text. What draws a form is loaded when it is first asked for."""
    # ruff: noqa: PLC0415
    match form:
        case "text":
            from slurmscope.reports.text import text

            return text(document, width=width, colour=colour).encode()
        case "html":
            from slurmscope.reports.html import html

            return html(document).encode()
        case "pdf":
            from slurmscope.reports.pdf import pdf

            return pdf(document)
        case "json" | "csv":
            from slurmscope.reports.data import csv_of, json_of

            return json_of(document) if form == "json" else csv_of(document)
    raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found {form}")
