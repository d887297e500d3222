"""A reader's Python: PocketMQ and what the install lines of a page bring, nothing else.

The packages are those of this environment, linked file by file into a new one. So a page that does
not name a package that its blocks need fails as it would for a reader.
"""

from __future__ import annotations

import os
import re
import subprocess
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
ADDRESS = "127.0.0.1:9876"
"""Name servers on the pages."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


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


class Reader:
    """Types what a page shows, in a folder that has the cluster's stores as the page has them."""

    def __init__(self, page: str, folder: Path, nameservers: str) -> None:
        self.folder = folder
        self.nameservers = nameservers
        self.python = readers_python(folder, installed_by(page))

    def run(self, *words: str) -> str:
        """What Python with these words prints, without an error."""
        known = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        done = subprocess.run(
            [str(self.python), *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env=known | {"NAMESRV_ADDR": self.nameservers, "HOME": str(self.folder)},
        )
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stdout, done.stderr)
        return done.stdout

    def commands(self, text: str) -> dict[str, str]:
        """What each line of a block printed; the installation and the cluster are there already."""
        printed = {}
        for line in text.splitlines():
            words = line.removeprefix("$ ").split()
            if words[:2] in (["pip", "install"], ["pocketmq", "up"]):
                continue
            if words[:2] == ["cp", "-r"]:
                subprocess.run(words, cwd=self.folder, check=True)  # holes of files stay holes
                continue
            assert words[0] == "pocketmq", line
            printed[line.removeprefix("$ ")] = self.run(
                "-m", "pocketmq.cluster.cli.main", *words[1:]
            )
        return printed

    def program(self, text: str) -> str:
        """What a block in Python prints."""
        return self.run("-c", text.replace(ADDRESS, self.nameservers))


def shown(text: str) -> list[str]:
    """The lines of an output, to compare."""
    return [line.rstrip() for line in text.strip().splitlines()]
