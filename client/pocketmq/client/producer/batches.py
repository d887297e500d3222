"""Messages of any number cut into batches that a broker takes (P-49). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import is_delayed, is_retry

RECOMMENDED_BATCH_BYTES: Final = 1024 * 1024
"""RocketMQ's advice; the hard limit is `max_message_size`."""

ENTRY_BYTES: Final = 22
"""Fixed fields of one message in a batch (E-47)."""

UNIQ_KEY_BYTES: Final = 42
"""`UNIQ_KEY`, 32 characters and two separators, which the producer adds."""


def split_batches(
    messages: Iterable[Message], max_bytes: int = RECOMMENDED_BATCH_BYTES
) -> Iterator[list[Message]]:
    """Yield lists of consecutive messages that may travel together, in their order.

    A new list begins when topic or WAIT changes, or the next message would not fit. A message that
    cannot be batched (delayed, for a retry topic) or is too large by itself comes alone.

    Args:
        messages: Any number; taken one at a time.
        max_bytes: Of one batch body.
    """
    batch: list[Message] = []
    size = 0
    for message in messages:
        need = entry_size(message)
        if batch and (size + need > max_bytes or not _may_join(batch[0], message)):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += need
    if batch:
        yield batch


def entry_size(message: Message) -> int:
    """Bytes that a message takes in a batch, at most."""
    properties = encode_properties(message.properties).encode()
    return ENTRY_BYTES + len(message.body) + len(properties) + UNIQ_KEY_BYTES


def may_be_batched(message: Message) -> bool:
    """Whether it may travel with others at all."""
    return not is_delayed(message) and not is_retry(message.topic)


def _may_join(first: Message, message: Message) -> bool:
    return (
        may_be_batched(first)
        and may_be_batched(message)
        and message.topic == first.topic
        and message.wait_store_ok == first.wait_store_ok
    )
