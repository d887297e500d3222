"""`golden/pop_and_timers.txt`: what RocketMQ's classes wrote, by name."""

from __future__ import annotations

from support.golden import GOLDEN


def java_lines() -> dict[str, list[str]]:
    """Name -> the texts printed under it, with their line breaks and tabs."""
    found: dict[str, list[str]] = {}
    for line in (GOLDEN / "pop_and_timers.txt").read_text().splitlines():
        name, text = line.split("\t", 1)
        found.setdefault(name, []).append(text.replace("\\n", "\n").replace("\\t", "\t"))
    return found


def java_text(name: str) -> str:
    """The one text printed under a name."""
    [text] = java_lines()[name]
    return text
