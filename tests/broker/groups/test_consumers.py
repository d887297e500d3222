"""ConsumerManager: members, subscriptions, and what counts as a change."""

from __future__ import annotations

from typing import Any

from pocketmq.broker.groups.consumers import (
    MEMBER_BYTES,
    SUBSCRIPTION_BYTES,
    TAG_BYTES,
    ConsumerManager,
    HeartbeatOutcome,
)
from support.broker_rig import FakePeer, consumer

JAVA, VERSION = 0, 479


def beat(
    manager: ConsumerManager,
    peer: FakePeer,
    client_id: str = "one",
    *,
    now: float = 0.0,
    **data: Any,
) -> HeartbeatOutcome:
    return manager.heartbeat(
        consumer(**data), peer, client_id, language=JAVA, version=VERSION, now=now
    )


def test_a_new_channel_is_a_change_and_the_same_again_is_none() -> None:  # B-22
    manager, peer = ConsumerManager(), FakePeer()
    assert beat(manager, peer).changed
    assert not beat(manager, peer).changed
    assert beat(manager, FakePeer(), "two").changed
    info = manager.get("readers")
    assert info is not None
    assert info.client_ids() == ["one", "two"]


def test_the_last_heartbeat_decides_type_model_and_start() -> None:  # B-20, B-22
    manager = ConsumerManager()
    beat(manager, FakePeer())
    beat(
        manager,
        FakePeer(),
        "two",
        consume_type="CONSUME_ACTIVELY",
        message_model="BROADCASTING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    )
    info = manager.get("readers")
    assert info is not None
    assert (info.consume_type, info.message_model, info.consume_from_where) == (
        "CONSUME_ACTIVELY",
        "BROADCASTING",
        "CONSUME_FROM_FIRST_OFFSET",
    )


def test_another_client_on_the_same_channel_replaces_the_first_without_a_change() -> None:  # B-22
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer, "one")
    assert not beat(manager, peer, "two").changed
    info = manager.get("readers")
    assert info is not None
    assert info.client_ids() == ["two"]


def test_a_client_with_two_channels_is_listed_twice_and_noticed() -> None:  # B-28
    manager = ConsumerManager()
    beat(manager, FakePeer(), "one")
    assert beat(manager, FakePeer(), "one").duplicate_client
    info = manager.get("readers")
    assert info is not None
    assert info.client_ids() == ["one", "one"]


def test_a_topic_that_comes_or_goes_is_a_change() -> None:  # B-23
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer, topics=["a"])
    added = beat(manager, peer, topics=["a", "b"])
    assert (added.changed, added.topics_added) == (True, ["b"])
    removed = beat(manager, peer, topics=["b"])
    assert (removed.changed, removed.topics_removed) == (True, ["a"])
    assert manager.subscription("readers", "a") is None
    assert manager.subscription("readers", "b") is not None


def test_only_a_newer_version_replaces_a_subscription_and_that_is_no_change() -> None:  # B-23
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer, topics={"a": "x"}, version=5)
    beat(manager, peer, topics={"a": "y"}, version=5)
    kept = manager.subscription("readers", "a")
    assert kept is not None
    assert kept.sub_string == "x"
    outcome = beat(manager, peer, topics={"a": "y"}, version=6)
    replaced = manager.subscription("readers", "a")
    assert replaced is not None
    assert replaced.sub_string == "y"
    assert not outcome.changed
    assert outcome.expressions_changed == ["a"]


def test_members_with_different_topics_flip_the_table_at_every_heartbeat() -> None:  # B-23
    manager, one, two = ConsumerManager(), FakePeer(), FakePeer()
    assert not beat(manager, one, "one", topics=["a"]).disagrees
    assert beat(manager, two, "two", topics=["b"]).disagrees
    for _ in range(2):
        flip = beat(manager, one, "one", topics=["a"])
        assert (flip.changed, flip.disagrees) == (True, True)
        assert beat(manager, two, "two", topics=["b"]).changed


def test_the_topic_index_follows_subscriptions() -> None:  # B-20 [H]
    manager, peer, other = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, peer, topics=["a", "b"])
    beat(manager, other, "two", group="others", topics=["a"])
    assert sorted(manager.groups_of_topic("a")) == ["others", "readers"]
    manager.channel_closed(peer)
    assert sorted(manager.groups_of_topic("a")) == ["others"]
    assert list(manager.groups_of_topic("b")) == []


def test_unregistering_removes_the_channel_and_an_empty_group() -> None:  # B-25
    manager, one, two = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, one, "one")
    beat(manager, two, "two")
    left = manager.unregister("readers", one)
    assert left is not None
    assert left.client_ids() == ["two"]
    assert manager.unregister("readers", one) is None
    assert manager.unregister("nobody", one) is None
    manager.unregister("readers", two)
    assert manager.get("readers") is None


def test_a_closed_channel_leaves_all_its_groups_at_once() -> None:  # B-26
    manager, peer, other = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, peer, group="a")
    beat(manager, peer, group="b")
    beat(manager, other, "two", group="b")
    assert [info.group for info in manager.channel_closed(peer)] == ["a", "b"]
    assert manager.get("a") is None
    assert manager.channel_closed(peer) == []


def test_a_silent_client_expires_after_120_s_and_not_before() -> None:  # B-27
    manager, silent, alive = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, silent, "silent", now=0.0)
    beat(manager, alive, "alive", now=30.0)
    assert manager.expire(120.0) == []
    assert [info.client_id for info in manager.expire(120.001)] == ["silent"]
    info = manager.get("readers")
    assert info is not None
    assert info.client_ids() == ["alive"]
    # Its channel's end finds it removed already, so nobody is told of it.
    assert manager.channel_closed(silent) == []


def test_a_heartbeat_without_subscriptions_refreshes_the_channel_only() -> None:  # B-29
    manager, peer = ConsumerManager(), FakePeer()
    data = consumer(topics=["a"])
    common: dict[str, Any] = {"language": JAVA, "version": VERSION, "fingerprint": 7}
    unknown = manager.heartbeat_without_subscriptions(data, peer, "one", now=0.0, **common)
    assert unknown[1]
    manager.heartbeat(data, peer, "one", now=0.0, **common)
    data.subscription_data_set = []
    outcome, outdated = manager.heartbeat_without_subscriptions(
        data, peer, "one", now=100.0, **common
    )
    assert (outcome.changed, outdated) == (False, False)
    assert manager.subscription("readers", "a") is not None
    assert manager.expire(121.0) == []
    common["fingerprint"] = 8
    assert manager.heartbeat_without_subscriptions(data, peer, "one", now=101.0, **common)[1]


# -- what members keep counts as memory of their connections -------------------------------------


def test_members_and_subscriptions_count_until_they_leave() -> None:
    manager, one, two = ConsumerManager(), FakePeer(), FakePeer()
    tags = "||".join(f"tag-{number}" for number in range(1000))
    beat(manager, one, topics={"orders": tags})
    beat(manager, two, "two", topics={"orders": tags})
    heavy, light = one.kept_bytes, two.kept_bytes
    assert heavy > 1000 * 2 * TAG_BYTES
    assert light < 2 * MEMBER_BYTES, "equal subscriptions are kept once"
    manager.unregister("readers", one)
    assert (one.kept_bytes, two.kept_bytes) == (0, heavy), "they stay, for whoever is left"
    beat(manager, two, "two", topics={"orders": "*"}, version=2)
    assert two.kept_bytes < light + 2 * SUBSCRIPTION_BYTES
    beat(manager, two, "a longer name", topics=["orders", "refunds"], version=3)
    assert light < two.kept_bytes < light + 3 * SUBSCRIPTION_BYTES
    manager.channel_closed(two)
    assert two.kept_bytes == 0


def test_who_changes_the_subscriptions_pays_for_them() -> None:
    manager, one, two = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, one, topics={"orders": "a||b||c"})
    paid = one.kept_bytes
    beat(manager, two, "two", topics={"orders": "a||b||c"}, version=2)
    assert (one.kept_bytes, two.kept_bytes) == (MEMBER_BYTES + len("one"), paid)
    beat(manager, one, topics={"orders": "a||b||c"}, version=2)
    assert two.kept_bytes == paid, "nothing is new"
    manager.expire(1000.0)
    assert (one.kept_bytes, two.kept_bytes) == (0, 0)


def test_subscriptions_that_go_count_no_more() -> None:
    manager, one = ConsumerManager(), FakePeer()
    beat(manager, one, topics=[f"t{number}" for number in range(100)])
    assert one.kept_bytes > 100 * SUBSCRIPTION_BYTES
    beat(manager, one, topics=["t0"])
    assert one.kept_bytes < 3 * SUBSCRIPTION_BYTES
