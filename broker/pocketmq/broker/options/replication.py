"""Options of masters and slaves. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.role_names import BrokerRole
from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ReplicationOptions:
    """Master and slaves: roles, and the stream between them."""

    broker_role: BrokerRole = option(
        BrokerRole.ASYNC_MASTER,
        help=(
            "Role of the broker: ASYNC_MASTER, SYNC_MASTER or SLAVE. Before a SYNC_MASTER "
            "answers a send, it waits for replicas (inSyncReplicas, slaveTimeout). A SLAVE "
            "needs a brokerId above 0."
        ),
        rule="H-1",
    )
    ha_listen_port: int = option(
        0,
        help=(
            "Port to which slaves connect. 0: the broker's port plus 1; if this port is "
            "taken, another port."
        ),
        rule="H-2",
    )
    ha_master_address: str = option(
        "",
        help=(
            "Only for a slave: address of the master's replication port, as host:port. "
            "Default: the slave asks the nameservers for this address."
        ),
        rule="H-7",
    )
    slave_read_enable: bool = option(
        False,
        help=(
            "On a master: send consumers that lag far behind to a slave. On a slave: "
            "answer the pulls of these consumers."
        ),
        rule="H-10",
        live=True,
    )
    in_sync_replicas: int = option(
        1,
        help=(
            "Only for a SYNC_MASTER: number of replicas that must have a message before "
            "the send succeeds. The master counts as one replica. In profile 4.9, a "
            "SYNC_MASTER always waits for one slave."
        ),
        rule="B-141",
    )
    slave_timeout: int = option(
        3_000,
        unit="ms",
        help="Only for a SYNC_MASTER: maximum time that a send waits for replicas.",
        rule="H-51",
    )
    ha_send_heartbeat_interval: int = option(
        5_000,
        unit="ms",
        help="If a master sent nothing to a slave for this time, the master sends a heartbeat.",
        rule="H-37",
    )
    ha_housekeeping_interval: int = option(
        20_000,
        unit="ms",
        help=(
            "If a master or slave receives nothing over its replication connection for "
            "this time, that broker closes the connection."
        ),
        rule="H-34",
    )
    ha_transfer_batch_size: int = option(
        32_768,
        unit="bytes",
        help="Maximum bytes of the log that a master sends to a slave as one piece.",
        rule="H-38",
    )
    ha_max_gap_not_in_sync: int = option(
        256 * 1024**2,
        unit="bytes",
        help="If a slave lacks this many bytes of the log or more, it does not count as in sync.",
        rule="H-41",
    )
    enable_d_leger_commit_log: bool = option(
        False,
        help=(
            "Not supported. Use enableControllerMode, which has replaced this option in "
            "RocketMQ too."
        ),
        rule="D-200",
        rocketmq_name="enableDLegerCommitLog",
    )
