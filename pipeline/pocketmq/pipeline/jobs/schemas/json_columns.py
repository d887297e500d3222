"""The fields of a JSON schema, and the types of their values: what columns are made of.

Fields stand under `properties`, also behind `$ref`, `allOf`, `anyOf` and `oneOf`: a topic's schema
may be a choice of messages. `if` and the words like it are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.pipeline.jobs.schemas.json_parts import Part

Types = set[str] | None
"""Those that a value may have; None if that is not said."""

Fields = dict[str, Types]


def json_fields(part: Part, known: dict[int, Fields] | None = None) -> Fields:
    """The types of each field of the objects that fit a schema.

    Args:
        part: The schema.
        known: The fields of those that were looked at, by `id`.
    """
    known = {} if known is None else known
    if id(part.said) in known:
        return known[id(part.said)]
    known[id(part.said)] = {}  # of a schema that holds itself
    found = {name: json_types(each) for name, each in part.properties()}
    for each in _all_of(part):
        found = _joined(found, json_fields(each, known), _both)
    for choice in _choices(part):
        chosen: Fields = {}
        for each in choice:
            chosen = _joined(chosen, json_fields(each, known), _either)
        # The chosen branch and the schema's own fields must both hold.
        found = _joined(found, chosen, _both)
    known[id(part.said)] = found
    return found


def json_types(part: Part, known: dict[int, Types] | None = None) -> Types:
    """The types that values which fit a schema may have; see `json_fields`."""
    known = {} if known is None else known
    if part.said is False:
        return set()
    if id(part.said) in known:
        return known[id(part.said)]
    known[id(part.said)] = None
    found = part.types()
    for each in _all_of(part):
        found = _both(found, json_types(each, known))
    for first, *more in _choices(part):
        types = json_types(first, known)
        for each in more:
            types = _either(types, json_types(each, known))
        found = _both(found, types)
    known[id(part.said)] = found
    return found


def _joined(one: Fields, other: Fields, join: Callable[[Types, Types], Types]) -> Fields:
    common = {name: join(one[name], other[name]) for name in one if name in other}
    return {**one, **other, **common}


def _all_of(part: Part) -> list[Part]:
    target = part.target()
    found = [part.within(each) for each in part.listed("allOf")]
    return found if target is None else [target, *found]


def _choices(part: Part) -> list[list[Part]]:
    found = [[part.within(each) for each in part.listed(word)] for word in ("oneOf", "anyOf")]
    return [choice for choice in found if choice]


def _both(one: Types, other: Types) -> Types:
    if one is None or other is None:
        return other if one is None else one
    # Types that exclude each other fit no body; the column then takes both rather than none.
    return (one & other) or (one | other)


def _either(one: Types, other: Types) -> Types:
    return None if one is None or other is None else one | other
