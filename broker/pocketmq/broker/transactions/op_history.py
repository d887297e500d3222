"""What op records say of half messages that were decided before a restart (X-4).

Memory knows the latest decisions of this process; the index knows committed copies. A rollback of
an earlier process is only named by an op record.
"""

from __future__ import annotations

from typing import Final

from pocketmq.broker.store import GetStatus, MessageStore
from pocketmq.broker.transactions.half_messages import offsets_of
from pocketmq.protocol.record import decode_records
from pocketmq.protocol.validation import OP_HALF_TOPIC

MOST_RECORDS: Final = 20_000
"""So many op records of each queue are read, the newest; each names up to 500 half messages."""

AT_ONCE: Final = 1_000


class OpHistory:
    """Reads the op records of a half queue once, when they are first asked for.

    Args:
        store: holds them.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._named: dict[int, frozenset[int]] = {}

    def names(self, queue_id: int, half_offset: int) -> bool:
        """Whether a half message was committed or rolled back before the first question."""
        named = self._named.get(queue_id)
        if named is None:
            named = self._named[queue_id] = frozenset(self._read(queue_id))
        return half_offset in named

    def forget(self) -> None:
        """Read again when it is asked for next: another broker has written the log since."""
        self._named.clear()

    def _read(self, queue_id: int) -> set[int]:
        end = self._store.max_offset(OP_HALF_TOPIC, queue_id)
        offset = max(self._store.min_offset(OP_HALF_TOPIC, queue_id), end - MOST_RECORDS, 0)
        named: set[int] = set()
        while offset < end:
            found = self._store.get_message(OP_HALF_TOPIC, queue_id, offset, AT_ONCE)
            if found.status is GetStatus.FOUND:
                for record in decode_records(b"".join(found.records)):
                    named.update(offsets_of(record))
            if found.next_begin_offset <= offset:
                break
            offset = found.next_begin_offset
        return named
