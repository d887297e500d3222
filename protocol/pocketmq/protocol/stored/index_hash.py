"""The hash under which a store's index has a key (S-46)."""

from __future__ import annotations

from typing import Final

from pocketmq.protocol.java import java_hash

_INT32_MAX: Final = 2**31 - 1


def key_hash(topic: str, key: str) -> int:
    """Hash of `topic#key`: Java's, made positive; 0 for the one that has no positive."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value > _INT32_MAX else value
