"""Overload protection: when the broker answers SYSTEM_BUSY (2) (B-160 to B-162, B-168).

RocketMQ has queues before its thread pools and throws out what has waited too long. Here the queue
is one turn of the event loop: the requests of all sockets that were readable when it began. They
wait for each other, and when one append takes a second, everybody behind it has waited for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import BatchProcessor, Peer, Processor, Reply

Deferred = Callable[[], None]

_SHORTEST_BUSY_S = 0.001
"""RocketMQ measures appends in whole milliseconds, so a shorter one is never slow (B-160)."""


@unique
class Work(Enum):
    """Kinds of requests; each waits in a queue of its own in RocketMQ."""

    SEND = "send"
    PULL = "pull"
    HEARTBEAT = "heartbeat"
    ADMIN = "admin"


@dataclass(slots=True)
class Overload:
    """Measures how long requests wait, and refuses those that waited too long."""

    now: Callable[[], float]
    """Monotonic seconds."""

    defer: Callable[[Deferred], object]
    """Calls a function when this turn of the loop is over."""

    longest_wait_s: Callable[[Work], float | None]
    """From B-161; None: for ever."""

    busy_append_s: Callable[[], float] = lambda: 1.0
    """An append that took longer means that the page cache is busy (B-160)."""

    pool_bytes: int | None = None
    """Most unflushed bytes of the log, where a transient store pool is configured (B-162)."""

    _turn_began_at: float | None = field(default=None, init=False)
    _is_append_slow: bool = field(default=False, init=False)

    def check(self, work: Work) -> None:
        """Refuse a request that has waited too long.

        Raises:
            RequestRefusedError: SYSTEM_BUSY (2), with RocketMQ's mark for the reason.
        """
        began_at = self._turn_began_at
        if began_at is None:
            self._turn_began_at = self.now()
            self.defer(self._turn_ended)
            return
        if self._is_append_slow and work is Work.SEND:
            raise _busy("[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while")
        waited_s = self.now() - began_at
        limit_s = self.longest_wait_s(work)
        if limit_s is not None and waited_s > limit_s:
            raise _busy(
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"period in queue: {round(waited_s * 1000)}ms"
            )

    @property
    def waited_ms(self) -> int:
        """How long the oldest request of this turn has waited."""
        began_at = self._turn_began_at
        return 0 if began_at is None else int((self.now() - began_at) * 1000)

    def guarded(self, work: Work, processor: Processor) -> Processor:
        """A processor that passes `check` first."""

        def answer(peer: Peer, request: Command) -> Reply:
            self.check(work)
            return processor(peer, request)

        return answer

    def guarded_batch(self, work: Work, processor: BatchProcessor) -> BatchProcessor:
        """The same for requests that are answered together."""

        def answer(peers: Sequence[Peer], requests: Sequence[Command]) -> Sequence[Reply]:
            self.check(work)
            return processor(peers, requests)

        return answer

    def check_pool(self, unflushed_bytes: int) -> None:
        """Refuse a send while the transient store pool is full.

        Raises:
            RequestRefusedError: SYSTEM_BUSY (2): too much of the log is unflushed.
        """
        if self.pool_bytes is not None and unflushed_bytes >= self.pool_bytes:
            raise _busy(
                "[TRANSIENT_STORE_POOL]no buffer is left: "
                f"{unflushed_bytes} bytes of the log wait to be flushed"
            )

    def note_append(self, took_s: float) -> None:
        """An append is done; sends that waited behind a slow one are refused in this turn."""
        if took_s >= _SHORTEST_BUSY_S and took_s > self.busy_append_s():
            self._is_append_slow = True

    def _turn_ended(self) -> None:
        self._turn_began_at = None
        self._is_append_slow = False


def groups_far_behind(
    pulls: Iterable[tuple[str, str, int, int]],
    log_end: int,
    position: Callable[[str, int, int], int | None],
    threshold_bytes: int,
) -> dict[str, int]:
    """Groups whose last pull lies further behind the log's end than the threshold (B-168).

    Args:
        pulls: (topic, group, queue id, offset) of each queue's last pull.
        log_end: end of the commit log.
        position: physical offset of (topic, queue id, offset); None at the queue's end.
        threshold_bytes: `consumerFallbehindThreshold`.

    Returns:
        group -> bytes that it is behind, of its worst queue.
    """
    behind: dict[str, int] = {}
    for topic, group, queue_id, offset in pulls:
        at = position(topic, queue_id, offset)
        lag_bytes = 0 if at is None else log_end - at
        if lag_bytes > threshold_bytes and lag_bytes > behind.get(group, 0):
            behind[group] = lag_bytes
    return behind


def _busy(remark: str) -> RequestRefusedError:
    return RequestRefusedError(ResponseCode.SYSTEM_BUSY, remark)
