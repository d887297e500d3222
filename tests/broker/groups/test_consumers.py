"""ConsumerManager: members, subscriptions, and what counts as a change."""

from __future__ import annotations

import re
from typing import Any

from pocketmq.broker.groups import consumers
from pocketmq.broker.groups.consumers import (
    MEMBER_BYTES,
    SUBSCRIPTION_BYTES,
    TAG_BYTES,
    ConsumerManager,
    HeartbeatOutcome,
)
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import MemberJoined, MemberLeft
from pocketmq.simulation.event_recorder import EventRecorder
from support.broker_rig import FakePeer, consumer
from support.worked_examples import rows

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


def test_a_member_is_found_by_its_client_id_with_what_it_said_of_itself() -> None:
    manager, peer = ConsumerManager(), FakePeer()
    assert not beat(manager, FakePeer(), "one").duplicate_client
    assert beat(manager, peer, "two").others == 1
    assert list(manager.groups) == ["readers"]
    info = manager.groups["readers"]
    member = info.find("two")
    assert member is not None
    assert (member.channel, member.language, member.version) == (peer, JAVA, VERSION)
    assert info.find("three") is None


def test_a_group_nobody_told_of_has_no_others_and_no_second_client() -> None:  # B-29
    outcome, is_wanted = ConsumerManager().heartbeat_without_subscriptions(
        consumer(), FakePeer(), "one", language=JAVA, version=VERSION, now=0.0, fingerprint=7
    )
    assert is_wanted
    assert (outcome.changed, outcome.duplicate_client, outcome.others) == (False, False, 0)


def test_a_client_that_left_one_of_its_groups_still_leaves_the_other_with_its_channel() -> None:
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer)
    beat(manager, peer, group="writers")
    manager.unregister("readers", peer)
    assert [info.group for info in manager.channel_closed(peer)] == ["writers"]
    assert list(manager.groups) == []


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


def test_the_topic_index_follows_subscriptions() -> None:  # B-20
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


def test_the_ids_of_channels_are_counted_as_they_come_rename_and_go() -> None:  # B-28
    manager, first, second = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, first, "one")
    beat(manager, second, "one")
    info = manager.get("readers")
    assert info is not None
    assert info.ids == {"one": 2}
    info.id_lists[1] = b"kept"
    assert beat(manager, first, "two").duplicate_client is False
    assert info.id_lists == {}  # its encoded answers are made anew
    assert info.ids == {"one": 1, "two": 1}
    assert beat(manager, first, "one").duplicate_client  # B-28: on a channel that was there, too
    assert info.ids == {"one": 2}
    info.id_lists[1] = b"kept"
    assert manager.unregister("readers", second) is info
    assert info.ids == {"one": 1}
    assert info.id_lists == {}
    info.id_lists[1] = b"kept"
    beat(manager, FakePeer(), "three")
    assert info.id_lists == {}
    info.remove(first)
    assert info.ids == {"three": 1}


def test_a_renamed_member_counts_with_its_new_name() -> None:
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer, "one", topics={})
    beat(manager, peer, "a-longer-name", topics={})
    assert peer.kept_bytes == MEMBER_BYTES + len("a-longer-name")
    beat(manager, peer, "one", topics={})
    assert peer.kept_bytes == MEMBER_BYTES + len("one")


def test_a_member_s_language_and_version_are_those_of_its_last_heartbeat() -> None:  # B-22
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer)
    manager.heartbeat(consumer(), peer, "one", language=12, version=500, now=1.0)
    info = manager.get("readers")
    assert info is not None
    assert [(each.language, each.version) for each in info.members.values()] == [(12, 500)]


def test_others_are_all_members_but_the_one_that_beats() -> None:  # B-23, B-29
    manager, peers = ConsumerManager(), [FakePeer() for _ in range(3)]
    found = [beat(manager, peer, f"c{n}").others for n, peer in enumerate(peers)]
    assert found == [0, 1, 2]
    outcome, _ = manager.heartbeat_without_subscriptions(
        consumer(), peers[0], "c0", language=JAVA, version=VERSION, now=1.0, fingerprint=0
    )
    assert outcome.others == 2


def test_a_group_that_nobody_gave_a_fingerprint_has_0() -> None:  # B-29
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer)
    _, is_wanted = manager.heartbeat_without_subscriptions(
        consumer(), peer, "one", language=JAVA, version=VERSION, now=1.0, fingerprint=0
    )
    assert not is_wanted


def test_topics_without_subscribers_leave_the_index() -> None:  # B-20
    manager, peer, other = ConsumerManager(), FakePeer(), FakePeer()
    beat(manager, peer, topics={"T": "*", "U": "*"})
    beat(manager, peer, topics={"T": "*"})
    assert list(manager.groups_of_topic("U")) == []
    manager.heartbeat(
        consumer(group="others", topics={"T": "*"}),
        other, "two", language=JAVA, version=VERSION, now=0.0,
    )  # fmt: skip
    assert sorted(manager.groups_of_topic("T")) == ["others", "readers"]
    manager.channel_closed(peer)
    assert list(manager.groups_of_topic("T")) == ["others"]
    manager.unregister("others", other)
    assert list(manager.groups_of_topic("T")) == []
    assert manager.channel_closed(other) == []  # nothing is left of it
    assert (manager._groups_of_topic, manager._groups_of_channel) == ({}, {})


def test_who_joins_and_leaves_is_told() -> None:
    told: list[Event] = []
    sink = EventRecorder(told.append, lambda: 0).sink("broker-a", lambda: 0)
    manager = ConsumerManager(events=sink, broker="broker-a")
    first, second = FakePeer(), FakePeer()
    beat(manager, first, "one")
    beat(manager, first, "one")
    beat(manager, second, "two")
    manager.unregister("readers", first)
    manager.channel_closed(second)
    found = [
        (type(each).__name__, each.group, each.client_id, each.broker, getattr(each, "how", None))
        for each in told
        if isinstance(each, MemberJoined | MemberLeft)
    ]
    assert found == [
        ("MemberJoined", "readers", "one", "broker-a", None),
        ("MemberJoined", "readers", "two", "broker-a", None),
        ("MemberLeft", "readers", "one", "broker-a", "unregistered"),
        ("MemberLeft", "readers", "two", "broker-a", "closed"),
    ]


def test_texts_and_tags_of_a_subscription_count() -> None:
    manager, peer = ConsumerManager(), FakePeer()
    beat(manager, peer, "one", topics={"Topic": "red || green"})
    text = len("Topic") + len("red || green") + len("red") + len("green")
    member = MEMBER_BYTES + len("one")
    assert peer.kept_bytes == member + SUBSCRIPTION_BYTES + 4 * TAG_BYTES + text


def test_the_heartbeats_that_the_module_opens_with() -> None:  # B-22, B-23
    manager = ConsumerManager()
    peers = {"A": FakePeer(), "B": FakePeer()}
    made: dict[str, int] = {}
    for heartbeat, members, subscriptions, changed in rows(consumers, "heartbeat of "):
        who, topic, expression = re.split(": |, ", heartbeat)
        version = made.setdefault(heartbeat, len(made))
        topics = {topic: expression}
        outcome = beat(manager, peers[who], who, group="readers", topics=topics, version=version)
        info = manager.get("readers")
        assert info is not None
        assert " ".join(info.client_ids()) == members
        wanted = [f"{each.topic}: {each.sub_string}" for each in info.subscriptions.values()]
        assert wanted == [subscriptions]
        assert outcome.changed == changed.startswith("yes")
