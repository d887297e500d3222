"""What a judge saw, step by step, up to the first wrong one. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn


class WrongStepError(Exception):
    """The program did something wrong; the record has the step. Ends the check."""


class Mark(Enum):
    """What a step is."""

    NOTE = "note"
    """Something happened, or was done by the judge."""
    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the time line."""

    at_s: float | None
    """Seconds of the cluster's time since the check began; None where time plays no part."""
    what: str
    mark: Mark = Mark.NOTE
    wanted: str = ""
    """Of a wrong step: what would have been right."""
    found: str = ""
    """Of a wrong step: what the program did."""
    why: str = ""
    """Of a wrong step: the rule behind it."""


@dataclass(slots=True)
class Stage:
    """A part of a lab; each check runs all of them, in order, until one fails."""

    title: str
    steps: list[Step] = field(default_factory=list)

    @property
    def wrong(self) -> Step | None:
        """The step that ended it."""
        # A wrong step ends the check, so only the last one can be wrong.
        return self.steps[-1] if self.steps and self.steps[-1].mark is Mark.WRONG else None

    @property
    def right(self) -> int:
        """How many steps were right."""
        return sum(step.mark is Mark.RIGHT for step in self.steps)


class Record:
    """Collects the steps of a check.

    Args:
        titles: Of all stages.
        now_ms: The cluster's time; None without one.
    """

    def __init__(self, titles: tuple[str, ...], now_ms: Callable[[], int] | None = None) -> None:
        self.titles = titles
        self.stages: list[Stage] = []
        self._now_ms = now_ms
        self._began_ms = now_ms() if now_ms else 0

    @property
    def passed(self) -> bool:
        """Whether every stage was run and nothing was wrong."""
        # All stages must have run: a judge that ended early has found nothing wrong either.
        return len(self.stages) == len(self.titles) and all(not s.wrong for s in self.stages)

    @property
    def wrong(self) -> Step | None:
        """The first wrong step, if there is one."""
        return self.stages[-1].wrong if self.stages else None

    def stage(self) -> None:
        """Begin the next stage."""
        self.stages.append(Stage(self.titles[len(self.stages)]))

    def note(self, what: str) -> None:
        """Something that happened, or that the judge did."""
        self._add(Step(self._at_s(), what))

    def right(self, what: str) -> None:
        """The program did what it should."""
        self._add(Step(self._at_s(), what, Mark.RIGHT))

    def wrong_step(self, what: str, *, wanted: object, found: object, why: str) -> NoReturn:
        """The program did something else; ends the check.

        Raises:
            WrongStepError: Always.
        """
        self._add(Step(self._at_s(), what, Mark.WRONG, str(wanted), str(found), why))
        raise WrongStepError(what)

    def expect(self, what: str, *, wanted: object, found: object, why: str) -> None:
        """Compare what the program did with what is right.

        Raises:
            WrongStepError: They differ.
        """
        if wanted != found:
            self.wrong_step(what, wanted=wanted, found=found, why=why)
        self.right(what)

    def _add(self, step: Step) -> None:
        # A step without a stage begins the first one.
        if not self.stages:
            self.stage()
        self.stages[-1].steps.append(step)

    def _at_s(self) -> float | None:
        return None if self._now_ms is None else (self._now_ms() - self._began_ms) / 1000
