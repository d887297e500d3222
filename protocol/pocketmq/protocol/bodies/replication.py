"""State of a broker's replication: GET_BROKER_HA_STATUS (907) (H-41)."""

from __future__ import annotations

import msgspec

from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.scalars import Int32, Int64


class HAConnectionRuntimeInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """One slave, as its master knows it."""

    addr: str = ""
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    """Bytes of log that it lacks."""

    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class HAClientRuntimeInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """A slave's own view."""

    master_addr: str = ""
    transferred_byte_in_second: Int64 = 0
    max_offset: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0


class HARuntimeInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """Of a master its slaves, of a slave its connection."""

    master: bool = False
    master_commit_log_max_offset: Int64 = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = msgspec.field(default_factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = msgspec.field(default_factory=HAClientRuntimeInfo)
