"""A million pending timers: what they hold in memory, and what logging and advancing cost.

    python -m benchmarks.timers [COUNT]

Processor time of this process, so that a loaded machine does not matter. The messages themselves
lie in the commit log and are not in these figures.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time

import psutil

from pocketmq.broker.store import OsDisk
from pocketmq.broker.timers.layout import NORMAL, LogRecord
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.wheel import TimerWheel

START_MS = 1_700_000_000_000
HORIZON_S = 2 * 86_400
"""The window in which messages wait in one piece; later ones roll."""


def anonymous_bytes() -> int:
    """Memory of this process without mapped files."""
    info = psutil.Process().memory_info()
    return int(info.rss - info.shared)


def measure(count: int) -> None:
    """Log `count` timers at random times, then deliver every slot."""
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        log = TimerLog(OsDisk(), folder, 100 * 1024 * 1024)
        log.load()
        wheel = TimerWheel(1000)
        before, began = anonymous_bytes(), time.process_time()
        for number in range(count):
            slot_ms = START_MS + rng.randrange(HORIZON_S) * 1000
            record = LogRecord(
                wheel.get(slot_ms).last, NORMAL, START_MS, 0, number * 300, 300, 12345
            )
            wheel.add(slot_ms, log.append(record), 1)
        logged_s = time.process_time() - began
        slots = len(wheel)
        written = sum(1 for _ in wheel.take_dirty())
        held = anonymous_bytes() - before
        began = time.process_time()
        idle = 0
        while (slot_ms := wheel.next_ms()) is not None:
            position = wheel.get(slot_ms).last
            while position >= 0:
                entry = log.read(position)
                assert entry is not None
                position = entry.previous
                idle += 1
            wheel.done(slot_ms)
        advanced_s = time.process_time() - began
        assert idle == count
        log.close()
    print(f"{count:,} timers in {slots:,} slots ({written:,} written to the wheel's file)")
    print(f"memory beside the mapped log: {held / 2**20:.1f} MiB")
    print(f"logging one: {logged_s / count * 1e6:.2f} us, walking to one: ", end="")
    print(f"{advanced_s / count * 1e6:.2f} us of processor time")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
