"""Delivers unacknowledged popped messages again: RocketMQ's PopReviveService (K-80 on)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.progress import PopProgress
from pocketmq.broker.pop.records import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    decode_ack,
    decode_check_point,
)
from pocketmq.broker.pop.revive import RevivePlanner
from pocketmq.broker.store import GetStatus, PutStatus, StoredMessage
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Service
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.operation.metrics import POP_RETRIED, POP_REVIVE_READ
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import (
    MAX_PROPERTIES_BYTES,
    encode_again,
    java_order,
    stored_name,
    stored_value,
)
from pocketmq.protocol.messages.receipts import pop_retry_topic, user_topic
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import REVIVE_GROUP, is_retry
from pocketmq.protocol.scalars import INT32_MAX, Perm
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

AFTER_FAILURE_S = 0.5
LONGEST_WAIT_S = 10.0
BATCH = 32
SETTLE_BATCH = 64
"""Messages that come again, or check points without any, before other work goes on."""

_TAGS = stored_name(names.TAGS)

CaughtUp = Callable[[], bool]
"""Whether every timer message that is due has been delivered."""


class ReviveService(Service):
    """Reads the revive topic, and stores unacknowledged messages again.

    Listens to `message_arrived`.

    Args:
        core: store, clock, address and options.
        topics: where retry topics are created.
        groups: messages of deleted groups are not stored again.
        offsets: of the revive topic's own group, and of new retry topics.
        progress: how many messages are in flight.
        storing: a retry may be delayed once more (K-92).
        topic: the revive topic, and how many queues it has.
        caught_up: of the timers; before that an ack may still be on its way.
    """

    def __init__(
        self,
        core: BrokerCore,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        offsets: ConsumerOffsetManager,
        progress: PopProgress,
        storing: Storing,
        topic: tuple[str, int],
        caught_up: CaughtUp,
    ) -> None:
        self._core = core
        self._store, self._reads = core.store, core.store.reads
        self._meters = core.stats.meters
        self._clock = core.clock
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._progress = progress
        self._rewrites = storing.rewrites
        self._names_group = core.profile.broker.revived_names_group
        self._topic, self._queues = topic
        self._caught_up = caught_up
        self._planners: list[RevivePlanner] = []
        self._when_kept = storing.puts.when_kept
        self._service = PeriodicService(
            "revive pops", core.clock, AFTER_FAILURE_S, self._run, initial_delay_s=0
        )
        core.signals.message_arrived.connect(self._arrived, self._topic)

    def recovered(self) -> None:
        self._planners.clear()  # of an earlier time as master, in a log that may have been cut
        for queue_id in range(self._queues):
            committed = self._offsets.query(REVIVE_GROUP, self._topic, queue_id)
            planner = RevivePlanner(-1 if committed is None else committed, self._core.config.name)
            # Skip expired records; their messages have expired too (S-73).
            planner.next_offset = max(
                planner.next_offset, self._reads.min_offset(self._topic, queue_id)
            )
            self._planners.append(planner)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def behind(self) -> list[tuple[int, int]]:
        """Of each revive queue: records that are not settled, and how late the first is, in ms."""
        now_ms = self._clock.time_ms()
        found = []
        for queue_id, planner in enumerate(self._planners):
            first, end = planner.committed + 1, self._reads.max_offset(self._topic, queue_id)
            count = max(0, end - first)
            # RocketMQ tells a time from two records on: the last one waits for its acks.
            since_ms = self._reads.store_time(self._topic, queue_id, first) if count > 1 else 0
            found.append((count, max(0, now_ms - since_ms) if since_ms > 0 else 0))
        return found

    def _arrived(self, _topic: str, _queue_id: int, _end: int, _codes: Sequence[int]) -> None:
        self._service.wakeup()

    # -- work -----------------------------------------------------------------------------------

    async def _run(self) -> float:
        """Read all new records and settle check points; returns seconds until the next is due."""
        while True:
            now_ms = self._clock.time_ms()
            complete = self._caught_up()
            busy = False
            for queue_id, planner in enumerate(self._planners):
                read = self._read(queue_id, planner)
                busy = busy or read > 0
                # What is due by now and was delivered is read: no ack is missing any more.
                if complete and not read:
                    outcome = self._settle(queue_id, planner, now_ms)
                    if outcome is None:
                        # The store refuses now: go on from here later.
                        return AFTER_FAILURE_S
                    busy = busy or outcome
                    if outcome:
                        await self._clock.sleep(0)
            if not busy:
                break
            await self._clock.sleep(0)
        next_ms = min(
            (at for planner in self._planners if (at := planner.due_at_ms()) is not None),
            default=None,
        )
        if next_ms is None:
            return AT_REST  # until something arrives
        left_ms = next_ms - self._clock.time_ms()
        if left_ms <= 0:
            return AFTER_FAILURE_S  # the timers are behind
        return min(LONGEST_WAIT_S, left_ms / 1000)

    def _read(self, queue_id: int, planner: RevivePlanner) -> int:
        found = self._reads.get_message(self._topic, queue_id, planner.next_offset, BATCH)
        # Records have expired: go on where the queue begins now.
        if not found.count:
            if found.status is GetStatus.OFFSET_TOO_SMALL:
                planner.next_offset = found.next_begin_offset
                return 1
            return 0
        read: Counter[tuple[str, str, str]] = Counter()
        for record in decode_records(b"".join(found.records)):
            offset = record.queue_offset
            tag = stored_value(b"\x02" + record.raw_properties, _TAGS)
            try:
                if tag == CHECK_POINT_TAG:
                    point = decode_check_point(record.raw_body)
                    point.stored_at(record.store_timestamp_ms)
                    read[point.group, point.topic, "CK"] += 1
                    planner.check_point(offset, point)
                elif tag in (ACK_TAG, BATCH_ACK_TAG):
                    ack = decode_ack(record.raw_body)
                    read[ack.group, ack.topic, "ACK"] += 1
                    planner.ack(offset, ack)
                else:
                    planner.skip(offset)
            except BadRequestError as exc:
                log.warning("revive.unreadable", queue_id=queue_id, offset=offset, reason=str(exc))
                planner.skip(offset)
        for (group, topic, what), count in read.items():
            self._meters.add(POP_REVIVE_READ, group, topic, str(queue_id), what, count=count)
        return found.count

    def _settle(self, queue_id: int, planner: RevivePlanner, now_ms: int) -> bool | None:
        """Settle the first check points; whether there were any, None when one has to wait."""
        committed: int | None = None
        done = 0
        while done < SETTLE_BATCH:
            due = planner.due(now_ms)
            if due is None:
                break
            offset, point = due
            done += max(1, len(point.open_offsets()))
            # If a message cannot be stored now, this and all later check points wait.
            if not self._revive(point):
                break
            committed = planner.settled(offset)
        else:
            # The batch is full: more may be due, without a failure.
            due = None
        if committed is not None:
            self._commit_when_safe(queue_id, committed)
        return None if due is not None else committed is not None

    def _commit_when_safe(self, queue_id: int, committed: int) -> None:
        """Note the offset once the log is safe up to here.

        That is, with all copies that points up to this offset left behind, those of earlier calls
        too, and with the acks of points that needed none.
        """

        def flushed(status: PutStatus) -> None:
            if status is PutStatus.PUT_OK:
                now_ms = self._clock.time_ms()
                self._offsets.commit(REVIVE_GROUP, self._topic, queue_id, committed, now_ms)

        # The offset must not become durable before everything that this call wrote.
        self._when_kept(self._store.commit_log.max_offset, flushed)

    def _revive(self, point: CheckPoint) -> bool:
        """Store unacknowledged messages again; False when one could not be stored now."""
        wanted = user_topic(point.topic, point.group)
        # The topic or group is gone: nobody would read the messages (K-83).
        if self._topics.get(wanted) is None or self._groups.get(point.group) is None:
            return True
        for offset in point.open_offsets():
            record = self._message(point.topic, point.queue_id, offset)
            if record is None:
                continue  # expired meanwhile
            message = self._retry(point, record)
            [result] = self._store.put_messages([message])
            self._meters.add(POP_RETRIED, point.group, point.topic, result.status.name)
            # A message that can never be stored must not hold up the others.
            if result.status.is_of_message:
                log.error("revive.undeliverable", topic=point.topic, offset=offset)
                continue
            if result.status is not PutStatus.PUT_OK:
                log.warning("revive.put_failed", status=result.status.name)
                return False
            point.acknowledge(offset)
            self._progress.returned((point.group, point.topic, point.queue_id), point.pop_time_ms)
        return True

    def _message(self, topic: str, queue_id: int, offset: int) -> MessageExt | None:
        physical = self._reads.physical_offset(topic, queue_id, offset)
        view = None if physical is None else self._store.lookup(physical)
        # The log was cut, or the record has expired.
        if view is None:
            return None
        [record] = decode_records(view)
        return record

    def _retry_queues(self, topic: str, point: CheckPoint, now_ms: int) -> int:
        """How many queues of a retry topic to use; it is made if it is missing (V-5)."""
        known = self._topics.get(topic)
        separate = self._core.config.use_separate_retry_queue
        if known is not None:
            # An existing topic decides the number of queues, as options may have changed (V-5).
            return max(1, known.write_queue_nums) if separate else 1
        source = self._topics.get(user_topic(point.topic, point.group))
        count = max(1, source.read_queue_nums) if separate and source is not None else 1
        config = TopicConfig(
            topic_name=topic, read_queue_nums=count, write_queue_nums=count, perm=Perm.RW
        )
        self._topics.put(config, now_ms)
        # The group reads the new retry topic from its beginning (K-16).
        for queue_id in range(count):
            if self._offsets.query(point.group, topic, queue_id) is None:
                self._offsets.commit(point.group, topic, queue_id, 0, now_ms)
        return count

    def _retry(self, point: CheckPoint, record: MessageExt) -> StoredMessage:
        """The message as it is delivered again (K-90)."""
        topic = point.topic
        if not is_retry(topic):
            v2 = self._core.config.enable_retry_topic_v2
            topic = pop_retry_topic(topic, point.group, v2=v2)
        now_ms = self._clock.time_ms()
        queues = self._retry_queues(topic, point, now_ms)
        properties, least = revived_properties(record.properties)
        # Keep the time of the first pop when the message comes again (K-90).
        if record.reconsume_times == 0 or names.FIRST_POP_TIME not in properties:
            properties[names.FIRST_POP_TIME] = str(point.pop_time_ms)
        if self._names_group:
            properties[names.ORIGIN_GROUP] = point.group
        # If the added properties are too long, leave them out.
        if len(encode_again(properties).encode()) > MAX_PROPERTIES_BYTES:
            properties, least = revived_properties(record.properties)
        host = self._core.address.packed
        message = StoredMessage(
            topic=topic,
            # The retry topic may have fewer queues than the original topic (V-5).
            queue_id=min(record.queue_id, queues - 1),
            body=record.raw_body,
            properties=encode_again(properties, least).encode(),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp_ms=record.born_timestamp_ms,
            born_host=host,
            store_host=host,
            # Suspended means that the client asked for more time, which is no attempt (K-57).
            reconsume_times=min(record.reconsume_times + (not point.suspended), INT32_MAX),
            tags_code=tags_code(properties.get(names.TAGS)),
            uniq_key=properties.get(names.UNIQ_KEY),
            keys=properties.get(names.KEYS),
            # No put waits for the flush: `_commit_when_safe` waits for the whole log.
            wait_store_ok=False,
        )
        # A message with a delay level waits for that level once more (K-92).
        if names.DELAY in properties:
            try:
                if self._rewrites.apply(message, properties, now_ms):
                    message.properties = encode_again(properties, least).encode()
            except RequestRefusedError as exc:  # it would be refused again, and hold all others up
                log.warning("revive.not_delayed", topic=point.topic, reason=str(exc))
        return message


def revived_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """A copy as RocketMQ fills it into a new map, and how many places that has (`encode_again`).

    With a tag that is put first, into a map of 16 places; without one the map is made for them all,
    as Java 17 does it.
    """
    copied = {name: properties[name] for name in java_order(tuple(properties))}
    tags = copied.pop(names.TAGS, None)
    if tags is not None:
        return {names.TAGS: tags} | copied, 16
    return copied, 1 << int(len(copied) / 0.75).bit_length()
