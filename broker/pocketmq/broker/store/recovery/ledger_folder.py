"""Finds the log of a store that DLedger wrote; such a store is read by tools and never opened."""

from __future__ import annotations

import os

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.protocol.stored.ledger import FOLDER_PREFIX, ledger_of
from pocketmq.runtime.errors import DiskError


def ledger_folder(disk: Disk, root: str) -> str | None:
    """The directory with the files of DLedger's log (D-230); None for a store without one.

    Raises:
        DiskError: there are several, or a plain log that goes on where it begins.
    """
    found = {
        path: names
        for name in disk.list_directory(root)
        if name.startswith(FOLDER_PREFIX)
        # A directory without files is no ledger.
        and (names := disk.list_directory(path := os.path.join(root, name, "data")))
    }
    if not found:
        return None
    try:
        return ledger_of(disk.list_directory(os.path.join(root, "commitlog")), found)
    except ValueError as exc:
        raise DiskError(
            root, str(exc), advice="move one of the two logs to another folder"
        ) from None


def refuse_ledger(disk: Disk, root: str) -> None:
    """Keep a broker from a log that DLedger wrote: taken for a plain one, its queues would be cut.

    Raises:
        DiskError: it is one.
    """
    if ledger_folder(disk, root) is not None:
        raise DiskError(
            root,
            "DLedger (enableDLegerCommitLog) wrote this log, which PocketMQ can read but not write",
            advice=(
                "read this log with `pocketmq store inspect`, `store cat` or Spark, and give "
                "the broker an empty store; to use only the log in commitlog/, move dledger-* "
                "away"
            ),
        )
