"""Records one process's part of a history, line by line.

    recorder = Recorder(Path("producer-1.jsonl"))
    recorder.send("key-7", "key-7/1")            # before the request leaves
    recorder.ack("key-7/1", "broker-a/orders/0", 41)
    recorder.receive("billing", "broker-a/orders/0", 41, "key-7/1")

A line is a JSON array: kind, time, and the items of that kind (docs/histories.md). Each process has
its own file. All times are of the machine's monotonic clock, so files of one machine can be merged.
A line is in the file before the call returns, so the file of a killed process is complete.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from pocketmq.runtime.clock import Clock, SystemClock

_encode = msgspec.json.Encoder().encode


class Recorder:
    """Appends lines to one process's file.

    Args:
        path: The file; lines are appended.
        clock: Its monotonic seconds are written, in microseconds. All recorders of a history need
            the same clock, and not a manual one.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @property
    def now_us(self) -> int:
        """The time that a line written now would have."""
        return int(self._clock.monotonic() * 1e6)

    def send(self, key: str, message: str) -> None:
        """A try to send a message begins; each try is a line."""
        self._line("send", key, message)

    def ack(self, message: str, queue: str, offset: int) -> None:
        """A broker has acknowledged the message."""
        self._line("ack", message, queue, offset)

    def fail(self, message: str) -> None:
        """Certainly no try of this message was stored; write nothing when that is in doubt."""
        self._line("fail", message)

    def receive(self, group: str, queue: str, offset: int, message: str) -> None:
        """A member of the group received a message."""
        self._line("receive", group, queue, offset, message)

    def commit(self, group: str, queue: str, offset: int) -> None:
        """A member sends a commit of `offset` to the broker."""
        self._line("commit", group, queue, offset)

    def committed(self, group: str, queue: str, offset: int, asked_us: int) -> None:
        """The broker answered a query sent at `asked_us`: the committed offset is `offset`."""
        self._line("committed", group, queue, offset, asked_us)

    def reset(self, group: str, queue: str, offset: int) -> None:
        """The group's offset is reset to `offset`."""
        self._line("reset", group, queue, offset)

    def killed(self, broker: str, saved_until_us: int) -> None:
        """A broker was killed; commits until `saved_until_us` (`now_us`) may not be lost."""
        self._line("killed", broker, saved_until_us)

    def orderly(self, group: str) -> None:
        """The group consumes in order, so receipts must be in the order of offsets."""
        self._line("orderly", group)

    def _line(self, kind: str, *words: str | int) -> None:
        os.write(self._file, _encode((kind, self.now_us, *words)) + b"\n")
