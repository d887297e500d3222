"""Seeds that failed once, fastest first: what to run before any new seed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HEAD = """\
# Seeds that failed once, fastest first: `python scripts/simulate.py --replay` runs them, so does
# CI; `--keep` adds those that fail. A change of swarm.py makes other runs of them, as good as any.
# processor seconds, seed, what was found
"""


class Entry(NamedTuple):
    """One seed; sorts by how soon it tells."""

    processor_s: float
    seed: int
    found: str
    """The violation's words, or what was fixed since."""


def parse(text: str) -> list[Entry]:
    """The entries of a ledger, in its order.

    Raises:
        ValueError: a line is none.
    """
    entries = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            seconds, seed, found = line.split(None, 2)
            entries.append(Entry(float(seconds), int(seed), found))
    return entries


def render(entries: Iterable[Entry]) -> str:
    """A ledger with each seed once, the fastest first."""
    first: dict[int, Entry] = {}
    for entry in entries:
        first.setdefault(entry.seed, entry)
    rows = [f"{each.processor_s:6.2f} {each.seed:6d}  {each.found}\n" for each in first.values()]
    return HEAD + "".join(sorted(rows))
