"""Sends batches from Spark's thread: several at a time, in order per queue, repeated on error.

An unanswered batch is sent again to the same queue, so it may be stored twice: at least once.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from pocketmq.pipeline.columns.repeats import ROW_PROPERTY
from pocketmq.pipeline.errors import TopicAwayError
from pocketmq.pipeline.sending.bad_rows import BadRow
from pocketmq.pipeline.sending.sink_rows import Batch
from pocketmq.pipeline.topics.cluster_client import Access, ClusterClient
from pocketmq.pipeline.workers.loop import shared_loop
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError, RemotingError
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import UniqKeyFactory
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.messages.validation import AUTO_CREATE_TOPIC

STORED: Final = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
"""Response codes after which the master has the messages."""


@dataclass(slots=True)
class Sender:
    """Sends one task's batches: call `send` for each, then `finish`, or `cancel` on an error.

    Args:
        access: How to reach the cluster.
        group: Producer group.
        in_flight: Batches under way at a time.
    """

    access: Access
    group: str
    in_flight: int
    may_refuse: bool = False
    """Whether a message that a broker refuses is kept aside (`take_refused`) and no error."""
    sent_rows: int = 0
    sent_batches: int = 0
    sent_bytes: int = 0
    repeated: int = 0
    """How often a batch was sent again."""
    _client: ClusterClient = field(init=False)
    _places: threading.Semaphore = field(init=False)
    _under_way: list[Future[None]] = field(default_factory=list)
    _lanes: dict[MessageQueue, asyncio.Lock] = field(default_factory=dict)
    _queues: dict[str, list[MessageQueue]] = field(default_factory=dict)
    _unknown: dict[str, TopicAwayError] = field(default_factory=dict)
    _refused: list[BadRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._client = self.access.client()
        self._places = threading.Semaphore(self.in_flight)

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Queues that a topic can be written to; looked up once per task, so they stay the same."""
        found = self._queues.get(topic)
        # An unknown topic is looked up once per task: millions of rows may name it.
        if topic in self._unknown:
            raise self._unknown[topic]
        if found is None:
            try:
                found = shared_loop().result(self._client.write_queues(topic, max_age_s=5.0))
            except TopicAwayError as exc:
                self._unknown[topic] = exc
                raise
            if not found:
                raise BrokerNotFoundError(f"with a writable queue of topic {topic}")
            self._queues[topic] = found
        return found

    def uniq_keys(self) -> UniqKeyFactory:
        """Makes the messages' UNIQ_KEYs."""
        return UniqKeyFactory("127.0.0.1", os.getpid(), self._client.clock.time_ms)

    def send(self, batch: Batch) -> None:
        """Begin to send a batch; blocks while `in_flight` batches are unanswered.

        Raises:
            BrokerError, RemotingError: An earlier batch could not be sent.
        """
        # Spark's thread waits here, so that only a few batches are in memory.
        self._places.acquire()
        future = shared_loop().submit(self._send(batch))
        future.add_done_callback(lambda _: self._places.release())
        self._under_way.append(future)
        # Checked on the way, so that errors show early and the list stays short.
        if len(self._under_way) > 4 * self.in_flight:
            self._settle(wait=False)

    def take_refused(self) -> list[BadRow]:
        """What brokers have refused since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def finish(self) -> None:
        """Wait until all batches are acknowledged; raises the errors of `send`."""
        self._settle(wait=True)

    def cancel(self) -> None:
        """Stop sending, because the task has failed."""
        for future in self._under_way:
            future.cancel()
        self._under_way.clear()

    def _settle(self, *, wait: bool) -> None:
        pending = []
        for future in self._under_way:
            if wait or future.done():
                future.result()
            else:
                pending.append(future)
        self._under_way = pending

    async def _send(self, batch: Batch) -> None:
        # One batch of a queue at a time, so that a repeated one is not overtaken.
        lane = self._lanes.setdefault(batch.queue, asyncio.Lock())
        async with lane:  # a lock wakes its waiters in order, so batches of a queue keep theirs
            await self._send_now(batch)

    async def _send_now(self, batch: Batch) -> None:
        try:
            await self._repeated(batch)
        except BrokerError as exc:
            # One message too many or too large for this broker: the others are sent without it.
            if exc.code != ResponseCode.MESSAGE_ILLEGAL or (
                batch.rows == 1 and not self.may_refuse
            ):
                raise
            if batch.rows == 1:
                self._refused.append(_bad_row(batch, str(exc)))
                return
            # Halved until the refused message is alone; the others of the batch keep their order.
            for half in batch.halves():
                await self._send_now(half)

    async def _repeated(self, batch: Batch) -> None:
        header = self._header(batch)
        body = batch.body
        patience = self.access.patience
        for attempt in range(patience.retries + 1):
            try:
                await self._exchange(batch.queue, header, body)
                break
            except (RemotingError, BrokerNotFoundError, BrokerError) as exc:
                # A final refusal would be the same each time.
                may_help = not isinstance(exc, BrokerError) or exc.retriable
                if attempt == patience.retries or not may_help:
                    raise
                # Every attempt counts, even if it fails: the messages may be stored twice.
                self.repeated += 1
                await patience.wait(self._client.clock, attempt)
        self.sent_rows += batch.rows
        self.sent_batches += 1
        self.sent_bytes += len(body)

    async def _exchange(
        self, queue: MessageQueue, header: SendMessageRequestHeaderV2, body: bytes
    ) -> None:
        channel = await self._client.channel(queue)
        response = await channel.request(header, body, timeout_s=self.access.timeout_s)
        # Some of these codes say that a slave or the disk lags behind; the master has the message.
        if response.code not in STORED:
            raise BrokerError(response.code, response.remark, address=channel.address)

    def _header(self, batch: Batch) -> SendMessageRequestHeaderV2:
        # A batch cannot be delayed, so a delayed message is sent with the header of a single one.
        alone = bool(batch.delayed_properties)
        kind = SendMessageRequestHeaderV2 if alone else SendBatchMessageRequestHeader
        return kind(
            producer_group=self.group,
            topic=batch.queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=batch.queue.queue_id,
            sys_flag=0,
            born_timestamp=self._client.clock.time_ms(),
            flag=batch.flag,
            properties=batch.delayed_properties,
            batch=not alone,
            broker_name=batch.queue.broker_name,
        )


def _bad_row(batch: Batch, reason: str) -> BadRow:
    """The message of a batch of one, which a broker has refused."""
    body, text = batch.first
    properties = decode_properties(text)
    row = int(properties.pop(ROW_PROPERTY).split(":")[3])
    for name in (names.UNIQ_KEY, names.WAIT):
        properties.pop(name, None)
    return BadRow(row, reason, batch.queue.topic, body, properties)
