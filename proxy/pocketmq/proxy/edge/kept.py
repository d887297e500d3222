"""Answers that are kept for a while: asked again after 20 s, and forgotten after 300 s (G-54)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError

V = TypeVar("V")

REFRESH_S: Final = 20.0
EXPIRE_S: Final = 300.0
MOST: Final = 10_000
"""Names whose answers are kept; above it the one that was asked for longest ago is forgotten."""


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    loaded_at: float
    is_loading: bool = False


class Kept(Generic[V]):
    """What brokers or name servers say of names.

    Args:
        clock: Measures ages.
        load: Asks; what it raises is not kept, and the caller's unless an answer is still known.
    """

    def __init__(self, clock: Clock, load: Callable[[str], Awaitable[V]]) -> None:
        self._clock = clock
        self._load = load
        self._entries: OrderedDict[str, _Entry[V]] = OrderedDict()

    async def get(self, name: str) -> V:
        """The answer, at most 20 s old if it can be had; one caller asks, others take the old."""
        entry = self._entries.get(name)
        if entry is not None:
            age_s = self._clock.monotonic() - entry.loaded_at
            # Others go on with the old answer while one asks, so a slow broker delays one call in
            # 20 s.
            if age_s < REFRESH_S or (entry.is_loading and age_s < EXPIRE_S):
                return entry.value
            entry.is_loading = True
        try:
            value = await self._load(name)
        # While brokers are away for some minutes, the kept answers are still used.
        except PocketMQError:
            if entry is None or self._clock.monotonic() - entry.loaded_at >= EXPIRE_S:
                # The kept answer is too old; the next caller asks again.
                self._entries.pop(name, None)
                raise
            return entry.value
        finally:
            # could be better: the first question about a name has no entry yet, so callers that
            # come together each ask.
            if entry is not None:
                entry.is_loading = False
        self._entries[name] = _Entry(value, self._clock.monotonic())
        self._entries.move_to_end(name)
        while len(self._entries) > MOST:
            self._entries.popitem(last=False)
        return value
