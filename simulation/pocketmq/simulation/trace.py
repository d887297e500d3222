"""Records the events of a run: a hash to compare two runs, and the last lines as text."""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Callable

LINES_KEPT = 60
_ARRIVAL = struct.Struct("<dI")


class Trace:
    """Records every event, in order.

    Args:
        now: Returns the time in virtual seconds.
        sink: Called with each line at once; events about bytes are left out.
    """

    def __init__(self, now: Callable[[], float], sink: Callable[[str], object] | None = None):
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._now = now
        self._sink = sink
        self._pairs: dict[tuple[str, str], bytes] = {}
        self._hash = hashlib.blake2b(digest_size=8)

    def note(self, *words: object) -> None:
        """Record an event as a line of text."""
        line = f"{self._now():10.4f} " + " ".join(map(str, words))
        self._hash.update(line.encode())
        self.lines.append(line)
        if self._sink is not None:
            self._sink(line)

    def bytes(self, sender: str, receiver: str, count: int) -> None:
        """Record bytes that arrived."""
        pair = self._pairs.get((sender, receiver))
        if pair is None:
            pair = self._pairs[sender, receiver] = f"{sender}>{receiver}".encode()
        self._hash.update(_ARRIVAL.pack(self._now(), count) + pair)

    @property
    def digest(self) -> str:
        """The hash, which is equal for equal runs."""
        return self._hash.hexdigest()
