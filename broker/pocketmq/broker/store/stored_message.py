"""What goes into the store, and what putting it there comes to (S-10 to S-15)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, unique

import msgspec

from pocketmq.protocol.messages.message import Buffer


class StoredMessage(msgspec.Struct, gc=False):
    """A message as the broker hands it over: everything but what the append itself decides.

    A msgspec struct because one is made per message: half the cost of a slots class.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    """The wire's text, `key 0x01 value 0x02 ...`, at most 32,767 bytes (S-6)."""
    flag: int
    sys_flag: int
    """Bits of E-42; the store adds those that tell IPv6 hosts."""
    born_timestamp_ms: int
    born_host: bytes
    """8 bytes, or 20 for IPv6: address and port."""
    store_host: bytes
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int = 0
    """Java's hash of the tag, 0 without one (S-31)."""
    delay_level: int = 0
    """Of a message in SCHEDULE_TOPIC_XXXX: its queue entry then holds the delivery time (B-91)."""
    uniq_key: str | None = None
    keys: str | None = None
    """Index keys, separated by single spaces."""
    wait_store_ok: bool = True
    message_type: int = 0
    """What metrics count it as, a `MessageType`; it is not stored."""
    recall_handle: str | None = None
    """Of a timer message: with it the producer may take it back (R-30)."""


class QueueBatch(msgspec.Struct, gc=False):
    """The messages of one batch request, all for one queue. Lists go by message.

    Columns, because an object per message would cost a third of what storing it does.
    """

    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    bodies: list[Buffer]
    properties: Sequence[bytes]
    """The wire's text, with the broker's own; at most 32,767 bytes each (S-6)."""
    flags: list[int]
    tags_codes: list[int]
    uniq_keys: list[bytes]
    """UTF-8."""
    keys: list[str | None]
    """Index keys, separated by single spaces."""
    wait_store_ok: bool = True
    """Whether any of them wants to be flushed before the answer."""
    is_uniform: bool = False
    """They are known to differ in body and unique key only, each equally long in all of them; no
    message has other keys, and `properties` are `KeyedProperties`."""


@unique
class PutStatus(Enum):
    """Outcome of a put; the broker maps it to a response code (B-18)."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored, but not known to be on disk within the time allowed."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored, but not known to be on enough replicas within the time allowed (H-51)."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored, and 4.9 found no slave that could copy it (B-140)."""
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """The store takes no writes now: disk full, failed sync, slave (B-163, B-167)."""
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Body, topic or record too long (S-10, S-11)."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    """An append took longer than a second; the system writes back (B-160)."""
    UNKNOWN_ERROR = "UNKNOWN_ERROR"

    @property
    def is_of_message(self) -> bool:
        """Whether the message itself is at fault: no later put of it can succeed."""
        return self in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)


class PutResult(msgspec.Struct, gc=False):
    """Where a message went. The four numbers are 0 unless it was stored."""

    status: PutStatus
    queue_offset: int = 0
    physical_offset: int = 0
    size: int = 0
    """Length of the whole record; the next one begins at `physical_offset + size`."""
    store_timestamp_ms: int = 0


class BatchResult(msgspec.Struct, gc=False):
    """Where a batch went, or why none of it was stored."""

    status: PutStatus
    queue_offset: int = 0
    """Of the first message; the others follow."""
    physical_offsets: list[int] = []
    """Where each record begins."""
    end: int = 0
    """Log offset behind the last record."""
    store_timestamp_ms: int = 0
