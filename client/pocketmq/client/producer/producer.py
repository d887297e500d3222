"""Producer: sends messages to topics (behaviour sheet 4).

    async with Producer("orders", nameservers="127.0.0.1:9876") as producer:
        result = await producer.send(Message("Orders", b"...", tags="new", keys="order-1"))

Many coroutines may send at the same time; what they send in one turn of the loop leaves in one
write per broker. There is no task and no timer per message: the first try of a send, which is
nearly always the only one, awaits its answer directly, and only a failed try brings in a
`SendPlan`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Unpack

import structlog

from pocketmq.client.config import ClientConfig, ClientOptions
from pocketmq.client.instance import ClientInstance, acquire, release
from pocketmq.client.producer.batches import RECOMMENDED_BATCH_BYTES, split_batches
from pocketmq.client.producer.detector import FaultDetector
from pocketmq.client.producer.fault_strategy import FaultStrategy
from pocketmq.client.producer.prepare import Prepared, Preparer
from pocketmq.client.producer.selectors import QueueSelector, select_by_hash
from pocketmq.client.producer.send_plan import SendPlan
from pocketmq.client.producer.send_result import STATUS_BY_CODE, SendResult, SendStatus
from pocketmq.client.routes import TopicPublishInfo
from pocketmq.protocol.command import Command
from pocketmq.protocol.compression import DEFAULT_LEVEL, CompressionKind
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ClientError,
    IllegalMessageError,
    RemotingError,
)
from pocketmq.protocol.headers.send import (
    SendMessageResponseHeader,
)
from pocketmq.protocol.ids import UniqKeyFactory
from pocketmq.protocol.message import Message, MessageQueue
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.validation import (
    AUTO_CREATE_TOPIC,
    check_batch,
    check_client_group,
    check_message,
)
from pocketmq.runtime.errors import ConfigError, PocketMQError
from pocketmq.runtime.lifetime import StartStop

log = structlog.get_logger()

ONEWAYS_PER_TURN: Final = 128
"""One-way sends after which the loop gets a turn, so that what they wrote can leave."""


class Producer(StartStop):
    """Sends messages under the name of a group.

    Args:
        group: Producer group; legal characters, at most 120 (4.9: 255) of them (P-23).
        send_timeout_ms: Real milliseconds for all tries of a send together (P-40).
        retry_times_when_send_failed: Tries after the first (P-40).
        retry_another_broker_when_not_store_ok: Also try again on 10, 11 and 12 (P-42).
        send_timeout_per_request_ms: Bounds every try but the last; None for no bound (5.x).
        max_message_size: Largest body in bytes, before compression (P-22).
        compress_body_over: Bodies of at least so many bytes are compressed (P-44).
        compression: `zlib`, `lz4` or `zstd`.
        compression_level: As the library counts.
        send_latency_fault_enable: Learn which brokers are slow and avoid them (P-32, P-33).
        start_detector_enable: Probe brokers that failed, so that they come back early (5.x, P-37).
        create_topic_key: Topic whose queues a new topic begins with (P-14).
        default_topic_queue_nums: Queues that a new topic is to get (P-14).
        send_smart_msg: Send headers with one-letter names (310), not 10 (P-43).
        options: See `ClientConfig`.
    """

    def __init__(
        self,
        group: str,
        *,
        send_timeout_ms: int = 3_000,
        retry_times_when_send_failed: int = 2,
        retry_another_broker_when_not_store_ok: bool = False,
        send_timeout_per_request_ms: int | None = None,
        max_message_size: int = 4 * 1024 * 1024,
        compress_body_over: int = 4_096,
        compression: str = "zlib",
        compression_level: int = DEFAULT_LEVEL,
        send_latency_fault_enable: bool = False,
        start_detector_enable: bool = False,
        create_topic_key: str = AUTO_CREATE_TOPIC,
        default_topic_queue_nums: int = 4,
        send_smart_msg: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        self.config = ClientConfig.of(options)
        self.profile = self.config.profile
        check_client_group(group, max_chars=self.profile.group_name_max_chars_client)
        self._group = group
        self.send_timeout_ms = send_timeout_ms
        self.retry_times_when_send_failed = retry_times_when_send_failed
        self.retry_another_broker_when_not_store_ok = retry_another_broker_when_not_store_ok
        self.send_timeout_per_request_ms = send_timeout_per_request_ms
        self.max_message_size = max_message_size
        self.compress_body_over = compress_body_over
        self.compression = _compression_kind(compression)
        self.compression_level = compression_level
        self.create_topic_key = create_topic_key
        self.default_topic_queue_nums = default_topic_queue_nums
        self.send_smart_msg = send_smart_msg
        self.fault_strategy = FaultStrategy(
            self.profile,
            enabled=send_latency_fault_enable,
            detector_enabled=start_detector_enable,
        )
        self._detector_enabled = send_latency_fault_enable and start_detector_enable
        self._detector: FaultDetector | None = None
        self.published_topics: set[str] = set()
        self._instance: ClientInstance | None = None
        self._oneways = 0
        self._loop_time: Callable[[], float] = lambda: 0.0

    # -- life -----------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        """The producer group."""
        return self._group

    @property
    def client_id(self) -> str:
        """`ip@instance[@unit]`; known once started (P-1)."""
        return self._started().client_id

    async def start(self) -> None:
        """Join the client instance and tell known brokers (P-70).

        Raises:
            DuplicateGroupError: this client id has a producer of the group already.
        """
        if self._instance is not None:
            raise ClientError(f"producer {self._group} is started already")
        self.config = await self.config.with_identity(unique=True)
        instance = acquire(self.config)
        try:
            instance.register_producer(self)
        except ClientError:
            await release(instance)
            raise
        self._bind(instance)
        instance.start()
        if self._detector_enabled:
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
            self.profile,
            compress_body_over=self.compress_body_over,
            compression=self.compression,
            compression_level=self.compression_level,
            max_message_size=self.max_message_size,
            create_topic_key=self.create_topic_key,
            default_topic_queue_nums=self.default_topic_queue_nums,
            smart=self.send_smart_msg,
            new_uniq_key=UniqKeyFactory(self.config.client_ip, os.getpid(), clock.time_ms),
            time_ms=clock.time_ms,
        )
        self._loop_time = asyncio.get_running_loop().time  # of sends, which run on real time
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
        """Store a message and say where.

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
        timeout_s = (self.send_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if queue is not None or selector is not None or key is not None:
            chosen = await self._chosen_queue(message, queue, selector, key)
            prepared = self._preparer.message(message)
            return _result(await self._request(prepared, chosen, timeout_s), prepared, chosen)

        info = self._known_info(message) or await self._find_info(message)
        prepared = self._preparer.message(message)
        strategy = self.fault_strategy
        began_at = self._loop_time()
        queue = strategy.choose(info, None, self._now()) if strategy.enabled else info.next_queue()
        try:
            response = await self._request(prepared, queue, timeout_s)
            result = _result(response, prepared, queue)
        except (BrokerError, RemotingError, ClientError) as exc:
            return await self._try_again(info, prepared, queue, began_at, timeout_s, exc)
        if strategy.enabled:
            strategy.answered(queue.broker_name, (self._loop_time() - began_at) * 1000, self._now())
        if result.status is SendStatus.SEND_OK or not self.retry_another_broker_when_not_store_ok:
            return result
        return await self._try_again(info, prepared, queue, began_at, timeout_s, result)

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
        channel = self._open_channel(queue) or await self._connect(queue)
        channel.oneway(self._preparer.header(prepared, queue.queue_id), prepared.body)
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
            check_message(message, queue=queue, max_body_bytes=self.max_message_size)
        prepared = self._preparer.batch(messages)
        timeout_s = (self.send_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if queue is not None:
            return _result(await self._request(prepared, queue, timeout_s), prepared, queue)
        info = self._known_info(messages[0]) or await self._find_info(messages[0])
        began_at = self._loop_time()
        queue = self.fault_strategy.choose(info, None, self._now())
        try:
            result = _result(await self._request(prepared, queue, timeout_s), prepared, queue)
        except (BrokerError, RemotingError, ClientError) as exc:
            return await self._try_again(info, prepared, queue, began_at, timeout_s, exc)
        if result.is_ok or not self.retry_another_broker_when_not_store_ok:
            return result
        return await self._try_again(info, prepared, queue, began_at, timeout_s, result)

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
        for batch in split_batches(messages, min(max_batch_bytes, self.max_message_size)):
            if len(batch) == 1:
                results.append(await self.send(batch[0], timeout_ms=timeout_ms))
            else:
                results.append(await self.send_batch(batch, timeout_ms=timeout_ms))
        return results

    async def publish_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that messages of a topic may go to, in the order that selectors see."""
        return (await self._find(topic)).queues

    # -- one try --------------------------------------------------------------------------------

    def _request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Awaitable[Command]:
        """One try: the future of the answer itself while the channel is open."""
        channel = self._open_channel(queue)
        if channel is None:
            return self._connect_and_request(prepared, queue, timeout_s)
        return channel.request(
            self._preparer.header(prepared, queue.queue_id), prepared.body, timeout_s=timeout_s
        )

    async def _connect_and_request(
        self, prepared: Prepared, queue: MessageQueue, timeout_s: float
    ) -> Command:
        channel = await self._connect(queue)
        header = self._preparer.header(prepared, queue.queue_id)
        return await channel.request(header, prepared.body, timeout_s=timeout_s)

    def _open_channel(self, queue: MessageQueue) -> Channel | None:
        instance = self._started()
        address = instance.routes.master(queue.broker_name)
        return None if address is None else instance.remoting.open_channel(address)

    async def _connect(self, queue: MessageQueue) -> Channel:
        instance = self._started()
        address = instance.routes.master(queue.broker_name)
        if address is None:
            await instance.refresh_route(queue.topic)
            address = instance.routes.master(queue.broker_name)
            if address is None:
                raise BrokerNotFoundError(queue.broker_name)
        return await instance.api.channel(address)

    async def _try_again(
        self,
        info: TopicPublishInfo,
        prepared: Prepared,
        queue: MessageQueue,
        began_at: float,
        timeout_s: float,
        outcome: SendResult | BrokerError | RemotingError | ClientError,
    ) -> SendResult:
        """Go on after a first try that did not end well."""
        per_try_ms = self.send_timeout_per_request_ms
        plan = SendPlan(
            info.topic,
            tries=1 + self.retry_times_when_send_failed,
            timeout_s=timeout_s,
            began_at=began_at,
            retryable_codes=self.profile.retryable_response_codes,
            retry_when_not_stored_ok=self.retry_another_broker_when_not_store_ok,
            max_timeout_per_try_s=None if per_try_ms is None else per_try_ms / 1000,
        )
        plan.begin_try(queue.broker_name, began_at)
        try_began_at = began_at
        while True:
            now = self._loop_time()
            latency_ms = (now - try_began_at) * 1000
            if isinstance(outcome, SendResult):
                self.fault_strategy.answered(queue.broker_name, latency_ms, self._now())
                final = plan.answered(outcome, now)
            else:
                self._learn(queue.broker_name, latency_ms, outcome)
                final = plan.failed(outcome, now)
            if final is not None:
                return final
            log.debug("send.retried", topic=info.topic, broker=queue.broker_name, why=str(outcome))
            queue = self.fault_strategy.choose(info, plan.last_broker, self._now(), retry=True)
            try_began_at = now
            left_s = plan.begin_try(queue.broker_name, now)
            try:
                outcome = _result(await self._request(prepared, queue, left_s), prepared, queue)
            except (BrokerError, RemotingError, ClientError) as exc:
                outcome = exc

    def _learn(self, broker_name: str, latency_ms: float, error: PocketMQError) -> None:
        strategy = self.fault_strategy
        if isinstance(error, RemotingError):
            strategy.remoting_failed(broker_name, latency_ms, self._now())
        elif isinstance(error, BrokerError):
            strategy.broker_failed(broker_name, latency_ms, self._now())
        else:
            strategy.answered(broker_name, latency_ms, self._now())

    # -- preparing ------------------------------------------------------------------------------

    def _known_info(self, message: Message) -> TopicPublishInfo | None:
        """The topic's queues, if it was sent to before and the body can be sent; O(1)."""
        body = message.body
        if (
            type(body) is bytes
            and 0 < len(body) <= self.max_message_size
            and message.topic in self.published_topics
        ):
            info = self._started().routes.publish.get(message.topic)
            if info is not None and info.queues:
                return info
        return None

    async def _find_info(self, message: Message) -> TopicPublishInfo:
        check_message(message, max_body_bytes=self.max_message_size)
        return await self._find(message.topic)

    async def _find(self, topic: str) -> TopicPublishInfo:
        instance = self._started()
        self.published_topics.add(topic)
        return await instance.publish_info(
            topic, model=self.create_topic_key, model_queue_nums=self.default_topic_queue_nums
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
            check_message(message, queue=queue, max_body_bytes=self.max_message_size)
            return queue
        info = self._known_info(message) or await self._find_info(message)
        chosen = (selector or select_by_hash)(info.queues, message, key)
        if chosen is None:
            raise ClientError(
                f"the selector chose no queue of topic {message.topic!r} for key {key!r}; "
                "let it return one of the queues it is given"
            )
        if chosen.topic != message.topic:
            raise IllegalMessageError(f"the selector chose {chosen}", topic=message.topic)
        return chosen

    def _now(self) -> float:
        return self.config.clock.monotonic()

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise self._not_started()
        return self._instance

    def _not_started(self) -> ClientError:
        return ClientError(
            f"producer {self._group} is not running; use `async with`, or start() it first"
        )


def _compression_kind(name: str) -> CompressionKind:
    try:
        return CompressionKind[name.upper()]
    except KeyError:
        kinds = ", ".join(kind.name.lower() for kind in CompressionKind)
        raise ConfigError(
            "compression", f"there is no {name!r}", advice=f"choose from {kinds}"
        ) from None


def _result(response: Command, prepared: Prepared, queue: MessageQueue) -> SendResult:
    status = STATUS_BY_CODE.get(response.code)
    if status is None:
        raise BrokerError(response.code, response.remark, address=f"broker {queue.broker_name}")
    header = response.header(SendMessageResponseHeader)
    if header.queue_id != queue.queue_id:
        # A negative id left the choice to the broker.
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status,
        prepared.uniq_key,
        header.msg_id,
        queue,
        header.queue_offset,
        header.transaction_id,
    )
