"""Who is alive, without loop or sockets (N-2, N-16, N-21 to N-25)."""

from __future__ import annotations

from typing import cast

from pocketmq.nameserver.liveness import BROKER_EXPIRY_S, BrokerKey, LiveBroker, LiveBrokers
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.dispatch import Peer


class SilentPeer:
    """Only its identity counts."""


def broker(
    address: str, seen_at: float, *, timeout_s: float = BROKER_EXPIRY_S, channel: object = None
) -> LiveBroker:
    return LiveBroker(
        key=BrokerKey("c", address),
        cluster="c",
        broker_name=f"broker-{address}",
        broker_id=0,
        ha_address="",
        data_version=DataVersion(),
        channel=cast("Peer", channel or SilentPeer()),
        seen_at=seen_at,
        timeout_s=timeout_s,
    )


def test_a_broker_expires_when_it_was_silent_for_more_than_120_s() -> None:  # N-21
    live = LiveBrokers()
    live.put(broker("a", seen_at=10))
    assert live.expired(now=130) == []
    assert [gone.key.address for gone in live.expired(now=130.001)] == ["a"]


def test_each_broker_has_the_timeout_it_asked_for() -> None:  # N-2
    live = LiveBrokers()
    live.put(broker("a", seen_at=0))
    live.put(broker("b", seen_at=0, timeout_s=10))
    assert [gone.key.address for gone in live.expired(now=11)] == ["b"]
    assert live.expired(now=10) == []


def test_a_refreshed_broker_counts_from_the_new_moment() -> None:  # N-24, N-25
    live = LiveBrokers()
    live.put(broker("a", seen_at=0))
    assert live.refresh(BrokerKey("c", "a"), now=100)
    assert live.expired(now=220) == []
    assert not live.refresh(BrokerKey("c", "b"), now=100)
    assert len(live) == 1


def test_a_channel_finds_every_broker_that_last_registered_over_it() -> None:  # N-22
    live, shared = LiveBrokers(), SilentPeer()
    for name, channel in (("a", shared), ("b", None), ("c", shared)):
        live.put(broker(name, 0, channel=channel))
    assert [found.key.address for found in live.of_channel(cast("Peer", shared))] == ["a", "c"]
    live.put(broker("a", 1))
    assert [found.key.address for found in live.of_channel(cast("Peer", shared))] == ["c"]


def test_only_a_broker_without_record_is_new() -> None:  # N-16
    live = LiveBrokers()
    assert live.put(broker("a", 0))
    assert not live.put(broker("a", 1))
    assert live.remove(BrokerKey("c", "a")) is not None
    assert live.remove(BrokerKey("c", "a")) is None
    assert len(live) == 0


def test_each_registration_is_told_and_the_first_of_a_broker_apart() -> None:
    live = LiveBrokers()
    heard: list[str] = []
    live.heard.connect(lambda each: heard.append(f"heard {each.key.address}"))
    live.added.connect(lambda each: heard.append(f"added {each.key.address}"))
    for address in ("a", "a", "b"):
        live.put(broker(address, 0))
    assert heard == ["added a", "heard a", "heard a", "added b", "heard b"]


def test_the_first_to_expire_is_looked_for_among_all() -> None:  # N-21
    live = LiveBrokers()
    assert live.first_expiry() is None
    live.put(broker("a", 50))
    live.put(broker("b", 100, timeout_s=10))
    assert live.first_expiry() == 110
    live.refresh(BrokerKey("c", "b"), now=200)
    assert live.first_expiry() == 170


def test_brokers_that_are_gone_leave_nothing_behind() -> None:
    live, shared = LiveBrokers(), SilentPeer()
    for name in ("a", "b", "a"):
        live.put(broker(name, 0, channel=shared))
    live.put(broker("a", 1))
    for name in ("a", "b"):
        live.remove(BrokerKey("c", name))
    assert (live._brokers, live._of_channels) == ({}, {})
