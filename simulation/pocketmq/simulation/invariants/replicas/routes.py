"""Routes: a name server never goes back to the older of two masters (I-13)."""

from __future__ import annotations

from collections import Counter


class RouteLedger:
    """Whom a name server shows as master.

    Args:
        violations: Gets one line for each.
    """

    def __init__(self, violations: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        self._violations = violations
        self._shown = ("", 0)

    def shown(self, now: float, address: str, epoch: int) -> None:
        """Id 0 is at an address, which led in this epoch last."""
        before, newest = self._shown
        if address == before and epoch <= newest:
            return
        self.seen["masters shown"] += 1
        if epoch < newest:
            self._violations.append(
                f"{now:.3f} the name server shows {address}, the older master of epoch {epoch},"
                f" after {before} of epoch {newest}"
            )
        self._shown = address, max(epoch, newest)
