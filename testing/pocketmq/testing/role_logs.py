"""The log lines of a cluster's roles and clients inside the test's process.

A role's lines are those of its thread. They are kept in memory, so that a cluster prints nothing;
the plugin shows the last ones when a test fails. Warnings and errors of the test's clients, such as
of a listener that failed, are records of the standard library's logger `pocketmq`: pytest shows
them with the test, and `caplog` has them. If the program has configured structlog itself, its
configuration stays, and no lines are kept here.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import MutableMapping
from typing import Any

import structlog

from pocketmq.runtime import logs

KEPT_LINES = 200
"""Of each role."""

_log = logging.getLogger("pocketmq")

_kept: dict[str, deque[str]] = {}


def keep(thread_name: str) -> None:
    """Keep the lines of a thread from now on, and those of an earlier start of the role."""
    _kept.setdefault(thread_name, deque(maxlen=KEPT_LINES))
    set_up()


def set_up() -> None:
    """Take the lines of this process, unless the program says where they go."""
    # Otherwise a program that uses structlog itself would lose its lines to this module.
    if not logs.is_set_by_program():
        logs.configure("info", "json", stream=sys.stderr, first=_take)


def forget(thread_name: str) -> None:
    """Stop keeping the lines of a thread, and remove them."""
    _kept.pop(thread_name, None)


def tail(thread_name: str, lines: int) -> str:
    """The last lines, oldest first."""
    return "\n".join(list(_kept.get(thread_name, ()))[-lines:])


def _take(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # By the thread's name: its id changes at each start of a role.
    kept = _kept.get(threading.current_thread().name)
    if kept is not None:
        kept.append(f"{method:7} {_text(event)}".rstrip())
    elif method not in ("debug", "info"):  # of clients in the test
        level = logging.WARNING if method == "warning" else logging.ERROR
        _log.log(level, "%s", _text(event, "exc_info"), exc_info=event.get("exc_info"))
    # structlog's way to print nothing for this line.
    raise structlog.DropEvent


def _text(event: MutableMapping[str, Any], *without: str) -> str:
    hidden = ("event", *without)
    facts = " ".join(f"{key}={value}" for key, value in event.items() if key not in hidden)
    return f"{event.get('event')} {facts}".rstrip()
