"""What one store is made of, as its parts share it."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.dispatch.queue_dispatch import QueueDispatcher
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.queues.consume_queue import ConsumeQueues


class StoreFiles(NamedTuple):
    """The files, by what reads and writes them."""

    disk: Disk
    root: str
    """The store's directory."""
    commit_log: CommitLog
    consume_queues: ConsumeQueues
    queue_dispatcher: QueueDispatcher
    """Fills the queues and the index, if there is one: `queue_dispatcher.index`."""
    checkpoint: StoreCheckpoint
