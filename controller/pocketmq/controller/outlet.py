"""`Outlet`: the only way by which a controller's messages leave, each after what it follows from.

    written = await storage.write(...)     a `Written`: the proof, which only the journal makes
    outlet.let_go(written)                 sends what follows from that write and those before it

A vote that leaves before it is on the disk can be given twice: two leaders in one term. Whoever
forgets to wait for a write has no `Written`, so that it does not type-check; what is let go with an
older one stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pocketmq.controller.raft.group import Step
from pocketmq.controller.raft.messages import Envelope, Write


@dataclass(frozen=True, slots=True)
class Written:
    """Proof that all writes up to `number` survive a power cut.

    Made where a write has ended, in `journal_file.py`, and nowhere else: a test reads the code for
    that (`tests/controller/test_outlet.py`).
    """

    number: int
    """`Write.number` of the last of them."""


class Outlet:
    """Holds messages back until what they follow from is on the disk.

    Args:
        send: Gives one message to the network.
    """

    def __init__(self, send: Callable[[Envelope], None]) -> None:
        self._send = send
        self._held: deque[tuple[int, Sequence[Envelope]]] = deque()
        """Number of the write that messages follow from, 0 for none, and the messages."""
        self._unwritten: list[Write] = []
        self._last = 0

    def put(self, step: Step) -> None:
        """Take a step of the state machine: what to write, and what to send after it."""
        if step.write is not None:
            self._unwritten.append(step.write)
            self._last = step.write.number
        # Messages of a step without a write may still depend on the last write.
        if step.messages:
            self._held.append((self._last, step.messages))

    def to_write(self) -> list[Write]:
        """The writes that nobody was given yet, in their order."""
        writes, self._unwritten = self._unwritten, []
        return writes

    def let_go(self, written: Written | None) -> None:
        """Send what follows from no later write than this one; with None, from no write at all."""
        safe = 0 if written is None else written.number
        while self._held and self._held[0][0] <= safe:
            for envelope in self._held.popleft()[1]:
                self._send(envelope)
