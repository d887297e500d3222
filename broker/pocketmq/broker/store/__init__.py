"""Messages on disk, in RocketMQ's own files. Read `message_store.py` first."""

from pocketmq.broker.store.config import FlushDiskType, StoreConfig
from pocketmq.broker.store.disk.disk import Disk, OsDisk
from pocketmq.broker.store.message_store import MessageStore
from pocketmq.broker.store.queues.lookup import Boundary, GetResult, GetStatus
from pocketmq.broker.store.reads.queue_reads import QueueReads
from pocketmq.broker.store.stored_message import (
    BatchResult,
    PutResult,
    PutStatus,
    QueueBatch,
    StoredMessage,
)

__all__ = [
    "BatchResult",
    "Boundary",
    "Disk",
    "FlushDiskType",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "OsDisk",
    "PutResult",
    "PutStatus",
    "QueueBatch",
    "QueueReads",
    "StoreConfig",
    "StoredMessage",
]
