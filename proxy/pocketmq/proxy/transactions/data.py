"""What ends a transaction: where each half message is, for a while (G-70)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import Code
from pocketmq.proxy.settings.limits import Limits


class HalfMessage(NamedTuple):
    """Where a half message is."""

    broker_name: str
    table_offset: int
    """In its half queue, as the send's answer or the check said it."""
    commit_log_offset: int
    expires_ms: int
    """Nobody may end it after this time."""


class OpenTransactions:
    """The half messages of one proxy, by topic and transaction id.

    Args:
        limits: How long and how many.
        time_ms: Epoch ms of the clock.
    """

    def __init__(self, limits: Limits, time_ms: Callable[[], int]) -> None:
        self._limits = limits
        self._time_ms = time_ms
        self._open: OrderedDict[tuple[str, str], list[HalfMessage]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def add(
        self,
        topic: str,
        transaction_id: str,
        *,
        broker_name: str,
        table_offset: int,
        commit_log_offset: int,
    ) -> None:
        """A half message was stored, or is asked for."""
        key = (topic, transaction_id)
        # Expired transactions are dropped with each new one, so no timer is needed.
        self._drop_old()
        expires_ms = self._time_ms() + self._limits.transaction_data_expire_ms
        halves = self._open.setdefault(key, [])
        # A check brings an old transaction back: it is the youngest now.
        self._open.move_to_end(key)
        halves.append(HalfMessage(broker_name, table_offset, commit_log_offset, expires_ms))
        # Drop the oldest: SDKs end the one that they heard of last.
        del halves[: -self._limits.transaction_data_max_num]

    def take(self, topic: str, transaction_id: str) -> HalfMessage:
        """The newest half message of a transaction, which somebody ends now.

        Raises:
            Refusal: INTERNAL_SERVER_ERROR: it is not known, or no longer.
        """
        key = (topic, transaction_id)
        halves = self._open.get(key, [])
        found = halves.pop() if halves else None
        # An empty list must not stay until it is the oldest.
        if not halves:
            self._open.pop(key, None)
        # An expired one is refused, and removed all the same: the broker asks about it by a check.
        if found is None or found.expires_ms < self._time_ms():
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "cannot found transaction data")
        return found

    def _drop_old(self) -> None:
        """Keys stand in the order of their newest half message."""
        now = self._time_ms()
        while self._open:
            key, halves = next(iter(self._open.items()))
            if halves[-1].expires_ms >= now and len(self._open) < (
                self._limits.transactions_remembered
            ):
                return
            del self._open[key]
