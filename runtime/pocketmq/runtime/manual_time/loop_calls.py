"""What an event loop is about to call, where that can be seen: asyncio's loops show it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


def calls_ahead(loop: asyncio.AbstractEventLoop) -> Collection[object] | None:
    """What a loop is about to call, now and later; None where that cannot be seen (uvloop)."""
    return getattr(loop, "_ready", None)


def is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it can be seen that a loop, the caller's, has nothing left to call."""
    waiting = calls_ahead(loop)
    if waiting is None:
        return False
    return not waiting or all(_only_wakes(each) for each in waiting)


def _only_wakes(call: object) -> bool:
    """Whether a call ahead does nothing but read what woke asyncio's loop from another thread."""
    callback = getattr(call, "_callback", None)
    return getattr(callback, "__name__", "") == "_read_from_self"
