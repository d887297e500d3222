"""Which half messages are open and which are decided, as far as this process knows.

RocketMQ stores a message once more when its transaction is committed twice: by its producer late,
and by its answer to a check (X-20). Here the second one is recognised by its unique key.
"""

from __future__ import annotations

from collections import OrderedDict

from pocketmq.broker.transactions.half_messages import Outcome

MAX_OPEN = 100_000
MAX_DECIDED = 100_000
"""About 200 bytes each. What is forgotten is looked up in the message index."""


class Decisions:
    """Remembers the latest of each; the oldest are forgotten."""

    def __init__(self, max_open: int = MAX_OPEN, max_decided: int = MAX_DECIDED) -> None:
        self._max_open = max_open
        self._max_decided = max_decided
        # A dict looks for its first key behind all those that were removed since it last grew:
        # with 100,000 of them that takes 0.1 ms.
        self._open: OrderedDict[str, None] = OrderedDict()
        self._decided: OrderedDict[str, Outcome] = OrderedDict()

    def opened(self, key: str) -> None:
        """A half message was stored by its producer.

        A repeated send of the same message changes nothing.
        """
        if key in self._decided:
            return
        self._open[key] = None
        if len(self._open) > self._max_open:
            self._open.popitem(last=False)

    def decided(self, key: str, outcome: Outcome) -> None:
        """It was committed or rolled back; both are stored by now, or about to be."""
        self._open.pop(key, None)
        # Pop it first, so that it moves to the end and is forgotten last.
        self._decided.pop(key, None)
        self._decided[key] = outcome
        if len(self._decided) > self._max_decided:
            self._decided.popitem(last=False)

    def forget(self) -> None:
        """Another broker writes the log from now on, and may cut what these were stored as."""
        self._open.clear()
        self._decided.clear()

    def is_open(self, key: str) -> bool:
        """Whether it is certain that nobody has decided it."""
        # False also for forgotten ones: the index and the op records know about those.
        return key in self._open

    def outcome(self, key: str | None) -> Outcome | None:
        """How it was decided; None when it is open or not known."""
        return None if key is None else self._decided.get(key)
