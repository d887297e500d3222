"""While nothing happens, nobody is elected and the set stays as it is (I-16)."""

from __future__ import annotations

from collections import Counter


class StillnessLedger:
    """What the controllers decided, and when there was trouble.

    Args:
        violations: Gets one line for each.
        settle_s: After trouble; so long elections and joins may take.
    """

    def __init__(self, violations: list[str], settle_s: float) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._settle_s = settle_s
        self._restless_until = 0.0
        self._decided: tuple[int, int] | None = None
        self._is_whole = False

    def troubled(self, ended: float) -> None:
        """Something happens, and ends then."""
        self._restless_until = max(self._restless_until, ended + self._settle_s)

    def decided(self, now: float, epoch: int, set_epoch: int, *, is_whole: bool) -> None:
        """The newest epochs of master and set, and whether all replicas are in the set."""
        if self._decided == (epoch, set_epoch):
            return
        if self._is_whole and now > self._restless_until:
            self._violations.append(
                f"{now:.3f} nothing happens, and the controllers decide epoch {epoch} and set"
                f" {set_epoch} after {self._decided}"
            )
        self._decided, self._is_whole = (epoch, set_epoch), is_whole
        self.seen["decisions"] += 1
