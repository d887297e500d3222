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
    # Beside the file, as a rename is only atomic within one file system.
    coming = path.with_name(f".{path.name}")
    # Left by a start that was killed here.
    coming.unlink(missing_ok=True)
    # O_EXCL: nobody else may have made it, with rights to read what is written now.
    with open(os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    # Before the rename, or a power cut could leave the name with an empty file.
    sync(coming)
    rename(coming, path)
