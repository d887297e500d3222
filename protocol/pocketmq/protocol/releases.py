"""Which request codes a release of RocketMQ knows, by their `since`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pocketmq.protocol.codes import RequestCode

Knows: TypeAlias = Callable[[int], bool]
"""Whether a request code has a meaning."""


def everything(_code: int) -> bool:
    """All of them."""
    return True


def known_in(release: tuple[int, int, int]) -> Knows:
    """Those of a release, PocketMQ's own included."""
    codes = frozenset(
        int(code)
        for code in RequestCode
        if not code.since[0].isdigit() or _release(code.since) <= release
    )
    return codes.__contains__


def _release(since: str) -> tuple[int, ...]:
    return tuple(int(part) for part in since.split("."))
