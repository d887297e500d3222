"""What is checked before a message is stored, in RocketMQ's order (B-110, B-111, B-12 to B-17).

What depends on the topic alone is decided once and kept in a `SendPlan`, until a topic changes.
The topic's W bit is *not* checked: write protection works through routes only (B-17).
"""

from __future__ import annotations

from collections.abc import Callable
from random import randrange

import msgspec

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.messages.validation import (
    NOT_ALLOWED_SEND,
    RETRY_PREFIX,
    check_topic,
    is_retry,
)
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.words import counted


class SendPlan(msgspec.Struct, gc=False, frozen=True):
    """What every send to one topic has in common."""

    topic: str
    queue_limit: int
    """Queue ids from here on are illegal: the larger of read and write queues."""
    write_queue_nums: int
    retry_group: str | None = None
    """The group whose retry topic this is; such sends may turn to `%DLQ%` (B-86)."""

    def queue_of(self, queue_id: int) -> int:
        """The queue to store in: the one asked for, or a random write queue for a negative id."""
        if queue_id >= 0:
            return queue_id
        return randrange(self.write_queue_nums) if self.write_queue_nums > 0 else 0


class SendChecks:
    """Answers: may this message be stored, and where?

    Args:
        topics: the topics, which unknown ones may be added to.
        broker_name: for remarks.
        broker_permission: the broker's own permission bits, now.
        may_create: whether unknown topics may be added now: a slave's table is its master's.
        invalid_parameter_code: answer to illegal topics and queue ids, by profile.
        max_retry_topic_chars: longest `%RETRY%` and `%DLQ%` topic, by profile.
    """

    def __init__(
        self,
        topics: TopicConfigManager,
        *,
        broker_name: str,
        broker_permission: Callable[[], int] = lambda: Perm.RW,
        may_create: Callable[[], bool] = lambda: True,
        invalid_parameter_code: int = ResponseCode.INVALID_PARAMETER,
        max_retry_topic_chars: int = 255,
    ) -> None:
        self._topics = topics
        self._broker_name = broker_name
        self._permission = broker_permission
        self._may_create = may_create
        self._invalid_code = invalid_parameter_code
        self._max_retry_chars = max_retry_topic_chars
        self.plans: dict[str, SendPlan] = {}
        """Plans of topics that were sent to; look here first, then call `plan`."""
        topics.changed.connect(self._topic_changed)

    def plan_for(
        self, header: SendMessageRequestHeader | SendMessageRequestHeaderV2, now_ms: int
    ) -> SendPlan:
        """`plan` for a send's header."""
        return self.plans.get(header.topic) or self.plan(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            now_ms=now_ms,
            unit_mode=header.unit_mode,
        )

    def plan(
        self,
        topic: str,
        default_topic: str,
        client_queue_nums: int,
        *,
        now_ms: int,
        unit_mode: bool = False,
    ) -> SendPlan:
        """The plan for a topic; an unknown topic is created where that is allowed.

        Raises:
            RequestRefusedError: NO_PERMISSION (16), TOPIC_NOT_EXIST (17), of a slave
                SERVICE_NOT_AVAILABLE (14), or the profile's code for an illegal name.
        """
        plan = self.plans.get(topic)
        if plan is not None:
            return plan
        cacheable = Perm.is_writable(self._permission())
        if not cacheable and self._topics.is_ordered(topic):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                f"broker {self._broker_name} accepts no messages for the ordered topic {topic}: "
                "its brokerPermission does not allow writes",
            )
        try:
            check_topic(topic, max_retry_chars=self._max_retry_chars)
        except IllegalNameError as exc:
            raise RequestRefusedError(self._invalid_code, str(exc)) from exc
        # Before the topic is looked for: it exists, and would be found.
        if topic in NOT_ALLOWED_SEND:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                f"topic {topic} is a system topic of the broker; send to another topic",
            )
        config = self._topics.get(topic)
        if config is None and not self._may_create():
            # What the store says of every message for a slave; here before a topic is made that
            # name servers would learn of and the master has not.
            raise RequestRefusedError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"topic {topic} does not exist on broker {self._broker_name}; this replica is a "
                "slave and cannot create topics, so send to its master",
            )
        config = config or self._topics.create_for_send(
            topic, default_topic, client_queue_nums, now_ms=now_ms, unit_mode=unit_mode
        )
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {topic} does not exist on broker {self._broker_name}, and the broker may "
                f"not create it from the template topic {default_topic}; create the topic with "
                "`pocketmq topic create`",
            )
        plan = SendPlan(
            topic,
            max(config.write_queue_nums, config.read_queue_nums),
            config.write_queue_nums,
            topic[len(RETRY_PREFIX) :] if is_retry(topic) else None,
        )
        # A plan that is kept is not checked again, so none is made while a check could change its
        # mind: without the write bit, what is ordered decides anew at each send.
        if cacheable:
            self.plans[topic] = plan
        return plan

    def permission_changed(self) -> None:
        """Plans were made with another permission of the broker; make them anew."""
        self.plans.clear()

    def bad_queue(self, plan: SendPlan, queue_id: int) -> RequestRefusedError:
        """The answer to a queue id at or above `plan.queue_limit`."""
        return RequestRefusedError(
            self._invalid_code,
            f"queue id {queue_id} is illegal: topic {plan.topic} has "
            f"{counted(plan.queue_limit, 'queue')} on broker {self._broker_name}",
        )

    def _topic_changed(self, topic: str) -> None:
        self.plans.pop(topic, None)
