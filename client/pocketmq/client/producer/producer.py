"""Producer: sends messages to topics (P-1 to P-70).

    async with Producer("orders", nameservers="127.0.0.1:9876") as producer:
        result = await producer.send(Message("Orders", b"...", tags="new", keys="order-1"))

A send without a chosen queue, at two brokers `a` and `b` with two queues each:

    1  routes       T -> a:0 a:1 b:0 b:1; the queues take turns from a random one on (P-30)
    2  prepare.py   UNIQ_KEY, compressed body if it is large, property string; once for all tries
    3  try          a:1, SEND_MESSAGE_V2 (310); the answer says SUCCESS (0): done, nearly always
       or           a does not answer, or says SYSTEM_BUSY (2): the next try avoids a (P-31)
    4  try          b:0, within what is left of the 3 s that all tries share (P-40)

A try that timed out may have been stored all the same, so a message can be there twice; both copies
have the same UNIQ_KEY.

Many coroutines may send at the same time; what they send in one turn of the loop leaves in few
writes per broker. There is no task and no timer per message.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Unpack

import structlog

from pocketmq.client.config import settings_of
from pocketmq.client.group_client import GroupClient
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import release
from pocketmq.client.producer.batches import RECOMMENDED_BATCH_BYTES, split_batches
from pocketmq.client.producer.delivery import Delivery
from pocketmq.client.producer.detector import FaultDetector
from pocketmq.client.producer.fault_strategy import FaultStrategy
from pocketmq.client.producer.options import ProducerOptions
from pocketmq.client.producer.prepare import Preparer
from pocketmq.client.producer.selectors import QueueSelector, select_by_hash
from pocketmq.client.producer.send_events import SendEvents
from pocketmq.client.producer.send_result import SendResult
from pocketmq.client.producer.settings import ProducerSettings
from pocketmq.client.requests import NoReplyError, reply_to
from pocketmq.client.routes import TopicPublishInfo
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.errors import (
    ClientError,
    IllegalMessageError,
)
from pocketmq.protocol.headers.timers import (
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)
from pocketmq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pocketmq.protocol.messages.ids import UniqKeyFactory
from pocketmq.protocol.messages.message import Message, MessageExt, MessageQueue
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.validation import (
    check_batch,
    check_message,
)

log = structlog.get_logger()

ONEWAYS_PER_TURN: Final = 128
"""One-way sends after which the loop gets a turn, so that what they wrote can leave."""


class Producer(GroupClient):
    """Sends messages under the name of a group.

    Args:
        group: Producer group; legal characters, at most 120 (4.9: 255) of them (P-23).
        options: See `ProducerSettings`, and `ClientConfig` for those of every client.
    """

    KIND = "producer"

    def __init__(self, group: str, **options: Unpack[ProducerOptions]) -> None:
        self.settings, others = settings_of(ProducerSettings, options)
        super().__init__(group, others)
        self.fault_strategy = FaultStrategy(
            self.profile.client,
            enabled=self.settings.send_latency_fault_enable,
            detector_enabled=self.settings.start_detector_enable,
        )
        self._detector: FaultDetector | None = None
        self.published_topics: set[str] = set()
        self._requested_topics: set[str] = set()
        """Whose brokers have had a heartbeat before the first request."""
        self._oneways = 0
        self._loop_time: Callable[[], float] = lambda: 0.0

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the client instance and tell known brokers (P-70).

        Raises:
            DuplicateGroupError: this client id has a producer of the group already.
        """
        instance = await self._join(lambda each: each.register_producer(self), unique=True)
        self._bind(instance)
        instance.start()
        if self.settings.detects_faults:
            self._detector = FaultDetector(self._group, instance, self.fault_strategy)
            self._detector.start()
        await instance.heartbeat()
        log.info("producer.started", group=self._group, client_id=instance.client_id)

    def attach(self, instance: ClientInstance) -> None:
        """Send through a consumer's instance without being one of its users (C-14)."""
        self.config = instance.config
        self.profile = instance.profile
        self._bind(instance)

    def _bind(self, instance: ClientInstance) -> None:
        clock = self.config.clock
        self._preparer = Preparer(
            self._group,
            self.settings,
            new_uniq_key=UniqKeyFactory(self.config.client_ip, os.getpid(), clock.time_ms),
            time_ms=clock.time_ms,
        )
        self._loop_time = asyncio.get_running_loop().time  # of sends, which run on real time
        self._delivery = Delivery(
            self._started,
            self._preparer,
            self.settings,
            self.fault_strategy,
            instance.routes,
            real_time=self._loop_time,
            now=clock.monotonic,
            busy_again=self.profile.client.busy_sends_are_tried_again,
            events=SendEvents(instance.events, self._group, instance.client_id),
        )
        self._instance = instance

    async def stop(self) -> None:
        """Leave the group at every broker and close what nobody else uses; may be called twice."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        if self._detector is not None:
            await self._detector.stop()
        await instance.unregister(producer_group=self._group)
        await release(instance)
        log.info("producer.stopped", group=self._group, client_id=instance.client_id)

    # -- sending --------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Check a message (P-20 to P-22), store it, and say where.

        Without `queue`, `selector` and `key` the queues take turns, and a failed try is followed by
        others on other brokers (P-40, P-41). With one of them there is one try.

        Args:
            message: Gets a UNIQ_KEY property if it has none; a second send shares it (P-43).
            queue: Send to this queue.
            selector: Chooses the queue; by default by hash when there is a `key`.
            key: What the selector decides by: equal keys meet in one queue, in order.
            timeout_ms: Real milliseconds in place of the producer's.

        Raises:
            ClientError: the message breaks a limit, or there is no route for its topic.
            BrokerError: a broker refused, and another one would as well.
            SendFailedError: no try succeeded; the message may or may not be stored.
            RemotingError: the one broker that `queue` or `key` named did not answer.
        """
        timeout_s = (self.settings.send_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if queue is not None or selector is not None or key is not None:
            chosen = await self._chosen_queue(message, queue, selector, key)
            prepared = self._preparer.message(message)
            return await self._delivery.to_queue(prepared, chosen, timeout_s)

        info = self._known_info(message) or await self._find_info(message)
        prepared = self._preparer.message(message)
        return await self._delivery.anywhere(info, prepared, timeout_s)

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int = 3_000,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> MessageExt:
        """Send a message and wait for the one that its consumer sends back (R-1, R-2).

        Args:
            message: Gets the properties that make it a request.
            timeout_ms: Real milliseconds for sending and waiting together.
            queue: See `send`, as for `selector` and `key`.

        Raises:
            NoReplyError: it is stored, and nobody replied in time.
            Others: see `send`.
        """
        instance = self._started()
        ends_at = self._loop_time() + timeout_ms / 1000
        if message.topic not in self._requested_topics:
            await self._find(message.topic)
            await instance.heartbeat()  # brokers find us by it, and so does the reply
            self._requested_topics.add(message.topic)
        correlation_id = instance.requests.open(message, instance.client_id, timeout_ms)
        try:
            await self.send(message, queue=queue, selector=selector, key=key, timeout_ms=timeout_ms)
            async with asyncio.timeout(max(0.0, ends_at - self._loop_time())):
                return await instance.requests.reply_to(correlation_id)
        except TimeoutError:
            raise NoReplyError(message.topic, timeout_ms) from None
        finally:
            instance.requests.close(correlation_id)

    async def send_reply(
        self, request: Message | MessageExt, body: bytes, *, timeout_ms: int | None = None
    ) -> SendResult:
        """Answer a message that was sent by `request` (R-5).

        Args:
            request: As its consumer got it.
            body: Of the reply.
            timeout_ms: See `send`.

        Raises:
            ClientError: CREATE_REPLY_MESSAGE (10007): it was not a request.
            SendFailedError: the requester is gone, or did not take the reply; each try was stored.
        """
        return await self.send(reply_to(request, body), timeout_ms=timeout_ms)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        key: object = None,
    ) -> None:
        """Send and forget: no answer, no retry, no error after the message has left (P-47).

        Raises:
            ClientError: the message breaks a limit, or there is no route for its topic.
            ConnectError: the broker cannot be reached.
        """
        if queue is not None or selector is not None or key is not None:
            queue = await self._chosen_queue(message, queue, selector, key)
        else:
            info = self._known_info(message) or await self._find_info(message)
            queue = self.fault_strategy.choose(info, None, self._now())
        prepared = self._preparer.message(message)
        channel = self._delivery.open_channel(queue) or await self._delivery.connect(queue)
        if self._delivery.events.sink.is_on:
            self._delivery.events.sent(prepared, queue)
        channel.oneway(self._preparer.header(prepared, queue), prepared.body)
        self._oneways += 1
        if self._oneways % ONEWAYS_PER_TURN == 0:
            await self.config.clock.sleep(0)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Store several messages of one topic at once, next to each other in one queue (P-49).

        Raises:
            IllegalMessageError: they may not travel together, or exceed `max_message_size`.
            Others: see `send`.
        """
        check_batch(messages)
        self._started()
        for message in messages:
            check_message(message, queue=queue, max_body_bytes=self.settings.max_message_size)
        delivery, prepared = self._delivery, self._preparer.batch(messages)
        timeout_s = (self.settings.send_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if queue is not None:
            return await delivery.to_queue(prepared, queue, timeout_s)
        info = self._known_info(messages[0]) or await self._find_info(messages[0])
        return await delivery.anywhere(info, prepared, timeout_s)

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        max_batch_bytes: int = RECOMMENDED_BATCH_BYTES,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send any number of messages in batches that split themselves (P-49), one after the other.

        Messages that cannot travel with others (delayed ones, another topic, another WAIT) begin a
        batch of their own, so the order is kept as far as one queue can keep it.

        Args:
            messages: Taken one at a time.
            max_batch_bytes: Of one batch.
            timeout_ms: For each batch.

        Raises:
            Others: see `send`; batches before the failed one are stored.
        """
        results = []
        for batch in split_batches(messages, min(max_batch_bytes, self.settings.max_message_size)):
            if len(batch) == 1:
                results.append(await self.send(batch[0], timeout_ms=timeout_ms))
            else:
                results.append(await self.send_batch(batch, timeout_ms=timeout_ms))
        return results

    async def recall(self, handle: str, *, timeout_ms: int | None = None) -> str:
        """Recall a message that waits for its delivery time (R-31, R-34).

        Success means that the broker stored the recall, not that it came in time: a delivery that
        has begun cannot be stopped. The broker needs `recallMessageEnable=true`.

        Args:
            handle: `SendResult.recall_handle` of the message.
            timeout_ms: For the answer; `send_timeout_ms` by default.

        Returns:
            The message's UNIQ_KEY.

        Raises:
            BadRequestError: it is no handle.
            BrokerError: the broker refused: recalls are off, or the time is past.
            RemotingError: it could not be asked.
        """
        instance = self._started()
        named = RecallHandle.decode(handle)
        header = RecallMessageRequestHeader(
            producer_group=self._group,
            topic=named.topic,
            recall_handle=handle,
            bname=named.broker_name,
        )
        address = await instance.addresses.master(MessageQueue(named.topic, named.broker_name, 0))
        timeout_s = (self.settings.send_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        response = await instance.api.call(address, header, timeout_s=timeout_s)
        return response.header(RecallMessageResponseHeader).msg_id

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic may go to, in the order that selectors see."""
        return (await self._find(topic)).queues

    def check_transaction(
        self, peer: Peer, header: CheckTransactionStateRequestHeader, message: MessageExt
    ) -> None:
        """A broker asks how a transaction ended; only a `TransactionProducer` can answer (P-62)."""
        log.warning(
            "transaction.check_refused",
            group=self._group,
            broker=peer.address,
            msg_id=header.msg_id,
            advice="a group that sends in transactions needs a TransactionProducer in each member",
        )

    # -- preparing ------------------------------------------------------------------------------

    def _known_info(self, message: Message) -> TopicPublishInfo | None:
        """The topic's queues, if it was sent to before and the body can be sent; O(1)."""
        body, instance = message.body, self._instance
        if (
            instance is not None
            and type(body) is bytes
            and 0 < len(body) <= self.settings.max_message_size
            and message.topic in self.published_topics
        ):
            info = instance.routes.publish.get(message.topic)
            if info is not None and info.queues:
                return info
        return None

    async def _find_info(self, message: Message) -> TopicPublishInfo:
        check_message(message, max_body_bytes=self.settings.max_message_size)
        return await self._find(message.topic)

    async def _find(self, topic: str) -> TopicPublishInfo:
        instance = self._started()
        self.published_topics.add(topic)
        return await instance.lookups.publish_info(
            topic,
            model=self.settings.create_topic_key,
            model_queue_nums=self.settings.default_topic_queue_nums,
        )

    async def _chosen_queue(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        key: object,
    ) -> MessageQueue:
        self._started()
        if queue is not None:
            check_message(message, queue=queue, max_body_bytes=self.settings.max_message_size)
            return queue
        info = self._known_info(message) or await self._find_info(message)
        chosen = (selector or select_by_hash)(info.queues, message, key)
        if chosen is None:
            raise ClientError(
                f"the selector chose no queue of topic {message.topic!r} for key {key!r}; it "
                "must return one of the queues that it is given"
            )
        if chosen.topic != message.topic:
            raise IllegalMessageError(f"the selector chose {chosen}", topic=message.topic)
        return chosen

    def _now(self) -> float:
        return self.config.clock.monotonic()
