# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Notices to send."""

from __future__ import annotations

from typing import Any

from slurmscope.mail.message import Content, compose
from slurmscope.mail.notice import JOB, Notice, identity
from slurmscope.settings import Mail

NOW = 1_700_000_000
CONTENT = Content(subject="Job 1: its GPUs were never used", text="Hello.\n.\n..dots\nWARNING=true\n")


def notice(number: int = 1, settings: Mail | None = None, content: Content = CONTENT, **fields: Any) -> Notice:
    """One of alice's about job `number`, to be sent at once."""
    given: dict[str, Any] = {
        "kind": JOB,
        "person": "alice",
        "recipient": "alice@example.org",
        "rule": "zero_gpu",
        "cluster": "alpha",
        "job": f"alpha.{number}.{NOW}",
        "time": NOW,
        "subject": content.subject,
        "changed": NOW,
        "next_try": NOW,
    } | fields
    id_ = fields.get("id") or identity(*map(str, (given["kind"], given["person"], given["recipient"], number)))
    message = compose(
        content,
        settings or Mail(sender="Cluster <slurm@example.org>"),
        id_=id_,
        recipient=given["recipient"],
        time=given["time"],
    )
    given |= {"id": id_, "message": message}
    return Notice(**given)
