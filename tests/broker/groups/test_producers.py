"""ProducerManager: which producers are connected."""

from __future__ import annotations

from pocketmq.broker.groups.consumers import MEMBER_BYTES
from pocketmq.broker.groups.producers import ProducerManager
from support.broker_rig import FakePeer


def beat(manager: ProducerManager, peer: FakePeer, client: str = "one", now: float = 0.0) -> None:
    manager.heartbeat("writers", peer, client, language=0, version=479, now=now)


def test_a_producer_is_found_by_group_and_by_client_id() -> None:  # B-30
    manager, peer = ProducerManager(), FakePeer()
    beat(manager, peer)
    assert [info.client_id for info in manager.members("writers")] == ["one"]
    assert manager.channel_of("one") is peer
    assert manager.members("nobody") == []


def test_a_producer_that_leaves_or_loses_its_connection_is_gone() -> None:  # B-25, B-26
    manager, one, two = ProducerManager(), FakePeer(), FakePeer()
    beat(manager, one)
    beat(manager, two, "two")
    assert manager.unregister("writers", one) is not None
    assert manager.unregister("writers", one) is None
    assert manager.channel_of("one") is None
    assert manager.channel_closed(two) == ["writers"]
    assert manager.groups == {}


def test_a_silent_producer_expires_after_120_s() -> None:  # B-30
    manager, peer = ProducerManager(), FakePeer()
    beat(manager, peer)
    assert manager.expire(120.0) == []
    assert [info.client_id for info in manager.expire(120.5)] == ["one"]
    assert manager.channel_of("one") is None


def test_a_client_that_reconnected_keeps_its_new_channel_when_the_old_one_ends() -> None:  # B-30
    manager, old, new = ProducerManager(), FakePeer(), FakePeer()
    beat(manager, old)
    beat(manager, new)
    manager.channel_closed(old)
    assert manager.channel_of("one") is new


def test_members_count_as_memory_of_their_connection_until_they_leave() -> None:
    manager, peer = ProducerManager(), FakePeer()
    for number in range(100):
        manager.heartbeat(str(number), peer, "one", language=0, version=479, now=0.0)
        manager.heartbeat(str(number), peer, "one", language=0, version=479, now=1.0)
    assert peer.kept_bytes == 100 * (MEMBER_BYTES + 3)
    manager.unregister("7", peer)
    assert peer.kept_bytes == 99 * (MEMBER_BYTES + 3)
    manager.channel_closed(peer)
    assert peer.kept_bytes == 0


def test_who_leaves_one_group_stays_in_the_others() -> None:
    manager, one, two = ProducerManager(), FakePeer(), FakePeer()
    for peer, client in ((one, "one"), (two, "two")):
        manager.heartbeat("g", peer, client, language=0, version=479, now=0.0)
    manager.heartbeat("h", one, "one", language=0, version=479, now=0.0)
    manager.unregister("g", one)
    assert [each.client_id for each in manager.members("g")] == ["two"]
    assert manager.channel_of("one") is one
    manager.unregister("h", one)
    assert manager.channel_of("one") is None
    assert "h" not in manager.groups
    assert manager.channel_closed(one) == []
    manager.channel_closed(two)
    assert not manager._groups_of_channel, "a peer that has gone takes no memory"


def test_a_heartbeat_keeps_a_producer() -> None:
    manager, peer = ProducerManager(), FakePeer()
    manager.heartbeat("g", peer, "one", language=0, version=479, now=100.0)
    assert manager.expire(215.0) == []
    manager.heartbeat("g", peer, "one", language=0, version=479, now=215.0)
    assert manager.expire(335.0) == []
    assert [each.client_id for each in manager.expire(335.5)] == ["one"]
