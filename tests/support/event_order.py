"""The causal order of events, checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pocketmq.operation.events import Event
from pocketmq.operation.events.messages import (
    MessageConsumed,
    MessageDispatched,
    MessagePulled,
    MessageSent,
    MessageStored,
    OffsetCommitted,
)


def in_order(events: Iterable[Event], topic: str) -> None:
    """Sent, stored, dispatched, pulled, consumed, committed: each after what it needs.

    Args:
        events: In their order.
        topic: Whose commits are looked at: none is beyond what can be pulled.
    """
    sent: set[str] = set()
    stored: set[tuple[str, str, int, int]] = set()
    ends: dict[tuple[str, str, int], int] = defaultdict(int)
    pulled: dict[tuple[str, str, int, str], int] = defaultdict(int)
    for event in events:
        match event:
            case MessageSent():
                sent.update([event.unique_key, *event.batched])
            case MessageStored():
                stored.add((event.topic, event.broker, event.queue, event.offset))
            case MessageDispatched():
                queue = (event.topic, event.broker, event.queue)
                for offset in range(event.offset, event.offset + event.count):
                    assert (*queue, offset) in stored
                ends[queue] = event.offset + event.count
            case MessagePulled():
                assert event.end is not None
                assert event.end <= ends[event.topic, event.broker, event.queue]
                key = (event.topic, event.broker, event.queue, event.group)
                pulled[key] = max(pulled[key], event.end)
            case MessageConsumed() if event.attempt == 0 and event.unique_key is not None:
                assert event.unique_key in sent
                key = (event.topic, event.broker, event.queue, event.group)
                assert event.offset < pulled[key]
            case OffsetCommitted() if event.topic == topic:
                assert event.offset <= ends[event.topic, event.broker, event.queue]
