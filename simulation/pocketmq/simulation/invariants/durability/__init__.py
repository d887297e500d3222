"""The order of durability (docs/simulation-invariants.md), a file for each rule.

To add a rule, write a subclass of `DurabilityRule` in a new file, and add it to `RULES`.
docs/simulation-invariants.md says what it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from pocketmq.protocol.command import Command
from pocketmq.simulation.invariants.durability.acks import AckRule
from pocketmq.simulation.invariants.durability.checkpoint import CheckpointRule
from pocketmq.simulation.invariants.durability.consumer_offsets import ConsumerOffsetRule
from pocketmq.simulation.invariants.durability.delay_offsets import DelayOffsetRule
from pocketmq.simulation.invariants.durability.half_messages import HalfMessageRule
from pocketmq.simulation.invariants.durability.op_records import OpRecordRule
from pocketmq.simulation.invariants.durability.pop_offsets import PopOffsetRule
from pocketmq.simulation.invariants.durability.recovered import RecoveredRule
from pocketmq.simulation.invariants.durability.revive_offsets import ReviveOffsetRule
from pocketmq.simulation.invariants.durability.send_backs import SendBackRule
from pocketmq.simulation.invariants.durability.sends import SendRule
from pocketmq.simulation.invariants.durability.timers import TimerRule
from pocketmq.simulation.invariants.durability.topics import TopicRule
from pocketmq.simulation.invariants.medium import LOG_FOLDER, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule

RULES: tuple[type[DurabilityRule], ...] = (
    SendRule,
    SendBackRule,
    TopicRule,
    DelayOffsetRule,
    ConsumerOffsetRule,
    HalfMessageRule,
    OpRecordRule,
    AckRule,
    PopOffsetRule,
    ReviveOffsetRule,
    TimerRule,
    CheckpointRule,
    RecoveredRule,
)

REQUEST_MARKERS = tuple({marker for rule in RULES for marker in rule.MARKERS})
ASKED_MARKERS = tuple({marker for rule in RULES for marker in rule.ASKED_MARKERS})
ANSWER_MARKERS = tuple({marker for rule in RULES for marker in rule.ANSWER_MARKERS})


class DurabilityLedger:
    """Checks all rules for one broker.

    Args:
        broker: Name of the broker.
        root: Directory of its store.
        read: Returns the content of a file that certainly survives a power cut.
        names: Returns the paths that certainly survive a power cut.
        now: Returns the time in virtual seconds.
        violations: A line is appended for each violation.
    """

    def __init__(
        self,
        broker: str,
        root: str,
        read: Callable[[str], bytes | bytearray | None],
        names: Callable[[], Collection[str]],
        now: Callable[[], float],
        violations: list[str] | None = None,
    ) -> None:
        self.violations = [] if violations is None else violations
        self.seen: Counter[str] = Counter()
        self.medium = Medium(root, read, names)
        self.rules = [rule(broker, self.medium, self.violations, self.seen) for rule in RULES]
        self._now = now
        self._log = self.medium.path(LOG_FOLDER) + "/"

    def is_at_risk(self, topic: str, queue_id: int) -> bool:
        """Whether messages of a queue were acknowledged although the queue itself was not saved."""
        return any((topic, queue_id) in rule.at_risk for rule in self.rules)

    def kept(self, path: str, content: bytes | bytearray) -> None:
        """A file, or its new content, is on the medium now."""
        self._tick()
        if path.startswith(self._log):
            self._read_on()
            return
        for rule in self.rules:
            rule.kept(path, content)

    def _read_on(self) -> None:
        for record in self.medium.read_on():
            for rule in self.rules:
                rule.survives(record)

    def noted(self, path: str, content: bytes) -> None:
        """A file with this content may be on the medium from now on."""
        if path.startswith(self._log):
            return
        self._tick()
        for rule in self.rules:
            rule.noted(path, content)

    def failed(self, path: str) -> None:
        """A write of a configuration file, or a sync of a directory's names, has failed."""
        self._tick()
        for rule in self.rules:
            rule.failed(path)

    def asked(self, request: Command) -> None:
        """A client sent a request."""
        self._tick()
        for rule in self.rules:
            rule.asked(request)

    def answered(self, request: Command | None, answer: Command) -> None:
        """The broker sent an answer."""
        self._tick()
        for rule in self.rules:
            rule.answered(request, answer)

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        """Retention deleted messages below an offset."""
        self._tick()
        for rule in self.rules:
            rule.expired(topic, queue_id, min_offset)

    def power_was_cut(self) -> None:
        """Power was cut: what survived by chance counts as synced from now on."""
        self._tick()
        self._read_on()

    def restarted(self, log_end: int) -> None:
        """A new process recovered the store."""
        self._tick()
        for rule in self.rules:
            rule.restarted(log_end)

    def _tick(self) -> None:
        now = self._now()
        for rule in self.rules:
            rule.now = now
