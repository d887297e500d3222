"""The fields of a store's files, declared once: where each stands, and how it is packed.

Readers of whole records (`record.py`), of some of their fields (`log_scan.py`, `verify_log.py`,
`log_walk.py`) and of many records at once (`fixed_fields.py`) all take their formats from `RECORD`;
the readers of consume queues and index files take theirs from the others.
"""

from __future__ import annotations

import struct
from typing import Final

from pocketmq.protocol.hosts import HOST_V4_BYTES, HOST_V6_BYTES
from pocketmq.protocol.layout import Field, Layout
from pocketmq.protocol.scalars import MessageSysFlag

MAGIC_V1: Final = -626843481
"""0xDAA320A7."""
MAGIC_V2: Final = -626843477
"""0xDAA320AB: the topic's length takes two bytes."""
MAGIC_BLANK: Final = -875286124
"""0xCBD43194: the rest of this file is empty."""

RECORD: Final = Layout(
    Field("TOTALSIZE", "i", "bytes of the whole record"),
    Field("MAGICCODE", "i", "the layout: V1 is `0xDAA320A7`, V2 is `0xDAA320AB`"),
    Field("BODYCRC", "i", "CRC32 of the stored body, with the top bit cleared"),
    Field("QUEUEID", "i", "queue of the topic"),
    Field("FLAG", "i", "a number that the application chooses"),
    Field("QUEUEOFFSET", "q", "queue offset of the message"),
    Field("PHYSICALOFFSET", "q", "log offset of this record's first byte"),
    Field("SYSFLAG", "i", "flags: compressed body, state of the transaction, IPv6 hosts"),
    Field("BORNTIMESTAMP", "q", "time of the send by the producer's clock, ms"),
    Field("BORNHOST", f"{HOST_V4_BYTES}s", "producer's address, then its port as i32"),
    Field("STORETIMESTAMP", "q", "time of the store by the broker's clock, ms"),
    Field("STOREHOST", f"{HOST_V4_BYTES}s", "broker's address, then its port as i32"),
    Field("RECONSUMETIMES", "i", "number of failed deliveries before this one"),
    Field(
        "PREPAREDTRANSACTIONOFFSET", "q", "committed transaction: log offset of the half message"
    ),
    Field("body length", "i", ""),
    Field("BODY", "", "body as the producer sent it, perhaps compressed"),
    Field("topic length", "B", "length of the topic; a u16 in layout V2"),
    Field("TOPIC", "", "topic in UTF-8"),
    Field("properties length", "H", ""),
    Field("PROPERTIES", "", "`name 0x01 value 0x02 ...`: tag, keys, unique key, delay level"),
)
"""One message, with IPv4 hosts."""
BLANK: Final = Layout(
    Field("TOTALSIZE", "i", "bytes left in the file"),
    Field("MAGICCODE", "i", "`0xCBD43194`"),
)
"""What covers the end of a file into which the next record did not fit (S-14)."""

LEDGER_ENTRY: Final = Layout(
    Field("magic", "i", "1"),
    Field("size", "i", "bytes of the entry, this head included"),
    Field("index", "q", "number of the entry, from 0"),
    Field("term", "q", "Raft term of the leader that wrote the entry"),
    Field("position", "q", "log offset of the entry's first byte"),
    Field("channel", "i", "0"),
    Field("chain CRC", "i", "0"),
    Field("body CRC", "i", "0"),
    Field("body length", "i", ""),
    Field("BODY", "", "one record"),
)
"""What DLedger, RocketMQ's older way to replicate, puts around each record (D-231)."""

BODY_AT: Final = RECORD.offset_of("BODY")
"""88: where the body begins, with IPv4 hosts; each IPv6 host moves it by `V6_EXTRA`."""
FIXED_SIZE: Final = BODY_AT + 3
"""91: bytes beside body, topic and properties, with IPv4 hosts and a V1 topic."""
V6_EXTRA: Final = HOST_V6_BYTES - HOST_V4_BYTES

_SYS_FLAG_AT: Final = RECORD.offset_of("SYSFLAG")
_STORE_TIME_AT: Final = RECORD.offset_of("STORETIMESTAMP")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


def store_time_ms(record: bytes | bytearray | memoryview) -> int:
    """When a record was stored; its first `FIXED_SIZE` bytes are enough.

    An IPv6 host of the producer stands before the time, and moves it.
    """
    is_v6 = _INT32.unpack_from(record, _SYS_FLAG_AT)[0] & MessageSysFlag.BORN_HOST_V6
    time_ms: int = _INT64.unpack_from(record, _STORE_TIME_AT + (V6_EXTRA if is_v6 else 0))[0]
    return time_ms


# behaviour 58
QUEUE_ENTRY: Final = Layout(
    Field("physical offset", "q", "log offset of the message's record"),
    Field("size", "i", "bytes of the record"),
    Field("tags code", "q", "Java's hash of the tag; delayed messages: due time, ms"),
)
"""One entry of a consume queue: 20 bytes (S-30)."""
FILLER_SIZE: Final = 0x7FFFFFFF
"""The size in an entry that stands for no message (S-32, S-33)."""

INDEX_HEADER: Final = Layout(
    Field("beginTimestamp", "q", "store time of the first message, ms"),
    Field("endTimestamp", "q", "store time of the last message, ms"),
    Field("beginPhyOffset", "q", "log offset of the first message"),
    Field("endPhyOffset", "q", "log offset of the last message"),
    Field("hashSlotCount", "i", "number of used slots"),
    Field("indexCount", "i", "number that the next new entry gets"),
)
INDEX_SLOT: Final = Layout(
    Field("newest", "i", "number of the newest entry in this slot; 0 if the slot is empty")
)
INDEX_ENTRY: Final = Layout(
    Field("key hash", "i", "absolute value of Java's hash of `topic#key`"),
    Field("physical offset", "q", "log offset of the message's record"),
    Field("seconds", "i", "store time in seconds after beginTimestamp"),
    Field("older", "i", "number of the next older entry in this slot; 0 if there is none"),
)
