"""Half messages and op records as a check round reads them, without a store."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.transactions.check_round import Action, CheckLimits, CheckRound, HalfRead, Step
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.stored.record import decode_record, encode_record, pack_host

HERE = pack_host("127.0.0.1", 10911)
LIMITS = CheckLimits(
    timeout_ms=6_000, max_checks=15, reserved_ms=72 * 3_600_000, young_at_its_age=True
)


def record(
    topic: str,
    offset: int,
    properties: dict[str, str],
    body: bytes = b"body",
    *,
    born_ms: int = 0,
    stored_ms: int | None = None,
    sys_flag: int = 0,
    text: str = "",
) -> MessageExt:
    """A stored record, as its reader gets it; `text` follows the properties."""
    return decode_record(
        encode_record(
            topic=topic.encode(),
            queue_id=0,
            flag=3,
            queue_offset=offset,
            physical_offset=1000 + offset,
            sys_flag=sys_flag,
            born_timestamp_ms=born_ms,
            born_host=pack_host("10.0.0.7", 5000),
            store_timestamp_ms=born_ms if stored_ms is None else stored_ms,
            store_host=HERE,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=body,
            properties=(encode_properties(properties) + text).encode(),
        )
    )


def half(
    offset: int, *, born_ms: int = 0, stored_ms: int | None = None, **properties: str
) -> MessageExt:
    """A half message of topic `orders`, queue 2."""
    standard = {
        names.REAL_TOPIC: "orders",
        names.REAL_QUEUE_ID: "2",
        names.TRANSACTION_PREPARED: "true",
        names.PRODUCER_GROUP: "writers",
        names.UNIQ_KEY: f"key-{offset}",
        names.TAGS: "new",
    }
    return record(HALF_TOPIC, offset, standard | properties, born_ms=born_ms, stored_ms=stored_ms)


class Queues:
    """One half queue and its op queue."""

    def __init__(self) -> None:
        self.halves: list[MessageExt | None] = []
        self.op_records: list[MessageExt] = []
        self.decided: set[str] = set()
        self.older: set[int] = set()

    def put(self, *, born_ms: int = 0, **properties: str) -> int:
        """Append a half message; its offset."""
        self.halves.append(half(len(self.halves), born_ms=born_ms, **properties))
        return len(self.halves) - 1

    def restore(self, offset: int, *, born_ms: int, stored_ms: int) -> None:
        """Have a half message stored at another time."""
        self.halves[offset] = half(offset, born_ms=born_ms, stored_ms=stored_ms)

    def done(self, *offsets: int) -> None:
        """Append an op record."""
        body = "".join(f"{offset}," for offset in offsets).encode()
        offset = len(self.op_records)
        self.op_records.append(record(OP_HALF_TOPIC, offset, {names.TAGS: "d"}, body))

    # -- `Reads`

    def half(self, offset: int) -> HalfRead:
        if offset >= len(self.halves):
            return HalfRead(None, offset, at_end=True)
        return HalfRead(self.halves[offset], offset + 1)

    def ops(self, offset: int) -> tuple[Sequence[MessageExt], int]:
        found = self.op_records[offset : offset + 2]
        return found, offset + len(found)

    def is_older(self, offset: int) -> bool:
        return offset in self.older

    def is_decided(self, half: MessageExt) -> bool:
        return half.properties[names.UNIQ_KEY] in self.decided

    # -- a whole round

    def round(
        self, half_offset: int, op_offset: int, now_ms: int, limits: CheckLimits = LIMITS
    ) -> tuple[list[Step], tuple[int, int]]:
        """What a round does when everything that it wants is done, and where the next begins."""
        check = CheckRound(half_offset, op_offset, limits, now_ms)
        steps = []
        while (step := check.next(self, now_ms)) is not None:
            if step.action is not Action.PAUSE:
                steps.append(step)
                check.done()
        return steps, check.progress()
