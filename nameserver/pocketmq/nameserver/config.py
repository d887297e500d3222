"""Options of a nameserver (N-1 to N-3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from pocketmq.operation.access.options import OwnRequestOptions
from pocketmq.runtime.configuration.options import option

PROTECTED_OPTIONS: Final = frozenset(
    {"authenticationEnabled", "configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)
"""Those that no request may change: the first lets strangers in, the others say which files are
written (O-4, O-8)."""


@dataclass(frozen=True, kw_only=True)
class NameServerOptions:
    """What RocketMQ's nameserver can be told too, and who may read routes."""

    name: str = option("nameserver", help="Name of the role in its ready line and in logs.")
    host: str = option("127.0.0.1", help="Address to listen on.", rocketmq_name="bindAddress")
    port: int = option(
        9876, help="Port to listen on. 0: any free port.", rule="N-1", rocketmq_name="listenPort"
    )
    kv_config_path: Path = option(
        Path("~/namesrv/kvConfig.json"), help="File of the KV configuration.", rule="N-1"
    )
    config_store_path: Path | None = option(
        None,
        help=(
            "File in which the nameserver stores the options that tools changed. Default: "
            "a file beside the file of the KV configuration."
        ),
        rule="O-8",
    )
    strangers_read_routes: bool = option(
        False,
        help=(
            "With members_must_prove: clients that do not know the secret, such as "
            "RocketMQ's, may still ask for routes, clusters and topic names."
        ),
    )
    order_message_enable: bool = option(
        False,
        help="Add a topic's order configuration to the answer with the topic's route.",
        rule="N-26",
        live=True,
    )
    return_order_topic_config_to_broker: bool = option(
        True,
        help=(
            "When a broker registers, answer with the order configuration of all topics: the "
            "namespace ORDER_TOPIC_CONFIG of the KV configuration."
        ),
        rule="N-18",
        live=True,
    )
    enable_topic_list: bool = option(
        True,
        help="Answer lists of some topics.",
        rule="N-34",
        live=True,
    )
    enable_all_topic_list: bool = option(
        True,
        help="Answer the list of all topics.",
        rule="N-34",
        live=True,
    )
    delete_topic_with_broker_registration: bool = option(
        False,
        help=(
            "If a broker's registration no longer contains a topic, forget the broker's "
            "queues of this topic."
        ),
        rule="N-15",
        live=True,
    )
    need_wait_for_service: bool = option(
        False,
        help=(
            "After the start, answer requests for routes with SYSTEM_ERROR (1) until "
            "waitSecondsForService seconds have passed. In this time the brokers can "
            "register."
        ),
        rule="N-26",
    )
    wait_seconds_for_service: int = option(
        45,
        unit="s",
        help=(
            "Time after the start in which a nameserver with needWaitForService gives no routes."
        ),
        rule="N-26",
    )
    scan_not_active_broker_interval: int | None = option(
        None,
        unit="ms",
        help=(
            "Time between two checks for silent brokers. Default: 5000, or 10000 in profile 4.9."
        ),
        rule="N-3",
    )
    enable_controller_in_namesrv: bool = option(
        False,
        help=(
            "Run a controller in this process too, on a port of its own. Only for `pocketmq "
            "nameserver`."
        ),
        rule="D-55",
    )
    support_acting_master: bool = option(
        False,
        help=(
            "If a broker name has no master, show its slave with the lowest id as the "
            "broker with id 0. The brokers must have enableSlaveActingMaster on."
        ),
        rule="N-28",
        live=True,
    )
    notify_min_broker_id_changed: bool = option(
        False,
        help=(
            "When the lowest broker id of a broker name changes, notify the brokers with this name."
        ),
        rule="Z-6",
        live=True,
    )
    un_register_broker_queue_capacity: int = option(
        3000,
        help=(
            "Maximum length of the queue in which requests to unregister a broker wait. If "
            "the queue is full, the answer is SYSTEM_ERROR (1). In profile 4.9, there is "
            "no queue."
        ),
        rule="N-19",
    )

    @property
    def options_file(self) -> Path:
        """`config_store_path`, or `namesrv.properties` beside the KV configuration."""
        path = self.config_store_path or self.kv_config_path.with_name("namesrv.properties")
        return path.expanduser()


@dataclass(frozen=True, kw_only=True)
class NameServerConfig(OwnRequestOptions, NameServerOptions):
    """What a nameserver can be told; RocketMQ's names and defaults where it has them."""

    section: ClassVar[str] = "nameserver"
