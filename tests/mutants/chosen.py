"""Which test files can notice a fault of a module, told by what they import.

    importing_tests(copy, ["pocketmq.broker.pop.orders"], ["tests/broker", "tests/events"])

A test file counts when it, or a helper below `tests` that it imports, names the module; with it
come those of the folder of the module's package. Where none names it, those count that import its
importers, and so on.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path


def importing_tests(copy: Path, modules: Iterable[str], below: Sequence[str]) -> list[str]:
    """Paths of the test files for some modules.

    Args:
        copy: root of the repository.
        modules: dotted names.
        below: files and folders of tests among which is chosen.
    """
    of_tests = _imports_of_tests(copy)
    importers = _importers(copy)
    allowed = tuple(f"{name.rstrip('/')}/" for name in below)
    found: set[str] = set()
    for module in modules:
        found |= _of_module(module, of_tests, importers)
        found |= _of_folder(copy, module)
    return sorted(name for name in found if name in below or name.startswith(allowed))


def subject_tests(copy: Path, modules: Iterable[str]) -> list[str]:
    """Paths of the test files of the modules' subjects: those beside them, or that name them.

    A role without folders of tests is one subject.
    """
    naming = naming_tests(copy)
    found: set[str] = set()
    for module in modules:
        role = module.split(".")[1]
        own = naming.get(module, set()) | _of_folder(copy, module)
        found |= {name for name in own if name.startswith(f"tests/{role}/")}
        if not found or not any((copy / "tests" / role).glob("*/test_*.py")):
            of_role = (copy / "tests" / role).glob("test_*.py")
            found |= {path.relative_to(copy).as_posix() for path in of_role}
    return sorted(found)


def naming_tests(copy: Path) -> dict[str, set[str]]:
    """Name -> test files that import it themselves."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (copy / "tests").rglob("test_*.py"):
        for name in _imported(path, ""):
            found[name].add(path.relative_to(copy).as_posix())
    return found


def _of_module(
    module: str, of_tests: dict[str, set[str]], importers: dict[str, set[str]]
) -> set[str]:
    names, seen = {module}, {module}
    while names:
        found = {test for test, imported in of_tests.items() if names & imported}
        if found:
            return found
        names = {each for name in names for each in importers.get(name, ())} - seen
        seen |= names
    return set()


def _of_folder(copy: Path, module: str) -> set[str]:
    """Test files in the folder named like the module's package, `tests/broker/pop` for example."""
    parts = module.split(".")[1:]
    if len(parts) < 3 and not (copy / "tests" / "/".join(parts)).is_dir():
        return set()  # a role's own folder holds all of its tests
    folders = (copy / "tests" / "/".join(parts), copy / "tests" / "/".join(parts[:-1]))
    return {
        path.relative_to(copy).as_posix() for folder in folders for path in folder.glob("test_*.py")
    }


def _imports_of_tests(copy: Path) -> dict[str, set[str]]:
    """Test file -> all names that it and its helpers import."""
    imports = {path: _imported(path, "") for path in (copy / "tests").rglob("*.py")}
    found = {}
    for path in imports:
        if not path.name.startswith("test_"):
            continue
        seen, todo = {path}, [path]
        names: set[str] = set()
        while todo:
            here = todo.pop()
            names |= imports[here]
            for name in imports[here]:
                relative = f"{name.replace('.', '/')}.py"
                for helper in (here.parent / relative, copy / "tests" / relative):
                    if helper in imports and helper not in seen:
                        seen.add(helper)
                        todo.append(helper)
        found[path.relative_to(copy).as_posix()] = names
    return found


def _importers(copy: Path) -> dict[str, set[str]]:
    """Module of the product -> the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for package in copy.glob("*/pocketmq"):
        for path in package.rglob("*.py"):
            parts = path.relative_to(package.parent).with_suffix("").parts
            module = ".".join(parts).removesuffix(".__init__")
            for name in _imported(path, module):
                found[name].add(module)
    return found


def _imported(path: Path, module: str) -> set[str]:
    """Names that a file imports; `from a import b` counts as `a` and `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names - {module}
