"""pipeline/README.md: what the lines of each folder are for, with numbers that are still so."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "pipeline"
PACKAGE = ROOT / "pocketmq" / "pipeline"
BESIDE = "files beside the folders"
MOST_OFF = 150
"""So many lines a number may be off, so that a small change does not have to touch it."""


def lines_in(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def counted() -> dict[str, int]:
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    found = {
        f"{folder.relative_to(PACKAGE).as_posix()}/": lines_in([*folder.glob("*.py")])
        for folder in folders
    }
    return found | {BESIDE: lines_in([*PACKAGE.glob("*.py"), *ROOT.glob("*.py")])}


def test_each_folder_has_a_row_with_its_lines() -> None:
    rows = re.findall(r"^\| `?([^`|]+?)`? \| ([\d,]+) \|", (ROOT / "README.md").read_text(), re.M)
    told = {name: int(number.replace(",", "")) for name, number in rows}
    lines = counted()
    assert told.keys() == lines.keys()
    off = {name: lines[name] for name in lines if abs(lines[name] - told[name]) > MOST_OFF}
    assert not off, f"write these into pipeline/README.md, rounded to hundreds: {off}"
