"""Copies a lab's page and starting file into a folder of the learner's."""

from __future__ import annotations

import shutil
from pathlib import Path

from pocketmq.cluster.labs.catalog import PAGE, PROGRAM, lab_of
from pocketmq.runtime.errors import CallerError, DiskError


def start_lab(number: int, folder: Path | None) -> str:
    """Make a folder to work in; returns what to do next.

    Raises:
        CallerError: There is no such lab, or the folder has a program already.
        DiskError: The folder cannot be made.
    """
    lab = lab_of(number)
    target = folder or Path(f"lab-{number}")
    for name in (PAGE, PROGRAM):
        # Both are checked before anything is copied: a learner's program must never be overwritten.
        if (target / name).exists():
            raise CallerError(f"{target / name} already exists; choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in (PAGE, PROGRAM):
            shutil.copyfile(lab.folder / name, target / name)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(target, reason, advice="choose another folder") from exc
    where = "" if folder is None else f" {target}"
    return (
        f"lab {number}: {lab.title}\n"
        f"  {target / PAGE}  the task: read it first\n"
        f"  {target / PROGRAM}     a program to begin with\n"
        f"then: pocketmq lab check {number}{where}"
    )
