"""What keeps `fastavro` from reading an Avro body for ever, or until the process ends."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any, Final

DEEPEST: Final = 200
"""So deep the types of a schema may stand within each other for a body to be read natively."""

MOST_DECIMAL_BYTES: Final = 1024
"""So long a decimal may be, 2,466 digits: to make one takes the square of its length."""

_DECIMAL: Final = "pocketmq-decimal"
"""Logical type in place of `decimal`."""

_NO_BYTES: Final = "the items of a list take no bytes, so that a body may say any number of them"
_EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def with_bounds(said: Any) -> Any:
    """The JSON of a schema, whose decimals are read by `_decimal`."""
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{_DECIMAL}"] = _decimal  # `fastavro` has no other place for it
    return _bounded(said)


def _bounded(said: Any) -> Any:
    if isinstance(said, list):
        return [_bounded(each) for each in said]
    if not isinstance(said, dict):
        return said
    # A default is a value, even if it looks like a schema.
    found = {name: each if name == "default" else _bounded(each) for name, each in said.items()}
    if found.get("logicalType") == "decimal":
        found["logicalType"] = _DECIMAL
    return found


def _decimal(data: bytes, writer: Any = None, reader: Any = None) -> decimal.Decimal:
    if len(data) > MOST_DECIMAL_BYTES:
        raise ValueError(
            f"a decimal has {len(data)} bytes, but may have at most {MOST_DECIMAL_BYTES}"
        )
    number = decimal.Decimal(int.from_bytes(data, "big", signed=True))
    return number.scaleb(-int(writer.get("scale") or 0), _EXACT)


def depth_of(schema: Any, known: dict[str, Any]) -> int | None:
    """How deep a body of a schema is at most; None for more than `DEEPEST`, or without an end.

    Args:
        schema: As `fastavro` has parsed it.
        known: All named types.
    """
    depths: dict[str, int | None] = {}

    def depth(one: Any, above: int) -> int | None:
        # The schema itself may be nested too deeply to walk.
        if above > DEEPEST:
            return None
        if isinstance(one, str):
            if one not in known:
                return 0
            if one not in depths:
                depths[one] = None  # of one that holds itself
                depths[one] = depth(known[one], above + 1)
            return depths[one]
        deepest = 0
        for each in _within(one):
            inner = depth(each, above + 1)
            if inner is None or above + inner > DEEPEST:
                return None
            deepest = max(deepest, inner + 1)
        return deepest

    return depth(schema, 0)


def _within(schema: Any) -> Iterator[Any]:
    """The types that stand in a type."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        for field in schema.get("fields", ()):
            yield field["type"]
        for name in ("items", "values"):
            if name in schema:
                yield schema[name]
        # `{"type": {...}}` wraps another type.
        if isinstance(schema.get("type"), dict | list):
            yield schema["type"]


def check_items(schemas: list[Any], known: dict[str, Any]) -> None:
    """Check that the items of lists take bytes.

    Args:
        schemas: As `fastavro` has parsed them.
        known: All named types.

    Raises:
        ValueError: Those of a list do not: ten bytes may say that there are 2 ** 62.
    """
    empty: dict[str, bool] = {}
    """Whether a named type takes no bytes."""

    def is_empty(schema: Any) -> bool:
        if isinstance(schema, str) and schema in known:
            if schema not in empty:
                empty[schema] = False  # of one that holds itself
                empty[schema] = is_empty(known[schema])
            return empty[schema]
        if not isinstance(schema, dict):
            return bool(schema == "null")
        kind = schema.get("type")
        if kind in ("record", "error"):
            return all(is_empty(field["type"]) for field in schema["fields"])
        if kind == "fixed":
            return bool(schema["size"] == 0)
        return kind == "null" or (isinstance(kind, dict) and is_empty(kind))

    waiting = list(schemas)
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and "items" in one and is_empty(one["items"]):
            raise ValueError(_NO_BYTES)
        waiting += _within(one)
