"""What the parts of one consumer share: its group, its client instance, its state."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.client.consumer.membership.subscriptions import Subscriptions
from pocketmq.client.instance import ClientInstance


class RunState:
    """Whether a consumer runs, and whether it pauses."""

    __slots__ = ("running", "suspended")

    def __init__(self) -> None:
        self.running = False
        """From the start to the stop."""
        self.suspended = False
        """Neither pulls nor rebalances; heartbeats go on (C-72)."""

    def start(self) -> None:
        """It runs from now on."""
        self.running = True

    def stop(self) -> None:
        """It does not run any more: no pull and no rebalance begins."""
        self.running = False

    def suspend(self) -> None:
        """Pause (C-72)."""
        self.suspended = True

    def resume(self) -> None:
        """End a pause."""
        self.suspended = False


@dataclass(frozen=True, slots=True)
class Membership:
    """A consumer in its group and in its client instance."""

    group: str
    instance: ClientInstance
    """Connections, routes, clock and services; shared with other clients of the same id."""
    subscriptions: Subscriptions
    state: RunState
