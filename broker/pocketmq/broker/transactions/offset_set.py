"""A set of queue offsets that mostly follow each other: a bit for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_PAGE_BITS: Final = 9


class OffsetSet:
    """Takes a few bytes for each 512 offsets of which one is in it."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}

    def add(self, offsets: Iterable[int]) -> None:
        # Offsets are mostly consecutive, so one integer holds the bits of 512.
        pages = self._pages
        for offset in offsets:
            page = offset >> _PAGE_BITS
            pages[page] = pages.get(page, 0) | 1 << (offset & (1 << _PAGE_BITS) - 1)

    def __contains__(self, offset: int) -> bool:
        page = self._pages.get(offset >> _PAGE_BITS, 0)
        return bool(page >> (offset & (1 << _PAGE_BITS) - 1) & 1)
