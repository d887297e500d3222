"""What is stored for a send: the message with the broker's own properties (B-18, B-19, B-86, B-91).

Most messages take the fast path, `IncomingMessages.message`: their properties are passed on as
they came, with the broker's among them; so are those of most half messages. Delayed, retried and
popped messages take the slow path.
"""

from __future__ import annotations

from functools import lru_cache
from random import randrange

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.sending.resends import Resends
from pocketmq.broker.sending.send_checks import SendChecks, SendPlan
from pocketmq.broker.sending.sent_properties import TIMERS, TraitsReader, read_sent
from pocketmq.broker.sending.stamp import BrokerStamp
from pocketmq.broker.stats.message_type import type_of
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrites
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import decode_alike, encode_again, priority_of
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.runtime.signals import Signal

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2

_TRANSACTION = MessageSysFlag.TRANSACTION_MASK

_DELAYS = TIMERS | {names.DELAY}

_OTHER_TYPES = (names.DELAY, *TIMERS, names.SHARDING_KEY)
"""Properties by which a message is of another type, which has no priority."""


def _queue_of_priority(properties: dict[str, str], plan: SendPlan, queue_id: int) -> int:
    """The queue of a message with a priority; else drops the priority, which is none (V-2)."""
    # Half and delayed messages are of another type and have no priority (V-2).
    is_half = properties.get(names.TRANSACTION_PREPARED) == "true"
    if is_half or not properties.keys().isdisjoint(_OTHER_TYPES):
        del properties[names.PRIORITY]
        return queue_id
    return max(0, min(priority_of(properties), plan.write_queue_nums - 1))


@lru_cache(maxsize=16384)
def packed_address(address: str) -> bytes:
    """A peer's `ip:port` as records hold it; 127.0.0.1:0 for a peer without an address."""
    try:
        return pack_host(*parse_host_text(address))
    except IllegalNameError:
        # The peer has no address, for example in a test.
        return b"\x7f\0\0\1\0\0\0\0"


class IncomingMessages:
    """Turns send requests into messages for the store.

    Args:
        checks: what may be stored.
        resends: decides which sends to retry topics go to the dead letter topic.
        rewrites: change messages that are delayed and the like.
        of_sends: change half messages that ask for more; asked before `rewrites`.
        halves: told of other half messages, which its listener changes.
        stamp: the properties that the broker adds to every message.
        priorities: whether a message's priority chooses its queue, by profile.
        dead_are_delayed: a message that a plain send gives up waits by its DELAY, by profile.
        reader: reads properties, and says which are stored, by profile.
    """

    def __init__(
        self,
        checks: SendChecks,
        resends: Resends,
        rewrites: Rewrites,
        of_sends: Rewrites,
        halves: Signal[[StoredMessage, int]],
        stamp: BrokerStamp,
        *,
        priorities: bool,
        dead_are_delayed: bool,
        reader: TraitsReader,
    ) -> None:
        self._reader = reader
        self._priorities = priorities
        self._dead_are_delayed = dead_are_delayed
        self._checks = checks
        self._plans = checks.plans
        self._resends = resends
        self._rewrites = rewrites
        self._of_sends = of_sends
        self._halves = halves
        self._stamp = stamp
        self._address = stamp.address
        self._cluster = f"CLUSTER\x01{stamp.properties[names.CLUSTER]}\x02"
        self._new_key = stamp.new_key

    def message(
        self, request: Command, header: SendHeader, born_host: bytes, now_ms: int, now: float
    ) -> tuple[StoredMessage, int]:
        """What to store for one request, and the queue id to answer with.

        Args:
            request: whose body is the message's.
            header: of the request.
            born_host: packed address of the peer.
            now_ms: the time, in epoch ms.
            now: the time, in monotonic seconds.

        Raises:
            RequestRefusedError: it must not be stored.
        """
        plan = self._plans.get(header.topic)
        if plan is None:
            plan = self._checks.plan_for(header, now_ms)
        queue_id = header.queue_id
        # Checked before a random queue is drawn: too large an id is illegal, and a negative one
        # means any queue (B-12).
        if queue_id >= plan.queue_limit:
            raise self._checks.bad_queue(plan, queue_id)
        if queue_id < 0:
            queue_id = plan.queue_of(queue_id)
        text = header.properties
        # UNIQ_KEY and KEYS are cut out of the text; what the rest means is mostly known already.
        uniq_key, keys, traits = read_sent(text, self._reader)
        sys_flag, is_half = header.sys_flag, traits.is_half
        # A half message loses its flag: its topic marks it, and it must be dispatched (B-100).
        if is_half:
            sys_flag &= ~_TRANSACTION
        # Sends that ask for more than being stored take the slow path.
        if (
            plan.retry_group is not None
            or sys_flag & _TRANSACTION
            or not (traits.is_plain or is_half)
        ):
            return self._special(request, header, plan, queue_id, born_host, now_ms, now)
        # Clients find a message by this key; clients in other languages may send none.
        if uniq_key is None:
            uniq_key = self._new_key()
        # RocketMQ's order: CLUSTER takes the place of UNIQ_KEY in Java's map (B-18, S-6).
        text = f"{traits.before_key}UNIQ_KEY\x01{uniq_key}\x02{self._cluster}{traits.before_keys}"
        if keys is not None:
            text += f"KEYS\x01{keys}\x02"
        body = request.body
        if not body:
            raise RequestRefusedError(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        message = StoredMessage(
            plan.topic,
            queue_id,
            body,  # type: ignore[arg-type]  # a received body is one buffer
            (text + traits.after_keys).encode(),
            header.flag,
            sys_flag,
            header.born_timestamp,
            born_host,
            self._address.packed,
            header.reconsume_times,
            0,
            traits.tags_code,
            0,
            uniq_key,
            keys,
            traits.wait_store_ok,
            traits.message_type,
        )
        # The listener changes the topic of the half message, which is then stored like any other.
        if is_half:
            self._halves.emit(message, now_ms)
        return message, queue_id

    # -- the slow path --------------------------------------------------------------------------

    def _special(
        self,
        request: Command,
        header: SendHeader,
        plan: SendPlan,
        queue_id: int,
        born_host: bytes,
        now_ms: int,
        now: float,
    ) -> tuple[StoredMessage, int]:
        """A message whose properties or topic ask for more than being stored."""
        properties = decode_alike(header.properties)
        body = request.body_view
        if not body:
            raise RequestRefusedError(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        topic = plan.topic
        # The queue follows from the priority, so that high ones are read first (V-2).
        if self._priorities and priority_of(properties) >= 0:
            queue_id = _queue_of_priority(properties, plan, queue_id)
        group = plan.retry_group
        # Consumers send to their retry topic themselves; after too many tries the message goes to
        # the dead letter topic (B-86).
        if group is not None and self._resends.is_given_up(
            group,
            header.reconsume_times,
            header.max_reconsume_times,
            request.version,
            now_ms=now_ms,
            now=now,
        ):
            config = self._resends.dlq_topic(group, now_ms)
            topic = config.topic_name
            # Any queue of the dead letter topic, whatever queue the send named.
            queue_id = randrange(max(1, config.write_queue_nums))
            asked = properties.items()
            message_type = type_of({name: text for name, text in asked if name not in _DELAYS})
            # 4.9 keeps the DELAY of a dead letter, 5.x writes -1 (B-86).
            if not self._dead_are_delayed:
                properties[names.DELAY] = "-1"  # a timer's time counts all the same (B-86)
        else:
            message_type = type_of(properties)
        message = self._stored(header, topic, queue_id, body, properties, born_host, header.flag)
        message.message_type = message_type
        # Half messages first: a delay among their properties counts from the commit.
        if not (
            self._of_sends.apply(message, properties, now_ms)
            or self._rewrites.apply(message, properties, now_ms)
        ):
            # 4.9 does not store WAIT (B-18).
            if not self._reader.wait_is_stored:
                properties.pop(names.WAIT, None)
            message.properties = encode_again(properties).encode()
        return message, queue_id

    def _stored(
        self,
        header: SendHeader,
        topic: str,
        queue_id: int,
        body: bytes | bytearray | memoryview,
        properties: dict[str, str],
        born_host: bytes,
        flag: int,
    ) -> StoredMessage:
        """The message, whose properties get those of the broker and are to be encoded (B-18)."""
        self._stamp.add_to(properties)
        return StoredMessage(
            topic=topic,
            queue_id=queue_id,
            body=memoryview(body),
            properties=b"",
            flag=flag,
            sys_flag=header.sys_flag & ~_TRANSACTION,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host,
            store_host=self._address.packed,
            reconsume_times=header.reconsume_times,
            tags_code=tags_code(properties.get(names.TAGS)),
            uniq_key=properties[names.UNIQ_KEY],
            keys=properties.get(names.KEYS),
            wait_store_ok=properties.get(names.WAIT) != "false",
        )
