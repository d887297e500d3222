"""What the `pocketmq` command says, and how a test calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from pocketmq.runtime.clock import SystemClock
from support.eventually import LOOK_S, PATIENCE_S


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """Of tab-separated output."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of an error that people can correct."""
        assert (self.status, self.out) == (1, ""), self
        assert self.err.startswith("pocketmq: ")
        [line] = self.err.splitlines()
        return line.removeprefix("pocketmq: ")


Console = Callable[..., Said]


def until(ask: Callable[[], Any], what: str) -> Any:
    """The first true value of `ask`, as `eventually`, without an event loop."""
    clock = SystemClock()
    ends_at = clock.monotonic() + PATIENCE_S
    while not (found := ask()):
        assert clock.monotonic() < ends_at, f"waited in vain until {what}; it is {found!r}"
        Event().wait(LOOK_S)
    return found
