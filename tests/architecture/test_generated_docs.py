"""Generated pages say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from docs.generate import PORTIONS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "behaviour.md",
    DOCS / "store.md",
    DOCS / "compatibility.md",
    *sorted((DOCS / "generated").glob("*.*")),
]


def test_the_options_of_every_folder_are_on_the_page() -> None:
    assert set(PORTIONS) == {
        folder.name for folder in ROOT.glob("*/pocketmq/*") if any(folder.rglob("*.py"))
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    code = (
        "import runpy, sys\n"
        "generate = runpy.run_path('docs/generate.py')\n"
        f"sys.stdout.write(generate['PAGES'][{page.relative_to(DOCS).as_posix()!r}]())\n"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert made.stdout == page.read_text(encoding="utf-8"), "run `make docs`"
