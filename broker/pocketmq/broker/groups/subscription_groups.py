"""Subscription groups: whether and how a consumer group may consume (B-40)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pocketmq.broker.tables.table_copy import become
from pocketmq.protocol.bodies.groups import (
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.messages.validation import (
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
        max_name_chars: int | None,
        has_retry_policy: bool = False,
        budget: BudgetSource = default_budget,
    ) -> None:
        self._has_retry_policy = has_retry_policy
        self._budget = budget
        self.auto_create = auto_create
        self.data_version = DataVersion()
        self.changed: Signal[[str]] = Signal() if changed is None else changed
        """(group): created, changed or deleted."""
        self._max_name_chars = max_name_chars
        # RocketMQ's system groups exist from the start.
        self._table = {
            name: self._whole(SubscriptionGroupConfig(group_name=name))
            for name in sorted(SYSTEM_GROUPS)
        }
        self.table: Mapping[str, SubscriptionGroupConfig] = self._table
        """All groups by name."""

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration, or None; never creates it."""
        return self._table.get(group)

    def find_or_create(self, group: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group's configuration, made with the defaults if that is allowed; else None.

        None is also what `why_not_made` explains.

        Raises:
            OverBudgetError: there are too many groups to create one automatically.
        """
        config = self._table.get(group)
        # Create it only if that is allowed, or if it is a system group (B-40).
        if config is not None or not (self.auto_create() or is_system_group(group)):
            return config
        if self._illegal(group):
            return None
        # Check first: a client that names ever new groups would fill the table and its file.
        self._budget().check(
            "records",
            len(self._table) + 1,
            "subscription groups of this broker",
            advice="create the group with `pocketmq` or mqadmin, delete old ones, or raise it",
        )
        config = self._whole(SubscriptionGroupConfig(group_name=group))
        self.put(config, now_ms)
        return config

    def why_not_made(self, group: str) -> str:
        """Why a heartbeat, a pull or a send back makes no such group, as the end of a sentence."""
        reason = self._illegal(group)
        if reason or self.auto_create():
            return reason
        return "does not exist, and the broker makes none (autoCreateSubscriptionGroup is false)"

    def check_name(self, group: str) -> None:
        """Pass the name of a group that a tool makes.

        Raises:
            IllegalNameError: no group of this name is made automatically either.
        """
        reason = self._illegal(group)
        if reason:
            raise IllegalNameError("group", group, reason)

    def _illegal(self, group: str) -> str:
        """What is wrong with a name, or nothing.

        5.x makes no group with an illegal or too long name. 4.9 does not look. Here it must at
        least be good for a folder, as its retry topic is; one that is too long for a folder only
        with `%RETRY%` before it consumes, and cannot retry, as in RocketMQ.
        """
        if self._max_name_chars is not None:
            try:
                check_group(group, max_chars=self._max_name_chars)
            except IllegalNameError as exc:
                return exc.reason
        if is_folder_name(group) or is_folder_name(retry_topic(group)):
            return ""
        return "cannot be a part of the name of a folder"

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> bool:
        """Create or replace a group; False when nothing would change."""
        config = self._whole(config)
        # An equal configuration is no change: nothing is saved and nobody is notified.
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
        # Take the version too, so that a later comparison finds the tables equal.
        self.data_version = master.data_version
        for name in changed:
            self.changed.emit(name)
        return changed

    def load(self, stored: SubscriptionGroupWrapper) -> None:
        """Take over what `subscriptionGroup.json` holds."""
        for name, config in stored.subscription_group_table.items():
            self._table[name] = self._whole(config)
        self.data_version = stored.data_version

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The table as it is stored and shown: GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        return SubscriptionGroupWrapper(
            data_version=self.data_version, subscription_group_table=dict(self._table)
        )

    def _whole(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """The group as 5.x shows and writes it: one that came without a retry policy has the
        empty one of `GroupRetryPolicy` (B-40)."""
        if self._has_retry_policy and config.group_retry_policy is msgspec.UNSET:
            return msgspec.structs.replace(config, group_retry_policy=GroupRetryPolicy())
        return config

    def _note_change(self, group: str, now_ms: int) -> None:
        self.data_version = self.data_version.next_version(now_ms)
        self.changed.emit(group)
