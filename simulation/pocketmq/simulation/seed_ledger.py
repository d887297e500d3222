"""The list of seeds that failed once, fastest first, which are run before new seeds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HEAD = """\
# Seeds that failed once, fastest first: `python scripts/simulate.py --replay` runs them, so does
# CI; `--keep` adds those that fail. A change of swarm.py makes other runs of them, as good as any.
# processor seconds, seed, what was found
"""


class Entry(NamedTuple):
    """One seed; sorts by the time that it takes."""

    processor_s: float
    seed: int
    found: str
    """The violation, or what was fixed since."""


def parse(text: str) -> list[Entry]:
    """Parse the entries of a list, in its order.

    Raises:
        ValueError: A line is not an entry.
    """
    entries = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            seconds, seed, found = line.split(None, 2)
            entries.append(Entry(float(seconds), int(seed), found))
    return entries


def render(entries: Iterable[Entry]) -> str:
    """The text of a list with each seed once, fastest first."""
    first: dict[int, Entry] = {}
    for entry in entries:
        first.setdefault(entry.seed, entry)
    rows = [f"{each.processor_s:6.2f} {each.seed:6d}  {each.found}\n" for each in first.values()]
    return HEAD + "".join(sorted(rows))
