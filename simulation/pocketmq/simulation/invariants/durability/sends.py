"""A send is answered with success when its record is on the medium (B-144). Pure."""

from __future__ import annotations

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.simulation.invariants.rule import DurabilityRule

OFFSET_DIGITS = 16


class SendRule(DurabilityRule):
    """Compares answers to sends with the log."""

    ABOUT = frozenset({"answered sends"})
    WORDS = "acknowledged before its record was on the disk"
    ANSWER_MARKERS = (b"msgId",)

    def answered(self, request: Command | None, answer: Command) -> None:
        for offset in stored_at(answer):
            self.seen["answered sends"] += 1
            if offset not in self.medium.by_start:
                self.violated(f"a send stored at {offset}, the log is safe to "
                              f"{self.medium.log_end}")  # fmt: skip


def stored_at(answer: Command) -> list[int]:
    """Log offsets of the messages that an answer reports as stored; empty for other answers."""
    if answer.code != ResponseCode.SUCCESS or not answer.fields.keys() >= {"msgId", "queueOffset"}:
        return []  # a recall answers with the id of what it recalled
    header = answer.header(SendMessageResponseHeader)
    return [int(each[-OFFSET_DIGITS:], 16) for each in header.msg_id.split(",")]
