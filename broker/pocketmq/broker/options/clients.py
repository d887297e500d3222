"""Options for connected clients and their groups. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Connected clients: when they expire, and who hears of a change."""

    channel_expired_timeout_ms: int = option(
        120_000,
        unit="ms",
        help="Remove a client that sends no heartbeat for this time.",
        rule="B-27",
    )
    notify_consumer_ids_changed_enable: bool = option(
        True, help="When a member joins or leaves a group, notify the group's members.", rule="B-24"
    )
    real_time_notify_consumer_change: bool = option(
        True,
        help=(
            "When a group changes, notify the group's members at once. If this option is "
            "off, the broker collects changes, and notifies members every 15 s. The first "
            "notification comes 30 s after the broker's start."
        ),
        rule="B-24",
    )
