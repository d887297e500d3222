"""Folders that are replaced together: a kill at any step leaves all old ones or all new ones.

    x/                          present folders, in one parent
    y/
    .loading-1/x/ .../y/        those that come: whole, and on the disk
    .pocketmq-load.json         names `.loading-1`; from when on it is there, all of them come

A kill before the last file is there leaves the old ones. Afterwards whoever starts finishes: a
cluster all of them (`finish_together`), a role that is started by itself its own one (`take_own`).
So no role serves old data while another one has the new. A folder that is to be empty comes empty.

The calls block, and are made before anybody opens what is in there.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.replaced_folder import (
    finish_replacement,
    finish_replacements,
    rename,
    replace_folder,
    sync,
    sync_tree,
)

JOURNAL = ".pocketmq-load.json"
COMING = ".loading-"
"""How the names of folders begin that hold what comes."""


def coming_folder(parent: Path) -> Path:
    """A new folder, to be filled with what comes into `parent`.

    Raises:
        OSError: It cannot be made.
    """
    return Path(tempfile.mkdtemp(prefix=COMING, dir=parent))


def commit(coming: Path) -> None:
    """Decide that all folders in `coming` come; it takes the place of an earlier decision.

    Raises:
        OSError: It cannot be written; nothing is decided, and `coming` is removed.
    """
    journal = coming.parent / JOURNAL
    before = _coming(coming.parent)
    try:
        # The files must be on the disk before the journal names them.
        sync_tree(coming)
        written = journal.with_name(f"{JOURNAL}.tmp")
        written.write_text(json.dumps({"folder": coming.name}))
        sync(written)
        # The rename decides: the journal exists completely or not at all.
        rename(written, journal)
    except OSError:
        # The rename may have succeeded and only its sync failed: take the decision back.
        if _coming(coming.parent) == coming:
            _end(coming.parent)
        shutil.rmtree(coming, ignore_errors=True)
        raise
    # Until the rename, the earlier decision was in force.
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def take_own(target: Path) -> str:
    """Give a folder what was decided for it, if anything was; a line that says what is so now.

    Raises:
        DiskError: It cannot be done; nothing is lost.
    """
    target = target.absolute()
    try:
        has_old = finish_replacement(target)
        coming = _coming(target.parent)
        if coming is not None and (coming / target.name).is_dir():
            replace_folder(coming / target.name, target)
            if _is_empty(coming):
                _end(target.parent)
            return f"{target.name} has the data of a snapshot load or reset that was cut off"
    except OSError as exc:
        raise DiskError(target, exc.strerror or str(exc)) from exc
    return _kept_old(target.name) if has_old else ""


def finish_together(parent: Path) -> list[str]:
    """Finish what a kill cut off in this folder; lines that say what is so now.

    Raises:
        DiskError: It cannot be done; nothing is lost.
    """
    lines: list[str] = []
    try:
        old = finish_replacements(parent)
        coming = _coming(parent)
        if coming is None:
            lines += map(_kept_old, old)
        elif coming.is_dir():
            for folder in sorted(coming.iterdir()):
                replace_folder(folder, parent / folder.name)
            lines.append("a snapshot load or reset that was cut off is finished for all roles")
        _end(parent)
    except OSError as exc:
        raise DiskError(parent, exc.strerror or str(exc)) from exc
    # Another cluster may be loading there right now, so that it is not removed.
    return lines + [
        f"a snapshot load or reset was cut off before it changed anything; remove {path}"
        for path in sorted(parent.glob(f"{COMING}*"))
    ]


def _is_empty(coming: Path) -> bool:
    """Whether all roles have taken theirs; of a folder that another has removed: they have."""
    try:
        return not any(coming.iterdir())
    except FileNotFoundError:
        return True


def _kept_old(name: str) -> str:
    return f"{name} has its data of before a snapshot load that was cut off"


def _coming(parent: Path) -> Path | None:
    """The folder whose content is to come; None when nothing is decided."""
    journal = parent / JOURNAL
    try:
        if journal.stat().st_uid != os.geteuid():  # in a folder such as /tmp others write, too
            return None
        name = json.loads(journal.read_text())["folder"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as exc:
        raise OSError(0, f"it cannot be read: {exc}", str(journal)) from exc
    if not isinstance(name, str) or not name.startswith(COMING) or Path(name).name != name:
        raise OSError(
            0, f"the journal names {name!r}, which is not a folder of a snapshot load", str(journal)
        )
    return parent / name


def _end(parent: Path) -> None:
    """All are there, or none shall come: the decision goes before the folder does."""
    coming = _coming(parent)
    (parent / f"{JOURNAL}.tmp").unlink(missing_ok=True)
    if coming is not None:
        # Two roles that took theirs at the same moment may both find that they were the last.
        (parent / JOURNAL).unlink(missing_ok=True)
        sync(parent)
        shutil.rmtree(coming, ignore_errors=True)
