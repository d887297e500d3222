"""What one thread logs: a test's own lines, without those of roles that run beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict, Processor


@contextmanager
def own_logs() -> Iterator[list[EventDict]]:
    """The lines that this thread logs, as they come.

    `capture_logs` takes those of the whole process. A cluster that an earlier test started for the
    session still lives in threads of the same process, and logs when it likes.
    """
    with capture_logs() as lines:
        structlog.get_config()["processors"].insert(0, _drop_others(threading.get_ident()))
        yield lines


def _drop_others(own: int) -> Processor:
    def drop(_logger: object, _name: str, line: EventDict) -> EventDict:
        if threading.get_ident() != own:
            raise structlog.DropEvent
        return line

    return drop
