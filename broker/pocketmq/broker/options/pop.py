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
        8, help="Number of queues of the revive topic (check points and acks of pops).", rule="K-10"
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
        help="How long a check point stays in memory at most.",
        rule="K-102",
        rocketmq_name="popCkStayBufferTime",
        live=True,
    )
    pop_ck_stay_buffer_time_out_ms: int = option(
        3_000,
        unit="ms",
        help="A check point is written at the latest this long before its messages are due.",
        rule="K-102",
        rocketmq_name="popCkStayBufferTimeOut",
        live=True,
    )
    pop_ck_max_buffer_size: int = option(
        200_000, help="Most check points in memory.", rule="K-100", live=True
    )
    pop_ck_offset_max_queue_size: int = option(
        20_000, help="Most check points in memory of one queue.", rule="K-100", live=True
    )
    enable_retry_topic_v2: bool = option(
        False,
        help="Name pop retry topics %RETRY%group+topic, not %RETRY%group_topic.",
        rule="K-13",
        live=True,
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True,
        help="With enableRetryTopicV2: also read retry topics named %RETRY%group_topic.",
        rule="K-33",
        live=True,
    )
    pop_from_retry_probability: int = option(
        20,
        help="Share of pops that read the retry topic first.",
        rule="K-33",
        unit="%",
        live=True,
        within=(0, 100),
    )
    pop_from_retry_probability_for_priority: int = option(
        0,
        help="Share of pops by priority that read the retry topic first.",
        rule="V-3",
        unit="%",
        live=True,
        within=(0, 100),
    )
    priority_order_asc: bool = option(
        True,
        help="Queue 0 has the lowest priority, not the highest.",
        rule="V-2",
        live=True,
    )
    use_message_filter_for_notification: bool = option(
        True,
        help="A NOTIFICATION (200054) with an expression counts matching messages only (5.5).",
        rule="K-66",
        live=True,
    )
    use_separate_retry_queue: bool = option(
        False,
        help="Give a pop retry topic as many queues as its topic has, so that retried messages "
        "keep their priority.",
        rule="V-5",
        live=True,
    )
    pop_response_return_actual_retry_topic: bool = option(
        False,
        help="Return retried messages under the name of their retry topic.",
        rule="K-35",
        live=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True,
        help="A new group begins at a queue's first message if that is still in memory.",
        rule="K-34",
        live=True,
    )
    enable_pop_message_threshold: bool = option(
        False,
        help="Pop nothing from queues with too many unacknowledged messages.",
        rule="K-34",
        live=True,
    )
    pop_inflight_message_threshold: int = option(
        10_000,
        help=(
            "With enablePopMessageThreshold: most unacknowledged messages of a group in a queue."
        ),
        rule="K-34",
        live=True,
        within=(0, inf),
    )
    server_load_balancer_enable: bool = option(
        True,
        help="Divide queues among group members that ask the broker for them.",
        rule="K-22",
        live=True,
    )
    default_message_request_mode: Literal["PULL", "POP"] = option(
        "PULL",
        help="Pull or pop, for groups for which no mode was set.",
        rule="K-20",
        live=True,
    )
    default_pop_share_queue_num: int = option(
        -1,
        help="With POP: number of other members whose queues a client pops too; -1: all.",
        rule="K-24",
        live=True,
    )
