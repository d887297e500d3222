"""The current faults of a simulated network."""

from __future__ import annotations

Pair = frozenset[str]


class NetworkFaults:
    """The current faults of the network, by names of processes."""

    def __init__(self) -> None:
        self.partitions: set[Pair] = set()
        self.one_way: set[tuple[str, str]] = set()
        """(sender, receiver) between whom bytes do not arrive; those of the other way do."""
        self.delays_s: dict[Pair, float] = {}
        self.lost_notifications: set[str] = set()
        """Clients to which notifications of brokers are lost."""
        self.doubled_notifications: set[str] = set()
        """Clients that get each notification twice."""

    def clear_delay(self, pair: Pair) -> None:
        """End the delay between a pair."""
        self.delays_s.pop(pair, None)

    @property
    def is_none(self) -> bool:
        """Whether there is no fault."""
        return not (
            self.partitions
            or self.one_way
            or self.delays_s
            or self.lost_notifications
            or self.doubled_notifications
        )
