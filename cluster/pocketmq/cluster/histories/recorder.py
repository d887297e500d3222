"""Writes a history down, line by line, as it happens.

    recorder = Recorder(Path("producer-1.jsonl"))
    recorder.send("key-7", "key-7/1")            # before the request leaves
    recorder.ack("key-7/1", "broker-a/orders/0", 41)
    recorder.receive("billing", "broker-a/orders/0", 41, "key-7/1")

A line is one JSON array: what happened, when, and the words of that kind (docs/histories.md). One
file for each process; the moments of all of them are of one monotonic clock, so the files of one
machine are put in order by them. A line is in the file before the call returns, so a process that
is killed leaves all that it did.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

import msgspec

from pocketmq.runtime.clock import Clock, SystemClock

_encode = msgspec.json.Encoder().encode


class Recorder:
    """One process's part of a history.

    Args:
        path: grows; what is there already stays.
        clock: whose monotonic seconds are written, in microseconds. All recorders of a history
            need the same one, and it may not be one that a test moves.
    """

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """No more lines."""
        os.close(self._file)

    @property
    def now_us(self) -> int:
        """The moment that a line written now would carry."""
        return int(self._clock.monotonic() * 1e6)

    def send(self, key: str, message: str) -> None:
        """A try to send begins; another try of the same message is another line."""
        self._line("send", key, message)

    def ack(self, message: str, queue: str, offset: int) -> None:
        """The broker says that it has the message, and where."""
        self._line("ack", message, queue, offset)

    def fail(self, message: str) -> None:
        """No try of this message was stored, for certain; say nothing when that is in doubt."""
        self._line("fail", message)

    def receive(self, group: str, queue: str, offset: int, message: str) -> None:
        """A member of the group got a message."""
        self._line("receive", group, queue, offset, message)

    def commit(self, group: str, queue: str, offset: int) -> None:
        """A member tells the broker that the group goes on at `offset`."""
        self._line("commit", group, queue, offset)

    def committed(self, group: str, queue: str, offset: int, asked_us: int) -> None:
        """The broker, asked at `asked_us`, says that the group goes on at `offset`."""
        self._line("committed", group, queue, offset, asked_us)

    def reset(self, group: str, queue: str, offset: int) -> None:
        """Somebody moves the group to `offset`, wherever it is."""
        self._line("reset", group, queue, offset)

    def killed(self, broker: str, saved_until_us: int) -> None:
        """A broker was killed; what it was told by then (`now_us`) must be known afterwards."""
        self._line("killed", broker, saved_until_us)

    def orderly(self, group: str) -> None:
        """The group must get each queue in order."""
        self._line("orderly", group)

    def _line(self, kind: str, *words: str | int) -> None:
        os.write(self._file, _encode((kind, self.now_us, *words)) + b"\n")
