"""Which groups to notify of changed members or subscriptions (B-24 to B-26).

The message is NOTIFY_CONSUMER_IDS_CHANGED (40), to every channel of the group, the newcomer's
included. Changes of one group within one turn of the event loop make one message: a hundred
consumers that start together cause hundreds of messages and not ten thousand.
"""

from __future__ import annotations

from pocketmq.broker.groups.consumers import ConsumerGroupInfo
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager


class ConsumerChanges:
    """Collects the groups whose members are to be notified."""

    def __init__(
        self,
        groups: SubscriptionGroupManager,
        *,
        enabled: bool = True,
        notify_broadcast_groups: bool = False,
    ) -> None:
        self._groups = groups
        self._enabled = enabled
        self._notify_broadcast = notify_broadcast_groups
        self._pending: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def note_heartbeat(self, info: ConsumerGroupInfo) -> bool:
        """A heartbeat changed the group; returns whether members are to be notified (B-24)."""
        # For heartbeats the group's switch counts, and only 4.9 notifies broadcasting groups
        # (B-24).
        return self._is_wanted(info) and self._may_tell(info) and self._note(info)

    def note_unregistered(self, info: ConsumerGroupInfo) -> bool:
        """A member left with UNREGISTER_CLIENT; broadcasting groups are notified too (B-25)."""
        # RocketMQ looks only at the group's switch here (B-25).
        return self._is_wanted(info) and self._note(info)

    def note_closed(self, info: ConsumerGroupInfo) -> bool:
        """A member's connection ended; members are notified whatever the group's setting (B-26)."""
        # RocketMQ looks only at whether the group broadcasts here (B-26).
        return self._may_tell(info) and self._note(info)

    def take(self) -> list[str]:
        """The groups to notify now."""
        pending = list(self._pending)
        self._pending.clear()
        return pending

    def _is_wanted(self, info: ConsumerGroupInfo) -> bool:
        """The group's own switch; on for a group without a configuration."""
        config = self._groups.get(info.group)
        return config is None or config.notify_consumer_ids_changed_enable

    def _may_tell(self, info: ConsumerGroupInfo) -> bool:
        return self._notify_broadcast or not info.is_broadcasting

    def _note(self, info: ConsumerGroupInfo) -> bool:
        if not self._enabled or not info.members:
            return False
        self._pending[info.group] = None
        return True
