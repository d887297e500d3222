"""The timers' checkpoint and log run behind what a restart needs in their place. Pure.

A restart takes messages of the wheel topic in behind the noted offset, or behind the last one in
the timer log, and begins at the noted time. A message before both must have been delivered, with
its copy on the medium; one that still waits must be found by its slot.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from pocketmq.protocol.messages.properties import (
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
)
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.simulation.invariants.medium import Identity, Kept, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule
from pocketmq.simulation.invariants.timer_files import (
    TimerCheckpoint,
    TimerMedium,
    checkpoint_of,
)

CHECKPOINT_FILE = "timercheck"


@dataclass(slots=True)
class _Waiting:
    start: int
    slot_ms: int
    identity: Identity
    cancels: str | None
    """The message that it takes back, by topic and key."""
    is_found: bool = False
    """Whether the wheel leads to it, for good."""


class TimerRule(DurabilityRule):
    """Follows each message of the wheel topic into the timer log, and to its copy."""

    ABOUT = frozenset({"timer messages taken in", "timer messages passed"})
    WORDS = "noted by the timers before it was on the disk"

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._files = TimerMedium(medium)
        self._waiting: dict[int, _Waiting] = {}
        """Offset in the wheel topic -> a message that is not known to be delivered."""
        self._offset_of: dict[int, int] = {}
        """Where a waiting message begins in the commit log -> its offset in the wheel topic."""
        self._by_identity: dict[Identity, deque[int]] = defaultdict(deque)
        self._cancelled: set[str] = set()
        self._logged_to = 0
        """Offset in the wheel topic behind the last message in the log."""

    # -- what survives --------------------------------------------------------------------------

    def survives(self, record: Kept) -> None:
        properties = record.message.properties
        if record.topic != TIMER_TOPIC:
            self._settle(record.identity())
            return
        identity = record.identity(properties.get(REAL_TOPIC))
        if TIMER_ROLL_TIMES in properties:
            self._settle(identity)
        cancels = properties.get(TIMER_DEL_UNIQKEY)
        if cancels is not None:
            self._cancelled.add(cancels)
        offset = record.queue_offset
        self._waiting[offset] = _Waiting(
            record.start, int(properties.get(TIMER_OUT_MS, "0")), identity, cancels
        )
        self._offset_of[record.start] = offset
        if cancels is None:
            self._by_identity[identity].append(offset)

    def _settle(self, identity: Identity) -> None:
        """The first message that waits for this copy is delivered."""
        offsets = self._by_identity.get(identity)
        while offsets:
            if self._waiting.pop(offsets.popleft(), None) is not None:
                return

    def kept(self, path: str, content: bytes | bytearray) -> None:
        start = self._files.start_of(path)
        if start is not None:
            self._files.kept(start, content)

    def restarted(self, log_end: int) -> None:
        self._files.read_anew()
        self._logged_to = 0  # what was cut off is taken in anew

    # -- what is noted --------------------------------------------------------------------------

    def noted(self, path: str, content: bytes) -> None:
        if path.endswith("/" + CHECKPOINT_FILE):
            self._check(checkpoint_of(content))
        elif (start := self._files.start_of(path)) is not None:
            self._check_log(start, content)

    def _check_log(self, start: int, content: bytes) -> None:
        """A restart goes on behind the last message in the log, and reads none before it."""
        logged = {each.start for each in self._files.new_in(start, content)}
        to = max((self._offset_of.get(each, -1) for each in logged), default=-1) + 1
        for offset in range(self._logged_to, to):
            waiting = self._waiting.get(offset)
            if waiting is None or waiting.start in logged or self._is_cancelled(waiting):
                continue
            if self._files.logged(waiting.start) is None:
                self._violated(offset, f"neither delivered nor logged, and {to - 1} is logged")
        self._logged_to = max(self._logged_to, to)

    def _check(self, noted: TimerCheckpoint) -> None:
        read_from, last, is_whole = self._files.recovered(noted.log_end)
        taken_in = 0 if last is None else self._offset_of.get(last.start, -1) + 1
        if is_whole:
            taken_in = max(taken_in, noted.queue_offset)
        for offset, waiting in list(self._waiting.items()):
            if offset >= taken_in:
                continue
            if waiting.slot_ms < noted.read_ms:
                self.seen["timer messages passed"] += 1
                if waiting.cancels is None and not self._is_cancelled(waiting):
                    self._violated(offset, f"not delivered, and {noted.read_ms} is noted")
                self._waiting.pop(offset, None)
            elif not waiting.is_found:
                self.seen["timer messages taken in"] += 1
                logged = self._files.logged(waiting.start)
                if logged is None or (
                    logged.position < read_from and not self._files.leads_to(logged)
                ):
                    self._violated(offset, f"not in the timer log, and {taken_in - 1} is noted")
                waiting.is_found = logged is not None and logged.position < read_from

    def _violated(self, offset: int, text: str) -> None:
        waiting = self._waiting.pop(offset)
        self.violated(f"{waiting.identity.key} at {offset} of the wheel topic is {text}")

    def _is_cancelled(self, waiting: _Waiting) -> bool:
        """Whether it was taken back."""
        key, topic, _ = waiting.identity
        return key in self._cancelled or f"{topic}+{key}" in self._cancelled
