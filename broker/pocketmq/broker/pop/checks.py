"""What is checked before a pop, an ack and the like, in RocketMQ's order (K-30, K-50, K-54)."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.pop.records import MOST_MESSAGES
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.pop import PopMessageRequestHeader
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.words import counted

LATE_MS = 500


class PopChecks:
    """Checks whether a group may pop a topic, and whether a queue has an offset.

    Args:
        core: options, clock and store.
        topics: what exists here.
        groups: who may consume; unknown ones may be added.
    """

    def __init__(
        self, core: BrokerCore, topics: TopicConfigManager, groups: SubscriptionGroupManager
    ) -> None:
        self._core = core
        self._topics = topics
        self._groups = groups

    def pop(self, header: PopMessageRequestHeader, born_ms: int, now_ms: int) -> TopicConfig:
        """Check a pop; returns the configuration of its topic.

        Raises:
            RequestRefusedError: with the code of the first check that failed.
        """
        name = self._core.config.name
        # The client does not wait for a late pop any more; the answer would hide messages for
        # nothing.
        if now_ms - born_ms - header.poll_time > LATE_MS:
            raise RequestRefusedError(
                ResponseCode.POLLING_TIMEOUT,
                f"the broker[{name}] pop message is timeout too much; check that the clocks of "
                "the broker and the client agree",
            )
        # RocketMQ's order, because the first check that fails decides the answer's code (K-30).
        self._readable_broker()
        if header.max_msg_nums > MOST_MESSAGES:
            raise RequestRefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"the broker[{name}] pop message's num is greater than {MOST_MESSAGES}",
            )
        config = self._core.store.config
        # Check points are timer messages; without the wheel they would never become due (K-70).
        if not config.timer_wheel_enable:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"the broker[{name}] pop message is forbidden because timerWheelEnable is false",
            )
        if header.invisible_time > config.timer_max_delay_sec * 1000:
            # RocketMQ hands such messages out and never revives them (K-39).
            raise RequestRefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"invisibleTime is {header.invisible_time} ms, but may be at most "
                f"{config.timer_max_delay_sec} s (timerMaxDelaySec)",
            )
        return self.read(header.topic, header.queue_id, header.consumer_group, now_ms)

    def read(self, topic: str, queue_id: int, group: str, now_ms: int) -> TopicConfig:
        """Check that a group may read a topic; returns the topic's configuration.

        Raises:
            RequestRefusedError: with the code of the first check that failed.
        """
        self._readable_broker()
        config = self._topic(topic)
        if not config.perm & Perm.READ:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden"
            )
        if queue_id >= config.read_queue_nums:
            raise RequestRefusedError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] has "
                f"{counted(config.read_queue_nums, 'read queue')}",
            )
        # Last, because it may create the group.
        self.group(group, now_ms)
        return config

    def group(self, group: str, now_ms: int) -> None:
        """Check that a group may consume.

        Raises:
            RequestRefusedError: it does not exist, or may not.
        """
        config = self._groups.find_or_create(group, now_ms)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group}] does not exist, and the broker may not create the "
                "group by itself",
            )
        if not config.consume_enable:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}"
            )

    def knows(self, group: str) -> bool:
        """Whether the group exists."""
        return self._groups.get(group) is not None

    def queue(self, topic: str, queue_id: int) -> None:
        """Check the queue that an ack names.

        Raises:
            RequestRefusedError: TOPIC_NOT_EXIST (17) or MESSAGE_ILLEGAL (13).
        """
        config = self._topic(topic)
        if not 0 <= queue_id < config.read_queue_nums:
            raise RequestRefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] has "
                f"{counted(config.read_queue_nums, 'read queue')}; send the id of the message's "
                "own queue",
            )

    def offset(self, topic: str, queue_id: int, offset: int, *, end_passes: bool) -> None:
        """Check that the queue holds an offset.

        Args:
            topic: of the queue.
            queue_id: of the queue.
            offset: of a message.
            end_passes: accept the offset after the last message: yes for an ack, no for a
                change of the invisible time.

        Raises:
            RequestRefusedError: NO_MESSAGE (208).
        """
        low = self._core.store.reads.min_offset(topic, queue_id)
        high = self._core.store.reads.max_offset(topic, queue_id)
        # Like RocketMQ, accept the end of the queue for an ack only (K-50, K-54).
        if offset < low or offset > high or (offset == high and not end_passes):
            raise RequestRefusedError(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}; "
                "send the message's own queue and offset",
            )

    def _topic(self, topic: str) -> TopicConfig:
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!"
            )
        return config

    def _readable_broker(self) -> None:
        config = self._core.config
        if not config.broker_permission & Perm.READ:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, f"the broker[{config.name}] pop message is forbidden"
            )
