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
        help="Nameservers to register with, as host:port, separated by ';'.",
        rule="B-2",
        rocketmq_name="namesrvAddr",
    )
    encoding: Literal["msgpack", "json", "rocketmq"] = option(
        "msgpack", help="Encoding of requests to nameservers. RocketMQ's nameservers need json."
    )
    host: str = option("127.0.0.1", help="Address to listen on.", rocketmq_name="bindAddress")
    broker_ip1: str = option(
        "", help="Address registered for clients; --host when empty.", rocketmq_name="brokerIP1"
    )
    port: int = option(
        10911, help="Port to listen on. 0: any free port.", rule="B-1", rocketmq_name="listenPort"
    )
    vip_port_enable: bool = option(
        True, help="Also listen on port - 2 (VIP port), to which RocketMQ's clients up to 4.4 send."
    )
    data: Path = option(
        Path("~/store"), help="Root of the store.", rocketmq_name="storePathRootDir"
    )
    broker_config_path: Path | None = option(
        None,
        help=(
            "File that stores the options that tools changed. Default: the FILE of -c FILE, "
            "else a file in the store."
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
        help="Permission of the whole broker, as a sum: 4 read, 2 write.",
        rule="B-5",
        live=True,
        within=(0, 7),
    )
    auto_create_topic_enable: bool = option(
        True,
        help="Create an unknown topic with the settings of the template topic TBW102.",
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
            "When a topic is deleted, also delete the pop retry topics of the groups that read it."
        ),
        rule="M-16",
        live=True,
    )
    default_topic_queue_nums: int = option(
        8, help="Number of queues of the template topic TBW102.", rule="B-12"
    )
    cluster_topic_enable: bool = option(
        True, help="Also offer a template topic with the cluster's name."
    )
    broker_topic_enable: bool = option(
        True, help="Also offer a template topic with the broker's name."
    )
    trace_topic_enable: bool = option(False, help="Create the system topic for message traces.")
    append_topic_for_timer_delete_key: bool | None = option(
        None,
        help=(
            "Write the topic and the unique key into recalls, as RocketMQ 5.3 does. Default: "
            "by profile. The broker reads both forms."
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
        help="Allow recalls even if the broker has no write permission.",
        rule="R-31",
        live=True,
    )
    use_server_side_reset_offset: bool | None = option(
        None,
        help=(
            "Change a group's offsets at its next pull, without a push to its members. "
            "Default: by profile."
        ),
        live=True,
    )

    # -- registration
    force_register: bool = option(
        True, help="Register in every period, even if nothing has changed.", rule="B-3"
    )
    register_nameserver_period_ms: int = option(
        30_000,
        unit="ms",
        help="Time between two registrations: 10 s to 60 s. Other values are cut to this range.",
        rule="B-2",
        rocketmq_name="registerNameServerPeriod",
        clamped=(10_000, 60_000),
    )

    # -- orderly consumption, requests and replies
    lock_max_live_time_ms: int = option(
        60_000,
        unit="ms",
        help="Time after its last renewal for which an orderly consumer's queue lock holds.",
        rule="B-45",
        rocketmq_name="rocketmq.broker.rebalance.lockMaxLiveTime",
    )
    store_reply_message_enable: bool = option(
        True,
        help="Also store replies in the reply topic, besides pushing them to the requester.",
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
