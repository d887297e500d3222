"""A sequence made as short as it can be while it still shows the same difference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

from parity.steps import NO_REQUESTS, Step

Shows = Callable[[list[Step]], Awaitable[bool]]
"""Runs a sequence under fresh names; whether the difference is still there."""

SIMPLE = ("0", "1", "")
"""Tried for each value, in this order."""


async def shrunk(steps: list[Step], shows: Shows, most_runs: int = 200) -> list[Step]:
    """The shortest found: fewer steps first, then fewer fields, then smaller values and bodies.

    Args:
        most_runs: each try asks both brokers.
    """
    runs = 0
    progress = True
    while progress and runs < most_runs:
        progress = False
        for candidate in _smaller(steps):
            runs += 1
            if await shows(candidate):
                steps, progress = candidate, True
                break
            if runs >= most_runs:
                break
    return steps


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    size = len(steps) // 2
    while size >= 1:
        for at in range(0, len(steps), size):
            if len(steps) > size:
                yield steps[:at] + steps[at + size :]
        size //= 2
    for number, step in enumerate(steps):
        for simpler in _simpler(step):
            yield [*steps[:number], simpler, *steps[number + 1 :]]


def _simpler(step: Step) -> Iterator[Step]:
    if step.code in NO_REQUESTS:
        return
    for name in step.fields:
        yield step.without(name)
    if step.body:
        yield replace(step, body="")
    if len(step.body) > 8 and isinstance(step.body, str) and not step.body.startswith(("{", "[")):
        yield replace(step, body="x")
    if step.encoding != "json":
        yield replace(step, encoding="json")
    if step.connection:
        yield replace(step, connection=0)
    for name, value in step.fields.items():
        for simple in SIMPLE:
            if len(simple) < len(value):
                yield step.with_field(name, simple)
