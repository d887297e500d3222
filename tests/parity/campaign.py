"""Many pairs side by side, and what they came to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from parity.compare import Difference
from parity.ledger import Ledger
from parity.pairs import Outcome, Runner
from parity.shrinking import shrunk
from parity.steps import Step, source

SIDE_BY_SIDE = 8


@dataclass
class Report:
    """What a run came to.

    Attributes:
        pairs: how many were compared.
        drawn_in: code -> pairs in which it was drawn.
        answered: (code, RocketMQ's response code) met at least once.
        failed: seed -> differences that no ledger entry explains.
        suffixes: seed -> what the names of its pair ended in.
        once: those of `failed` that showed no difference of the same kind when asked once more.
    """

    pairs: int = 0
    drawn_in: Counter[str] = field(default_factory=Counter)
    answered: set[tuple[str, int]] = field(default_factory=set)
    failed: dict[str, list[Difference]] = field(default_factory=dict)
    once: set[str] = field(default_factory=set)
    suffixes: dict[str, str] = field(default_factory=dict)

    def add(self, other: Report) -> None:
        """Count the pairs of another run too."""
        self.pairs += other.pairs
        self.drawn_in += other.drawn_in
        self.answered |= other.answered
        self.failed |= other.failed
        self.once |= other.once
        self.suffixes |= other.suffixes

    def kinds(self) -> dict[tuple[str, str], list[str]]:
        """First difference of each failed pair by its kind -> seeds."""
        found: dict[tuple[str, str], list[str]] = {}
        for seed, differences in self.failed.items():
            found.setdefault(differences[0].kind, []).append(seed)
        return dict(sorted(found.items(), key=lambda each: -len(each[1])))


async def compare_many(
    runner: Runner,
    ledger: Ledger,
    sequences: Iterator[tuple[str, list[Step]]],
    state: list[Step],
    *,
    told: Callable[[Report], None] = lambda _: None,
    differs: Callable[[str, list[Difference]], None] = lambda _seed, _found: None,
) -> Report:
    """Run sequences until there are no more.

    Args:
        sequences: name, or seed, and steps.
        state: what is asked after each.
        told: called after each pair.
        differs: called with what nothing explains, before `told`; the pair was asked twice then.
    """
    report = Report()

    async def work() -> None:
        for seed, steps in sequences:
            outcome = await runner.run(steps, state)
            report.pairs += 1
            report.suffixes[seed] = outcome.suffix
            report.drawn_in.update({step.code for step in steps})
            report.answered |= outcome.answered
            if left := ledger.unexplained(outcome.found):
                again = ledger.unexplained((await runner.run(steps, state)).found)
                if not {each.kind for each in left} & {each.kind for each in again}:
                    report.once.add(seed)
                report.failed[seed] = left
                differs(seed, left)
            told(report)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SIDE_BY_SIDE):
            tasks.create_task(work())
    return report


async def shortest(
    runner: Runner, ledger: Ledger, whole: list[Step], kind: tuple[str, str], most_runs: int = 150
) -> str:
    """The shortest sequence that still shows a difference of a kind, as a test to paste.

    Args:
        whole: a sequence that has shown it, with the state that is asked after it.
    """

    async def shows(candidate: list[Step]) -> bool:
        outcome = await runner.run(candidate)
        return _shown(ledger, outcome, kind)

    if not await shows(whole):
        return "    # not seen again: by chance, or by what another pair did\n" + source(whole)
    return source(await shrunk(whole, shows, most_runs))


def _shown(ledger: Ledger, outcome: Outcome, kind: tuple[str, str]) -> bool:
    return any(each.kind == kind for each in ledger.unexplained(outcome.found))
