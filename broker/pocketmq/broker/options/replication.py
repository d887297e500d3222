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
        help="ASYNC_MASTER, SYNC_MASTER (waits for inSyncReplicas), or SLAVE with an id above 0.",
        rule="H-1",
    )
    ha_listen_port: int = option(
        0,
        help="Port that slaves connect to; 0: --port plus 1, or another port if that is taken.",
        rule="H-2",
    )
    ha_master_address: str = option(
        "",
        help=(
            "For a slave: host:port of its master's replication port; by default it asks the name "
            "servers."
        ),
        rule="H-7",
    )
    slave_read_enable: bool = option(
        False,
        help=(
            "On a master: send consumers that lag far behind to a slave. On a slave: serve them."
        ),
        rule="H-10",
        live=True,
    )
    in_sync_replicas: int = option(
        1,
        help="For a SYNC_MASTER: how many replicas must have a message, the master included.",
        rule="B-141",
    )
    slave_timeout: int = option(
        3_000, unit="ms", help="Of a SYNC_MASTER: longest wait for them.", rule="H-51"
    )
    ha_send_heartbeat_interval: int = option(
        5_000,
        unit="ms",
        help="Time without data on the replication stream before a heartbeat is sent.",
        rule="H-37",
    )
    ha_housekeeping_interval: int = option(
        20_000,
        unit="ms",
        help="The replication stream ends after this time without data from the other side.",
        rule="H-34",
    )
    ha_transfer_batch_size: int = option(
        32_768, unit="bytes", help="Longest piece of log that is sent at once.", rule="H-38"
    )
    ha_max_gap_not_in_sync: int = option(
        256 * 1024**2,
        unit="bytes",
        help="A slave that lacks this much of the log is not in sync.",
        rule="H-41",
    )
    enable_d_leger_commit_log: bool = option(
        False,
        help="Not supported; use controller mode, which has replaced it in RocketMQ too.",
        rule="D-200",
        rocketmq_name="enableDLegerCommitLog",
    )
