"""Whom to tell that a group changed."""

from __future__ import annotations

from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerGroupInfo
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from support.broker_rig import FakePeer


def group(name: str = "readers", *, broadcasting: bool = False) -> ConsumerGroupInfo:
    info = ConsumerGroupInfo(name)
    info.add(ClientChannelInfo(FakePeer(), "one", 0, 479, 0.0))
    if broadcasting:
        info.take_model("BROADCASTING")
    return info


def muted() -> SubscriptionGroupManager:
    groups = SubscriptionGroupManager(max_name_chars=120)
    groups.put(
        SubscriptionGroupConfig(group_name="readers", notify_consumer_ids_changed_enable=False), 0
    )
    return groups


def test_changes_of_one_group_make_one_notification() -> None:  # B-24
    changes = ConsumerChanges(SubscriptionGroupManager(max_name_chars=120))
    info = group()
    assert changes.note_heartbeat(info)
    assert changes.note_closed(info)
    assert len(changes) == 1
    assert changes.take() == ["readers"]
    assert changes.take() == []


def test_the_groups_own_switch_counts_for_heartbeats_and_good_byes() -> None:  # B-24, B-25
    changes = ConsumerChanges(muted())
    assert not changes.note_heartbeat(group())
    assert not changes.note_unregistered(group())


def test_the_groups_own_switch_is_not_asked_when_a_connection_ends() -> None:  # B-26
    assert ConsumerChanges(muted()).note_closed(group())


def test_an_unknown_group_is_told() -> None:  # B-25
    assert ConsumerChanges(SubscriptionGroupManager(max_name_chars=120)).note_unregistered(
        group("unknown")
    )


def test_a_broadcast_group_is_told_by_4_9_only() -> None:  # B-24, B-26
    info = group(broadcasting=True)
    modern = ConsumerChanges(SubscriptionGroupManager(max_name_chars=120))
    assert not modern.note_heartbeat(info)
    assert not modern.note_closed(info)
    assert modern.note_unregistered(info)
    old = ConsumerChanges(
        SubscriptionGroupManager(max_name_chars=120), notify_broadcast_groups=True
    )
    assert old.note_heartbeat(info)
    assert old.note_closed(info)


def test_the_global_switch_silences_all() -> None:  # B-24
    changes = ConsumerChanges(SubscriptionGroupManager(max_name_chars=120), enabled=False)
    assert not changes.note_heartbeat(group())
    assert not changes.note_closed(group())
    assert changes.take() == []


def test_a_group_without_members_has_nobody_to_tell() -> None:  # B-25
    changes = ConsumerChanges(SubscriptionGroupManager(max_name_chars=120))
    assert not changes.note_closed(ConsumerGroupInfo("readers"))
