"""The broker's options, under RocketMQ's names in `broker.conf` and in Python case elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pocketmq.runtime.options import option


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """Identity of a broker, the nameservers it registers with, and what it allows."""

    section: ClassVar[str] = "broker"

    name: str = option(
        "broker-a", help="Name that its queues are known by.", rocketmq_name="brokerName"
    )
    cluster_name: str = option(
        "DefaultCluster", help="Cluster it belongs to.", rocketmq_name="brokerClusterName"
    )
    broker_id: int = option(0, help="0 is the master; slaves have higher ids.")
    nameservers: tuple[str, ...] = option(
        (),
        help="Name servers to register with, host:port separated by ';'.",
        rule="B-2",
        rocketmq_name="namesrvAddr",
    )
    encoding: Literal["msgpack", "json", "rocketmq"] = option(
        "msgpack", help="How name servers are spoken to; RocketMQ's own understand json."
    )
    host: str = option("127.0.0.1", help="Address to listen on.", rocketmq_name="bindAddress")
    broker_ip1: str = option(
        "", help="Address that clients are told; --host when empty.", rocketmq_name="brokerIP1"
    )
    port: int = option(
        10911, help="Port to listen on; 0 takes a free one.", rule="B-1", rocketmq_name="listenPort"
    )
    vip_port_enable: bool = option(
        True, help="Listen at the port less 2 as well; RocketMQ's clients up to 4.4 send there."
    )
    data: Path = option(
        Path("~/store"), help="Root of the store.", rocketmq_name="storePathRootDir"
    )

    # -- what it allows
    broker_permission: int = option(
        6, help="Bits that the broker itself has: 4 read, 2 write.", rule="B-5"
    )
    auto_create_topic_enable: bool = option(
        True, help="Create topics after the template TBW102.", rule="B-12"
    )
    auto_create_subscription_group: bool = option(
        True, help="Create unknown consumer groups.", rule="B-40"
    )
    default_topic_queue_nums: int = option(8, help="Queues of the template TBW102.", rule="B-12")
    cluster_topic_enable: bool = option(True, help="The cluster's name is a template topic.")
    broker_topic_enable: bool = option(True, help="The broker's name is a template topic.")
    trace_topic_enable: bool = option(False, help="Keep a topic for message traces.")
    slave_read_enable: bool = option(
        False, help="Send consumers that are far behind to a slave.", rule="B-63"
    )

    recall_message_enable: bool = option(
        False, help="Let producers take timer messages back.", rule="R-31"
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True, help="Also while the broker itself may not be written.", rule="R-31"
    )

    # -- pop
    revive_queue_num: int = option(
        8, help="Queues of the topic in which check points and acks come up.", rule="K-10"
    )
    enable_retry_topic_v2: bool = option(
        False, help="Name retry topics of pop %RETRY%group+topic.", rule="K-13"
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, help="With it, also read those named %RETRY%group_topic.", rule="K-33"
    )
    pop_from_retry_probability: int = option(
        20, help="Percent of pops that read the retry topic first.", rule="K-33", unit="%"
    )
    pop_response_return_actual_retry_topic: bool = option(
        False, help="Hand retried messages out under their retry topic.", rule="K-35"
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True, help="A new group begins at a queue's first message while that is young.", rule="K-34"
    )
    enable_pop_message_threshold: bool = option(
        False, help="Stop queues with too many unacknowledged messages.", rule="K-34"
    )
    pop_inflight_message_threshold: int = option(
        10_000, help="How many of one group those are.", rule="K-34"
    )

    server_load_balancer_enable: bool = option(
        True, help="Share queues among those who ask the broker for theirs.", rule="K-22"
    )
    default_message_request_mode: Literal["PULL", "POP"] = option(
        "PULL", help="How groups get messages for which nobody set it.", rule="K-20"
    )
    default_pop_share_queue_num: int = option(
        -1, help="With POP, how many neighbours' queues a client pops too; -1: all.", rule="K-24"
    )

    # -- registration
    force_register: bool = option(
        True, help="Register at every period, changed or not.", rule="B-3"
    )
    register_nameserver_period_ms: int = option(
        30_000,
        unit="ms",
        help="Between two registrations; kept within 10 s and 60 s.",
        rule="B-2",
        rocketmq_name="registerNameServerPeriod",
    )

    # -- clients
    channel_expired_timeout_ms: int = option(
        120_000, unit="ms", help="Clients silent for longer are forgotten.", rule="B-27"
    )
    notify_consumer_ids_changed_enable: bool = option(
        True, help="Tell consumers when their group changes.", rule="B-24"
    )
    real_time_notify_consumer_change: bool = option(
        True, help="Tell them at once, not after 30 s and then every 15 s.", rule="B-24"
    )
    long_polling_enable: bool = option(
        True, help="Hold pulls as long as consumers ask.", rule="B-70"
    )
    enable_property_filter: bool = option(
        False, help="Consumers may subscribe by SQL92 expressions.", rule="Q-21"
    )
    short_polling_time_ms: int = option(
        1_000,
        unit="ms",
        help="How long pulls are held without long polling.",
        rule="B-70",
        rocketmq_name="shortPollingTimeMills",
    )
    lock_max_live_time_ms: int = option(
        60_000,
        unit="ms",
        help="How long an orderly consumer's queue lock lives.",
        rule="B-45",
        rocketmq_name="rocketmq.broker.rebalance.lockMaxLiveTime",
    )
    use_server_side_reset_offset: bool | None = option(
        None, help="Reset at the next pull and not by a push; by default as the profile says."
    )
    enable_broadcast_offset_store: bool | None = option(
        None,
        help="Note where members of broadcasting groups pull; by default as the profile says.",
        rule="B-36",
    )
    broadcast_offset_expire_second: int = option(
        120, unit="s", help="How long a broadcasting member that left still counts.", rule="B-36"
    )
    broadcast_offset_expire_max_second: int = option(
        300, unit="s", help="How long one that stays but does not pull counts.", rule="B-36"
    )

    # -- transactions
    reject_transaction_message: bool = option(False, help="Refuse half messages.", rule="B-100")
    transaction_time_out_ms: int = option(
        6_000,
        unit="ms",
        help="A half message is not asked for sooner.",
        rule="B-107",
        rocketmq_name="transactionTimeOut",
    )
    transaction_check_max: int = option(
        15, help="It is asked for so often, and then given up.", rule="B-107"
    )
    transaction_check_interval_ms: int | None = option(
        None,
        unit="ms",
        help="Between two looks for undecided half messages; by default as the profile says.",
        rule="B-106",
        rocketmq_name="transactionCheckInterval",
    )
    transaction_op_msg_max_size: int = option(
        4_096, help="Characters of an op record after which it is written.", rule="X-25"
    )
    transaction_op_batch_interval_ms: int = option(
        3_000,
        unit="ms",
        help="Between two op records; at once with SYNC_FLUSH.",
        rule="X-25",
        rocketmq_name="transactionOpBatchInterval",
    )

    # -- requests and replies
    store_reply_message_enable: bool = option(
        True, help="Also store replies, which nobody reads.", rule="R-13"
    )

    # -- files
    flush_consumer_offset_interval_ms: int = option(
        5_000,
        unit="ms",
        help="Between two writes of consumerOffset.json.",
        rule="B-31",
        rocketmq_name="flushConsumerOffsetInterval",
    )
    flush_delay_offset_interval_ms: int = option(
        10_000,
        unit="ms",
        help="Between two writes of delayOffset.json.",
        rule="B-94",
        rocketmq_name="flushDelayOffsetInterval",
    )

    # -- overload
    broker_fast_failure_enable: bool = option(
        True, help="Refuse requests that have waited too long.", rule="B-161"
    )
    wait_time_mills_in_send_queue: int = option(
        200, unit="ms", help="Sends that waited longer are refused.", rule="B-161"
    )
    wait_time_mills_in_pull_queue: int = option(
        5_000, unit="ms", help="Pulls that waited longer are refused.", rule="B-161"
    )
    wait_time_mills_in_heartbeat_queue: int = option(
        31_000, unit="ms", help="Heartbeats that waited longer are refused.", rule="B-161"
    )
    wait_time_mills_in_admin_broker_queue: int = option(
        5_000, unit="ms", help="Requests of tools that waited longer are refused.", rule="B-161"
    )
    transient_store_pool_enable: bool = option(
        False, help="Refuse sends while too much of the log is unflushed.", rule="B-162"
    )
    transient_store_pool_size: int = option(
        5, help="How much that is, in commit-log files.", rule="B-162"
    )
    disable_consume_if_consumer_read_slowly: bool = option(
        False, help="Stop groups that lag too far behind.", rule="B-168"
    )
    consumer_fallbehind_threshold: int = option(
        16 * 1024**3, unit="bytes", help="Lag from which a group is stopped.", rule="B-168"
    )

    @property
    def register_period_s(self) -> float:
        """Clamped as RocketMQ clamps it (B-2)."""
        return min(max(self.register_nameserver_period_ms, 10_000), 60_000) / 1000
