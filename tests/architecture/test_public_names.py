"""What type checkers see of a package is what Python finds in it."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    ".".join(path.relative_to(ROOT).parts[1:-1]): path
    for path in sorted(ROOT.glob("*/pocketmq/**/__init__.py"))
    if "on_first_use" in path.read_text(encoding="utf-8")
}
"""Name -> its file."""


def told_to_checkers(package: str) -> dict[str, str]:
    """Name -> module of what `if TYPE_CHECKING:` imports to export it."""
    source = PACKAGES[package].read_text(encoding="utf-8")
    (block,) = (each for each in ast.parse(source).body if isinstance(each, ast.If))
    return {
        alias.name: str(each.module)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
        if alias.asname == alias.name
    }


def test_the_packages_that_import_on_first_use_are_found() -> None:
    assert {
        *("pocketmq.broker", "pocketmq.client", "pocketmq.testing"),
        "pocketmq.pipeline.jobs",
    } <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_python_see_the_same_names(package: str) -> None:
    module = importlib.import_module(package)
    told = told_to_checkers(package)
    assert sorted(told) == module.__all__ == dir(module)
    for name, home in told.items():
        found = getattr(module, name)
        assert found is getattr(importlib.import_module(home), name)
        assert found.__module__ == home, f"{name} is defined in {found.__module__}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=rf"{package}.*'Nobody'"):
        getattr(module, "Nobody")  # noqa: B009
