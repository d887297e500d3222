"""Files that only their owner can read: keys, secrets and tokens."""

from __future__ import annotations

import os
from pathlib import Path

from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_folder import rename, sync


def write_private(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, as after a power cut.

    Raises:
        OSError: It cannot be written.
    """
    make_lasting(path.parent)
    # In the same folder, since a rename is atomic only within one file system.
    coming = path.with_name(f".{path.name}")
    # A start that was killed here may have left it.
    coming.unlink(missing_ok=True)
    # O_EXCL: nobody else may have created the file with other rights.
    with open(os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    # Before the rename: otherwise a power cut could leave the name with an empty file.
    sync(coming)
    rename(coming, path)
