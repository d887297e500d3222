"""Scenarios of clients: one function does the same on both sides, phase by phase.

A phase begins with public actions or with what the peer does, and is over when both sides have
asked the same for a moment, or when they still differ after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from parity.asked import Asked, Line, differences, lines_of, story
from parity.clients import Clients
from parity.compare import Difference
from parity.ledger import Ledger
from parity.peer import Condition, Peer
from pocketmq.runtime.clock import SystemClock

QUIET_S = 0.7
"""Both agree, and nobody has asked anything for so long: what is asked beside would be there."""
STUBBORN_S = 6.0
"""They differ, and nobody has asked anything for so long: it is a difference."""
HAPPENS_S = 60.0
"""For what a phase waits for; a side that has not done it by then differs."""


@dataclass
class Side:
    """One of the two: its clients, and the peer that they talk to."""

    clients: Clients
    peer: Peer
    instance: str
    marks: list[int] = field(default_factory=list)

    async def tell(self, verb: str, name: str, **options: str) -> str:
        """As `Clients.tell`, with what all clients of a scenario are told."""
        if verb in ("producer", "consumer", "puller", "reader"):
            options |= {"nameserver": self.peer.nameserver, "instance": self.instance}
        return await self.clients.tell(verb, f"{self.instance}-{name}", **options)

    @property
    def before(self) -> list[Asked]:
        """Requests of earlier phases."""
        return self.peer.asked[: self.marks[-1]]

    @property
    def now(self) -> list[Asked]:
        """Requests of this phase."""
        return self.peer.asked[self.marks[-1] :]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of the peer; after a while it differs, and nobody waits."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HAPPENS_S):
                while not holds():
                    self.peer.changed.clear()
                    await self.peer.changed.wait()


Act = Callable[[Side], Awaitable[object]]


class Play:
    """One scenario on both sides.

    Attributes:
        unexplained: differences that no entry of the ledger covers.
        told: what both asked in the phases that differ, to be read.
    """

    def __init__(self, name: str, ours: Side, theirs: Side, ledger: Ledger) -> None:
        self.name = name
        self.unexplained: list[Difference] = []
        self.told: list[str] = []
        self._sides = ours, theirs
        self._ledger = ledger

    async def phase(
        self, title: str, act: Act, *until: Condition, counts: Sequence[str] = ()
    ) -> None:
        """Do something on both sides, and compare what they ask from then on.

        Args:
            title: of the phase, for whoever reads a failure.
            act: what is done.
            until: each has to hold on each side before the phase can be over.
            counts: codes of which each request counts, also if it was asked before.
        """
        step = len(self._sides[0].marks)
        for side in self._sides:
            side.marks.append(len(side.peer.asked))
        outcomes = await asyncio.gather(*(act(side) for side in self._sides))
        words = [str(each).partition("\t") for each in outcomes]
        await asyncio.gather(*(_happened(side, until) for side in self._sides))
        ours, theirs = await self._settled(step, counts)
        found = differences(step, ours, theirs)
        if words[0][0] != words[1][0]:
            found.append(Difference("RESULT", title, words[0][0], words[1][0], step))
        heading = f"{self.name}, phase {step}, {title}: " + " | ".join(
            " ".join(each).strip() for each in words
        )
        left = self._ledger.unexplained(found, self.name)
        self.unexplained += left
        rows = [story(heading, ours, theirs), *(f"  * {each} ({each.note})" for each in left)]
        if left:
            self.told.append("\n".join(rows))

    async def _settled(self, step: int, counts: Sequence[str]) -> tuple[list[Line], list[Line]]:
        """What both have asked, when nothing has come for a while but repeats of timers."""
        clock, lines = SystemClock(), self._lines(counts)
        while True:
            found = differences(step, *lines)
            agreed = not Ledger(self._ledger.entries).unexplained(found, self.name)
            ends_at = clock.monotonic() + (QUIET_S if agreed else STUBBORN_S)
            while (now := self._lines(counts)) == lines:
                if not await self._more_within(ends_at - clock.monotonic()):
                    return lines
            lines = now

    def _lines(self, counts: Sequence[str]) -> tuple[list[Line], list[Line]]:
        ours, theirs = (lines_of(each.now, each.before, counts) for each in self._sides)
        return ours, theirs

    async def _more_within(self, seconds: float) -> bool:
        for side in self._sides:
            side.peer.changed.clear()
        waiting = [asyncio.ensure_future(each.peer.changed.wait()) for each in self._sides]
        done, left = await asyncio.wait(
            waiting, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED
        )
        for each in left:
            each.cancel()
        return bool(done)


async def _happened(side: Side, until: Sequence[Condition]) -> None:
    await side.until(lambda: all(each(side.now) for each in until))


def quietly(act: Callable[[Side], object]) -> Act:
    """Something that the peer does at once."""

    async def acted(side: Side) -> str:
        act(side)
        return "ok"

    return acted


def tells(verb: str, name: str, **options: str) -> Act:
    """A public action of a client."""
    return lambda side: side.tell(verb, name, **options)
