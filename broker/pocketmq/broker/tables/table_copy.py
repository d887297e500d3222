"""A table that becomes a copy of its master's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Row = TypeVar("Row")


def become(table: dict[str, Row], wanted: Mapping[str, Row]) -> list[str]:
    """Make `table` equal to `wanted`; the names whose rows went, came or changed.

    Only the difference is touched, so no row is missing for a moment (I-12, W-8).
    """
    changed = [name for name in table if name not in wanted]
    for name in changed:
        del table[name]
    for name, row in wanted.items():
        if table.get(name) != row:
            table[name] = row
            changed.append(name)
    return changed
