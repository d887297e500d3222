"""Requests: a message that is sent, and the message that somebody sends back (R-1 to R-6, R-15).

    reply = await producer.request(Message("quotes", b"AAPL"), timeout_ms=3_000)

    async def answer(message):                       # the listener of a consumer of "quotes"
        await producer.send_reply(message, b"123.45")

The requester must be a producer: brokers reach it by the client id of its heartbeats.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from pocketmq.protocol.codes import ClientErrorCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.headers.replies import ReplyMessageRequestHeader
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.protocol.messages.properties import decode_properties, encode_properties
from pocketmq.protocol.stored.record import decode_record, encode_record

MAX_OPEN: Final = 100_000
"""Requests of one client that may wait for replies."""


class NoReplyError(ClientError):
    """A request was stored, and nobody replied in time (RocketMQ's RequestTimeoutException)."""

    code = ClientErrorCode.REQUEST_TIMEOUT

    def __init__(self, topic: str, timeout_ms: float) -> None:
        self.topic = topic
        self.timeout_ms = timeout_ms
        super().__init__(
            f"the request to topic {topic!r} is stored, but no reply came within "
            f"{timeout_ms:.0f} ms; is a consumer running that replies?"
        )


class OpenRequests:
    """Requests of one client instance that wait for their replies, by correlation id."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}

    def open(self, message: Message, client_id: str, timeout_ms: int) -> str:
        """Mark a message as a request; its correlation id.

        Raises:
            ClientError: too many wait already.
        """
        # Replies may never come; each open request holds a future until its time is over.
        if len(self._waiting) >= MAX_OPEN:
            raise ClientError(
                f"{MAX_OPEN} requests are already waiting for replies; wait until some of them "
                "are answered"
            )
        correlation_id = str(uuid.uuid4())
        message.properties[names.CORRELATION_ID] = correlation_id
        message.properties[names.MESSAGE_REPLY_TO_CLIENT] = client_id
        message.properties[names.MESSAGE_TTL] = str(timeout_ms)
        self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return correlation_id

    def reply_to(self, correlation_id: str) -> asyncio.Future[MessageExt]:
        """What a request waits for."""
        return self._waiting[correlation_id]

    def close(self, correlation_id: str) -> None:
        """Remove a request that no longer waits."""
        self._waiting.pop(correlation_id, None)

    def arrived(self, reply: MessageExt) -> bool:
        """A reply came; False when nobody waits for it."""
        future = self._waiting.get(reply.properties.get(names.CORRELATION_ID, ""))
        # The reply is late or repeated: replies are sent with retries.
        if future is None or future.done():
            return False
        future.set_result(reply)
        return True


def reply_to(request: Message | MessageExt, body: bytes) -> Message:
    """The reply to a request, for `Producer.send`.

    Args:
        request: as its consumer got it.
        body: of the reply.

    Raises:
        ClientError: CREATE_REPLY_MESSAGE (10007): it was not sent as a request.
    """
    properties = request.properties
    cluster = properties.get(names.CLUSTER)
    if cluster is None or names.CORRELATION_ID not in properties:
        error = ClientError("a reply needs a message that was sent by `request`")
        error.code = ClientErrorCode.CREATE_REPLY_MESSAGE
        raise error
    # The broker needs these to push the reply: which request, which client, how long it waits
    #
    kept = (names.CORRELATION_ID, names.MESSAGE_REPLY_TO_CLIENT, names.MESSAGE_TTL)
    marks = {name: properties[name] for name in kept if name in properties}
    return Message(
        f"{cluster}_REPLY_TOPIC", body, properties={names.MESSAGE_TYPE: names.REPLY_TYPE} | marks
    )


def pushed_reply(command: Command, now_ms: int) -> MessageExt:
    """The reply that a broker pushes (326), with the time of its arrival."""
    header = command.header(ReplyMessageRequestHeader)
    properties = decode_properties(header.properties or "")
    properties[names.REPLY_MESSAGE_ARRIVE_TIME] = str(now_ms)
    # Stored as a record, the reply is a `MessageExt` like any other; it has no place in a log.
    record = encode_record(
        topic=header.topic.encode(),
        queue_id=max(0, header.queue_id),
        flag=header.flag,
        queue_offset=0,
        physical_offset=0,
        sys_flag=header.sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=pack_host(*parse_host_text(header.born_host.removeprefix("/"))),
        store_timestamp_ms=header.store_timestamp,
        store_host=pack_host(*parse_host_text(header.store_host.removeprefix("/"))),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body=command.body_view,
        properties=encode_properties(properties).encode(),
    )
    return decode_record(record)
