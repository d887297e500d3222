"""Reads messages for a pop: which queues, from which offset, and which check points (K-33, K-34).

A pop of "any queue" begins at a random queue and goes round, downwards in 5.5, so that many clients
share the queues evenly; one pop in five reads the group's retry topic before the topic. What it
found is stored as one check point per queue before anything is answered or committed
(taken_points.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import randrange

import msgspec

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.filters.message_filters import MessageFilter
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.merge import PopMerge
from pocketmq.broker.pop.orders import ConsumerOrders
from pocketmq.broker.pop.priorities import Priorities
from pocketmq.broker.pop.progress import PopProgress
from pocketmq.broker.pop.records import CheckPoint
from pocketmq.broker.pop.revive_log import ReviveLog
from pocketmq.broker.pop.taken_points import HandOut, Taken, take_back
from pocketmq.broker.store import GetResult, GetStatus
from pocketmq.broker.store.reads.queue_reads import MOST_FILTERED_BYTES
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.operation.events.messages import MessagePulled
from pocketmq.operation.events.sink import Place
from pocketmq.protocol.frame import MAX_FRAME_BYTES
from pocketmq.protocol.hosts import parse_host_text
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_again
from pocketmq.protocol.messages.receipts import (
    ORDERED_QUEUE,
    ReceiptHandle,
    pop_retry_topic,
    retry_mark,
)
from pocketmq.protocol.stored.record import decode_records, encode_record, pack_host, queue_offsets

ALL = MessageFilter()
"""Wants every message."""
MOST_PEEKED_BYTES = MAX_FRAME_BYTES // 2
"""A peek that has found so much reads no further queue: the answer has to fit into a frame."""
_MOVED = frozenset(
    {GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL}
)
_PASSED = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING})


class PopRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is wanted."""

    group: str
    topic: str
    queue_id: int
    """Negative: any."""
    max_count: int
    invisible_ms: int
    from_last: bool
    """A group without an offset begins at the last message, not at the first."""
    filter: MessageFilter
    ordered: bool = False
    attempt_id: str | None = None


class Popper:
    """Reads for pops.

    Args:
        core: store, clock and options.
        topics: which retry topics exist.
        offsets: committed offsets.
        revive_log: where their check points will go.
        progress: how far messages are handed out beyond the committed offset.
        orders: unacknowledged messages of queues that are consumed in order.
        merge: check points that are only in memory.
        priorities: which pops read the highest queue first.
    """

    def __init__(
        self,
        core: BrokerCore,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        revive_log: ReviveLog,
        progress: PopProgress,
        orders: ConsumerOrders,
        merge: PopMerge,
        priorities: Priorities,
    ) -> None:
        self._priorities = priorities
        self._merge = merge
        self._core = core
        self._reads = core.store.reads
        self._topics = topics
        self._offsets = offsets
        self._revive_log = revive_log
        self._progress = progress
        self._orders = orders

    def take(self, want: PopRequest, queues: int, now_ms: int) -> HandOut:
        """Take messages, for which `TakenPoints.store` comes next; empty when there are none.

        Args:
            want: what is wanted.
            queues: read queues of the topic.
            now_ms: the time.
        """
        revive_queue = ORDERED_QUEUE if want.ordered else self._revive_log.next_queue()
        out = HandOut(pop_time_ms=now_ms, revive_queue_id=revive_queue)
        try:
            self._take_from_all(out, want, queues)
        except BaseException:
            # Let others have what was taken, since this pop will not acknowledge it.
            take_back(self._progress, [out])
            raise
        return out

    def _take_from_all(self, out: HandOut, want: PopRequest, queues: int) -> None:
        lot = randrange(100)
        by_priority = not want.ordered and self._priorities.hold(want.group, want.topic, lot)
        turns = self._topics_in_turn(want, queues, lot, by_priority=by_priority)
        for turn, (topic, count) in enumerate(turns):
            # A full pop does not look at a retry topic that comes last, so `restNum` leaves it
            # out. One that comes first counts even for a pop of 0 messages, as in RocketMQ.
            if turn and topic != want.topic and out.count >= want.max_count:
                break
            # Read all queues of the retry topic, even if one queue of the topic was asked for
            # (K-33).
            if count and (topic != want.topic or want.queue_id < 0):
                for queue_id in self._queues(count, lot, by_priority=by_priority):
                    # The filter's limit is used up: leave the rest to the next pop.
                    if topic == want.topic and out.filter_bytes_left <= 0:
                        break
                    self._read(out, want, topic, queue_id)
            elif count:
                self._read(out, want, topic, want.queue_id)

    def has_message(self, want: PopRequest, queues: int, now_ms: int) -> bool:
        """Whether a pop would find something, or go on looking; nothing is moved (K-65)."""
        left = MOST_FILTERED_BYTES
        topics = [(want.topic, queues)]
        if not want.ordered:  # all retry topics, where a pop draws one of two
            topics += [(each, self._queue_count(each)) for each in self._retry_topics(want)]
        for topic, count in topics:
            one = topic == want.topic and want.queue_id >= 0
            for queue_id in [want.queue_id] if one else range(count):
                # A blocked queue has nothing for this group, whatever it holds (K-112).
                if want.ordered and self._orders.is_blocked(
                    (want.topic, want.group, queue_id), want.attempt_id, now_ms
                ):
                    continue
                begin = self.position(want.group, topic, queue_id)
                if self._reads.max_offset(topic, queue_id) <= begin:
                    continue
                # Without a filter, any message will do: read none.
                if want.filter is ALL:
                    return True
                found = self._get(want, topic, queue_id, begin, 1, left)
                left -= found.filtered_bytes
                if found.count or left <= 0:
                    return True
        return False

    def peek(self, group: str, topic: str, queues: Sequence[int], wanted: int) -> HandOut:
        """Read messages and take none (K-67); `rest` counts what is shown too.

        Args:
            group: whose messages.
            topic: of them.
            queues: ids of the topic's queues that are looked at.
            wanted: at most so many messages.
        """
        out = HandOut(pop_time_ms=0, revive_queue_id=ORDERED_QUEUE)
        retry = pop_retry_topic(topic, group, v2=self._core.config.enable_retry_topic_v2)
        places = [(topic, queues), (retry, range(self._queue_count(retry)))]
        retry_first = randrange(5) == 0  # RocketMQ's share, which no option changes
        for turn, (name, ids) in enumerate(reversed(places) if retry_first else places):
            if turn and name == retry and out.count >= wanted:
                break  # not counted, as in a pop (K-33)
            for queue_id in ids:
                self._peek_queue(out, (group, name, queue_id), wanted)
        return out

    def _peek_queue(self, out: HandOut, key: tuple[str, str, int], wanted: int) -> None:
        _, topic, queue_id = key
        begin = self.position(*key)
        # Below 0 if the group committed an offset beyond the end, as in RocketMQ.
        out.rest += self._reads.max_offset(topic, queue_id) - begin
        left = wanted - out.count
        # A peer may want any number, of thousands of queues: what fits into a frame is enough.
        if left <= 0 or out.size_bytes >= MOST_PEEKED_BYTES:
            return
        found = self._reads.get_message(topic, queue_id, begin, left)
        if found.status in _MOVED:
            found = self._reads.get_message(topic, queue_id, found.next_begin_offset, left)
        out.records += found.records
        out.count += found.count
        out.size_bytes += found.size_bytes

    def position(self, group: str, topic: str, queue_id: int) -> int:
        """Where the group's next pop of a queue would begin, or the queue itself."""
        committed = self._offsets.query(group, topic, queue_id)
        # Without a committed offset, count from the minimum, whatever the next pop's `initMode`.
        begin = self._reads.min_offset(topic, queue_id) if committed is None else committed
        return self._progress.begin((group, topic, queue_id), begin)

    def _queues(self, count: int, lot: int, *, by_priority: bool) -> Iterable[int]:
        """A topic's queues in the order in which they are read (K-33, V-3)."""
        core = self._core
        goes_down = core.profile.broker.pop_ring_goes_down and core.config.priority_order_asc
        steps = reversed(range(count)) if goes_down else range(count)
        # By priority, begin with the first queue of this order (V-3).
        start = 0 if by_priority else lot
        return ((start + step) % count for step in steps)

    def _topics_in_turn(
        self, want: PopRequest, queues: int, lot: int, *, by_priority: bool
    ) -> Iterator[tuple[str, int]]:
        """The topic and the group's retry topic, in the order in which they are read (K-33)."""
        config = self._core.config
        own = (want.topic, queues)
        if want.ordered:
            yield own
            return
        retries = self._retry_topics(want)
        # A pop reads only one of the two names, chosen at random (K-38).
        retry = retries[0] if lot % 2 else retries[-1]
        again = (retry, self._queue_count(retry))
        share = config.pop_from_retry_probability
        if by_priority:
            share = config.pop_from_retry_probability_for_priority
        yield from (again, own) if lot < share else (own, again)

    def _retry_topics(self, want: PopRequest) -> list[str]:
        """The group's retry topics that may have messages, the one that is written first."""
        config = self._core.config
        v1 = pop_retry_topic(want.topic, want.group)
        if not config.enable_retry_topic_v2:
            return [v1]
        v2 = pop_retry_topic(want.topic, want.group, v2=True)
        # V1 topics may still hold messages from before the option was set (K-13).
        return [v2, v1] if config.retrieve_message_from_pop_retry_topic_v1 else [v2]

    def _queue_count(self, topic: str) -> int:
        known = self._topics.get(topic)
        return 0 if known is None else known.read_queue_nums

    # -- one queue ------------------------------------------------------------------------------

    def _read(self, out: HandOut, want: PopRequest, topic: str, queue_id: int) -> None:
        """Take messages from one queue (K-34)."""
        reads = self._reads
        key = (want.group, topic, queue_id)
        begin = self._begin(want, topic, queue_id)
        # A blocked queue hands out nothing and adds nothing to `restNum` (K-112, K-116).
        if want.ordered and self._orders.is_blocked(
            (topic, want.group, queue_id), want.attempt_id, out.pop_time_ms
        ):
            return
        wanted = want.max_count - out.count
        config = self._core.config
        # The pop is full, or too many of the queue's messages are in flight.
        if wanted <= 0 or (
            config.enable_pop_message_threshold
            and self._progress.in_flight(key) > config.pop_inflight_message_threshold
        ):
            # Count the messages, so that the client knows that there are more (K-36).
            out.rest += reads.max_offset(topic, queue_id) - begin
            return
        found = self._get(want, topic, queue_id, begin, wanted, out.filter_bytes_left)
        # The queue no longer has this offset: go on where its messages are now (B-59).
        if found.status in _MOVED:
            # The messages handed out are gone, so their check points must not move the offset.
            self._merge.reset(key)
            self._offsets.commit(*key, found.next_begin_offset, out.pop_time_ms)
            self._progress.reset(key)
            begin = found.next_begin_offset
            found = self._get(want, topic, queue_id, begin, wanted, out.filter_bytes_left)
        out.filter_bytes_left -= found.filtered_bytes
        if found.count:
            self._take(out, want, topic, queue_id, begin, found)
        # While check points are unsafe, the offset must not move beyond them.
        elif found.status in _PASSED and not self._progress.is_ahead(key):
            # Filtered out, or deleted: the group's offset moves past them.
            self._offsets.commit(*key, found.next_begin_offset, out.pop_time_ms)
        out.rest += found.max_offset - found.next_begin_offset

    def _take(
        self,
        out: HandOut,
        want: PopRequest,
        topic: str,
        queue_id: int,
        begin: int,
        found: GetResult,
    ) -> None:
        if found.next_begin_offset - begin == found.count:  # nothing was passed over
            taken: Sequence[int] = range(begin, found.next_begin_offset)
        else:
            # The filter left some out: read the offsets from the records.
            taken = [offset for view in found.records for offset in queue_offsets(view)]
        mark = retry_mark(topic)
        # An ordered pop has no check point; the offset stays at its first message until the acks
        # (K-114).
        if want.ordered:
            key = (topic, want.group, queue_id)
            out.order_counts += self._orders.handed_out(
                key,
                taken,
                attempt_id=want.attempt_id,
                pop_time_ms=out.pop_time_ms,
                invisible_ms=want.invisible_ms,
            )
            self._offsets.commit(want.group, topic, queue_id, taken[0], out.pop_time_ms)
        else:
            owner = (want.group, topic, queue_id, self._core.config.name)
            suspended = False if self._core.profile.broker.pops_can_be_suspended else None
            point = CheckPoint.of_pop(
                owner, taken, out.pop_time_ms, want.invisible_ms, suspended=suspended
            )
            key = (want.group, topic, queue_id)
            # Remember the earlier state, in case the check point cannot be stored.
            ahead = self._progress.ahead(key)
            out.taken.append(Taken(point, found.next_begin_offset, ahead))
            self._progress.handed_out(key, found.next_begin_offset, found.count)
        # Clients acknowledge by the topic that they asked for, so copies carry its name and a
        # receipt (K-35).
        if mark and not self._core.config.pop_response_return_actual_retry_topic:
            messages = decode_records(b"".join(found.records))
            out.records += [self._as_popped(out, want, topic, taken[0], m) for m in messages]
        else:
            out.records += found.records
        if self._core.events.is_on:
            self._tell(want.group, topic, queue_id, found, taken[0])
        out.count += found.count
        out.size_bytes += found.size_bytes
        if mark:
            out.retried += found.count
            out.retried_bytes += found.size_bytes
        out.starts.append(((mark, queue_id), taken[0]))
        out.offsets.append(((mark, queue_id), taken))

    def _tell(self, group: str, topic: str, queue_id: int, found: GetResult, first: int) -> None:
        events = self._core.events
        if not events.wants(MessagePulled):
            place = Place(topic, queue_id, self._core.config.name, group)
            events.count(MessagePulled, place, found.count, found.size_bytes)
            return
        event = MessagePulled(
            *events.stamp(),
            topic=topic,
            broker=self._core.config.name,
            queue=queue_id,
            offset=first,
            end=found.next_begin_offset,
            count=found.count,
            size=found.size_bytes,
            group=group,
            how="pop",
        )
        events.emit(event)

    def _as_popped(
        self, out: HandOut, want: PopRequest, topic: str, start: int, message: MessageExt
    ) -> bytes:
        """A retried message under the topic that was asked for, with its receipt (K-35)."""
        properties = dict(message.properties)
        handle = ReceiptHandle(
            start,
            out.pop_time_ms,
            want.invisible_ms,
            out.revive_queue_id,
            retry_mark(topic),
            self._core.config.name,
            message.queue_id,
            message.queue_offset,
        )
        # Keep the receipt of an earlier retry, if the message has one (K-47).
        properties.setdefault(names.POP_CK, str(handle))
        return encode_record(
            topic=want.topic.encode(),
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=message.queue_offset,
            physical_offset=message.commit_log_offset,
            sys_flag=message.sys_flag,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=pack_host(*parse_host_text(message.born_host)),
            store_timestamp_ms=message.store_timestamp_ms,
            store_host=pack_host(*parse_host_text(message.store_host)),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            body=message.raw_body,
            properties=encode_again(properties).encode(),
        )

    def _get(
        self,
        want: PopRequest,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        most_filtered_bytes: int,
    ) -> GetResult:
        # The filter is for the topic itself; messages of the retry topic have passed it already.
        chosen = want.filter if topic == want.topic else ALL
        return self._reads.get_message(
            topic,
            queue_id,
            offset,
            count,
            accept=chosen.accept,
            accept_record=chosen.accept_record,
            record_weight=chosen.weight,
            most_filtered_bytes=most_filtered_bytes,
        )

    # -- offsets --------------------------------------------------------------------------------

    def _begin(self, want: PopRequest, topic: str, queue_id: int) -> int:
        """Where the group reads on in a queue (K-34)."""
        group, now_ms = want.group, self._core.clock.time_ms()
        key = (group, topic, queue_id)
        # A tool reset the offset: forget what was handed out (K-147).
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self._orders.clear((topic, group, queue_id))
            self._merge.reset(key)
            self._progress.reset(key)
            self._offsets.commit(*key, reset, now_ms)
            return reset
        committed = self._offsets.query(group, topic, queue_id)
        # A new group: commit its first offset before its first check point is stored.
        if committed is None:
            committed = self._first(want, topic, queue_id)
            self._offsets.commit(*key, committed, now_ms)
        return self._progress.begin(key, committed)

    def _first(self, want: PopRequest, topic: str, queue_id: int) -> int:
        reads = self._reads
        low = reads.min_offset(topic, queue_id)
        # Start at the end only if asked to; a retry topic is read from its beginning (K-34).
        if topic != want.topic or not want.from_last:
            return low
        # While message 0 is still in memory, the queue is young: read it from the beginning (K-34).
        if low <= 0 and self._core.config.init_pop_offset_by_check_msg_in_mem:
            first = reads.get_message(topic, queue_id, 0, 1)
            if first.count and not first.suggest_pulling_from_slave:
                return 0
        return max(0, reads.max_offset(topic, queue_id) - 1)
