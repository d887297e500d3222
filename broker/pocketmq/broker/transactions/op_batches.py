"""Which half messages are done and not yet written as an op record (X-25, X-26)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

EPSILON_S: Final = 1e-6
"""A timer may fire earlier by the last bit of a float; then it must not be armed once more."""


@dataclass(slots=True)
class _Waiting:
    text: list[str] = field(default_factory=list)
    chars: int = 0
    written_at: float = 0.0
    was_refused: bool = False
    """Whether the store did not take what was tried last."""


@dataclass(frozen=True, slots=True)
class OpLimits:
    """When op records are written."""

    max_chars: int
    """A queue's text is written when it is longer (`transactionOpMsgMaxSize`),"""
    interval_s: float
    """or so long after the last one (`transactionOpBatchInterval`); 0: at once."""


class OpBatches:
    """Collects queue offsets for each half queue.

    Args:
        limits: when to write, by the options now.
    """

    def __init__(self, limits: Callable[[], OpLimits]) -> None:
        self._limits = limits
        self._queues: dict[int, _Waiting] = {}

    def add(self, queue_id: int, half_offsets: Sequence[int], now: float) -> None:
        """Half messages are committed or rolled back."""
        waiting = self._queues.get(queue_id)
        if waiting is None:
            # The interval of the first offset starts now.
            waiting = self._queues[queue_id] = _Waiting(written_at=now)
        texts = [f"{offset}," for offset in half_offsets]
        waiting.text += texts
        waiting.chars += sum(map(len, texts))

    def forget(self) -> None:
        """Nothing of it is to be written: the offsets may be those of other half messages soon."""
        self._queues.clear()

    def due(self, now: float) -> list[int]:
        """Queues to write now."""
        limits = self._limits()
        return [
            queue_id
            for queue_id, waiting in self._queues.items()
            if waiting.text
            and (
                # After a failed put, do not wait for the interval again.
                waiting.was_refused
                or waiting.chars > limits.max_chars
                or now >= waiting.written_at + limits.interval_s - EPSILON_S
            )
        ]

    def next_due_in_s(self, now: float) -> float | None:
        """Seconds until a queue is due; None when nothing waits."""
        limits = self._limits()
        waits = [
            waiting.written_at + limits.interval_s - now
            # A batch that is too long is due now.
            if waiting.chars <= limits.max_chars
            else 0.0
            for waiting in self._queues.values()
            if waiting.text
        ]
        return max(0.0, min(waits)) if waits else None

    def waiting(self) -> list[int]:
        """Queues with something to write, due or not."""
        return [queue_id for queue_id, waiting in self._queues.items() if waiting.text]

    def take(self, queue_id: int, now: float) -> str:
        """The body of the queue's next op record; about `max_chars` of it at most."""
        # Whole offsets only: a number cut in two would name another half message.
        waiting, max_chars = self._queues[queue_id], self._limits().max_chars
        chars = count = 0
        for text in waiting.text:
            chars += len(text)
            count += 1
            if chars >= max_chars:
                break
        body = "".join(waiting.text[:count])
        del waiting.text[:count]
        waiting.chars -= chars
        waiting.written_at = now
        waiting.was_refused = False
        return body

    def put_back(self, queue_id: int, body: str) -> None:
        """What `take` gave could not be stored; the queue is due at once."""
        waiting = self._queues[queue_id]
        waiting.was_refused = True
        # In front, so that the order of the offsets stays the same.
        waiting.text.insert(0, body)
        waiting.chars += len(body)
