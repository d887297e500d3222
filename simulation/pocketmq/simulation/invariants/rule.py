"""The base class of rules on one broker's order of durability. Pure.

A feature adds its rule as a file in `durability/`: a subclass of `DurabilityRule` that checks what
must be on the medium before something is answered or noted. `durability/__init__.py` lists them.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from pocketmq.protocol.command import Command
from pocketmq.simulation.invariants.medium import Kept, Medium


class DurabilityRule:
    """Checks that what an answer or a file depends on is on the medium first.

    An object checks one broker, over all its restarts. Override the methods for the events that a
    rule needs; they are called when the events happen. Call `violated` to report a violation.

    Args:
        broker: Name of the broker.
        medium: What certainly survives a power cut of the broker now.
        violations: A line is appended for each violation.
        seen: How often each case of `ABOUT` occurred.
    """

    ABOUT: ClassVar[frozenset[str]] = frozenset()
    """Cases in `seen` that must occur in the seeds of CI; otherwise the rule checked nothing."""
    WORDS: ClassVar[str] = ""
    """Text in each of its violations, by which tests of planted faults recognise them."""
    MARKERS: ClassVar[tuple[bytes, ...]] = ()
    """Byte strings; requests with one of them are decoded and passed to `answered`."""
    ASKED_MARKERS: ClassVar[tuple[bytes, ...]] = ()
    """Byte strings; requests with one of them are decoded and passed to `asked`."""
    ANSWER_MARKERS: ClassVar[tuple[bytes, ...]] = ()
    """Byte strings; answers with one of them are passed to `answered` without their request."""

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        self.broker = broker
        self.medium = medium
        self.seen = seen
        self.at_risk: set[tuple[str, int]] = set()
        """(topic, queue) that a power cut may take, which the rule allows."""
        self._violations = violations
        self.now = 0.0
        """Time in virtual seconds; set before each call."""

    def survives(self, record: Kept) -> None:
        """A record is on the medium; called once for each, in the log's order."""

    def kept(self, path: str, content: bytes | bytearray) -> None:
        """A file, or its new content, is on the medium."""

    def noted(self, path: str, content: bytes) -> None:
        """A file with this content may be on the medium from now on: a sync or rename begins, or
        power was cut."""

    def failed(self, path: str) -> None:
        """A write of a configuration file, or a sync of a directory's names, has failed."""

    def asked(self, request: Command) -> None:
        """A client sent a request to the broker; it may be on its way, or get lost."""

    def answered(self, request: Command | None, answer: Command) -> None:
        """The broker sent an answer.

        Args:
            request: The request, if it contains one of `MARKERS`.
            answer: The answer, with any code.
        """

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        """Retention deleted messages below an offset."""

    def restarted(self, log_end: int) -> None:
        """A new process recovered the store, whose log ends at `log_end`."""

    def violated(self, text: str) -> None:
        """Report a violation; the text should say what depends on what."""
        self._violations.append(f"{self.now:.3f} {self.broker}: {text}: {self.WORDS}")
