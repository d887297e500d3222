"""Notices to the members of very many groups, which are not all sent in one turn of the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise

from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.consumer_notices import NOTICES_A_TURN, ConsumerNotices
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import FakePeer, consumer


def test_a_turn_tells_so_many_members_and_the_next_turn_those_behind() -> None:  # B-24, B-26
    manager, turns = ConsumerManager(), deque[Callable[[], None]]()
    changes = ConsumerChanges(SubscriptionGroupManager(max_name_chars=120))
    notices = ConsumerNotices(changes, manager, ManualClock(0), turns.append)
    leaves, stays = FakePeer("127.0.0.1:1"), FakePeer("127.0.0.1:2")
    names = [f"group-{nth:04}" for nth in range(2 * NOTICES_A_TURN + 500)]
    for name in names:
        for peer in (leaves, stays):
            manager.heartbeat(consumer(name), peer, peer.address, language=0, version=479, now=0.0)
    for info in manager.channel_closed(leaves):
        notices.closed(info)
    told = []
    while turns:
        turns.popleft()()
        told.append(len(stays.told))
        if len(told) == 1:  # one more change, while the others are still being told
            for info in manager.channel_closed(leaves):
                notices.closed(info)
            late = manager.get(names[0])
            assert late is not None
            notices.unregistered(late)
    assert told[0] == NOTICES_A_TURN
    assert max(after - before for before, after in pairwise(told)) <= NOTICES_A_TURN
    heard = [header.consumer_group for header in stays.told]  # type: ignore[attr-defined]
    assert sorted(heard) == sorted([*names, names[0]])
