"""SubscriptionGroupManager: what is made, replaced and told."""

from __future__ import annotations

import pytest

from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.errors import OverBudgetError

NOW_MS = 1_700_000_000_000


def manager(**options: object) -> tuple[SubscriptionGroupManager, list[str]]:
    made = SubscriptionGroupManager(max_name_chars=120, **options)  # type: ignore[arg-type]
    changed: list[str] = []
    made.changed.connect(changed.append)
    return made, changed


def test_a_group_is_made_until_there_are_too_many() -> None:  # B-40
    room = len(SubscriptionGroupManager(max_name_chars=120).table) + 2
    groups, changed = manager(budget=lambda: Budget(records=room))
    assert groups.find_or_create("a", NOW_MS) is groups.get("a")
    assert groups.find_or_create("b", NOW_MS) is not None
    with pytest.raises(OverBudgetError):
        groups.find_or_create("c", NOW_MS)
    assert groups.find_or_create("a", NOW_MS) is not None, "it is there"
    assert changed == ["a", "b"]


def test_only_a_change_is_told_and_counted() -> None:
    groups, changed = manager()
    config = SubscriptionGroupConfig(group_name="g")
    assert groups.put(config, NOW_MS) is True
    assert groups.put(SubscriptionGroupConfig(group_name="g"), NOW_MS) is False
    assert groups.delete("g", NOW_MS) is True
    assert groups.delete("g", NOW_MS) is False
    assert (changed, groups.data_version.counter) == (["g", "g"], 2)


def test_a_slave_becomes_what_its_master_has() -> None:
    groups, changed = manager()
    groups.put(SubscriptionGroupConfig(group_name="old"), NOW_MS)
    changed.clear()
    version = DataVersion().next_version(NOW_MS).next_version(NOW_MS)
    table = dict(groups.table)
    del table["old"]
    table["new"] = SubscriptionGroupConfig(group_name="new")
    wrapper = SubscriptionGroupWrapper(data_version=version, subscription_group_table=table)
    assert sorted(groups.replace(wrapper)) == ["new", "old"]
    assert sorted(changed) == ["new", "old"]
    assert (groups.get("old"), groups.data_version) == (None, version)


def test_what_was_stored_is_there_with_its_version() -> None:
    groups, changed = manager()
    version = DataVersion().next_version(NOW_MS)
    stored = {"g": SubscriptionGroupConfig(group_name="g", retry_max_times=3)}
    groups.load(SubscriptionGroupWrapper(data_version=version, subscription_group_table=stored))
    shown = groups.wrapper()
    assert shown.data_version == version
    assert shown.subscription_group_table == dict(groups.table)
    assert shown.subscription_group_table["g"].retry_max_times == 3
    assert changed == []
