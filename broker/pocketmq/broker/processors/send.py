"""SEND_MESSAGE (10, 310) and SEND_BATCH_MESSAGE (320): the broker's hottest path.

All sends of one read are checked, appended to the store in one call and answered from templates.
What is rare (delays, retries, batches) takes a second road; both keep the order of the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import randrange

from pocketmq.broker.delay import level_of, to_schedule_topic
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups import SubscriptionGroupManager
from pocketmq.broker.overload import Overload, Work
from pocketmq.broker.queue_locks import RebalanceLockManager
from pocketmq.broker.retry import max_reconsume_times, resend_goes_to_dlq
from pocketmq.broker.saved_tables import SavedTable
from pocketmq.broker.send_checks import SendChecks, SendPlan
from pocketmq.broker.send_replies import SendReplies
from pocketmq.broker.stats import BrokerStats
from pocketmq.broker.store import (
    FlushDiskType,
    MessageStore,
    PutResult,
    PutStatus,
    StoredMessage,
)
from pocketmq.broker.topics import TopicConfigManager
from pocketmq.protocol import properties as names
from pocketmq.protocol.batch import decode_batch
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles_batch
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.ids import UniqKeyFactory, offset_msg_id
from pocketmq.protocol.properties import decode_properties, encode_properties
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.subscription import tags_code
from pocketmq.protocol.validation import MAX_TOPIC_CHARS
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile import Profile

SendHeader = SendMessageRequestHeader | SendMessageRequestHeaderV2

_HEADERS: dict[int, type[SendMessageRequestHeader] | type[SendMessageRequestHeaderV2]] = {
    int(RequestCode.SEND_MESSAGE): SendMessageRequestHeader,
    int(RequestCode.SEND_MESSAGE_V2): SendMessageRequestHeaderV2,
    int(RequestCode.SEND_BATCH_MESSAGE): SendBatchMessageRequestHeader,
}

_TIMERS = frozenset({names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS})
_SPECIAL = _TIMERS | {
    names.DELAY,
    names.TRANSACTION_PREPARED,
    names.POP_CK,
    names.CLUSTER,
    names.MSG_REGION,
    names.TRACE_SWITCH,
}
"""Properties that take a message from the short road to the long one."""

_OK = PutStatus.PUT_OK

NOT_STORED: dict[PutStatus, tuple[int, str]] = {
    PutStatus.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the store takes no messages now",
    ),
    PutStatus.CREATE_MAPPED_FILE_FAILED: (
        ResponseCode.SYSTEM_ERROR,
        "no new commit-log file could be made; is the disk full?",
    ),
    PutStatus.MESSAGE_ILLEGAL: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is too long: its body may have maxMessageSize bytes, its topic 127",
    ),
    PutStatus.PROPERTIES_SIZE_EXCEEDED: (
        ResponseCode.MESSAGE_ILLEGAL,
        "the message's properties are longer than 32767 bytes",
    ),
    PutStatus.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    PutStatus.UNKNOWN_ERROR: (ResponseCode.SYSTEM_ERROR, "the store failed"),
}
"""Answers to messages that were not stored (sheet 2.5)."""


@lru_cache(maxsize=16384)
def packed_address(address: str) -> bytes:
    """A peer's `ip:port` as records hold it; 127.0.0.1:0 for a peer without an address."""
    try:
        return pack_host(*parse_host_text(address))
    except IllegalNameError:
        return b"\x7f\0\0\1\0\0\0\0"


class SendProcessor:
    """Stores messages.

    Args:
        store: where they go.
        checks: what may be stored.
        topics: the topic table, for DLQ topics.
        groups: limits of retries, for sends to retry topics.
        locks: groups that consume in order, for the same.
        topics_file: an answer waits until a topic made by its message is on the disk.
        stats: counts.
        overload: refuses what has waited too long.
        clock: the time of each batch.
        profile: when a resend ends in the DLQ.
        cluster_name: goes into each message's properties.
        max_delay_level: number of delay levels.
        region: MSG_REGION of each message and answer.
        trace_on: TRACE_ON of each message and answer.
    """

    def __init__(
        self,
        store: MessageStore,
        checks: SendChecks,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        locks: RebalanceLockManager,
        topics_file: SavedTable,
        stats: BrokerStats,
        overload: Overload,
        clock: Clock,
        profile: Profile,
        *,
        cluster_name: str,
        max_delay_level: int = 18,
        region: str = "DefaultRegion",
        trace_on: str = "true",
    ) -> None:
        self._store = store
        self._sync_flush = store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._checks = checks
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._topics_file = topics_file
        self._stats = stats
        self._overload = overload
        self._clock = clock
        self._profile = profile
        self._max_delay_level = max_delay_level
        self._region = region
        self._trace_on = trace_on
        self._added = {
            names.MSG_REGION: region,
            names.TRACE_SWITCH: trace_on,
            names.CLUSTER: cluster_name,
        }
        self._suffix = encode_properties(self._added)
        self._store_host = b""
        self._replies: SendReplies | None = None
        self._new_key: UniqKeyFactory | None = None

    def open(self, store_host: bytes, new_key: UniqKeyFactory) -> None:
        """Take messages from now on.

        Args:
            store_host: packed address that clients reach this broker at; part of message ids.
            new_key: UNIQ_KEYs for messages that bring none.
        """
        self._store_host = store_host
        self._new_key = new_key
        self._replies = SendReplies(
            store_host,
            version=self._profile.client_version,
            region=self._region,
            trace_on=self._trace_on,
        )

    def close(self) -> None:
        """Take no more messages."""
        self._replies = None

    # -- the short road -------------------------------------------------------------------------

    @handles_batch(
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
    )
    def send(self, peer: Peer, requests: Sequence[Command]) -> Sequence[Reply]:
        """Store the messages of one read and answer them."""
        self._overload.check(Work.SEND)
        header_class = _HEADERS[requests[0].code]
        born_host = packed_address(peer.address)
        now_ms = self._clock.time_ms()
        replies: list[Reply] = [None] * len(requests)
        pending: list[StoredMessage] = []
        slots: list[tuple[int, int]] = []
        for index, request in enumerate(requests):
            try:
                header = request.header(header_class)
                if header.batch:
                    self._put(peer, requests, pending, slots, replies)
                    pending, slots = [], []
                    replies[index] = self._send_batch(peer, request, header, born_host, now_ms)
                    continue
                message, queue_id = self._message(request, header, born_host, now_ms)
            except Exception as exc:  # noqa: BLE001 - one bad message, and the others go on
                replies[index] = error_reply(peer, request, exc)
                continue
            pending.append(message)
            slots.append((index, queue_id))
        if pending:
            self._put(peer, requests, pending, slots, replies)
        return replies

    def _message(
        self, request: Command, header: SendHeader, born_host: bytes, now_ms: int
    ) -> tuple[StoredMessage, int]:
        """What to store for one request, and the queue id to answer with."""
        plan = self._plan(header, now_ms)
        queue_id = header.queue_id
        if queue_id >= plan.queue_limit:
            raise self._checks.bad_queue(plan, queue_id)
        if queue_id < 0:
            queue_id = plan.queue_of(queue_id)
        text = header.properties
        properties = decode_properties(text)
        sys_flag = header.sys_flag
        if (
            plan.retry_group is not None
            or sys_flag & MessageSysFlag.TRANSACTION_MASK
            or not _SPECIAL.isdisjoint(properties)
        ):
            return self._special(request, header, plan, queue_id, properties, born_host, now_ms)
        uniq_key = properties.get("UNIQ_KEY")
        if text and text[-1] != "\x02":
            text += "\x02"
        if uniq_key is None:
            uniq_key = self._key()
            text += f"UNIQ_KEY\x01{uniq_key}\x02"
        return StoredMessage(
            header.topic,
            queue_id,
            _body(request),
            (text + self._suffix).encode(),
            header.flag,
            sys_flag,
            header.born_timestamp,
            born_host,
            self._store_host,
            header.reconsume_times,
            0,
            tags_code(properties.get("TAGS")),
            0,
            uniq_key,
            properties.get("KEYS"),
            properties.get("WAIT") != "false",
        ), queue_id

    def _put(
        self,
        peer: Peer,
        requests: Sequence[Command],
        messages: list[StoredMessage],
        slots: list[tuple[int, int]],
        replies: list[Reply],
    ) -> None:
        """Store messages in one append, and answer each in its place or later."""
        if not messages:
            return
        templates = self._opened()
        self._overload.check_pool(self._store.unflushed_bytes)
        began_at = self._clock.monotonic()
        results = self._store.put_messages(messages)
        now = self._clock.monotonic()
        self._overload.note_append(now - began_at)
        encoding = requests[0].encoding
        build = templates.builder(encoding)
        must_wait = self._must_wait()
        waiting: list[_Stored] = []
        stored = size_bytes = 0
        for (index, queue_id), message, result in zip(slots, messages, results, strict=True):
            request = requests[index]
            if result.status is not _OK:
                replies[index] = not_stored(request, result, self._store)
                continue
            stored += 1
            size_bytes += result.size
            if request.encoding is not encoding:
                encoding = request.encoding
                build = templates.builder(encoding)
            if must_wait and (message.wait_store_ok or not self._topics_file.is_saved):
                waiting.append(_Stored(request, queue_id, message, result))
            else:
                replies[index] = build(
                    request.opaque,
                    result.physical_offset,
                    queue_id,
                    result.queue_offset,
                    message.uniq_key or "",
                )
        self._stats.note_put(stored, size_bytes, now)
        if waiting:
            self._answer_when_safe(peer, waiting)

    # -- waiting for the disk -------------------------------------------------------------------

    def _must_wait(self) -> bool:
        """Whether answers may have to wait: for the log's flush, or for a new topic's file."""
        return self._sync_flush or not self._topics_file.is_saved

    def _answer_when_safe(self, peer: Peer, waiting: Sequence[_Stored]) -> None:
        """Answer once what was promised holds: flushed (B-144), and the topic known on restart."""

        def flushed(status: PutStatus) -> None:
            self._topics_file.when_saved(lambda: answer(status))

        def answer(status: PutStatus) -> None:
            for each in waiting:
                peer.reply(each.request, self._stored_reply(each, status))

        if any(each.message.wait_store_ok for each in waiting):
            last = waiting[-1].result
            self._store.when_flushed(last.physical_offset + last.size, flushed)
        else:
            flushed(_OK)

    def _stored_reply(self, stored: _Stored, status: PutStatus) -> Command:
        """The answer to a stored message, also when it was not flushed in time (10)."""
        code, remark = ResponseCode.SUCCESS, None
        if status is not _OK and stored.message.wait_store_ok:
            code, remark = ResponseCode.FLUSH_DISK_TIMEOUT, "stored, but not flushed in time"
        result = stored.result
        header = SendMessageResponseHeader(
            msg_id=stored.msg_id or offset_msg_id(self._store_host, result.physical_offset),
            queue_id=stored.queue_id,
            queue_offset=result.queue_offset,
            transaction_id=stored.message.uniq_key if stored.msg_id is None else None,
            region=self._region,
            trace=self._trace_on,
        )
        return stored.request.reply(header, code=code, remark=remark)

    # -- the long road --------------------------------------------------------------------------

    def _special(
        self,
        request: Command,
        header: SendHeader,
        plan: SendPlan,
        queue_id: int,
        properties: dict[str, str],
        born_host: bytes,
        now_ms: int,
    ) -> tuple[StoredMessage, int]:
        """A message whose properties or topic ask for more than being stored."""
        delay_level = level_of(properties.get(names.DELAY))
        if properties.get(names.TRANSACTION_PREPARED) == "true" and not (
            header.reconsume_times > 0 and delay_level > 0
        ):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                "this broker does not take half messages; send without a transaction",
            )
        self._check_timers(properties, delay_level, now_ms)
        topic = plan.topic
        if plan.retry_group is not None and self._is_given_up(request, header, plan.retry_group):
            config = self._topics.ensure_dlq_topic(plan.retry_group, now_ms=now_ms)
            topic = config.topic_name
            queue_id = randrange(max(1, config.write_queue_nums))
            properties.pop(names.DELAY, None)
            delay_level = 0
        properties.pop(names.POP_CK, None)
        properties.update(self._added)
        uniq_key = properties.setdefault(names.UNIQ_KEY, "") or self._key()
        properties[names.UNIQ_KEY] = uniq_key
        message = StoredMessage(
            topic=topic,
            queue_id=queue_id,
            body=_body(request),
            properties=encode_properties(properties).encode(),
            flag=header.flag,
            sys_flag=header.sys_flag & ~MessageSysFlag.TRANSACTION_MASK,
            born_timestamp_ms=header.born_timestamp,
            born_host=born_host,
            store_host=self._store_host,
            reconsume_times=header.reconsume_times,
            tags_code=tags_code(properties.get(names.TAGS)),
            uniq_key=uniq_key,
            keys=properties.get(names.KEYS),
            wait_store_ok=properties.get(names.WAIT) != "false",
        )
        if delay_level > 0:
            to_schedule_topic(message, properties, delay_level, self._max_delay_level)
        return message, queue_id

    def _is_given_up(self, request: Command, header: SendHeader, group: str) -> bool:
        """Whether a send to a retry topic ends in the DLQ (B-86)."""
        config = self._groups.find_or_create(group, self._clock.time_ms())
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {group} does not exist, so it has no retry topic",
            )
        limit = max_reconsume_times(config, header.max_reconsume_times, request.version)
        profile = self._profile
        return resend_goes_to_dlq(
            header.reconsume_times,
            limit,
            when_equal=profile.dlq_when_retries_equal_max,
            holds_locks=profile.dlq_when_group_holds_locks
            and self._locks.holds_live_lock(group, self._clock.monotonic()),
        )

    def _check_timers(self, properties: dict[str, str], delay_level: int, now_ms: int) -> None:
        """Delays by milliseconds (B-96) are refused rather than delivered early."""
        if not self._profile.arbitrary_delay or _TIMERS.isdisjoint(properties):
            return
        if delay_level > 0:
            for name in _TIMERS:
                properties.pop(name, None)
            return
        deliver_ms = level_of(properties.get(names.TIMER_DELIVER_MS))
        is_future = (
            level_of(properties.get(names.TIMER_DELAY_SEC)) > 0
            or level_of(properties.get(names.TIMER_DELAY_MS)) > 0
            or deliver_ms > now_ms
        )
        if is_future:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                "this broker delays by level only; set DELAY (1..18) and no TIMER_ property",
            )

    def _send_batch(
        self, peer: Peer, request: Command, header: SendHeader, born_host: bytes, now_ms: int
    ) -> Reply:
        """Store the messages of one batch, all or none (B-19)."""
        plan = self._plan(header, now_ms)
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
            properties.pop(names.POP_CK, None)
            properties.update(self._added)
            if names.UNIQ_KEY not in properties:
                properties[names.UNIQ_KEY] = self._key()
            messages.append(
                StoredMessage(
                    topic=header.topic,
                    queue_id=queue_id,
                    body=memoryview(entry.body),
                    properties=encode_properties(properties).encode(),
                    flag=entry.flag,
                    sys_flag=header.sys_flag & ~MessageSysFlag.TRANSACTION_MASK,
                    born_timestamp_ms=header.born_timestamp,
                    born_host=born_host,
                    store_host=self._store_host,
                    reconsume_times=header.reconsume_times,
                    tags_code=tags_code(properties.get(names.TAGS)),
                    uniq_key=properties[names.UNIQ_KEY],
                    keys=properties.get(names.KEYS),
                    wait_store_ok=properties.get(names.WAIT) != "false",
                )
            )
        results = self._store.put_batch(messages)
        bad = next((result for result in results if result.status is not _OK), None)
        if bad is not None:
            return not_stored(request, bad, self._store)
        size_bytes = sum(result.size for result in results)
        self._stats.note_put(len(results), size_bytes, self._clock.monotonic())
        ids = ",".join(offset_msg_id(self._store_host, r.physical_offset) for r in results)
        first = PutResult(
            _OK,
            results[0].queue_offset,
            results[-1].physical_offset,  # its end is what has to be flushed
            results[-1].size,
            results[0].store_timestamp_ms,
        )
        stored = _Stored(request, queue_id, messages[0], first, ids)
        if self._must_wait():
            self._answer_when_safe(peer, [stored])
            return None
        return self._stored_reply(stored, _OK)

    # -- inside ---------------------------------------------------------------------------------

    def _plan(self, header: SendHeader, now_ms: int) -> SendPlan:
        plan = self._checks.plans.get(header.topic)
        if plan is not None and self._replies is not None:
            return plan
        self._opened()
        return self._checks.plan(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            now_ms=now_ms,
            unit_mode=header.unit_mode,
        )

    def _opened(self) -> SendReplies:
        if self._replies is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, "the broker is starting or stopping; try again"
            )
        return self._replies

    def _key(self) -> str:
        if self._new_key is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, "the broker is starting or stopping; try again"
            )
        return self._new_key()


class _Stored:
    """A stored message whose answer waits."""

    __slots__ = ("message", "msg_id", "queue_id", "request", "result")

    def __init__(
        self,
        request: Command,
        queue_id: int,
        message: StoredMessage,
        result: PutResult,
        msg_id: str | None = None,
    ) -> None:
        self.request = request
        self.queue_id = queue_id
        self.message = message
        self.result = result
        self.msg_id = msg_id
        """Of a batch: all ids."""


def not_stored(request: Command, result: PutResult, store: MessageStore) -> Command:
    """The answer to a message that the store refused (sheet 2.5)."""
    code, remark = NOT_STORED.get(
        result.status, (int(ResponseCode.SYSTEM_ERROR), f"the store said {result.status.name}")
    )
    if store.blocked_by:
        remark += ": " + "; ".join(sorted(store.blocked_by))
    return request.reply(code=code, remark=remark)


def _body(request: Command) -> bytes | memoryview:
    body = request.body
    if not len(body):
        raise RequestRefusedError(ResponseCode.MESSAGE_ILLEGAL, "the message has no body")
    if isinstance(body, (bytes, memoryview)):
        return body
    return bytes(request.body_view)
