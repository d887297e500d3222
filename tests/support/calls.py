"""Which functions of PocketMQ were called, in their order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple


class Call(NamedTuple):
    """One call of a function, or one continuation of a coroutine."""

    path: str
    """From the package on: `broker/sending/send_processor.py`."""
    name: str
    """`SendProcessor.send`."""


@contextmanager
def recorded_calls() -> Iterator[list[Call]]:
    """Record every call in this thread; the list grows while the block runs."""
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            path = frame.f_code.co_filename
            at = path.find("/pocketmq/")
            if at > 0:
                calls.append(Call(path[at + len("/pocketmq/") :], frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
