"""Files of a cluster that only their owner can read: keys and secrets."""

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
    coming = path.with_name(f".{path.name}")
    coming.unlink(missing_ok=True)
    with open(os.open(coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    sync(coming)
    rename(coming, path)
