"""The broker's options, under RocketMQ's names in `broker.conf` and in Python case elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar, Final, Literal

from pocketmq.broker.role_names import BrokerRole
from pocketmq.runtime.options import option

PERMISSION: Final = "brokerPermission"
"""An option whose change is told to the name servers (O-7)."""

PROTECTED_OPTIONS: Final = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})
"""Those that it may not change (O-4)."""


DLEDGER_OPTIONS: Final = {
    "dLegerGroup": "not needed: controllers group brokers by brokerName",
    "dLegerPeers": "use controllerAddr, host:port of each controller",
    "dLegerSelfId": "not needed: controllers give each replica its id",
    "preferredLeaderId": "use brokerElectionPriority",
    "storePathDLedgerCommitLog": "not written: `pocketmq store` reads what is in dledger-*/data",
    "enableBatchPush": "not needed",
}
"""What to use instead of the peers of `enableDLegerCommitLog` (D-200)."""


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """Identity of a broker, the nameservers it registers with, and what it allows."""

    section: ClassVar[str] = "broker"
    replaced: ClassVar[Mapping[str, str]] = DLEDGER_OPTIONS

    name: str = option(
        "broker-a", help="Name that its queues are known by.", rocketmq_name="brokerName"
    )
    cluster_name: str = option(
        "DefaultCluster",
        help="Name of the cluster that the broker belongs to.",
        rocketmq_name="brokerClusterName",
    )
    broker_id: int = option(0, help="0 for the master; slaves have higher ids.")
    nameservers: tuple[str, ...] = option(
        (),
        help="Name servers to register with: host:port, separated by ';'.",
        rule="B-2",
        rocketmq_name="namesrvAddr",
    )
    encoding: Literal["msgpack", "json", "rocketmq"] = option(
        "msgpack", help="Encoding of requests to name servers; RocketMQ's own need json."
    )
    host: str = option("127.0.0.1", help="Address to listen on.", rocketmq_name="bindAddress")
    broker_ip1: str = option(
        "", help="Address registered for clients; --host when empty.", rocketmq_name="brokerIP1"
    )
    port: int = option(
        10911, help="Port to listen on; 0 takes a free one.", rule="B-1", rocketmq_name="listenPort"
    )
    vip_port_enable: bool = option(
        True, help="Also listen on port - 2 (VIP port), where RocketMQ's clients up to 4.4 send."
    )
    data: Path = option(
        Path("~/store"), help="Root of the store.", rocketmq_name="storePathRootDir"
    )

    broker_config_path: Path | None = option(
        None,
        help="File of options that tools changed: FILE of -c FILE, else in the store.",
        rule="O-7",
    )

    # -- what it allows
    broker_permission: int = option(
        6,
        help="Permission bits of the whole broker: 4 read, 2 write.",
        rule="B-5",
        live=True,
        within=(0, 7),
    )
    auto_create_topic_enable: bool = option(
        True,
        help="Create unknown topics from the template topic TBW102.",
        rule="B-12",
        live=True,
    )
    auto_create_subscription_group: bool = option(
        True,
        help="Create unknown consumer groups.",
        rule="B-40",
        live=True,
    )
    default_topic_queue_nums: int = option(
        8, help="Number of queues of the template topic TBW102.", rule="B-12"
    )
    cluster_topic_enable: bool = option(
        True, help="Also offer a template topic named like the cluster."
    )
    broker_topic_enable: bool = option(
        True, help="Also offer a template topic named like the broker."
    )
    trace_topic_enable: bool = option(False, help="Create the system topic for message traces.")

    # -- master and slave
    broker_role: BrokerRole = option(
        BrokerRole.ASYNC_MASTER,
        help="ASYNC_MASTER, SYNC_MASTER (waits for inSyncReplicas), or SLAVE with an id above 0.",
        rule="H-1",
    )
    ha_listen_port: int = option(
        0,
        help="Port that slaves connect to; 0 is --port plus 1, or any other when that is taken.",
        rule="H-2",
    )
    ha_master_address: str = option(
        "",
        help="Of a slave: host:port of its master's replication port; else name servers tell it.",
        rule="H-7",
    )
    slave_read_enable: bool = option(
        False,
        help="Of a master: send consumers that lag far behind to a slave; of a slave: take them.",
        rule="H-10",
        live=True,
    )
    in_sync_replicas: int = option(
        1, help="Of a SYNC_MASTER: replicas that must have a message, it included.", rule="B-141"
    )
    slave_timeout: int = option(
        3_000, unit="ms", help="Of a SYNC_MASTER: longest wait for them.", rule="H-51"
    )
    ha_send_heartbeat_interval: int = option(
        5_000, unit="ms", help="Silence on the replication stream before a heartbeat.", rule="H-37"
    )
    ha_housekeeping_interval: int = option(
        20_000, unit="ms", help="Silence of the other side that ends the stream.", rule="H-34"
    )
    ha_transfer_batch_size: int = option(
        32_768, unit="bytes", help="Longest piece of log that is sent at once.", rule="H-38"
    )
    ha_max_gap_not_in_sync: int = option(
        256 * 1024**2,
        unit="bytes",
        help="A slave that lacks as much is not in sync.",
        rule="H-41",
    )

    enable_d_leger_commit_log: bool = option(
        False,
        help="Not built: RocketMQ has replaced it by controller mode, and so does this broker.",
        rule="D-200",
        rocketmq_name="enableDLegerCommitLog",
    )

    # -- controller mode
    enable_controller_mode: bool = option(
        False, help="Controllers say who is master; role and id are theirs.", rule="H-1"
    )
    controllers: list[str] = option(
        [], help="Controllers: host:port, separated by ';'.", rocketmq_name="controllerAddr"
    )
    broker_heartbeat_interval: int = option(
        1_000, unit="ms", help="Between two heartbeats to controllers.", rule="D-40"
    )
    controller_heart_beat_timeout_mills: int = option(
        10_000, unit="ms", help="Silence after which this broker counts as dead.", rule="D-40"
    )
    sync_broker_metadata_period: int = option(
        5_000, unit="ms", help="Between two questions who is master.", rule="D-17"
    )
    ha_max_time_slave_not_catchup: int = option(
        15_000, unit="ms", help="A slave that lags for so long leaves the set.", rule="H-153"
    )
    all_ack_in_sync_state_set: bool = option(
        False, help="A message waits until every replica in sync has it.", rule="H-52"
    )
    min_in_sync_replicas: int = option(
        1, help="Fewer replicas in sync, and no message is taken.", rule="D-90"
    )
    broker_election_priority: int = option(
        2**31 - 1, help="The smaller, the sooner master among equals.", rule="D-33"
    )

    recall_message_enable: bool = option(
        False,
        help="Let producers recall timer messages.",
        rule="R-31",
        live=True,
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True,
        help="Allow recalls also while the broker has no write permission.",
        rule="R-31",
        live=True,
    )

    # -- pop
    revive_queue_num: int = option(
        8, help="Number of queues of the revive topic (check points and acks of pops).", rule="K-10"
    )
    enable_pop_buffer_merge: bool = option(
        False,
        help="Keep check points and acks of pops in memory for some seconds before they are "
        "written; a killed broker hands out again what was only there.",
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
        help="So long before its messages are due a check point is written at the latest.",
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
        help="With the new names, also read retry topics named %RETRY%group_topic.",
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
        help="The same of pops that read queues by priority.",
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
    use_separate_retry_queue: bool = option(
        False,
        help="Give a pop retry topic as many queues as its topic has, so that priorities last.",
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
        help="A new group starts at a queue's first message while that is in memory.",
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
        help="Unacknowledged messages of a group and queue from which that holds.",
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

    # -- registration
    force_register: bool = option(
        True, help="Register in every period, also when nothing changed.", rule="B-3"
    )
    register_nameserver_period_ms: int = option(
        30_000,
        unit="ms",
        help="Period of registration; clamped to 10 s to 60 s.",
        rule="B-2",
        rocketmq_name="registerNameServerPeriod",
    )

    # -- clients
    channel_expired_timeout_ms: int = option(
        120_000, unit="ms", help="Remove clients without a heartbeat for this long.", rule="B-27"
    )
    notify_consumer_ids_changed_enable: bool = option(
        True, help="Notify consumers when members of their group join or leave.", rule="B-24"
    )
    real_time_notify_consumer_change: bool = option(
        True,
        help="Notify at once, not in batches (first after 30 s, then every 15 s).",
        rule="B-24",
    )
    long_polling_enable: bool = option(
        True,
        help="Long polling: hold a pull for as long as the consumer asks.",
        rule="B-70",
        live=True,
    )
    enable_property_filter: bool = option(
        False,
        help="Allow subscriptions by SQL92 expressions.",
        rule="Q-21",
        live=True,
    )
    short_polling_time_ms: int = option(
        1_000,
        unit="ms",
        help="How long pulls are held without long polling.",
        rule="B-70",
        rocketmq_name="shortPollingTimeMills",
        live=True,
        within=(0, inf),
    )
    lock_max_live_time_ms: int = option(
        60_000,
        unit="ms",
        help="Lifetime of an orderly consumer's queue lock after its last renewal.",
        rule="B-45",
        rocketmq_name="rocketmq.broker.rebalance.lockMaxLiveTime",
    )
    use_server_side_reset_offset: bool | None = option(
        None,
        help="Reset offsets at the next pull, not by a push; default: by profile.",
        live=True,
    )
    enable_broadcast_offset_store: bool | None = option(
        None,
        help="Track pull offsets of broadcasting groups' members; default: by profile.",
        rule="B-36",
    )
    broadcast_offset_expire_second: int = option(
        120,
        unit="s",
        help="How long a disconnected broadcasting member's offset still counts.",
        rule="B-36",
    )
    broadcast_offset_expire_max_second: int = option(
        300,
        unit="s",
        help="How long a connected broadcasting member that does not pull still counts.",
        rule="B-36",
    )

    # -- transactions
    reject_transaction_message: bool = option(
        False,
        help="Refuse half messages.",
        rule="B-100",
        live=True,
    )
    transaction_time_out_ms: int = option(
        6_000,
        unit="ms",
        help="Age of a half message before its producer is asked (transaction check).",
        rule="B-107",
        rocketmq_name="transactionTimeOut",
        live=True,
        within=(0, inf),
    )
    transaction_check_max: int = option(
        15,
        help="Most checks of a half message; after them it is given up.",
        rule="B-107",
        live=True,
        within=(0, inf),
    )
    transaction_check_interval_ms: int | None = option(
        None,
        unit="ms",
        help="Interval of transaction checks; default: by profile.",
        rule="B-106",
        rocketmq_name="transactionCheckInterval",
        live=True,
        within=(100, inf),
    )
    transaction_op_msg_max_size: int = option(
        4_096,
        help="Length in characters from which an op record is written at once.",
        rule="X-25",
        live=True,
        within=(1, inf),
    )
    transaction_op_batch_interval_ms: int = option(
        3_000,
        unit="ms",
        help="Interval at which op records are written; at once with SYNC_FLUSH.",
        rule="X-25",
        rocketmq_name="transactionOpBatchInterval",
        live=True,
        within=(0, inf),
    )

    # -- requests and replies
    store_reply_message_enable: bool = option(
        True,
        help="Store replies in the reply topic, besides pushing them to the requester.",
        rule="R-13",
        live=True,
    )

    # -- files
    flush_consumer_offset_interval_ms: int = option(
        5_000,
        unit="ms",
        help="Interval at which consumerOffset.json is written.",
        rule="B-31",
        rocketmq_name="flushConsumerOffsetInterval",
    )
    flush_delay_offset_interval_ms: int = option(
        10_000,
        unit="ms",
        help="Interval at which delayOffset.json is written.",
        rule="B-94",
        rocketmq_name="flushDelayOffsetInterval",
    )

    # -- overload
    broker_fast_failure_enable: bool = option(
        True,
        help="Answer SYSTEM_BUSY (2) to requests that have waited too long.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_send_queue: int = option(
        200,
        unit="ms",
        help="Refuse sends that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_pull_queue: int = option(
        5_000,
        unit="ms",
        help="Refuse pulls that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_heartbeat_queue: int = option(
        31_000,
        unit="ms",
        help="Refuse heartbeats that waited longer.",
        rule="B-161",
        live=True,
    )
    wait_time_mills_in_admin_broker_queue: int = option(
        5_000,
        unit="ms",
        help="Refuse admin requests that waited longer.",
        rule="B-161",
        live=True,
    )
    transient_store_pool_enable: bool = option(
        False, help="Refuse sends while too much of the log is unflushed.", rule="B-162"
    )
    transient_store_pool_size: int = option(
        5, help="Limit of the unflushed log, in commit-log files.", rule="B-162"
    )
    disable_consume_if_consumer_read_slowly: bool = option(
        False,
        help="Forbid groups that lag too far behind to consume.",
        rule="B-168",
        live=True,
    )
    consumer_fallbehind_threshold: int = option(
        16 * 1024**3,
        unit="bytes",
        help="Lag from which a group may no longer consume.",
        rule="B-168",
        live=True,
        within=(0, inf),
    )

    @property
    def register_period_s(self) -> float:
        """Period of registration, clamped to 10 s to 60 s as in RocketMQ (B-2)."""
        return min(max(self.register_nameserver_period_ms, 10_000), 60_000) / 1000
