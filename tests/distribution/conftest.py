"""One build of the image for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dockerfile import Build

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The Dockerfile of this repository, carried out step by step."""
    made = Build(ROOT, tmp_path_factory.mktemp("image"))
    made.run()
    return made
