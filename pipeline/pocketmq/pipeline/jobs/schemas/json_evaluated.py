"""Which fields and items a JSON schema has looked at: what `unevaluated…` leaves over.

`jsonschema` looks names up in lists here, which takes the square of their number, and searches
with regular expressions without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pocketmq.pipeline.jobs.schemas.json_patterns import pattern_of


def evaluated_names(validator: Any, found: dict[str, Any], schema: Any) -> set[str]:
    """The fields of an object that a schema, and those that apply beside it, have looked at.

    Args:
        validator: Of `jsonschema`, for the schema.
        found: The object, which the schemas are not known to fit.
        schema: Where `unevaluatedProperties` stands.
    """
    names: set[str] = set()
    for inner, said in _applied(validator, found, schema):
        names |= found.keys() & said.get("properties", {}).keys()
        for pattern in said.get("patternProperties", ()):
            names |= {name for name in found if pattern_of(pattern).is_in(name)}
        # After the named properties: these words apply to all others.
        for word in ("additionalProperties", "unevaluatedProperties"):
            if word in said:
                left = (name for name in found if name not in names)
                names |= {name for name in left if _fits(inner, found[name], said[word])}
    return names


def evaluated_items(validator: Any, found: list[Any], schema: Any) -> set[int]:
    """The places of a list that a schema, and those that apply beside it, have looked at."""
    places: set[int] = set()
    for inner, said in _applied(validator, found, schema):
        items = said.get("items")
        is_tuple = isinstance(items, list)  # draft 2019-09
        # One schema for all items has evaluated all of them.
        if (items is not None and not is_tuple) or (is_tuple and "additionalItems" in said):
            return set(range(len(found)))
        first: list[Any] = said.get("items" if is_tuple else "prefixItems", [])
        places |= set(range(len(first)))
        words = ["unevaluatedItems"]
        if "prefixItems" in inner.VALIDATORS:  # of draft 2020-12, as what `contains` means here
            words.append("contains")
        for word in words:
            if word in said:
                left = (place for place in range(len(found)) if place not in places)
                places |= {place for place in left if _fits(inner, found[place], said[word])}
    return places


def _applied(validator: Any, found: Any, schema: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A schema, and those that apply to the same value."""
    # The schemas true and false evaluate nothing.
    if not isinstance(schema, dict):
        return
    yield validator, schema
    for resolved in _referred(validator, schema):
        said = resolved.contents
        inner = validator.evolve(schema=said, _resolver=resolved.resolver)
        yield from _applied(inner, found, said)
    for said in _inside(validator, found, schema):
        yield from _applied(validator, found, said)


def _referred(validator: Any, schema: dict[str, Any]) -> Iterator[Any]:
    from referencing.jsonschema import lookup_recursive_ref

    for word in ("$ref", "$dynamicRef"):
        if word in schema and word in validator.VALIDATORS:
            yield validator._resolver.lookup(schema[word])
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield lookup_recursive_ref(validator._resolver)


def _inside(validator: Any, found: Any, schema: dict[str, Any]) -> Iterator[Any]:
    for word in ("allOf", "anyOf", "oneOf"):
        # Only a branch that fits evaluates anything.
        yield from (said for said in schema.get(word, ()) if _fits(validator, found, said))
    if "if" in schema:
        fits = _fits(validator, found, schema["if"])
        if fits:
            yield schema["if"]
        yield schema.get("then" if fits else "else", True)
    for name, said in schema.get("dependentSchemas", {}).items():
        if name in found:
            yield said


def _fits(validator: Any, value: Any, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None
