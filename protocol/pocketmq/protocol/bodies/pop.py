"""Acks of many messages, assignments, and who pops instead of pulling (K-20 to K-26, K-52)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import Int32, Int64

RequestMode = Literal["PULL", "POP"]
"""How a group gets the messages of a topic."""

MAX_ACK_BITS = 1 << 16
"""More offsets than any pop hands out: one check point holds at most 32 messages."""


class BatchAck(
    BodyStruct,
    kw_only=True,
    omit_defaults=False,
    rename={
        "consumer_group": "c",
        "topic": "t",
        "retry": "r",
        "start_offset": "so",
        "queue_id": "q",
        "revive_queue_id": "rq",
        "pop_time": "pt",
        "invisible_time": "it",
        "bits": "b",
    },
):
    """Acks of messages that one pop took from one queue (K-52)."""

    consumer_group: str
    topic: str
    """The application's topic; `retry` tells which retry topic is meant."""

    retry: str
    """Mark: `0` the topic, `1` and `2` its retry topics."""

    start_offset: Int64
    queue_id: Int32
    revive_queue_id: Int32
    pop_time: Int64
    invisible_time: Int64
    bits: str
    """Base64 of a bit set, lowest bit of the lowest byte first: bit n acks `start_offset` + n."""

    def offsets(self) -> Sequence[int]:
        """The queue offsets that are acked, in order.

        Raises:
            BadRequestError: `bits` is no base64, or has more bits than a pop can need.
        """
        try:
            octets = b64decode(self.bits, validate=True)
        except ValueError as exc:
            raise BadRequestError(f"the bit set of a batch ack is not valid base64: {exc}") from exc
        if len(octets) * 8 > MAX_ACK_BITS:
            raise BadRequestError(
                f"a batch ack has {len(octets) * 8} bits, but may have at most {MAX_ACK_BITS}"
            )
        value, start = int.from_bytes(octets, "little"), self.start_offset
        if not value & (value + 1):  # all of a pop, which is most
            return range(start, start + value.bit_length())
        return [start + at for at, bit in enumerate(reversed(f"{value:b}")) if bit == "1"]


def ack_bits(distances: Iterable[int]) -> str:
    """`BatchAck.bits` for distances from the start offset: `{0, 2}` is `BQ==`."""
    known = list(distances)
    first, count = known[0] if known else 0, len(known)
    if known == list(range(first, first + count)):  # as most are
        value = (1 << count) - 1 << first
    else:
        value = 0
        for distance in known:
            value |= 1 << distance
    return b64encode(value.to_bytes((value.bit_length() + 7) // 8, "little")).decode()


class BatchAckBody(BodyStruct, kw_only=True):
    """Acks of one client for one broker: BATCH_ACK_MESSAGE (200151)."""

    broker_name: str | None = None
    acks: list[BatchAck] | None = None


class QueryAssignmentBody(BodyStruct, kw_only=True, omit_defaults=False):
    """Asks which queues of a topic belong to the client: QUERY_ASSIGNMENT (400)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str = "AVG"
    message_model: str = "CLUSTERING"


class QueueAssignment(BodyStruct, kw_only=True):
    """One queue, and how to get its messages; queue id -1 stands for all queues of a broker."""

    message_queue: MessageQueue
    mode: RequestMode = msgspec.field(default_factory=lambda: "PULL")
    attachments: dict[str, str] | None = None


class QueueAssignments(BodyStruct, kw_only=True):
    """The answer: None means "keep what you have", an empty list "give up everything" (K-22)."""

    message_queue_assignments: list[QueueAssignment] | None = None


class RequestModeBody(BodyStruct, kw_only=True, omit_defaults=False):
    """How a group is to get the messages of a topic: SET_MESSAGE_REQUEST_MODE (401) (K-26)."""

    topic: str
    consumer_group: str
    mode: RequestMode = "PULL"
    pop_share_queue_num: Int32 = 0
    """How many neighbours' queues a client pops beside its own; 0 or less: all queues (K-24)."""


class MessageRequestModes(BodyStruct, kw_only=True, omit_defaults=False):
    """Topic -> group -> mode: GET_ALL_MESSAGE_REQUEST_MODE (402); `messageRequestMode.json`."""

    message_request_mode_map: dict[str, dict[str, RequestModeBody]] = {}
