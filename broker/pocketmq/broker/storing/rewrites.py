"""Rewrites: messages whose properties need more than storing, such as delays and transactions.

A delayed message goes to SCHEDULE_TOPIC_XXXX instead of its topic, a half message to the half
topic. Each such subject adds one `Rewrite`; the first that takes a message has it, so a subject
that stands before another in the broker's list is asked before it.

Only messages with a property of `sending/sent_properties.py`'s list, or transaction bits in their
`sys_flag`, come here: all others are stored as they are, which is most of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.protocol.stored.record import MAX_TOPIC_BYTES_V1

Rewrite: TypeAlias = Callable[[StoredMessage, dict[str, str], int], bool]
"""(message, its properties decoded, now in epoch ms) -> whether the message was taken.

It takes a message by changing it: topic, queue, properties (encode them anew), flags, body. Raises
RequestRefusedError where the message must not be stored.
"""


def too_long_as_it_is(max_retry_bytes: int) -> Rewrite:
    """Takes messages whose topic is too long for a record, and leaves them for the store to refuse.

    Asked first: a topic that a delay hides would be refused only when the message is due, and the
    message, acknowledged long ago, be lost (S-10).

    Args:
        max_retry_bytes: longest retry topic that the store takes, by profile.
    """

    def rewrite(message: StoredMessage, _properties: dict[str, str], _now_ms: int) -> bool:
        topic = message.topic
        # Most topics are short and ASCII, so their bytes need not be counted.
        if len(topic) <= MAX_TOPIC_BYTES_V1 and topic.isascii():
            return False
        limit = max_retry_bytes if is_retry(topic) else MAX_TOPIC_BYTES_V1
        return len(topic.encode(errors="surrogatepass")) > limit

    return rewrite


class Rewrites:
    """Some rewrites, in the order in which they are asked."""

    def __init__(self) -> None:
        self._rewrites: tuple[Rewrite, ...] = ()

    def add(self, rewrite: Rewrite) -> None:
        """Ask `rewrite` too, after those that were added before."""
        self._rewrites = (*self._rewrites, rewrite)

    def apply(self, message: StoredMessage, properties: dict[str, str], now_ms: int) -> bool:
        """Let the first that wants it change the message; whether one did.

        Args:
            message: with the topic and queue that it is for.
            properties: of the message, decoded; the rewrite may change them.
            now_ms: the time.

        Raises:
            RequestRefusedError: it must not be stored.
        """
        # A generator for `any` would cost more than most rewrites.
        for rewrite in self._rewrites:  # noqa: SIM110
            if rewrite(message, properties, now_ms):
                return True
        return False
