"""The import contracts hold, and they cover all code (style (c))."""

from __future__ import annotations

import configparser
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("typer", "rich", "psutil", "pandas", "numpy", "pyarrow", "pyspark", "starlette")

PORTIONS = sorted(
    f"pocketmq.{folder.name}" for folder in ROOT.glob("*/pocketmq/*") if any(folder.rglob("*.py"))
)


def module_path(module: str) -> Path:
    """Where a module's file or package lies: `pocketmq.broker.config` -> broker/pocketmq/..."""
    parts = module.split(".")
    return ROOT / parts[1] / Path(*parts)


def contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def names(section: str, key: str) -> list[str]:
    return contracts()[section][key].split()


def test_the_contracts_are_kept() -> None:
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for type checkers count too."""
    graph = grimp.build_graph(*PORTIONS, exclude_type_checking_imports=False, cache_dir=None)
    imported = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    # raises CycleError, whose text names the files of a circle in order
    TopologicalSorter(imported).prepare()


def test_nobody_imports_a_main_file() -> None:
    """It begins a process, and importing it does what a process does first."""
    graph = grimp.build_graph(*PORTIONS, exclude_type_checking_imports=False, cache_dir=None)
    importers = {
        importer
        for start in graph.modules
        if start.endswith(".__main__")
        for importer in graph.find_modules_that_directly_import(start)
    }
    assert importers == {"pocketmq.cluster.nameserver_process"}  # which begins one too


@pytest.mark.parametrize("portion", PORTIONS)
def test_each_folder_is_under_the_contracts(portion: str) -> None:
    assert portion in names("importlinter", "root_packages")
    assert portion in contracts()["importlinter:contract:layers"]["layers"]


@pytest.mark.parametrize("module", names("importlinter:contract:pure", "source_modules"))
def test_each_module_called_pure_exists(module: str) -> None:
    path = module_path(module)
    assert path.with_suffix(".py").exists() or (path / "__init__.py").exists() or path.is_dir()


def test_pure_modules_may_not_reach_loops_sockets_clocks_or_files() -> None:
    forbidden = set(names("importlinter:contract:pure", "forbidden_modules"))
    assert forbidden >= {"asyncio", "socket", "time", "uvloop", "aiofiles"}


def test_pocketmq_is_a_namespace_that_each_folder_adds_to() -> None:
    assert list(ROOT.glob("*/pocketmq/__init__.py")) == []


@pytest.mark.parametrize(
    "role",
    [
        name
        for name in PORTIONS
        if name != "pocketmq.cluster" and (module_path(name) / "__main__.py").exists()
    ],
)
def test_a_role_process_imports_nothing_heavy(role: str) -> None:
    """Its main module first, as `python -m` does, and then all that it might import later."""
    code = (
        "import importlib, pkgutil, sys\n"
        f"role = importlib.import_module({role + '.__main__'!r}) and sys.modules[{role!r}]\n"
        "for module in pkgutil.walk_packages(role.__path__, role.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
