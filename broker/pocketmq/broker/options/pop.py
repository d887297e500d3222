"""Options of pops. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class PopOptions:
    """Pops: check points in memory, retry topics, and how queues are shared."""

    revive_queue_num: int = option(
        8,
        help=(
            "Number of queues of the revive topic. This system topic stores the check "
            "points and acks of pops."
        ),
        rule="K-10",
    )
    enable_pop_buffer_merge: bool = option(
        False,
        help=(
            "Keep the check points and acks of pops in memory for some seconds before they "
            "are written. If the broker is killed, it may then deliver acknowledged "
            "messages again."
        ),
        rule="K-100",
        live=True,
    )
    pop_ck_stay_buffer_time_ms: int = option(
        10_000,
        unit="ms",
        help=(
            "With enablePopBufferMerge: maximum time that a pop's check point stays in "
            "memory. Then the check point is written."
        ),
        rule="K-102",
        rocketmq_name="popCkStayBufferTime",
        live=True,
    )
    pop_ck_stay_buffer_time_out_ms: int = option(
        3_000,
        unit="ms",
        help=(
            "With enablePopBufferMerge: a check point is written at least this long before "
            "its messages are delivered again."
        ),
        rule="K-102",
        rocketmq_name="popCkStayBufferTimeOut",
        live=True,
    )
    pop_ck_max_buffer_size: int = option(
        200_000,
        help=(
            "With enablePopBufferMerge: maximum number of check points in memory. With "
            "more, a new check point is written at once."
        ),
        rule="K-100",
        live=True,
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000,
        help=(
            "With enablePopBufferMerge: maximum number of one queue's check points in "
            "memory. With more, a new check point is written at once."
        ),
        rule="K-100",
        live=True,
    )
    enable_retry_topic_v2: bool = option(
        False,
        help=(
            "Give pop retry topics names of the form %RETRY%group+topic instead of "
            "%RETRY%group_topic."
        ),
        rule="K-13",
        live=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True,
        help=(
            "With enableRetryTopicV2: let pops also read the retry topics with names of "
            "the older form, %RETRY%group_topic."
        ),
        rule="K-33",
        live=True,
    )
    pop_from_retry_probability: int = option(
        20,
        help="Percentage of pops that read the retry topic before the topic itself.",
        rule="K-33",
        unit="%",
        live=True,
        within=(0, 100),
    )
    pop_from_retry_probability_for_priority: int = option(
        0,
        help="Percentage of pops by priority that read the retry topic before the topic itself.",
        rule="V-3",
        unit="%",
        live=True,
        within=(0, 100),
    )
    priority_order_asc: bool = option(
        True,
        help=(
            "Whether queue 0 has the lowest priority. If this option is off, queue 0 has "
            "the highest priority."
        ),
        rule="V-2",
        live=True,
    )
    use_message_filter_for_notification: bool = option(
        True,
        help=(
            "From profile 5.5 on, a request NOTIFICATION (200054) for new messages may "
            "have a filter expression. With this option, only messages that match the "
            "expression count."
        ),
        rule="K-66",
        live=True,
    )
    use_separate_retry_queue: bool = option(
        False,
        help=(
            "Give a new pop retry topic as many queues as the topic to which it belongs. "
            "Then messages keep their priority when they are retried."
        ),
        rule="V-5",
        live=True,
    )
    pop_response_return_actual_retry_topic: bool = option(
        False,
        help=(
            "When a client pops a retried message, give the message the name of its retry "
            "topic. If this option is off, the message has the name of the topic that the "
            "client popped."
        ),
        rule="K-35",
        live=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True,
        help=(
            "If a queue's first message is still in memory, let the pops of a new group "
            "begin at this message."
        ),
        rule="K-34",
        live=True,
    )
    enable_pop_message_threshold: bool = option(
        False,
        help=(
            "If a group has more unacknowledged messages in a queue than "
            "popInflightMessageThreshold, the group's pops get no messages from this queue."
        ),
        rule="K-34",
        live=True,
    )
    pop_inflight_message_threshold: int = option(
        10_000,
        help=(
            "Maximum number of unacknowledged messages that a group may have in one queue. "
            "With more, the group's pops get no messages from this queue. Only used with "
            "enablePopMessageThreshold."
        ),
        rule="K-34",
        live=True,
        within=(0, inf),
    )
    server_load_balancer_enable: bool = option(
        True,
        help=(
            "When group members ask the broker which queues to consume, divide the queues "
            "among the members. If this option is off, every member gets all queues."
        ),
        rule="K-22",
        live=True,
    )
    default_message_request_mode: Literal["PULL", "POP"] = option(
        "PULL",
        help="How a group consumes if no tool set a mode for the group: PULL or POP.",
        rule="K-20",
        live=True,
    )
    default_pop_share_queue_num: int = option(
        -1,
        help=(
            "In the mode POP: number of other members whose queues a client pops besides "
            "its own queues. -1: each client pops all queues."
        ),
        rule="K-24",
        live=True,
    )
