"""The order of durability (docs/simulation.md), one file for each thing that depends.

To add one: write a subclass of `DurabilityRule` in a file of its own, and name it in `RULES`.
docs/simulation.md has a worked example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from pocketmq.cluster.simulation.invariants.durability.checkpoint import CheckpointRule
from pocketmq.cluster.simulation.invariants.durability.consumer_offsets import ConsumerOffsetRule
from pocketmq.cluster.simulation.invariants.durability.delay_offsets import DelayOffsetRule
from pocketmq.cluster.simulation.invariants.durability.recovered import RecoveredRule
from pocketmq.cluster.simulation.invariants.durability.send_backs import SendBackRule
from pocketmq.cluster.simulation.invariants.durability.sends import SendRule
from pocketmq.cluster.simulation.invariants.durability.topics import TopicRule
from pocketmq.cluster.simulation.invariants.medium import LOG_FOLDER, Medium
from pocketmq.cluster.simulation.invariants.rule import DurabilityRule
from pocketmq.protocol.command import Command

RULES: tuple[type[DurabilityRule], ...] = (
    SendRule,
    SendBackRule,
    TopicRule,
    DelayOffsetRule,
    ConsumerOffsetRule,
    CheckpointRule,
    RecoveredRule,
)

REQUEST_MARKERS = tuple({marker for rule in RULES for marker in rule.MARKERS})
ANSWER_MARKERS = tuple({marker for rule in RULES for marker in rule.ANSWER_MARKERS})


class DurabilityLedger:
    """Holds one broker to every rule.

    Args:
        broker: Its name.
        root: Its store's directory.
        read: A file as a power cut would surely leave it.
        names: Paths that a power cut would surely leave.
        now: Virtual seconds.
        violations: Gets one line for each.
    """

    def __init__(
        self,
        broker: str,
        root: str,
        read: Callable[[str], bytes | None],
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

    def kept(self, path: str, content: bytes) -> None:
        """A file, or its new content, is on the medium."""
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
        """A write of a configuration file has failed, and its writer was told."""
        self._tick()
        for rule in self.rules:
            rule.failed(path)

    def answered(self, request: Command | None, answer: Command) -> None:
        """The broker has sent an answer."""
        self._tick()
        for rule in self.rules:
            rule.answered(request, answer)

    def expired(self, topic: str, queue_id: int, min_offset: int) -> None:
        """Retention has deleted what is below."""
        self._tick()
        for rule in self.rules:
            rule.expired(topic, queue_id, min_offset)

    def power_was_cut(self) -> None:
        """What has survived by chance counts as what was synced."""
        self._tick()
        self._read_on()

    def restarted(self, log_end: int) -> None:
        """A new process has recovered the store."""
        self._tick()
        for rule in self.rules:
            rule.restarted(log_end)

    def _tick(self) -> None:
        now = self._now()
        for rule in self.rules:
            rule.now = now
