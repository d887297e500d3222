"""Many pairs side by side, and what they came to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from parity.compare import Difference
from parity.drawing import drawn, state
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
    """

    pairs: int = 0
    drawn_in: Counter[str] = field(default_factory=Counter)
    answered: set[tuple[str, int]] = field(default_factory=set)
    failed: dict[str, list[Difference]] = field(default_factory=dict)

    def kinds(self) -> dict[tuple[str, str], list[str]]:
        """First difference of each failed pair by its kind -> seeds."""
        found: dict[tuple[str, str], list[str]] = {}
        for seed, differences in self.failed.items():
            found.setdefault(differences[0].kind, []).append(seed)
        return dict(sorted(found.items(), key=lambda each: -len(each[1])))


async def compare_many(
    runner: Runner,
    ledger: Ledger,
    seeds: Iterator[str],
    *,
    rough: bool = False,
    bends: bool = True,
    told: Callable[[Report], None] = lambda _: None,
) -> Report:
    """Run the sequences of seeds until there are no more.

    Args:
        told: called after each pair.
    """
    report = Report()

    async def work() -> None:
        for seed in seeds:
            steps = drawn(seed, rough=rough, bends=bends)
            outcome = await runner.run(steps, state())
            report.pairs += 1
            report.drawn_in.update({step.code for step in steps})
            report.answered |= outcome.answered
            if left := ledger.unexplained(outcome.found):
                report.failed[seed] = left
            told(report)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SIDE_BY_SIDE):
            tasks.create_task(work())
    return report


async def shortest(
    runner: Runner, ledger: Ledger, steps: list[Step], kind: tuple[str, str], most_runs: int = 150
) -> str:
    """The shortest sequence that still shows a difference of a kind, as a test to paste."""

    async def shows(candidate: list[Step]) -> bool:
        outcome = await runner.run(candidate)
        return _shown(ledger, outcome, kind)

    whole = [*steps, *state()]
    if not await shows(whole):
        return "    # not seen again: by chance, or by what another pair did\n" + source(steps)
    return source(await shrunk(whole, shows, most_runs))


def _shown(ledger: Ledger, outcome: Outcome, kind: tuple[str, str]) -> bool:
    return any(each.kind == kind for each in ledger.unexplained(outcome.found))
