"""Subscription groups without a broker around them."""

from __future__ import annotations

import pytest

from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig

NOW_MS = 1_700_000_000_000


def test_an_unknown_group_is_created_with_the_defaults() -> None:  # B-40
    groups = SubscriptionGroupManager(max_name_chars=120)
    created = groups.find_or_create("readers", NOW_MS)
    assert created == SubscriptionGroupConfig(
        group_name="readers",
        consume_enable=True,
        consume_from_min_enable=True,
        consume_broadcast_enable=True,
        consume_message_orderly=False,
        retry_queue_nums=1,
        retry_max_times=16,
        broker_id=0,
        which_broker_when_consume_slowly=1,
        notify_consumer_ids_changed_enable=True,
        consume_timeout_minute=15,
    )
    assert groups.data_version.counter == 1
    assert groups.find_or_create("readers", NOW_MS) is created
    assert groups.data_version.counter == 1


def test_nothing_is_created_where_that_is_forbidden_but_system_groups() -> None:  # B-40
    groups = SubscriptionGroupManager(auto_create=lambda: False, max_name_chars=120)
    assert groups.find_or_create("readers", NOW_MS) is None
    assert groups.find_or_create("CID_RMQ_SYS_mine", NOW_MS) is not None


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 121])
def test_5_x_creates_no_group_with_an_illegal_name(name: str) -> None:  # B-40
    assert SubscriptionGroupManager(max_name_chars=120).find_or_create(name, NOW_MS) is None


def test_4_9_does_not_look_at_the_name() -> None:  # B-40
    groups = SubscriptionGroupManager(max_name_chars=None)
    assert groups.find_or_create("x" * 200, NOW_MS) is not None


def test_the_built_in_groups_are_there() -> None:  # B-40
    names = set(SubscriptionGroupManager(max_name_chars=120).table)
    assert names == {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }


def test_a_deleted_group_is_gone_and_the_version_moves() -> None:
    groups, heard = SubscriptionGroupManager(max_name_chars=120), []
    groups.changed.connect(heard.append)
    groups.find_or_create("readers", NOW_MS)
    assert groups.delete("readers", NOW_MS)
    assert not groups.delete("readers", NOW_MS)
    assert groups.get("readers") is None
    assert heard == ["readers", "readers"]
