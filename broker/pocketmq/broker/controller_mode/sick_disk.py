"""`SickDisk`: when a master whose disk fails has another one elected (W-13). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PATIENCE_S = 3.0
"""A sync that failed may be made good: the store tries it each half second."""

AGAIN_S = 5.0
"""Until the controllers are asked once more, where nobody could be elected."""


class SickDisk:
    """What a master sees of its disk.

    failed at 10.0                look(13.1) -> True: ask
                                  look(14.1) -> False; look(18.2) -> True: ask again
    made good at 11.0             look(13.1) -> False
    """

    def __init__(self) -> None:
        self._failed_at: float | None = None
        self._asked_at: float | None = None

    def look(self, now: float, *, has_failed: bool) -> bool:
        """Whether to ask for another master now.

        Args:
            now: Monotonic seconds.
            has_failed: Whether a sync of the log failed, and was not made good.
        """
        if not has_failed:
            self._failed_at = self._asked_at = None
            return False
        if self._failed_at is None:
            self._failed_at = now
        if now - self._failed_at < PATIENCE_S:
            return False
        if self._asked_at is not None and now - self._asked_at < AGAIN_S:
            return False
        self._asked_at = now
        return True


def successors(in_sync: frozenset[int], own_id: int, acked: Mapping[int, int]) -> Sequence[int]:
    """Whom to propose, one after the other: in sync and connected, who has most first."""
    others = [each for each in in_sync if each != own_id and each in acked]
    return sorted(others, key=lambda each: (-acked[each], each))
