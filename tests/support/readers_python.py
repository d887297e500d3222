"""A reader's Python: PocketMQ from its wheel and what the install lines of a page bring, no more.

The other packages are those of this environment, linked into a new one: what pip would fetch for
Spark alone is 500 MB. So a page that does not name a package that its blocks need fails
as it would for a reader.
"""

from __future__ import annotations

import os
import tomllib
import venv
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.wheel import ROOT, install_wheel

OURS = "pocketmq"


class ReadersPython:
    """A new virtual environment in a folder, with nothing installed; PocketMQ is that wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.python = self.programs / "python"
        venv.create(folder, with_pip=False)
        (self._packages,) = (folder / "lib").glob("python*/site-packages")
        self._wheel = wheel
        self._installed: set[str] = set()

    def install(self, wanted: list[str]) -> None:
        """What `pip install` with these requirements does; what is there already stays."""
        for found in distributions(wanted):
            name = canonicalize_name(found.name)
            if name in self._installed:
                continue
            self._installed.add(name)
            if name == OURS:
                install_wheel(self._wheel, self.python)
            else:
                self._link(found)

    def _link(self, found: Distribution) -> None:
        source, target = str(found.locate_file("")), str(self._packages)
        names = [str(each) for each in found.files or ()]
        tops = {name.split("/")[0] for name in names}
        whole = {top for top in tops if f"{top}/__init__.py" in names}
        for top in whole:
            with suppress(FileExistsError):
                os.symlink(f"{source}/{top}", f"{target}/{top}")
        for name in names:
            is_there = name.split("/")[0] in whole
            if is_there or name.startswith("..") or name.endswith(".pth"):
                continue
            os.makedirs(os.path.dirname(f"{target}/{name}"), exist_ok=True)
            with suppress(FileExistsError):  # what two packages share
                os.symlink(f"{source}/{name}", f"{target}/{name}")


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
