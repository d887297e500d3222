"""A reader's Python: PocketMQ and what the install lines of a page bring, nothing else.

The packages are those of this environment, linked file by file into a new one. So a page that does
not name a package that its blocks need fails as it would for a reader.
"""

from __future__ import annotations

import os
import re
import tomllib
import venv
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
OURS = "pocketmq"


def installed_by(page: str) -> list[str]:
    """What the page's `pip install` lines name."""
    lines = re.findall(r"pip install ([^`#\n]+)", page)
    return [word.strip("'\"") for line in lines for word in line.split()]


def readers_python(folder: Path, wanted: list[str]) -> Path:
    """An environment with these requirements and what they need; its Python."""
    clean = folder / "reader"
    venv.create(clean, with_pip=False)
    (packages,) = (clean / "lib").glob("python*/site-packages")
    portions = sorted(str(path.parent) for path in ROOT.glob("*/pocketmq"))
    (packages / "checkout.pth").write_text("\n".join(portions) + "\n")
    for found in distributions(wanted):
        _link(found, packages)
    return clean / "bin" / "python"


def distributions(wanted: list[str]) -> list[Distribution]:
    """What pip would install for these requirements, from what is installed here."""
    todo = [Requirement(each) for each in wanted]
    found: dict[str, Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        each = todo.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) in done:
            continue
        done.add((name, extras))
        found.setdefault(name, distribution(name))
        environments = [{"extra": extra} for extra in ("", *extras)]
        todo += [
            need
            for need in _needs(found[name], name)
            if need.marker is None or any(need.marker.evaluate(each) for each in environments)
        ]
    return list(found.values())


def _needs(found: Distribution, name: str) -> Iterator[Requirement]:
    if name != OURS:
        yield from map(Requirement, found.requires or ())
        return
    # What is installed may have been before the last change of this file.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from map(Requirement, project["dependencies"])
    for extra, listed in project["optional-dependencies"].items():
        for each in map(Requirement, listed):
            yield Requirement(f"{each}; extra == '{extra}'" if each.marker is None else str(each))


def _link(found: Distribution, packages: Path) -> None:
    source, target = str(found.locate_file("")), str(packages)
    made: set[str] = set()
    for name in map(str, found.files or ()):
        if name.startswith("..") or name.endswith((".pth", ".pyi", ".h")):
            continue
        folder = os.path.dirname(f"{target}/{name}")
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        with suppress(FileExistsError):  # what two packages share
            os.symlink(f"{source}/{name}", f"{target}/{name}")
