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
            "Number of queues of the revive topic, which stores the check points and acks of pops."
        ),
        rule="K-10",
    )
    enable_pop_buffer_merge: bool = option(
        False,
        help="Keep check points and acks of pops in memory for some seconds before writing them. A "
        "killed broker may then deliver acknowledged messages again.",
        rule="K-100",
        live=True,
    )
    pop_ck_stay_buffer_time_ms: int = option(
        10_000,
        unit="ms",
        help="Maximum time that a check point stays in memory.",
        rule="K-102",
        rocketmq_name="popCkStayBufferTime",
        live=True,
    )
    pop_ck_stay_buffer_time_out_ms: int = option(
        3_000,
        unit="ms",
        help="A check point is written at least this long before its messages are due.",
        rule="K-102",
        rocketmq_name="popCkStayBufferTimeOut",
        live=True,
    )
    pop_ck_max_buffer_size: int = option(
        200_000, help="Most check points in memory.", rule="K-100", live=True
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000,
        help="Maximum number of check points of one queue in memory.",
        rule="K-100",
        live=True,
    )
    enable_retry_topic_v2: bool = option(
        False,
        help="Name pop retry topics %RETRY%group+topic instead of %RETRY%group_topic.",
        rule="K-13",
        live=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True,
        help="With enableRetryTopicV2: also read the older retry topics %RETRY%group_topic.",
        rule="K-33",
        live=True,
    )
    pop_from_retry_probability: int = option(
        20,
        help="Percentage of pops that read the retry topic first.",
        rule="K-33",
        unit="%",
        live=True,
        within=(0, 100),
    )
    pop_from_retry_probability_for_priority: int = option(
        0,
        help="Percentage of pops by priority that read the retry topic first.",
        rule="V-3",
        unit="%",
        live=True,
        within=(0, 100),
    )
    priority_order_asc: bool = option(
        True,
        help="Let queue 0 have the lowest priority instead of the highest.",
        rule="V-2",
        live=True,
    )
    use_message_filter_for_notification: bool = option(
        True,
        help=(
            "If a NOTIFICATION (200054) has an expression, count only messages that match it (5.5)."
        ),
        rule="K-66",
        live=True,
    )
    use_separate_retry_queue: bool = option(
        False,
        help=(
            "Give each pop retry topic the same number of queues as its topic, so that "
            "retried messages keep their priority."
        ),
        rule="V-5",
        live=True,
    )
    pop_response_return_actual_retry_topic: bool = option(
        False,
        help="Return retried messages with the name of their retry topic.",
        rule="K-35",
        live=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True,
        help=(
            "Let a new group begin at a queue's first message, if that message is still in memory."
        ),
        rule="K-34",
        live=True,
    )
    enable_pop_message_threshold: bool = option(
        False,
        help="Pop nothing from a queue that has too many unacknowledged messages.",
        rule="K-34",
        live=True,
    )
    pop_inflight_message_threshold: int = option(
        10_000,
        help=(
            "With enablePopMessageThreshold: pop nothing from a queue while the group has more "
            "unacknowledged messages of it than this number."
        ),
        rule="K-34",
        live=True,
        within=(0, inf),
    )
    server_load_balancer_enable: bool = option(
        True,
        help="Let the broker divide queues among the group members that ask it for queues.",
        rule="K-22",
        live=True,
    )
    default_message_request_mode: Literal["PULL", "POP"] = option(
        "PULL",
        help="Mode (pull or pop) of groups for which no mode was set.",
        rule="K-20",
        live=True,
    )
    default_pop_share_queue_num: int = option(
        -1,
        help=(
            "With POP: number of other members whose queues a client also pops. -1: all members."
        ),
        rule="K-24",
        live=True,
    )
