"""A folder that is replaced as a whole: a kill at any step leaves the old or the new one.

    x               the present folder
    .x.replaced     the one before it, until the new one has its name and it is removed

The calls block; a start calls `finish_replacements` before anybody opens what is in there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

_REPLACED = ".replaced"


def replace_folder(new: Path, target: Path) -> None:
    """Give `new`, which is on the same file system, the name and place of `target`.

    Raises:
        OSError: It cannot be done; the old folder has its name again, or has it at the next start.
    """
    # A run that was killed may have left a folder in the way of the renames.
    finish_replacement(target)
    sync_tree(new)
    old = _old(target)
    had_one = target.exists()
    if had_one:
        # Until the next rename no folder has the name; after a kill, the next start restores it.
        rename(target, old)
    try:
        rename(new, target)
    except OSError:
        # Restore the old folder now: the next start may be days away.
        if had_one and not target.exists():
            rename(old, target)
        raise
    with contextlib.suppress(FileNotFoundError):  # another found it empty, and has removed it
        sync(new.parent)
    shutil.rmtree(old, ignore_errors=True)


def finish_replacements(parent: Path) -> list[str]:
    """End what a kill cut off in this folder; the names of those that have their old files again.

    Raises:
        OSError: It cannot be done; nothing is lost.
    """
    again = []
    for path in sorted(parent.glob(f".*{_REPLACED}")):
        name = path.name[1 : -len(_REPLACED)]
        if finish_replacement(parent / name):
            again.append(name)
    return again


def finish_replacement(target: Path) -> bool:
    """End what a kill cut off of one folder; whether it had to get its old files back.

    Raises:
        OSError: It cannot be done; nothing is lost.
    """
    old = _old(target)
    if not old.exists():
        return False
    if target.exists():  # the new one, whole: only the removal of the old one was cut off
        shutil.rmtree(old, ignore_errors=True)
        return False
    rename(old, target)
    return True


def rename(source: Path, target: Path) -> None:
    """Rename, and have it on the disk.

    Raises:
        OSError: It cannot be done.
    """
    source.rename(target)
    sync(target.parent)


def sync_tree(folder: Path) -> None:
    """What gets a name is on the disk before: a power cut leaves no empty files under it.

    Raises:
        OSError: It cannot be done.
    """
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk.

    Raises:
        OSError: It cannot be done.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _old(target: Path) -> Path:
    return target.with_name(f".{target.name}{_REPLACED}")
