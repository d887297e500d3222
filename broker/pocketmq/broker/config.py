"""The broker's options, under RocketMQ's names in `broker.conf` and in Python case elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from pocketmq.broker.options.access import AccessOptions
from pocketmq.broker.options.acting_master import ActingMasterOptions
from pocketmq.broker.options.clients import ClientOptions
from pocketmq.broker.options.controller_mode import ControllerModeOptions
from pocketmq.broker.options.overload import OverloadOptions
from pocketmq.broker.options.pop import PopOptions
from pocketmq.broker.options.pulling import PullOptions
from pocketmq.broker.options.replication import ReplicationOptions
from pocketmq.broker.options.transactions import TransactionOptions
from pocketmq.runtime.configuration.options import clamped, option

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
class IdentityOptions:
    """Who a broker is, where it listens, and which nameservers it registers with."""

    name: str = option(
        "broker-a",
        help="Name of the broker. Brokers with the same name are replicas.",
        rocketmq_name="brokerName",
    )
    cluster_name: str = option(
        "DefaultCluster",
        help="Name of the cluster that the broker belongs to.",
        rocketmq_name="brokerClusterName",
    )
    broker_id: int = option(0, help="Id of the broker: 0 for a master, above 0 for a slave.")
    nameservers: tuple[str, ...] = option(
        (),
        help="Nameservers to register with, as host:port, separated by ';'.",
        rule="B-2",
        rocketmq_name="namesrvAddr",
    )
    encoding: Literal["msgpack", "json", "rocketmq"] = option(
        "msgpack",
        help="Encoding of requests to nameservers. If the nameservers are RocketMQ's, use json.",
    )
    host: str = option("127.0.0.1", help="Address to listen on.", rocketmq_name="bindAddress")
    broker_ip1: str = option(
        "",
        help="Address that the broker registers for clients. Default: the value of --host.",
        rocketmq_name="brokerIP1",
    )
    port: int = option(
        10911, help="Port to listen on. 0: any free port.", rule="B-1", rocketmq_name="listenPort"
    )
    vip_port_enable: bool = option(
        True,
        help=(
            "Also listen on the VIP port, which is the broker's port minus 2. RocketMQ's "
            "clients up to 4.4 send to this port."
        ),
    )
    data: Path = option(
        Path("~/store"), help="Root of the store.", rocketmq_name="storePathRootDir"
    )
    broker_config_path: Path | None = option(
        None,
        help=(
            "File in which the broker stores the options that tools changed. Default: the "
            "file that -c names. Without -c, the default is a file in the store."
        ),
        rule="O-7",
    )


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(
    AccessOptions,
    OverloadOptions,
    TransactionOptions,
    PullOptions,
    ClientOptions,
    PopOptions,
    ControllerModeOptions,
    ActingMasterOptions,
    ReplicationOptions,
    IdentityOptions,
):
    """All options of a broker but those of its store.

    The options of each subject stand in `options/`, as a base of this class; those of the last base
    are listed first.
    """

    section: ClassVar[str] = "broker"
    replaced: ClassVar[Mapping[str, str]] = DLEDGER_OPTIONS

    broker_permission: int = option(
        6,
        help="Permission of the whole broker: 4 for reading, 2 for writing, 6 for both.",
        rule="B-5",
        live=True,
        within=(0, 7),
    )
    auto_create_topic_enable: bool = option(
        True,
        help=(
            "When a message is sent to an unknown topic, create the topic with the "
            "settings of the template topic TBW102."
        ),
        rule="B-12",
        live=True,
    )
    auto_create_subscription_group: bool = option(
        True,
        help="Create unknown consumer groups.",
        rule="B-40",
        live=True,
    )
    clear_retry_topic_when_delete_topic: bool = option(
        True,
        help=(
            "When a topic is deleted, also delete the pop retry topics of the groups that "
            "consume the topic."
        ),
        rule="M-16",
        live=True,
    )
    default_topic_queue_nums: int = option(
        8, help="Number of queues of the template topic TBW102.", rule="B-12"
    )
    cluster_topic_enable: bool = option(
        True,
        help=(
            "Let producers use the topic with the cluster's name, which is also a template "
            "for new topics."
        ),
    )
    broker_topic_enable: bool = option(
        True,
        help=(
            "Let producers use the topic with the broker's name, which is also a template "
            "for new topics."
        ),
    )
    trace_topic_enable: bool = option(False, help="Create the system topic for message traces.")
    append_topic_for_timer_delete_key: bool | None = option(
        None,
        help=(
            "Whether the record that recalls a timer message names the message by topic "
            "and unique key. If this option is off, the record has only the key. Default: "
            "off, but on in profiles 4.9 and 5.3. The broker reads both forms."
        ),
        rule="T-136",
        live=True,
    )
    recall_message_enable: bool = option(
        False,
        help="Let producers recall timer messages.",
        rule="R-31",
        live=True,
    )
    allow_recall_when_broker_not_writeable: bool = option(
        True,
        help="Let producers recall timer messages even if the broker has no write permission.",
        rule="R-31",
        live=True,
    )
    use_server_side_reset_offset: bool | None = option(
        None,
        help=(
            "When a tool resets a group's offsets, change each offset at the group's next "
            "pull, instead of notifying the members. Default: on, but off in profile 4.9."
        ),
        live=True,
    )

    # -- registration
    force_register: bool = option(
        True,
        help=(
            "Send a registration to the nameservers in every period, even if nothing has "
            "changed since the last registration."
        ),
        rule="B-3",
    )
    register_nameserver_period_ms: int = option(
        30_000,
        unit="ms",
        help=(
            "Time between two registrations. A value below 10 s counts as 10 s, and a "
            "value above 60 s counts as 60 s."
        ),
        rule="B-2",
        rocketmq_name="registerNameServerPeriod",
        clamped=(10_000, 60_000),
    )

    # -- orderly consumption, requests and replies
    lock_max_live_time_ms: int = option(
        60_000,
        unit="ms",
        help=(
            "How long an orderly consumer keeps the lock of a queue after the consumer "
            "last renewed the lock."
        ),
        rule="B-45",
        rocketmq_name="rocketmq.broker.rebalance.lockMaxLiveTime",
    )
    store_reply_message_enable: bool = option(
        True,
        help=(
            "The broker sends a reply on to the client that made the request. With this "
            "option, it also stores the reply in the reply topic."
        ),
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

    @property
    def register_period_s(self) -> float:
        """Period of registration, clamped to 10 s to 60 s as in RocketMQ (B-2)."""
        return clamped(self, "register_nameserver_period_ms") / 1000
