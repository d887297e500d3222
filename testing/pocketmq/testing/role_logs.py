"""The last log lines of roles that run inside the test's process.

A role's lines are those of its thread. They are kept in memory, so that a cluster prints nothing;
the plugin shows the last ones when a test fails. If the program has configured structlog itself,
its configuration stays, and no lines are kept here.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import MutableMapping
from typing import Any

import structlog

from pocketmq.runtime import logs

KEPT_LINES = 200
"""Of each role."""

_kept: dict[str, deque[str]] = {}


def keep(thread_name: str) -> None:
    """Keep the lines of a thread from now on, and those of an earlier start of the role."""
    _kept.setdefault(thread_name, deque(maxlen=KEPT_LINES))
    if not logs.is_set_by_program():
        logs.configure("info", "json", stream=sys.stderr, first=_take)


def forget(thread_name: str) -> None:
    """Stop keeping the lines of a thread, and remove them."""
    _kept.pop(thread_name, None)


def tail(thread_name: str, lines: int) -> str:
    """The last lines, oldest first."""
    return "\n".join(list(_kept.get(thread_name, ()))[-lines:])


def _take(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    kept = _kept.get(threading.current_thread().name)
    if kept is not None:
        facts = " ".join(f"{key}={value}" for key, value in event.items() if key != "event")
        kept.append(f"{method:7} {event.get('event')} {facts}".rstrip())
        raise structlog.DropEvent
    if method in ("debug", "info"):
        raise structlog.DropEvent  # of clients in the test only warnings and errors are printed
    return event
