"""What one broker costs beside many, without loop or sockets.

A file of its own: `test_liveness.py` is run against many faults, where times say nothing.
"""

from __future__ import annotations

from typing import cast

from pocketmq.nameserver.liveness import BROKER_EXPIRY_S, BrokerKey, LiveBroker, LiveBrokers
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.dispatch import Peer
from support.growth import least_s


class SilentPeer:
    """Only its identity counts."""


def broker(number: int, channel: object = None) -> LiveBroker:
    return LiveBroker(
        key=BrokerKey("c", str(number)),
        cluster="c",
        broker_name=f"broker-{number}",
        broker_id=0,
        ha_address="",
        data_version=DataVersion(),
        channel=cast("Peer", channel or SilentPeer()),
        seen_at=0,
        timeout_s=BROKER_EXPIRY_S,
    )


def test_the_end_of_a_connection_costs_the_same_beside_many_brokers() -> None:
    def end_s(others: int) -> float:
        live = LiveBrokers()
        for number in range(others):
            live.put(broker(number))

        def step() -> None:
            channel = SilentPeer()
            live.put(broker(others, channel))
            (mine,) = live.of_channel(cast("Peer", channel))
            live.remove(mine.key)

        return least_s(step, steps=200)

    assert end_s(20_000) < 10 * end_s(20)
