"""What an invariant of one broker's order of durability looks like. Pure.

A feature adds its own as one file in `durability/`: a subclass of `DurabilityRule` that says what
must be on the medium before something is answered or noted. `durability/__init__.py` lists them.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from pocketmq.cluster.simulation.invariants.medium import Kept, Medium
from pocketmq.protocol.command import Command


class DurabilityRule:
    """Nothing is answered and nothing is noted before what it depends on is on the medium.

    One object looks at one broker, through all lives of its process. Each hook is called when the
    thing happens; `violated` reports. What a rule does not care for it leaves alone.

    Args:
        broker: Its name.
        medium: What of the broker survives a power cut now.
        violations: Gets one line for each.
        seen: How often each of `ABOUT` came up.
    """

    ABOUT: ClassVar[frozenset[str]] = frozenset()
    """Names in `seen` that the seeds of CI must bring up, or the rule has proved nothing."""
    WORDS: ClassVar[str] = ""
    """Part of each of its violations, by which planted faults are told apart."""
    MARKERS: ClassVar[tuple[bytes, ...]] = ()
    """Bytes of requests that `answered` wants to know; others are not decoded."""
    ANSWER_MARKERS: ClassVar[tuple[bytes, ...]] = ()
    """Bytes of answers that `answered` wants although it did not want the request."""

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        self.broker = broker
        self.medium = medium
        self.seen = seen
        self._violations = violations
        self.now = 0.0
        """Virtual seconds; set before each hook."""

    def survives(self, record: Kept) -> None:
        """A record of the log is on the medium; they come in the log's order, once."""

    def kept(self, path: str, content: bytes) -> None:
        """A file, or its new content, is on the medium."""

    def noted(self, path: str, content: bytes) -> None:
        """A file with this content may be on the medium from now on: a sync or rename begins, or
        the power is cut."""

    def failed(self, path: str) -> None:
        """A write of a configuration file has failed, and its writer was told."""

    def answered(self, request: Command | None, answer: Command) -> None:
        """The broker has sent an answer.

        Args:
            request: When one of `MARKERS` was in it.
            answer: Whatever its code.
        """

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        """Retention has deleted what is below."""

    def restarted(self, log_end: int) -> None:
        """A new process has recovered the store, whose log ends there."""

    def violated(self, text: str) -> None:
        """Report; the text should say what depends on what."""
        self._violations.append(f"{self.now:.3f} {self.broker}: {text}: {self.WORDS}")
