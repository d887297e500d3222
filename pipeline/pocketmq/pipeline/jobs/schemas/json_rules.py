"""Rules for single words of JSON schemas: whether what was written with one fits another.

A word without a rule fits where the writer says the same, and cannot be told otherwise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from pocketmq.pipeline.jobs.schemas.json_parts import Part
from pocketmq.pipeline.jobs.schemas.json_shapes import (
    NARROW,
    Shape,
    are_apart,
    is_of,
    shape_of,
    values_of,
)
from pocketmq.pipeline.jobs.schemas.json_values import text_of, type_of
from pocketmq.pipeline.jobs.schemas.json_words import does_fit

_DEPENDENT: Final = ("dependencies", "dependentRequired", "dependentSchemas")

_SAME: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "": (("not",), ("if", "then", "else"), ("disallow",), ("extends",)),
    "string": (("pattern",),),
    "array": (
        ("prefixItems", "items", "additionalItems"),
        ("contains", "minContains", "maxContains"),
    ),
    "object": (("dependencies",), ("dependentRequired",), ("dependentSchemas",)),
}
"""Words that fit if the writer has the same, by the type that they are about; some mean something
only together."""

_REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LOOK_AT: Final = (
    *("unevaluatedProperties", "properties", "patternProperties", "additionalProperties"),
    *("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", *_REFS),
)
"""Words that say which fields `unevaluatedProperties` is about."""

_NEVER: Final = ("$dynamicRef", "$recursiveRef")
_SIZES: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_UNCLEAR: Final = {
    "string": ("pattern",),
    "number": ("multipleOf", "divisibleBy"),
    "array": ("contains", "uniqueItems"),
    "object": ("propertyNames", *_DEPENDENT),
}
"""Words of a writer that may keep values within limits that it does not say."""


class Reason(NamedTuple):
    """Why one schema may not read what another wrote."""

    at: str
    """The place: `$.price`, `$.tags[]`, `$(oneOf 2).id`."""
    what: str
    is_certain: bool = True

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


def word_reasons(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    """Why a part of a reader may not read what was written, but for what fields and items say.

    Args:
        part: Of the reader.
        writer: One without choices.
        at: The place of the value.
    """
    yield from _types(part, writer, at)
    if values_of(part) is not None:
        yield Reason(at, "anything is none of its values")
    for kind in ("number", *_SIZES):
        if writer.may_be(kind):
            yield from _limits(kind, part, writer, at)
    if writer.may_be("number"):
        yield from _multiples(part, writer, at)
    if writer.may_be("array"):
        yield from _unlike(part, writer, at)
        if part.word("unevaluatedItems") not in (None, True):
            yield _untold("unevaluatedItems", at)
    if writer.may_be("object"):
        yield from _required(part, writer, at)
        yield from _names(part, writer, at)
    yield from _unruled(part, writer, at)


def value_reason(reader: Shape, value: Any, at: str) -> Reason | None:
    """Why a reader does not allow a value; None if it does."""
    text = json.dumps(value)[:60]
    found = [does_fit(part, value) for part in reader.parts]
    if False not in found:
        return Reason(at, f"{text} cannot be checked", False) if None in found else None
    types, values = reader.types(), reader.values()
    if types and not is_of(type_of(value), types):
        return Reason(at, f"{text} is not {' or '.join(sorted(types))}")
    is_listed = not values or reader.lists(value)
    return Reason(at, f"{text} is {'not allowed any more' if is_listed else 'none of its values'}")


def _types(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    allowed, written = part.types(), writer.types()
    if allowed is None or "any" in allowed:
        return
    beyond = ({"anything"} if written is None else written) - allowed
    if "number" in allowed:
        beyond -= {"integer"}
    if "integer" in allowed and any(_is_whole(each) for each in _steps(writer)):
        beyond -= {"number"}
    if beyond:
        yield Reason(at, f"{', '.join(sorted(beyond))} is not {' or '.join(sorted(allowed))}")


# -- numbers and sizes ----------------------------------------------------------------------------

_Limit = tuple[float, bool]
"""A number, and whether it is beyond the limit itself."""


def _limits(kind: str, part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    is_whole = kind != "number" or writer.types() == {"integer"}
    for sign, name in ((1, "min"), (-1, "max")):
        limit = _limit(kind, part, sign, is_whole)
        if limit is None:
            continue
        known = [_limit(kind, each, sign, is_whole) for each in writer.parts]
        if sign == 1 and kind in _SIZES:
            known.append((len(writer.required()) if kind == "object" else 0, False))
        if sign == -1 and kind == "object" and writer.knows_names():
            known.append((-len(writer.names()), False))
        if sign == -1 and kind == "array" and _may_have_items(writer) is False:
            known.append((0, False))
        written = max((each for each in known if each is not None), default=None)
        if written is None or written < limit:
            word = name + (_SIZES.get(kind) or "imum")
            was = "" if written is None else f" instead of {sign * written[0]}"
            is_clear = not any(writer.words(each) for each in _UNCLEAR[kind])
            is_clear &= kind != "array" or sign == 1 or _may_have_items(writer) is True
            yield Reason(at, f"`{word}` is {sign * limit[0]}{was}", is_clear)


def _limit(kind: str, part: Part, sign: int, is_whole: bool) -> _Limit | None:
    """The limit of a part; greater ones allow less.

    Args:
        kind: A type.
        part: What may say a limit.
        sign: 1: for the least value; -1: for the greatest one.
        is_whole: Whether there are only whole numbers.
    """
    name = "min" if sign == 1 else "max"
    if kind != "number":
        said = part.word(name + _SIZES[kind])
        return None if said is None else (sign * said, False)
    found: list[_Limit] = []
    said, beyond = part.word(f"{name}imum"), part.word(f"exclusive{name.title()}imum")
    if said is not None:
        found.append((sign * said, beyond is True))  # draft 4
    if beyond is not None and not isinstance(beyond, bool):
        found.append((sign * beyond, True))
    if is_whole:
        found = [(math.floor(at) + 1 if is_out else math.ceil(at), False) for at, is_out in found]
    return max(found, default=None)


def _multiples(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    for word in ("multipleOf", "divisibleBy"):
        said = part.word(word)
        if said is None:
            continue
        known = _steps(writer) + ([1] if writer.types() == {"integer"} else [])
        if not any(_is_whole(each, said) for each in known):
            yield _untold(word, at)


def _steps(writer: Shape) -> list[float]:
    """Of which numbers all that are written are multiples."""
    found = [each for word in ("multipleOf", "divisibleBy") for each in writer.words(word)]
    return [each for each in found if isinstance(each, int) or math.isfinite(each)]


def _is_whole(number: float, step: float = 1) -> bool:
    """Whether a number is a multiple of another one."""
    return (Fraction(repr(number)) / Fraction(repr(step))).denominator == 1


def _unlike(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    if part.word("uniqueItems") is True and True not in writer.words("uniqueItems"):
        known = [each for each in writer.words("maxItems") if each <= 1]
        has_items = _may_have_items(writer)
        if not known and has_items is not False:
            yield Reason(at, "equal items are not allowed any more", has_items is True)


def _may_have_items(writer: Shape) -> bool | None:
    """Whether its lists may have items; None if that cannot be told."""
    items = writer.items()
    if items is None:
        return True
    if items.is_nothing():
        return False
    is_narrow = bool(items.choices) or any(items.words(word) for word in NARROW)
    return None if is_narrow or (items.values() is not None and len(items.parts) > 1) else True


# -- fields ---------------------------------------------------------------------------------------


def _required(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    had = writer.required()
    for name in Shape((part,)).required():
        if name not in had:
            is_clear = not any(writer.words(word) for word in ("minProperties", *_DEPENDENT))
            yield Reason(f"{at}.{name}", "is required, and was not", is_clear)


def _names(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    names, knows_names = writer.names(), writer.knows_names()
    said = part.word("propertyNames")
    if said is not None and not _is_same(("propertyNames",), part, writer):
        for name in names:
            if does_fit(part.within(said), name) is False:
                yield Reason(f"{at}.{name}", "is no name for a field any more")
        if not knows_names:
            yield _untold("propertyNames", at)
    if not knows_names and _has_new_patterns(part, writer):
        yield _untold("patternProperties", at)
    if part.word("unevaluatedProperties") not in (None, True):
        looked_at = {name for each in shape_of([part]).parts for name, _ in each.properties()}
        is_same = _is_same(_LOOK_AT, part, writer) and not any(map(part.word, _REFS))
        if not (knows_names and looked_at.issuperset(names)) and not is_same:
            yield _untold("unevaluatedProperties", at)


def _has_new_patterns(part: Part, writer: Shape) -> bool:
    """Whether names by patterns may be read as something else than they were written as."""
    patterns = part.word("patternProperties") or {}
    if patterns and not _is_same(("patternProperties",), part, writer):
        return True
    written = {each for said in writer.words("patternProperties") for each in said}
    return part.word("additionalProperties") not in (None, True) and not written <= {*patterns}


# -- words without a rule -------------------------------------------------------------------------


def _untold(word: str, at: str) -> Reason:
    return Reason(at, f"`{word}` is new or says something else", False)


def _unruled(part: Part, writer: Shape, at: str) -> Iterator[Reason]:
    for kind, groups in _SAME.items():
        for words in groups if not kind or writer.may_be(kind) else ():
            if _is_said(words[0], part, writer) and not _is_same(words, part, writer):
                yield _untold(words[0], at)
    for word in _NEVER:
        if part.word(word) is not None:
            yield _untold(word, at)


def _is_said(word: str, part: Part, writer: Shape) -> bool:
    """Whether a word says anything of what is written."""
    said = part.word(word)
    if word == "prefixItems":
        return said is not None or isinstance(part.word("items"), list)
    if word == "not":
        return said is not None and not are_apart(shape_of([part.within(said)]), writer)
    if word.startswith("depend"):
        known = {*writer.names(), *(name for name in said or () if writer.field(name))}
        return bool(known & {*(said or ())}) or (bool(said) and not writer.knows_names())
    return said is not None


def _is_same(words: tuple[str, ...], part: Part, writer: Shape) -> bool:
    """Whether the writer has the same words, and these do not lead elsewhere."""
    text = _text(words, part)
    is_known = any(text == _text(words, each) for each in writer.parts)
    return is_known and not any(f'"{ref}"' in text for ref in ("$ref", *_NEVER))


def _text(words: tuple[str, ...], part: Part) -> str:
    return text_of([part.word(word) for word in words])
