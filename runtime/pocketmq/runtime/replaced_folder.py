"""A folder that is replaced as a whole: a kill at any step leaves the old or the new one.

    x               the present folder
    .x.replaced     the one before it, until the new one has its name and it is removed
    .x.removed      one that is going, with nothing to come in its place

The calls block; a start calls `finish_replacements` before anybody opens what is in there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_REPLACED, _REMOVED = ".replaced", ".removed"


def replace_folder(new: Path, target: Path) -> None:
    """Give `new`, which is on the same file system, the name and place of `target`.

    Raises:
        OSError: It cannot be done; the old folder has its name again, or has it at the next start.
    """
    _finish(target)
    _sync_tree(new)
    old = _beside(target, _REPLACED)
    had_one = target.exists()
    if had_one:
        _rename(target, old)
    try:
        _rename(new, target)
    except OSError:
        if had_one and not target.exists():
            _rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def remove_folder(target: Path) -> None:
    """Remove a folder, if it is there: it goes from its name in one step.

    Raises:
        OSError: It cannot be done; it is still there, whole.
    """
    _finish(target)
    if target.exists():
        _rename(target, _beside(target, _REMOVED))
        _finish(target)


def finish_replacements(parent: Path) -> list[str]:
    """End what a kill cut off in this folder; the names of those that have their old files again.

    Raises:
        OSError: It cannot be done; nothing is lost.
    """
    again = []
    for suffix in (_REMOVED, _REPLACED):
        for path in sorted(parent.glob(f".*{suffix}")):
            name = path.name[1 : -len(suffix)]
            if _finish(parent / name):
                again.append(name)
    return again


def _finish(target: Path) -> bool:
    """Whether the old folder had to get its name back."""
    shutil.rmtree(_beside(target, _REMOVED), ignore_errors=True)
    old = _beside(target, _REPLACED)
    if not old.exists():
        return False
    if target.exists():  # the new one, whole: only the removal of the old one was cut off
        shutil.rmtree(old, ignore_errors=True)
        return False
    _rename(old, target)
    return True


def _beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}{suffix}")


def _rename(source: Path, target: Path) -> None:
    source.rename(target)
    _sync(target.parent)


def _sync_tree(folder: Path) -> None:
    """What gets the name is on the disk before: a power cut leaves no empty files under it."""
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
