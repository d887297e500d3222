"""The tables with which modules open, read from their docstrings, to be compared with the code."""

from __future__ import annotations

import re
from types import ModuleType


def rows(module: ModuleType, head: str) -> list[list[str]]:
    """The rows below the heading line that begins with `head`, up to an empty line.

    Cells are parted by two blanks or more.
    """
    lines = (module.__doc__ or "").splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.startswith(f"    {head}")]
    found: list[list[str]] = []
    for line in lines[at + 1 :]:
        if not line.startswith("    "):
            break
        found.append(re.split(r" {2,}", line.strip()))
    return found
