"""Decisions about pulls: who may read, how a read is answered, what ends a wait (B-55 to B-74).

Pure. A slave decides some of it otherwise: see `SlaveReads`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import msgspec

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilter, MessageFilters
from pocketmq.broker.groups.consumers import ConsumerGroupInfo, ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.store.queues.lookup import GetStatus
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import Perm, PullSysFlag
from pocketmq.runtime.words import counted

FOUND = int(ResponseCode.SUCCESS)
NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
MOVED = int(ResponseCode.PULL_OFFSET_MOVED)

_CODES = {
    GetStatus.FOUND: FOUND,
    GetStatus.NO_MATCHED_MESSAGE: RETRY,
    GetStatus.MESSAGE_WAS_REMOVING: RETRY,
    GetStatus.OFFSET_FOUND_NULL: NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: MOVED,
    GetStatus.OFFSET_TOO_SMALL: MOVED,
    GetStatus.OFFSET_RESET: MOVED,
}


class ForbiddenType(IntEnum):
    """Who forbids a pull, as RocketMQ's interface of this name says."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING = 4


class ReadOptions(Protocol):
    """What a broker's options say of reading."""

    @property
    def broker_permission(self) -> int:
        """The broker's own permission bits."""
        ...

    @property
    def slave_read_enable(self) -> bool:
        """`slaveReadEnable`."""
        ...


class Leads(Protocol):
    """A broker's role."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the master."""
        ...


def response_code(status: GetStatus, offset: int) -> int:
    """The answer to a read that ended with `status`, for a pull from `offset` (B-59).

    A queue that is empty or was never made has nothing new at offset 0. At any other offset its
    messages are lost: the consumer is moved to 0, so that it does not wait for ever.
    """
    code = _CODES.get(status)
    if code is None:  # NO_MATCHED_LOGIC_QUEUE, NO_MESSAGE_IN_QUEUE
        return MOVED if offset != 0 else NOT_FOUND
    return code


class PullPlan(msgspec.Struct, gc=False, frozen=True):
    """A pull that may read."""

    group: SubscriptionGroupConfig
    topic: TopicConfig
    subscription: SubscriptionData
    filter: MessageFilter
    members: ConsumerGroupInfo | None
    """Of the group; None while none has sent a heartbeat."""


class PullChecks:
    """Checks whether a group may pull a queue, and finds the filter of its subscription.

    Args:
        topics: what exists here.
        groups: who may consume; unknown groups may be added.
        consumers: subscriptions from heartbeats.
        filters: parse and compile subscriptions.
        broker_name: for remarks.
        options: the broker's, as they are now.
        invalid_parameter_code: answer to illegal queue ids, by profile.
        tells_who_forbids: answers of NO_PERMISSION (16) have `forbiddenType`, by profile.
    """

    def __init__(
        self,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        consumers: ConsumerManager,
        filters: MessageFilters,
        *,
        broker_name: str,
        options: Callable[[], ReadOptions],
        invalid_parameter_code: int = ResponseCode.INVALID_PARAMETER,
        tells_who_forbids: bool = True,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._broker_name = broker_name
        self._options = options
        self._invalid_code = invalid_parameter_code
        self._tells_who_forbids = tells_who_forbids

    def check(self, header: PullMessageRequestHeader, now_ms: int) -> PullPlan:
        """Check a pull, in RocketMQ's order of checks.

        Raises:
            RequestRefusedError: with the code of the first check that failed.
        """
        if not self._options().broker_permission & Perm.READ:
            raise self._forbidden(
                ForbiddenType.BROKER,
                f"broker {self._broker_name} cannot be read from: its brokerPermission does not "
                "allow reads",
            )
        # Most groups are in the table; one that is not may be created (B-40).
        group = self._groups.table.get(header.consumer_group)
        if group is None:
            group = self._groups.find_or_create(header.consumer_group, now_ms)
            if group is None:
                raise RequestRefusedError(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                    f"subscription group {header.consumer_group} does not exist on broker "
                    f"{self._broker_name}, and the broker may not create the group "
                    "by itself",
                )
        if not group.consume_enable:
            raise self._forbidden(
                ForbiddenType.GROUP,
                f"subscription group {header.consumer_group} is not allowed to consume: its "
                "consumeEnable is false",
            )
        config = self._topics.table.get(header.topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {header.topic} does not exist on broker {self._broker_name}",
            )
        if not config.perm & Perm.READ:
            raise self._forbidden(
                ForbiddenType.TOPIC,
                f"topic {header.topic} cannot be read from: its permission is "
                f"{Perm.text(config.perm)}",
            )
        # Read queues count here: while a topic is being shrunk, it has more of them than write
        # queues.
        if not 0 <= header.queue_id < config.read_queue_nums:
            raise RequestRefusedError(
                self._invalid_code,
                f"queue id {header.queue_id} is illegal: topic {header.topic} has "
                f"{counted(config.read_queue_nums, 'read queue')} on broker {self._broker_name}",
            )
        members = self._consumers.groups.get(header.consumer_group)
        subscription = self._subscription(header, group, members)
        try:
            wanted = self._filters.of(subscription)
        except FilterError as exc:
            # The pull carries its own subscription, so the client's text is at fault.
            if header.sys_flag & PullSysFlag.SUBSCRIPTION:
                raise RequestRefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(exc)) from exc
            raise RequestRefusedError(  # the heartbeat was accepted
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist: {exc}",
            ) from exc
        return PullPlan(group, config, subscription, wanted, members)

    def _forbidden(self, by: ForbiddenType, remark: str) -> RequestRefusedError:
        """NO_PERMISSION (16); by profile its answer tells who forbids."""
        header = {"forbiddenType": int(by)} if self._tells_who_forbids else None
        return RequestRefusedError(ResponseCode.NO_PERMISSION, remark, header)

    def _subscription(
        self,
        header: PullMessageRequestHeader,
        group: SubscriptionGroupConfig,
        info: ConsumerGroupInfo | None,
    ) -> SubscriptionData:
        # A pull may carry its own subscription; otherwise the group's heartbeat decides (B-56).
        if header.sys_flag & PullSysFlag.SUBSCRIPTION:
            return self._filters.parse(
                header.topic, header.subscription, header.sub_version, header.expression_type
            )
        if info is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"group {header.consumer_group} has no member on broker {self._broker_name}; "
                "send a heartbeat before the pull",
            )
        if info.is_broadcasting and not group.consume_broadcast_enable:
            raise self._forbidden(
                ForbiddenType.BROADCASTING,
                f"group {header.consumer_group} is not allowed to consume by broadcast: its "
                "consumeBroadcastEnable is false",
            )
        data = info.subscriptions.get(header.topic)
        # The topic is new to the group, or its members subscribe to different topics (B-23).
        if data is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"group {header.consumer_group} does not subscribe to {header.topic}; check that "
                "all its members subscribe to the same topics",
            )
        if data.sub_version < header.sub_version:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the pull has version {header.sub_version} of the subscription of group "
                f"{header.consumer_group} to {header.topic}, but the broker knows only the older "
                f"version {data.sub_version}",
            )
        return data


class Verdict(NamedTuple):
    """How a pull is answered."""

    code: int
    next_begin_offset: int
    suggested_id: int
    """Which broker id the consumer pulls from next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveReads:
    """What pulls come to on a slave; a master's answers stay as they are."""

    role: Leads
    """Of this broker."""
    options: Callable[[], ReadOptions]
    """As they are now."""
    master_is_known: Callable[[], bool] = lambda: False
    """Of a slave: whether a name server knows its master."""
    refuses: bool = True
    """5.x: a slave that may not be read refuses pulls; 4.9 answers them, and names the master."""
    slaves_take_offsets: bool = True
    """5.x: a slave commits the offset that a pull carries; 4.9 does not (B-35)."""

    @property
    def takes_offset(self) -> bool:
        """Whether the offset that a pull carries is committed here (B-35)."""
        return self.slaves_take_offsets or self.role.leads

    def check(self) -> None:
        """Refuse a pull that must not be read here (B-58).

        Raises:
            RequestRefusedError: SYSTEM_BUSY (2).
        """
        if self.refuses and not self.role.leads and not self.options().slave_read_enable:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]this broker is a slave and slaveReadEnable is off; pull from its "
                "master",
            )

    def verdict(
        self,
        code: int,
        asked_offset: int,
        next_begin_offset: int,
        group: SubscriptionGroupConfig,
        *,
        slow: bool,
    ) -> Verdict:
        """The answer to a pull.

        Args:
            code: what the read came to.
            asked_offset: where the consumer is.
            next_begin_offset: where it would go on.
            group: whose settings name the brokers to suggest.
            slow: it reads so far behind that a slave is better for it (B-62).
        """
        enabled = self.options().slave_read_enable
        suggested = MASTER_ID
        # With `slaveReadEnable` off, consumers are never sent to a slave (B-63).
        if enabled:
            suggested = group.which_broker_when_consume_slowly if slow else group.broker_id
        if self.role.leads:
            return Verdict(code, next_begin_offset, suggested)
        if code == MOVED:  # this slave may lack what its master has (B-60)
            return Verdict(RETRY, asked_offset, group.broker_id)
        if not enabled:
            # 4.9 answers as the read came out. RETRY would take the consumer past what was read.
            return Verdict(code, next_begin_offset, MASTER_ID)
        if not slow and self.master_is_known():
            code = FOUND if code == FOUND else RETRY  # nobody waits here (H-11)
            return Verdict(code, next_begin_offset, MASTER_ID)
        return Verdict(code, next_begin_offset, suggested)


class HeldPull:
    """One pull that waits for messages (B-70)."""

    __slots__ = ("_matches", "deadline_at", "header", "peer", "queue", "request")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        subscription: SubscriptionData,
        deadline_at: float,
    ) -> None:
        self.peer = peer
        self.request = request
        self.header = header
        self.queue = (header.topic, header.queue_id)
        self._matches = None if subscription.subscribes_all else subscription.matches
        self.deadline_at = deadline_at
        """The caller's monotonic seconds at which it must be answered."""

    def wants(self, first_offset: int, codes: Sequence[int]) -> bool:
        """Whether any of these messages, the first at `first_offset`, may be for this pull."""
        # Messages before the pull's offset do not count.
        skip = self.header.queue_offset - first_offset
        if skip >= len(codes):
            return False
        if self._matches is None:
            return True
        # One match is enough: the pull then runs again with all its checks.
        return any(map(self._matches, codes[skip:] if skip > 0 else codes))

    def is_behind(self, max_offset: int) -> bool:
        """Whether the queue has messages at the pull's offset; tags are not compared (B-73)."""
        return max_offset > self.header.queue_offset
