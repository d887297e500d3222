"""Op records that cannot be stored at once are stored later (X-25)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.broker.transactions.op_batches import OpBatches, OpLimits
from pocketmq.broker.transactions.op_writer import OpWriter
from pocketmq.runtime.manual_time.manual_clock import ManualClock


class Puts:
    """A store that takes records while `takes`."""

    def __init__(self) -> None:
        self.takes = True
        self.tried = 0
        self.stored: list[bytes] = []

    def put(self, message: StoredMessage) -> SimpleNamespace:
        self.tried += 1
        if not self.takes:
            return SimpleNamespace(status=PutStatus.SERVICE_NOT_AVAILABLE)
        self.stored.append(bytes(message.body))
        return SimpleNamespace(status=PutStatus.PUT_OK)


def writer(
    puts: Puts, clock: ManualClock, defer: Callable[[Callable[[], None]], object] | None = None
) -> OpWriter:
    made: Any = OpWriter
    address = SimpleNamespace(packed=b"\0" * 8)
    limits = OpLimits(4096, 3.0)
    return made(OpBatches(lambda: limits), puts, address, clock, defer)  # type: ignore[no-any-return]


async def move(clock: ManualClock, seconds: float) -> None:
    await clock.move_to(clock.time_ms() + round(seconds * 1000))


async def test_what_was_refused_is_written_a_second_later() -> None:
    puts, clock = Puts(), ManualClock(0)
    ops = writer(puts, clock)
    await ops.start()
    puts.takes = False
    ops.add(0, [7, 8])
    await move(clock, 3.5)
    assert (puts.tried, puts.stored) == (1, []), "tried once, and not for ever"
    puts.takes = True
    await move(clock, 1.5)
    assert puts.stored == [b"7,8,"]
    await ops.stop()


async def test_what_was_refused_at_the_end_of_a_turn_is_written_later() -> None:
    puts, clock, deferred = Puts(), ManualClock(0), list[Callable[[], None]]()
    ops = writer(puts, clock, deferred.append)
    await ops.start()
    await move(clock, 5)  # it is at rest
    puts.takes = False
    ops.add(0, [7])
    ops.add(1, [9])
    [write] = deferred
    write()
    assert puts.stored == []
    puts.takes = True
    await move(clock, 5)
    assert sorted(puts.stored) == [b"7,", b"9,"]
    ops.add(0, [8])
    assert len(deferred) == 2, "the next turn writes again"
    await ops.stop()
    assert puts.stored[2:] == [b"8,"]


async def test_nothing_is_written_after_the_stop() -> None:
    puts, clock = Puts(), ManualClock(0)
    ops = writer(puts, clock)
    await ops.start()
    ops.add(0, [7])
    await ops.stop()
    assert puts.stored == [b"7,"]
    ops.add(0, [8])
    await move(clock, 10)
    assert puts.stored == [b"7,"]
