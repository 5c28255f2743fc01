# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Makers of trees of files that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

from slurmscope.node.mounts import V2, Mounts


def files(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def folders(tree: Path, *names: str) -> None:
    for name in names:
        (tree / name).mkdir(parents=True, exist_ok=True)


def v1(root: Path, **controllers: list[str]) -> Mounts:
    """A tree for each controller, with these folders in it."""
    for controller, names in controllers.items():
        folders(root / controller, "system.slice", *names)
    return Mounts({controller: str(root / controller) for controller in controllers})


def v2(root: Path, *names: str) -> Mounts:
    folders(root, "system.slice/sshd.service", "user.slice", *names)
    return Mounts({V2: str(root)})
