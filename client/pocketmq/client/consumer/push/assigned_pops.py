"""A push consumer's popped queues: what the brokers assign, and a pop always pending for each.

Brokers share the queues of a topic out and say how to get them: QUERY_ASSIGNMENT (400). Those to be
pulled go to the rebalance planner; those to be popped are kept here (K-165 to K-170).

    before a pop                            then
    queue dropped                           never again
    consumer suspended, not running         after 1000 ms
    more than 96 messages not settled       after 50 ms
    subscription gone                       after 1000 ms

    answer                                  then
    FOUND (0)                               hand over, pop again at once
    POLLING_TIMEOUT (210), NOT_FOUND (19)   pop again at once
    FLOW_CONTROL (215)                      again after 20 ms
    POLLING_FULL (209), anything else       again after 1000 ms

Each queue has one task, which ends when the queue is dropped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from pocketmq.client.consumer.consuming.concurrent import ConcurrentConsumeService
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.popping.popped_queue import PopQueue
from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.consumer.popping.settling import PopSettling
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.pulling.pull_plan import (
    BROKER_FLOW_CONTROL_DELAY_MS,
    BROKER_SUSPEND_MAX_MS,
    EXCEPTION_DELAY_MS,
    FLOW_CONTROL_DELAY_MS,
    SUSPENDED_DELAY_MS,
)
from pocketmq.client.rebalance.rebalancer import BrokerShare, NoAllocationError
from pocketmq.protocol.bodies.pop import QueryAssignmentBody
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

IDLE_S: Final = 120.0
"""A queue that was not looked at for longer is taken anew (K-165)."""


class PopQueues:
    """Asks brokers for the consumer's share, and pops what they say.

    Args:
        member: Group, subscriptions, run state.
        settings: Invisible time, messages per pop, flow control.
        strategy: Name of the strategy by which brokers share out what is pulled.
        client: Sends pops.
        settling: Acknowledges.
        consumption: Gets what is popped.
        on_pop: Called with the assigned queue of each pop that is sent.
        choose: Picks the broker to ask; a seeded one makes runs repeatable.
    """

    def __init__(
        self,
        member: Membership,
        settings: PushSettings,
        strategy: str,
        client: PopClient,
        settling: PopSettling,
        consumption: ConcurrentConsumeService,
        on_pop: Callable[[MessageQueue], None] | None = None,
        choose: Callable[[Sequence[str]], str] = random.choice,
    ) -> None:
        self._member = member
        self._settings = settings
        self._strategy = strategy
        self._client = client
        self._settling = settling
        self._consumption = consumption
        self._on_pop = on_pop
        self._choose = choose
        self._clock = member.instance.clock
        self._profile = member.instance.profile.client
        self._topics: dict[str, dict[MessageQueue, PopQueue]] = {}
        """What is popped, by topic: a rebalance looks at one topic after the other."""
        self._tasks = TaskOwner(f"pop {member.group}")

    @property
    def owned(self) -> list[MessageQueue]:
        """What is popped now."""
        return sorted(popped.queue for popped in self.queues)

    @property
    def queues(self) -> list[PopQueue]:
        """The same, with what is out of each."""
        return [popped for queues in self._topics.values() for popped in queues.values()]

    async def stop(self) -> None:
        """Pop no more; what a pop under way brings comes again."""
        await self._tasks.stop()
        self._topics.clear()

    # -- the brokers' allocation ----------------------------------------------------------------

    async def ask(self, topic: str) -> BrokerShare | None:
        """Our share of a topic; None: keep what we have (K-22).

        Raises:
            NoAllocationError: the broker does not share queues out.
            PocketMQError: it could not be asked.
        """
        instance = self._member.instance
        address = await instance.addresses.of_topic(topic, self._choose)
        if address is None:
            return None
        body = QueryAssignmentBody(
            topic=topic,
            consumer_group=self._member.group,
            client_id=instance.client_id,
            strategy_name=self._strategy,
        )
        try:
            found = await instance.api.query_assignment(address, body)
        except BrokerError as exc:
            # Only this answer means "never". Any other error keeps the queues that we have.
            if exc.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise NoAllocationError(f"broker {address} shares no queues out") from exc
            raise
        if found is None:
            return None
        # A broker may answer for a group that pops some topics and pulls others
        # (SET_MESSAGE_REQUEST_MODE, 401).
        popped = {each.message_queue for each in found if each.mode == "POP"}
        pulled = {each.message_queue for each in found} - popped
        return BrokerShare(tuple(pulled), tuple(sorted(popped)))

    def take(self, topic: str, share: BrokerShare) -> bool:
        """Begin to pop what is new, stop what is gone; whether that was anything."""
        changed = self._subscribe_retries(topic, share)
        now = self._clock.monotonic()
        queues, wanted = self._topics.setdefault(topic, {}), frozenset(share.popped)
        for queue, popped in list(queues.items()):
            # A queue whose task stands still is dropped, too, and begun again below.
            if queue not in wanted or now - popped.last_pop_at > IDLE_S:
                self._drop(queues.pop(queue))
                changed = True
        for queue in share.popped:
            if queue not in queues and self._member.state.running:
                made = queues[queue] = PopQueue(queue, self._settling, now)
                self._tasks.start(self._pop_on(made), name=str(queue))
                changed = True
        return changed

    def take_only(self, topics: Collection[str]) -> None:
        """Stop popping every other topic."""
        wanted = frozenset(topics)
        for topic in [topic for topic in self._topics if topic not in wanted]:
            for popped in self._topics.pop(topic).values():
                self._drop(popped)

    def _drop(self, popped: PopQueue) -> None:
        log.info("pop.queue_dropped", group=self._member.group, queue=str(popped.queue))
        popped.drop()

    def _subscribe_retries(self, topic: str, share: BrokerShare) -> bool:
        """What was popped comes again in retry topics, which must be pulled too now (K-148)."""
        # With both kinds of queues, or with none, there is nothing to switch.
        if is_retry(topic) or bool(share.popped) == bool(share.pulled):
            return False
        subscriptions, changed = self._member.subscriptions, False
        # Older brokers name retry topics in the old form; messages may wait under either.
        for v2 in (False, True):
            retries = pop_retry_topic(topic, self._member.group, v2=v2)
            wanted, has = not share.popped, subscriptions.by_topic.get(retries) is not None
            if wanted and not has:
                subscriptions.set(retries, "*")
            elif has and not wanted:
                subscriptions.remove(retries)
            changed |= wanted != has
        if changed:
            self._member.instance.rebalance_service.wakeup()
        return changed

    # -- popping --------------------------------------------------------------------------------

    async def _pop_on(self, popped: PopQueue) -> None:
        delay_ms = self._profile.first_pull_delay_ms
        while not popped.dropped:
            if delay_ms:
                await self._clock.sleep(delay_ms / 1000)
            popped.popping(self._clock.monotonic())
            try:
                delay_ms = await self._pop(popped)
            except BrokerError as exc:
                log.info("pop.refused", queue=str(popped.queue), code=exc.code, reason=str(exc))
                # A busy broker is alive: do not look for another master.
                busy = exc.code == ResponseCode.FLOW_CONTROL
                delay_ms = BROKER_FLOW_CONTROL_DELAY_MS if busy else EXCEPTION_DELAY_MS
                if not busy:
                    self._member.instance.lookups.suspect_broker(popped.queue)
            except (PocketMQError, TimeoutError) as exc:
                self._member.instance.lookups.suspect_broker(popped.queue)
                log.info("pop.put_off", queue=str(popped.queue), reason=str(exc))
                delay_ms = EXCEPTION_DELAY_MS
            except Exception:  # a queue whose task ends would not be popped for two minutes
                log.exception("pop.failed", queue=str(popped.queue))
                delay_ms = EXCEPTION_DELAY_MS

    async def _pop(self, popped: PopQueue) -> int:
        """One pop, unless it must be put off; in how many ms to go on."""
        queue, state = popped.queue, self._member.state
        if popped.dropped:
            return 0
        if state.suspended or not state.running:
            return SUSPENDED_DELAY_MS
        # Messages that wait here are hidden from other members while their time runs out.
        if popped.waiting > self._settings.pop_threshold_for_queue:
            return FLOW_CONTROL_DELAY_MS
        subscription = self._member.subscriptions.by_topic.get(queue.topic)
        if subscription is None:
            return EXCEPTION_DELAY_MS
        if self._on_pop is not None:
            self._on_pop(queue)
        messages = await self._client.pop(
            queue.broker_name, self._header(queue, subscription), full_is_error=True
        )
        self._take(popped, messages)
        return self._settings.pull_interval_ms if messages else 0

    def _header(
        self, queue: MessageQueue, subscription: SubscriptionData
    ) -> PopMessageRequestHeader:
        settings = self._settings
        first = settings.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
        return PopMessageRequestHeader(
            consumer_group=self._member.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=settings.pop_batch_nums,
            invisible_time=settings.pop_invisible_time_ms,
            poll_time=BROKER_SUSPEND_MAX_MS,
            born_time=self._clock.time_ms(),
            init_mode=0 if first else 1,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            bname=queue.broker_name,
        )

    def _take(self, popped: PopQueue, messages: list[MessageExt]) -> None:
        """Hand over what is wanted; the rest nobody of the group wants either (K-168)."""
        fitting = self._member.subscriptions.wanted(popped.queue.topic, messages)
        wanted = [message for message in fitting if not self._settling.is_over(message)]
        if len(wanted) != len(messages):
            kept = set(map(id, wanted))
            self._settling.ack([each for each in messages if id(each) not in kept])
        if wanted:
            popped.put(len(wanted))
            self._consumption.submit_popped(wanted, popped)
