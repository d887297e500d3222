"""Messages: a later master has all that was acknowledged or consumed (I-1, I-6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

SHOWN = 5


class AcknowledgedLedger:
    """Masters, and what producers and consumers were told.

    Args:
        violations: Gets one line for each.
        all_ack: Whether an acknowledgement promises anything when the master is lost.
    """

    def __init__(self, violations: list[str], *, all_ack: bool) -> None:
        self.seen: Counter[str] = Counter()
        self.acked: set[str] = set()
        """Keys of messages that were answered with SUCCESS (0)."""
        self.consumed: set[str] = set()
        """Keys that a consumer got."""
        self._violations = violations
        self._all_ack = all_ack
        self._writers: dict[int, str] = {}
        self._ackers: dict[int, str] = {}
        self._places: dict[tuple[int, int], str] = {}
        """Queue and offset -> key that a consumer saw there."""
        self._newest: tuple[int, str, AbstractSet[str]] = (0, "", frozenset())
        """Epoch, name and log of the newest master, as it began."""

    def leads(self, now: float, name: str, epoch: int, keys: AbstractSet[str]) -> None:
        """A replica begins to take messages, with these in its log."""
        self.seen["masters"] += 1
        writer = self._writers.setdefault(epoch, name)
        if writer != name:
            self._violations.append(f"{now:.3f} epoch {epoch} has two masters: {writer} and {name}")
        if epoch >= self._newest[0]:
            self._newest = (epoch, name, keys)
        if not self._all_ack:
            return
        self._miss(now, f"{name} leads epoch {epoch}", "acknowledged", self.acked - keys)
        self._miss(now, f"{name} leads epoch {epoch}", "consumed", self.consumed - keys)

    def _miss(self, now: float, who: str, what: str, missing: AbstractSet[str]) -> None:
        if missing:
            keys = ", ".join(sorted(missing)[:SHOWN])
            self._violations.append(
                f"{now:.3f} {who} without {len(missing)} messages that were {what}: {keys}"
            )

    def acknowledged(self, key: str) -> None:
        """A producer got SUCCESS (0) for a message."""
        self.acked.add(key)
        self.seen["acknowledged"] += 1

    def answered(self, now: float, name: str, epoch: int) -> None:
        """A broker answered a send with SUCCESS (0)."""
        acker = self._ackers.setdefault(epoch, name)
        if acker != name:
            self._violations.append(f"{now:.3f} {acker} and {name} acknowledge in epoch {epoch}")

    def delivered(self, now: float, queue_id: int, offset: int, key: str) -> None:
        """A consumer got a message."""
        self.seen["delivered"] += 1
        self.consumed.add(key)
        known = self._places.setdefault((queue_id, offset), key)
        if known != key and self._all_ack:
            self._violations.append(
                f"{now:.3f} queue {queue_id} has {key} at {offset}, where a consumer saw {known}"
            )

    def visible(self, now: float, name: str, end: int, lacking: str, has: int) -> None:
        """A master shows its log up to `end`; a member in sync has less."""
        self._violations.append(
            f"{now:.3f} {name} shows consumers its log up to {end}, and {lacking}, in sync,"
            f" has {has}"
        )
