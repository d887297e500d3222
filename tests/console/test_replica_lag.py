"""`pocketmq cluster show`: how old the oldest message is that a slave lacks."""

from __future__ import annotations

from typing import Any, cast

from pocketmq.client import Admin
from pocketmq.cluster.cli.roles.cluster import ReplicaView, _with_age, replica_tables
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.runtime.clock import SystemClock

BROKERS = {"a": {0: "127.0.0.1:1", 1: "127.0.0.1:2"}}


class Stored:
    """One record of a master's log, at offset 200."""

    def __init__(self, stored_ms: int) -> None:
        self.store_timestamp_ms = stored_ms

    async def message_at(self, address: str, offset: int) -> Any:
        assert address == BROKERS["a"][0]
        if offset != 200:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "no record begins there")
        return self


def slave(log_end: int, lag_bytes: int | None) -> ReplicaView:
    return ReplicaView("a", "slave 1", "127.0.0.1:2", log_end, lag_bytes=lag_bytes)


async def test_the_lag_in_ms_is_the_age_of_the_oldest_message_that_a_slave_lacks() -> None:
    admin = cast(Admin, Stored(SystemClock().time_ms() - 5000))
    late = (await _with_age(admin, slave(200, 100), BROKERS)).lag_ms
    assert late is not None
    assert late >= 5000
    assert (await _with_age(admin, slave(300, 0), BROKERS)).lag_ms == 0
    assert (await _with_age(admin, slave(250, 50), BROKERS)).lag_ms is None  # inside a record
    assert (await _with_age(admin, slave(200, None), {"a": {1: ""}})).lag_ms is None  # no master
    [table, *_] = replica_tables([slave(200, 100)])
    assert table.columns[-2:] == ("lag bytes", "lag ms")
