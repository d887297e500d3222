"""What happened in a run: a hash that tells two runs apart, and the last lines for people."""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Callable

LINES_KEPT = 60
_ARRIVAL = struct.Struct("<dI")


class Trace:
    """Every event, in order.

    Args:
        now: Virtual seconds.
        sink: Gets each line at once, for a run that is watched; bytes on the way are left out.
    """

    def __init__(self, now: Callable[[], float], sink: Callable[[str], object] | None = None):
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._now = now
        self._sink = sink
        self._pairs: dict[tuple[str, str], bytes] = {}
        self._hash = hashlib.blake2b(digest_size=8)

    def note(self, *words: object) -> None:
        """Something that people may want to read."""
        line = f"{self._now():10.4f} " + " ".join(map(str, words))
        self._hash.update(line.encode())
        self.lines.append(line)
        if self._sink is not None:
            self._sink(line)

    def bytes(self, sender: str, receiver: str, count: int) -> None:
        """Bytes that arrived."""
        pair = self._pairs.get((sender, receiver))
        if pair is None:
            pair = self._pairs[sender, receiver] = f"{sender}>{receiver}".encode()
        self._hash.update(_ARRIVAL.pack(self._now(), count) + pair)

    @property
    def digest(self) -> str:
        """Equal for equal runs."""
        return self._hash.hexdigest()
