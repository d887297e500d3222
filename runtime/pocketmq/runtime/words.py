"""Numbers in sentences for people. Pure."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 queue`, `3 queues`: nouns whose plural is made with an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
