"""Cuts the power at every step of a writer's life, and asks the writer what is left.

A `Writer` is one entry of `table.py`: a life over a folder, which says what it promises, and a
judgement of what the next boot finds there, by the writer's own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from durability.medium import EVERY, Medium, Moment, key_of, nothing_synced, remove, write_image
from pocketmq.runtime.errors import PocketMQError
from simulation.faults import Break
from simulation.planted import exchanged

SECTOR, PAGE = 512, 4096
Say = Callable[[Any], None]
"""Notes a promise: it holds for every cut from now on."""


@dataclass(frozen=True)
class Writer:
    """Something that writes files."""

    name: str
    files: tuple[str, ...]
    """The files of the product that it is about, below `pocketmq/`."""
    live: Callable[[Path, Say], Awaitable[None]]
    """A life over an empty folder."""
    judge: Callable[[Path, Sequence[Any]], Awaitable[None]]
    """Starts again over what is left; raises when that breaks a promise."""
    faults: tuple[tuple[Break, ...], ...]
    """Each is broken lines with which a cut must break a promise."""
    grain: int = SECTOR
    """So many bytes reach the medium together."""
    drawn: int | None = None
    """Of the choices at each step so many are drawn: to start again over all takes too long."""
    prepare: Callable[[Path], None] = lambda _folder: None
    """Makes what was there, for certain, before the life."""


class PromiseBrokenError(AssertionError):
    """A cut left what the writer does not stand for."""


class Cuts(NamedTuple):
    """What was tried."""

    moments: int
    images: int
    """That differ, or of which more was promised."""
    ends: int
    """The most loose ends of a moment."""


def cut_everywhere(writer: Writer, folder: Path, every: int = EVERY) -> Cuts:
    """Live once, and judge what each cut can leave; `every` is that of `Moment.choices`.

    Raises:
        PromiseBrokenError: The first that breaks a promise.
    """
    root = folder / "life"
    root.mkdir(parents=True)
    writer.prepare(root)
    promises: list[Any] = []
    medium = Medium(root, writer.grain, lambda: len(promises))

    async def live() -> None:
        with medium.watching():
            await writer.live(root, promises.append)

    asyncio.run(live())
    with nothing_synced():
        images = asyncio.run(_judge_all(writer, medium.moments, promises, folder, every))
    return Cuts(len(medium.moments), images, max(len(each.ends) for each in medium.moments))


async def _judge_all(
    writer: Writer, moments: Sequence[Moment], promises: Sequence[Any], folder: Path, every: int
) -> int:
    judged: set[object] = set()
    for number, moment in enumerate(moments):
        choices = list(moment.choices(Random(number), every))
        if writer.drawn is not None and len(choices) > writer.drawn:
            # Nothing but what was synced, and some.
            choices = [frozenset(), *Random(number).sample(choices, writer.drawn - 1)]
        for chosen in choices:
            image = moment.image(chosen)
            key = moment.promised, key_of(image)
            if key in judged:
                continue
            judged.add(key)
            target = folder / "boot"
            write_image(image, target, writer.grain)
            try:
                await writer.judge(target, promises[: moment.promised])
            except (AssertionError, PocketMQError, ValueError, LookupError, OSError) as exc:
                raise PromiseBrokenError(
                    f"{writer.name}: step {number}, of {moment.ends} only {sorted(chosen)} "
                    f"reached the medium, which has {sorted(image)}; promised was "
                    f"{promises[: moment.promised][-3:]}: {type(exc).__name__}: {exc}"
                ) from exc
            remove(target)
    return len(judged)


@contextmanager
def planted(breaks: Sequence[Break]) -> Iterator[None]:
    """The product with broken lines, in this process."""
    with exchanged(breaks):
        yield


def broken(file: str, old: str, new: str, nth: int | None = None) -> tuple[Break, ...]:
    """One broken line of a file below `pocketmq/`."""
    return (Break(f"{file.split('/', 1)[0]}/pocketmq/{file}", old, new, nth),)


class Range(NamedTuple):
    """Which versions may be found."""

    least: int
    most: int

    def check(self, found: int) -> None:
        assert self.least <= found <= self.most, f"found {found}, promised {self}"


def versions(promises: Sequence[Any], first: int = 0) -> Range:
    """Between the last version that was safe and the last that was asked for."""
    safe = [number for word, number in promises if word == "safe"]
    asked = [number for word, number in promises if word == "asked"]
    return Range(max(safe, default=first), max(asked, default=first))
