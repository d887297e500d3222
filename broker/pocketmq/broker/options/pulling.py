"""Options of pulls. They are part of `BrokerConfig`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pocketmq.runtime.configuration.options import option


@dataclass(frozen=True, kw_only=True)
class PullOptions:
    """Pulls: holding, filtering, and what broadcasting members pulled."""

    long_polling_enable: bool = option(
        True,
        help=(
            "If a pull finds no message, hold the pull as long as the consumer allows "
            "(long polling)."
        ),
        rule="B-70",
        live=True,
    )
    short_polling_time_ms: int = option(
        1_000,
        unit="ms",
        help="If longPollingEnable is off: how long a pull that finds no message is held.",
        rule="B-70",
        rocketmq_name="shortPollingTimeMills",
        live=True,
        within=(0, inf),
    )
    enable_property_filter: bool = option(
        False,
        help="Allow subscriptions by SQL92 expressions.",
        rule="Q-21",
        live=True,
    )
    enable_broadcast_offset_store: bool | None = option(
        None,
        help=(
            "Keep the pull offsets of the members of broadcasting groups. Default: on, but "
            "off in profile 4.9."
        ),
        rule="B-36",
    )
    broadcast_offset_expire_second: int = option(
        120,
        unit="s",
        help=(
            "How long the broker keeps the offsets of a disconnected broadcasting member "
            "after the member's last pull."
        ),
        rule="B-36",
    )
    broadcast_offset_expire_max_second: int = option(
        300,
        unit="s",
        help=(
            "How long the broker keeps the offsets of a connected broadcasting member "
            "after the member's last pull."
        ),
        rule="B-36",
    )
