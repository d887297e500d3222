"""The rows of the result of `latency`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BORN_TO_STORE: Final = "born-to-store"
STORE_TO_COMMIT: Final = "store-to-commit"


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Percentiles of one minute, in ms: each is one of the durations."""

    measure: str
    topic: str
    group: str
    """Empty for born to store."""
    minute_ms: int
    """Epoch ms at which the minute of the store times begins."""
    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    p999_ms: int
    max_ms: int
    error_ms: int
    """By at most so much they are too long, for the looks were so far apart."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """How many messages of a topic a queue has got."""

    topic: str
    broker: str
    queue_id: int
    messages: int
    skew: float
    """Times the mean of the topic's queues."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One of the most frequent keys of a topic."""

    topic: str
    key: str
    count: int
    share: float
    """Of the topic's messages with a key."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """What a group's messages came to."""

    group: str
    topics: str
    messages: int
    """Of its topics."""
    retries: int
    dead_letters: int
    retry_rate: float
    """Retries for each message."""
    dead_letter_rate: float
    pending: int
    """Messages that no look found committed."""


@dataclass(slots=True)
class Latencies:
    """The result."""

    messages: int = 0
    clock_ahead: int = 0
    """Messages that were stored before they were born: the producer's clock is ahead."""
    committed_before: int = 0
    """Messages that the first look found committed already: for these it is not known when."""
    rows: list[LatencyRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    keys: list[KeyRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
