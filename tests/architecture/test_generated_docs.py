"""Generated pages say what the code says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from docs.generate import PORTIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "behaviour.md",
    DOCS / "store-files.md",
    DOCS / "store-tools.md",
    DOCS / "compatibility.md",
    ROOT / "client" / "pocketmq" / "client" / "sync" / "__init__.pyi",
    *sorted((DOCS / "generated").glob("*.*")),
]


def test_the_options_of_every_folder_are_on_the_page() -> None:
    assert set(PORTIONS) == {
        folder.name for folder in ROOT.glob("*/pocketmq/*") if any(folder.rglob("*.py"))
    }


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """All pages, made anew by one process."""
    code = (
        "import json, runpy, sys\n"
        "pages = runpy.run_path('docs/generate.py')['PAGES']\n"
        "json.dump({name: make() for name, make in pages.items()}, sys.stdout)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_up_to_date(page: Path, made: dict[str, str]) -> None:
    expected = made[os.path.relpath(page, DOCS)]
    assert expected == page.read_text(encoding="utf-8"), "run `make docs`"
