"""Deliberate faults of Raft: reads `raft_faults.toml`, builds the faulty classes, finds seeds.

    python tests/controller/raft_faults.py [SEEDS]

prints for each fault the first seed that catches it, and how many of the seeds do.
"""

from __future__ import annotations

import importlib
import itertools
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pocketmq.controller.raft import core
from support import raft_world

_COPIES = itertools.count()

PACKAGE = "pocketmq.controller.raft"
MEMBERS = 3
SOURCES = Path(core.__file__).parent
WORLD = Path(raft_world.__file__)
TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, kw_only=True)
class RaftFault:
    """One line of Raft, broken."""

    name: str
    file: str
    old: str
    new: str
    violation: str
    seed: int = -1

    def applied_to(self, text: str) -> str:
        """The source with the fault."""
        assert text.count(self.old) == 1, f"{self.name}: {text.count(self.old)} times {self.old}"
        return text.replace(self.old, self.new)

    def is_caught_by(self, violation: str | None) -> bool:
        """Whether a broken promise is the one that this fault breaks."""
        return violation is not None and re.search(self.violation, violation) is not None


def read_faults() -> list[RaftFault]:
    """All of the table."""
    return [RaftFault(**each) for each in tomllib.loads(TABLE.read_text())["fault"]]


@contextmanager
def planted(fault: RaftFault | None) -> Iterator[ModuleType]:
    """`support.raft_world` over a copy of Raft with the fault, or without any."""
    name = f"raft_copy_{next(_COPIES)}"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / name
        shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(WORLD, copy / WORLD.name)
        for path in copy.glob("*.py"):
            text = path.read_text()
            if fault is not None and path.stem == fault.file:
                text = fault.applied_to(text)
            path.write_text(text.replace(PACKAGE, name))
        with patch.object(sys, "path", [folder, *sys.path]):
            try:
                yield importlib.import_module(f"{name}.{WORLD.stem}")
            finally:
                for each in [each for each in sys.modules if each.partition(".")[0] == name]:
                    del sys.modules[each]


def violation_of(world: ModuleType, seed: int) -> str | None:
    """What a life with this seed breaks, if anything."""
    try:
        world.RaftWorld(seed, members=MEMBERS).run()
    except Exception as exc:  # noqa: BLE001 - a fault may also end in an error of Raft's own
        return f"{type(exc).__name__}: {exc}"
    return None


def main() -> None:
    """Print seeds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for fault in read_faults():
        with planted(fault) as world:
            found = {seed: violation_of(world, seed) for seed in range(count)}
        right = [seed for seed, text in found.items() if fault.is_caught_by(text)]
        others = {text for text in found.values() if text and not fault.is_caught_by(text)}
        first = right[0] if right else None
        print(
            f"seed {first}, {len(right)} of {count}: {fault.name} {sorted(others)[:3]}", flush=True
        )


if __name__ == "__main__":
    main()
