"""JSON values as JSON schemas compare them: 1 is 1.0 and not true, the order of fields is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def text_of(value: Any) -> str:
    """The same text for equal values, and for no others.

    Raises:
        RecursionError: It is nested too deeply.
    """
    return json.dumps(_plain(value), sort_keys=True)


def are_unlike(values: Sequence[Any]) -> bool:
    """Whether no two are equal.

    `jsonschema` compares each with each where they cannot be sorted, which a list of texts and
    numbers cannot: a million of them would take hours. Texts are hashed with a key that nobody
    outside knows, numbers are not, so that a body could choose some that hash alike.
    """
    return len({text_of(each) for each in values}) == len(values)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
