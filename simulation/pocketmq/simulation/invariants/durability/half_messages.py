"""A half message is passed for good once what became of it is on the medium. Pure.

Nobody asks about half messages below the noted offset any more, so a committed one without its copy
would be lost, and so would an undecided one that is not stored again.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages.properties import TRANSACTION_CHECK_TIMES
from pocketmq.protocol.messages.validation import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.simulation.invariants.durability.consumer_offsets import offsets_of_group
from pocketmq.simulation.invariants.medium import Kept, Medium
from pocketmq.simulation.invariants.rule import DurabilityRule

GROUP = "CID_RMQ_SYS_TRANS"
"""The broker's own group, whose offsets say how far half messages and op records are settled."""


class HalfMessageRule(DurabilityRule):
    """Follows each half message to its copy, to its rollback, or to where it is stored again."""

    ABOUT = frozenset({"half messages passed"})
    WORDS = "passed before what became of it was on the disk"
    ASKED_MARKERS = (b"commitOrRollback",)

    def __init__(
        self, broker: str, medium: Medium, violations: list[str], seen: Counter[str]
    ) -> None:
        super().__init__(broker, medium, violations, seen)
        self._halves: dict[int, dict[int, str]] = defaultdict(dict)
        """Queue -> offset -> key, of those that are not passed."""
        self._passed: Counter[int] = Counter()
        """Queue -> offset below which all are passed."""
        self._stored_again: dict[str, int] = {}
        """Key -> offset of the last half message that was stored in place of another."""
        self._over: set[str] = set()
        """Keys that were committed or given up, with the copy on the medium."""
        self._rolled_back: set[str] = set()
        """Keys of which nothing has to be stored."""

    def asked(self, request: Command) -> None:
        if request.code == RequestCode.END_TRANSACTION:
            header = request.header(EndTransactionRequestHeader)
            if header.commit_or_rollback == MessageSysFlag.TRANSACTION_ROLLBACK:
                self._rolled_back.add(header.msg_id)

    def survives(self, record: Kept) -> None:
        message, key = record.message, record.identity().key
        if record.topic == HALF_TOPIC:
            self._halves[record.queue_id][record.queue_offset] = key
            if TRANSACTION_CHECK_TIMES in message.properties:
                self._stored_again[key] = record.queue_offset
            return
        kind = MessageSysFlag.transaction_type(message.sys_flag)
        if (
            kind == MessageSysFlag.TRANSACTION_COMMIT
            or record.topic == TRANS_CHECK_MAX_TIME_TOPIC
        ):  # fmt: skip
            self._over.add(key)

    def noted(self, path: str, content: bytes) -> None:
        for queue_id, to in offsets_of_group(path, content, GROUP).get(HALF_TOPIC, {}).items():
            halves = self._halves[queue_id]
            for offset in range(self._passed[queue_id], to):
                self.seen["half messages passed"] += 1
                key = halves.pop(offset, None)  # None: it was deleted before it survived
                if key is not None and not self._is_settled(key, offset):
                    self.violated(f"half message {offset} of queue {queue_id}, by {to}")
            self._passed[queue_id] = max(self._passed[queue_id], to)

    def _is_settled(self, key: str, offset: int) -> bool:
        return (
            key in self._over
            or key in self._rolled_back
            or self._stored_again.get(key, offset) > offset
        )
