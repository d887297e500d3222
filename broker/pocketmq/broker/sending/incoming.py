"""What is stored for a send: the message with the broker's own properties (B-18, B-19, B-86, B-91).

Most messages take the short road, `IncomingMessages.message`: their properties are passed on as
they came, with the broker's at the end. What delays, retries or was popped takes the long one.
"""

from __future__ import annotations

from functools import lru_cache
from random import randrange

from pocketmq.broker.delays.delay import level_of, to_schedule_topic
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.sending.retry import max_reconsume_times, resend_goes_to_dlq
from pocketmq.broker.sending.send_checks import SendChecks, SendPlan
from pocketmq.broker.sending.sent_properties import TIMERS, read_sent
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol import properties as names
from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.ids import UniqKeyFactory
from pocketmq.protocol.properties import decode_properties, encode_properties
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.subscription import tags_code
from pocketmq.protocol.validation import MAX_TOPIC_CHARS
from pocketmq.runtime.profile import Profile

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2

_TRANSACTION = MessageSysFlag.TRANSACTION_MASK
_SEPARATOR = "\x02"


@lru_cache(maxsize=16384)
def packed_address(address: str) -> bytes:
    """A peer's `ip:port` as records hold it; 127.0.0.1:0 for a peer without an address."""
    try:
        return pack_host(*parse_host_text(address))
    except IllegalNameError:
        return b"\x7f\0\0\1\0\0\0\0"


class IncomingMessages:
    """Turns send requests into messages for the store.

    Args:
        checks: what may be stored.
        topics: the topic table, for DLQ topics.
        groups: limits of retries, for sends to retry topics.
        locks: groups that consume in order, for the same.
        profile: when a resend ends in the DLQ.
        store_host: packed address that clients reach this broker at.
        new_key: UNIQ_KEYs for messages that bring none.
        added: properties that every message gets: CLUSTER, MSG_REGION, TRACE_ON.
        max_delay_level: number of delay levels.
    """

    def __init__(
        self,
        checks: SendChecks,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        locks: RebalanceLockManager,
        profile: Profile,
        *,
        store_host: bytes,
        new_key: UniqKeyFactory,
        added: dict[str, str],
        max_delay_level: int,
    ) -> None:
        self._checks = checks
        self._plans = checks.plans
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._profile = profile
        self._store_host = store_host
        self._new_key = new_key
        self._added = added
        self._suffix = encode_properties(added)
        self._max_delay_level = max_delay_level

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
            plan = self._plan(header, now_ms)
        queue_id = header.queue_id
        if queue_id >= plan.queue_limit:
            raise self._checks.bad_queue(plan, queue_id)
        if queue_id < 0:
            queue_id = plan.queue_of(queue_id)
        text = header.properties
        uniq_key, keys, traits = read_sent(text)
        sys_flag = header.sys_flag
        if plan.retry_group is not None or sys_flag & _TRANSACTION or not traits.is_plain:
            return self._special(request, header, plan, queue_id, born_host, now_ms, now)
        if text and text[-1] != _SEPARATOR:
            text += _SEPARATOR
        if uniq_key is None:
            uniq_key = self._new_key()
            text += f"UNIQ_KEY\x01{uniq_key}\x02"
        body = request.body
        if not body:
            raise RequestRefusedError(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        return StoredMessage(
            plan.topic,
            queue_id,
            body,  # type: ignore[arg-type]  # a received body is one buffer
            (text + self._suffix).encode(),
            header.flag,
            sys_flag,
            header.born_timestamp,
            born_host,
            self._store_host,
            header.reconsume_times,
            0,
            traits.tags_code,
            0,
            uniq_key,
            keys,
            traits.wait_store_ok,
        ), queue_id

    def batch(
        self, request: Command, header: SendHeader, born_host: bytes, now_ms: int
    ) -> tuple[list[StoredMessage], int]:
        """What to store for a batch, and the queue id to answer with (B-19).

        Raises:
            RequestRefusedError, BatchError: none of it must be stored.
        """
        plan = self._plans.get(header.topic) or self._plan(header, now_ms)
        if header.queue_id >= plan.queue_limit:
            raise self._checks.bad_queue(plan, header.queue_id)
        if plan.retry_group is not None or len(header.topic) > MAX_TOPIC_CHARS:
            raise RequestRefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a batch may not go to {header.topic}: retry topics take single messages, and "
                f"the name may have {MAX_TOPIC_CHARS} characters",
            )
        queue_id = plan.queue_of(header.queue_id)
        messages = []
        for entry in decode_batch(request.body_view):
            properties = decode_properties(entry.properties.decode("utf-8", "replace"))
            if (
                level_of(properties.get(names.DELAY)) > 0
                or properties.get(names.TRANSACTION_PREPARED) == "true"
            ):
                raise RequestRefusedError(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "a message of a batch can be neither delayed nor part of a transaction",
                )
            messages.append(
                self._stored(
                    header, plan.topic, queue_id, entry.body, properties, born_host, entry.flag
                )
            )
        return messages, queue_id

    # -- the long road --------------------------------------------------------------------------

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
        properties = decode_properties(header.properties)
        delay_level = level_of(properties.get(names.DELAY))
        if properties.get(names.TRANSACTION_PREPARED) == "true" and not (
            header.reconsume_times > 0 and delay_level > 0
        ):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                "this broker does not take half messages; send without a transaction",
            )
        self._check_timers(properties, delay_level, now_ms)
        body = request.body_view
        if not body:
            raise RequestRefusedError(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
        topic = plan.topic
        group = plan.retry_group
        if group is not None and self._is_given_up(request, header, group, now_ms, now):
            config = self._topics.ensure_dlq_topic(group, now_ms=now_ms)
            topic = config.topic_name
            queue_id = randrange(max(1, config.write_queue_nums))
            properties.pop(names.DELAY, None)
            delay_level = 0
        message = self._stored(header, topic, queue_id, body, properties, born_host, header.flag)
        if delay_level > 0:
            to_schedule_topic(message, properties, delay_level, self._max_delay_level)
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
        """The message with the broker's own properties; changes `properties` (B-18)."""
        properties.pop(names.POP_CK, None)
        properties.update(self._added)
        uniq_key = properties.setdefault(names.UNIQ_KEY, "") or self._new_key()
        properties[names.UNIQ_KEY] = uniq_key
        return StoredMessage(
            topic=topic,
            queue_id=queue_id,
            body=memoryview(body),
            properties=encode_properties(properties).encode(),
            flag=flag,
            sys_flag=header.sys_flag & ~_TRANSACTION,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times,
            tags_code=tags_code(properties.get(names.TAGS)),
            uniq_key=uniq_key,
            keys=properties.get(names.KEYS),
            wait_store_ok=properties.get(names.WAIT) != "false",
        )

    def _is_given_up(
        self, request: Command, header: SendHeader, group: str, now_ms: int, now: float
    ) -> bool:
        """Whether a send to a retry topic ends in the DLQ (B-86)."""
        config = self._groups.find_or_create(group, now_ms)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {group} does not exist, so it has no retry topic",
            )
        profile = self._profile
        return resend_goes_to_dlq(
            header.reconsume_times,
            max_reconsume_times(config, header.max_reconsume_times, request.version),
            when_equal=profile.dlq_when_retries_equal_max,
            holds_locks=profile.dlq_when_group_holds_locks
            and self._locks.holds_live_lock(group, now),
        )

    def _check_timers(self, properties: dict[str, str], delay_level: int, now_ms: int) -> None:
        """Delays by milliseconds (B-96) are refused rather than delivered early."""
        if not self._profile.arbitrary_delay or TIMERS.isdisjoint(properties):
            return
        if delay_level > 0:
            for name in TIMERS:
                properties.pop(name, None)
            return
        is_future = (
            level_of(properties.get(names.TIMER_DELAY_SEC)) > 0
            or level_of(properties.get(names.TIMER_DELAY_MS)) > 0
            or level_of(properties.get(names.TIMER_DELIVER_MS)) > now_ms
        )
        if is_future:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                "this broker delays by level only; set DELAY (1..18) and no TIMER_ property",
            )

    def _plan(self, header: SendHeader, now_ms: int) -> SendPlan:
        return self._checks.plan(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            now_ms=now_ms,
            unit_mode=header.unit_mode,
        )
