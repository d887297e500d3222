"""The real file system without a thread of its own."""

from __future__ import annotations

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker


class InlineDisk(OsDisk):
    """Syncs happen within the turn of the loop that asks for them.

    A manual clock does not wait for a disk's thread, so on a busy machine much of its time may pass
    until a sync has ended. Tests that say when something happens at the latest need this disk.
    """

    def start_worker(self, name: str) -> DiskWorker:
        return InlineWorker()
