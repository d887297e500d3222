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
            "ASYNC_MASTER, SYNC_MASTER (a send waits for replicas, see inSyncReplicas), or "
            "SLAVE with an id above 0."
        ),
        rule="H-1",
    )
    ha_listen_port: int = option(
        0,
        help=(
            "Port to which slaves connect. 0: --port plus 1, or another port if that port is taken."
        ),
        rule="H-2",
    )
    ha_master_address: str = option(
        "",
        help=(
            "Only for a slave: host:port of its master's replication port. Default: the slave "
            "asks the nameservers."
        ),
        rule="H-7",
    )
    slave_read_enable: bool = option(
        False,
        help=(
            "On a master: send consumers that lag far behind to a slave. On a slave: serve "
            "these consumers."
        ),
        rule="H-10",
        live=True,
    )
    in_sync_replicas: int = option(
        1,
        help=(
            "Only for a SYNC_MASTER: number of replicas that must have a message, the master "
            "included."
        ),
        rule="B-141",
    )
    slave_timeout: int = option(
        3_000, unit="ms", help="Of a SYNC_MASTER: longest wait for them.", rule="H-51"
    )
    ha_send_heartbeat_interval: int = option(
        5_000,
        unit="ms",
        help="After this time without data, the replication stream sends a heartbeat.",
        rule="H-37",
    )
    ha_housekeeping_interval: int = option(
        20_000,
        unit="ms",
        help="The replication stream is closed when the other side sends nothing for this time.",
        rule="H-34",
    )
    ha_transfer_batch_size: int = option(
        32_768,
        unit="bytes",
        help="Maximum bytes of the log that are sent as one piece.",
        rule="H-38",
    )
    ha_max_gap_not_in_sync: int = option(
        256 * 1024**2,
        unit="bytes",
        help="A slave is not in sync if it lacks this many bytes of the log.",
        rule="H-41",
    )
    enable_d_leger_commit_log: bool = option(
        False,
        help=(
            "Not supported. Use controller mode, which has replaced this option in RocketMQ too."
        ),
        rule="D-200",
        rocketmq_name="enableDLegerCommitLog",
    )
