"""Subscription groups: whether and how a consumer group may consume (B-40)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pocketmq.broker.tables.copied import become
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.validation import (
    SYSTEM_GROUPS,
    check_group,
    is_folder_name,
    is_system_group,
    retry_topic,
)
from pocketmq.runtime.signals import Signal


class SubscriptionGroupManager:
    """Group name -> configuration, and the version of the whole.

    Every change bumps `data_version` and emits `changed`: the table is saved.
    """

    def __init__(
        self,
        changed: Signal[[str]] | None = None,
        *,
        auto_create: Callable[[], bool] = lambda: True,
        max_name_chars: int | None = 120,
        budget: BudgetSource = default_budget,
    ) -> None:
        self._budget = budget
        self.auto_create = auto_create
        self.data_version = DataVersion()
        self.changed: Signal[[str]] = Signal() if changed is None else changed
        """(group): created, changed or deleted."""
        self._max_name_chars = max_name_chars
        self._table = {
            name: SubscriptionGroupConfig(group_name=name) for name in sorted(SYSTEM_GROUPS)
        }
        self.table: Mapping[str, SubscriptionGroupConfig] = self._table
        """All groups by name."""

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration, or None; never creates it."""
        return self._table.get(group)

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group's configuration, made with the defaults if that is allowed; else None.

        5.x creates no group with an illegal or too long name. 4.9 does not check. Here the name
        must at least be a legal folder name, because the retry topic's folder contains it.

        Raises:
            OverBudgetError: there are too many groups to create one automatically.
        """
        config = self._table.get(group)
        if config is not None or not (self.auto_create() or is_system_group(group)):
            return config
        if self._max_name_chars is not None:
            try:
                check_group(group, max_chars=self._max_name_chars)
            except IllegalNameError:
                return None
        if not is_folder_name(retry_topic(group)):
            return None
        self._budget().check(
            "records",
            len(self._table) + 1,
            "subscription groups of this broker",
            advice="create the group with `pocketmq` or mqadmin, delete old ones, or raise it",
        )
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config, now_ms)
        return config

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> bool:
        """Create or replace a group; False when nothing would change."""
        if self._table.get(config.group_name) == config:
            return False
        self._table[config.group_name] = config
        self._note_change(config.group_name, now_ms)
        return True

    def delete(self, group: str, now_ms: int) -> bool:
        """Forget a group; False when it does not exist."""
        if self._table.pop(group, None) is None:
            return False
        self._note_change(group, now_ms)
        return True

    def replace(self, master: SubscriptionGroupWrapper) -> list[str]:
        """Become a copy of the master's table, its version included; the groups that changed."""
        changed = become(self._table, master.subscription_group_table)
        self.data_version = master.data_version
        for name in changed:
            self.changed.emit(name)
        return changed

    def load(self, stored: SubscriptionGroupWrapper) -> None:
        """Take over what `subscriptionGroup.json` holds."""
        self._table.update(stored.subscription_group_table)
        self.data_version = stored.data_version

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The table as it is stored and shown: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        return SubscriptionGroupWrapper(
            data_version=self.data_version, subscription_group_table=dict(self._table)
        )

    def _note_change(self, group: str, now_ms: int) -> None:
        self.data_version = self.data_version.next_version(now_ms)
        self.changed.emit(group)
