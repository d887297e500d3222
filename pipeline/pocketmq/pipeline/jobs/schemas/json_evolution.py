"""Why values that fit one JSON schema may not fit another, by a few plain rules.

    compared                               as
    type, enum, const                      the reader must allow each type, and each listed value
    least and greatest numbers and sizes   the reader's may not be narrower
    properties, required, items,           field by field, also behind `$ref`; a writer is taken to
    additionalProperties                   write no fields but those that it names or requires
    anything else                          the same on both sides, or it cannot be told

A reason is certain where a value can be named that one schema allows and the other does not. What
no rule decides is told as such, and never taken for a fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pocketmq.pipeline.jobs.schemas.json_parts import Part
from pocketmq.pipeline.jobs.schemas.json_values import text_of
from pocketmq.pipeline.jobs.schemas.json_words import does_fit

MOST_COMPARISONS: Final = 20_000
"""So many pairs of schemas are compared."""

_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_LIMITS: Final = {
    # word: (types that it limits, 1 where more is narrower)
    "minimum": ({"integer", "number"}, 1),
    "maximum": ({"integer", "number"}, -1),
    "exclusiveMinimum": ({"integer", "number"}, 1),
    "exclusiveMaximum": ({"integer", "number"}, -1),
    "minLength": ({"string"}, 1),
    "maxLength": ({"string"}, -1),
    "minItems": ({"array"}, 1),
    "maxItems": ({"array"}, -1),
    "minProperties": ({"object"}, 1),
    "maxProperties": ({"object"}, -1),
}
_OF_FIELDS: Final = ("patternProperties", "unevaluatedProperties", "dependencies")
"""Words that say something of fields by their names: beside them no field is compared alone."""
_PLAIN: Final = {"type", "enum", "const", "properties", "required", "additionalProperties", "items"}
_SAY_NOTHING: Final = {
    *("$schema", "$id", "id", "$comment", "$anchor", "definitions", "$defs", "title", "default"),
    *("description", "examples", "format", "readOnly", "writeOnly", "deprecated"),
    *("contentEncoding", "contentMediaType", "$vocabulary", "$dynamicAnchor", "$recursiveAnchor"),
}
"""Words that no body is checked by."""
_TYPE_OF_WORD: Final = {
    **dict.fromkeys(("pattern",), "string"),
    **dict.fromkeys(("multipleOf",), "number"),
    **dict.fromkeys(("uniqueItems", "contains", "prefixItems", "additionalItems"), "array"),
    **dict.fromkeys((*_OF_FIELDS, "propertyNames", "dependentRequired"), "object"),
}
"""Values of other types fit such words."""

Pair = tuple[Any, ...]


class Reason(NamedTuple):
    """Why values may not fit."""

    at: str
    what: str
    is_certain: bool = True

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


class Comparison:
    """Compares two schemas, which may hold themselves.

    Args:
        reader: The whole schema that is read with.
        writer: That which was written with.
        same_behind: Whether both have the same definitions and references, so that `$ref`s that are
            written alike mean the same.
    """

    def __init__(self, reader: Part, writer: Part, *, same_behind: bool) -> None:
        self._whole = reader, writer
        self._same_behind = same_behind
        self._around: list[Pair] = []
        """Pairs whose inner ones are being compared: a type that holds itself ends there."""
        self._fit: dict[Pair, None] = {}
        """In the order in which they were found, so that the last ones can be taken back."""
        self._left = MOST_COMPARISONS

    def reasons(self) -> Iterator[Reason]:
        """All of them; many where a type stands in many places."""
        return self._compare(*self._whole, "$", True)

    def _compare(self, reader: Part, writer: Part, at: str, sure: bool) -> Iterator[Reason]:
        one, other = reader.followed(), writer.followed()
        pair = _key(one), _key(other)
        says_more = _says_more(reader) or _says_more(writer)
        # A pair that is being compared further out counts as fitting here; the outer call decides.
        if not says_more and (pair in self._fit or pair in self._around):
            return
        self._left -= 1
        if self._left < 0:
            yield Reason(at, "there are too many types that hold each other", False)
            return
        # After the check of the budget, since this walks all of both schemas.
        if self._same_behind and _text_of_all(reader) == _text_of_all(writer):
            return
        if says_more:
            yield Reason(at, "something stands beside `$ref`", False)
            return
        self._around.append(pair)
        before, is_fit = len(self._fit), True
        try:
            for each in self._parts(one, other, at, sure):
                is_fit = False
                yield each
        finally:
            self._around.pop()
            while not is_fit and len(self._fit) > before:
                self._fit.popitem()  # some may fit only if this pair does
        if is_fit:
            self._fit[pair] = None

    def _parts(self, reader: Part, writer: Part, at: str, sure: bool) -> Iterator[Reason]:
        if writer.said is False or reader.said is True:
            return
        if reader.said is False:
            # A writer with words that no rule here covers may never write anything.
            yield Reason(at, "nothing is allowed any more", sure and not self._narrow(writer))
            return
        listed = _listed(writer)
        if listed is not None:
            yield from self._values(reader, writer, listed, at, sure)
            return
        needed = reader.word("required")
        if isinstance(needed, bool) and needed != writer.word("required"):  # as in draft 3
            yield Reason(at, "`required` is new", False)
        types = writer.types()
        # Without `type` any type may be written; "number" includes the integers.
        written = set(_TYPES) - {"integer"} if types is None else types
        if _has_odd_type(writer) or _has_odd_type(reader):
            if text_of(reader.said) != text_of(writer.said):
                yield Reason(at, "`type` has schemas", False)
            return
        sure = sure and not self._narrow(writer)
        refused = [*self._types(reader, types, written, at, sure)]
        yield from refused
        # The only type is refused, so its limits no longer matter.
        if refused and len(written) == 1:
            return
        yield from self._others(reader, writer, written, at)
        yield from self._limits(reader, writer, written, at, sure)
        if "object" in written:
            yield from self._fields(reader, writer, at, sure)
        if "array" in written:
            yield from self._items(reader, writer, at, sure)

    # -- values and types ------------------------------------------------------------------------

    def _values(
        self, reader: Part, writer: Part, listed: list[Any], at: str, sure: bool
    ) -> Iterator[Reason]:
        for value in listed:
            if does_fit(writer, value) is False:
                continue  # it is listed, and not allowed
            fits = does_fit(reader, value)
            if fits is None:
                yield Reason(at, f"{_short(value)} may not be allowed", False)
            elif not fits:
                yield Reason(at, f"{_short(value)} is not allowed any more", sure)

    def _types(
        self, reader: Part, types: set[str] | None, written: set[str], at: str, sure: bool
    ) -> Iterator[Reason]:
        listed, allowed = _listed(reader), reader.types()
        if listed is not None:
            few: dict[str, list[Any]] = {"null": [None], "boolean": [True, False]}
            if written <= few.keys():
                # null and boolean have so few values that each can be tried.
                values = [value for kind in sorted(written) for value in few[kind]]
                yield from self._values(reader, Part(True, None, None), values, at, sure)
            else:
                what = "anything" if types is None else " or ".join(sorted(written))
                is_sure = sure and not written <= {"array", "object"}
                yield Reason(at, f"{what} is none of its values", is_sure)
            return
        if allowed is None:
            return
        names = " or ".join(sorted(allowed))
        if types is None and not set(_TYPES) - {"integer"} <= allowed:
            yield Reason(at, f"anything is not {names}", sure)
            return
        for kind in sorted(written):
            if kind not in allowed and not (kind == "integer" and "number" in allowed):
                yield Reason(at, f"{kind} is not {names}", sure)

    # -- limits, and what only the same fits -----------------------------------------------------

    def _limits(
        self, reader: Part, writer: Part, written: set[str], at: str, sure: bool
    ) -> Iterator[Reason]:
        for word, (kinds, sign) in _LIMITS.items():
            said, was = reader.word(word), writer.word(word)
            if said is None or not kinds & written:
                continue
            # In draft 4 the exclusive limits are true or false.
            if not _is_number(said) or not (was is None or _is_number(was)):
                if said != was:
                    yield Reason(at, f"`{word}` says something else", False)
            elif was is None or sign * said > sign * was:
                # Beside another limit of the writer there may be no value that this one refuses,
                # and what a list or an object has may be limited by what it may hold.
                beside = (each for each, (of, _) in _LIMITS.items() if of == kinds and each != word)
                is_sure = sure and not kinds & {"array", "object"}
                is_sure &= all(writer.word(each) is None for each in beside)
                before = "new" if was is None else f"{said} instead of {was}"
                yield Reason(at, f"`{word}` is {before}", is_sure)

    def _others(self, reader: Part, writer: Part, written: set[str], at: str) -> Iterator[Reason]:
        for word in sorted(set(_other_words(reader)) - set(_OF_FIELDS)):
            kind = _TYPE_OF_WORD.get(word)
            # The word concerns a type that is never written.
            if kind and kind not in written and not (kind == "number" and "integer" in written):
                continue
            said, was = reader.word(word), writer.word(word)
            text = text_of(said)
            same = was is not None and text == text_of(was)
            leads = word.endswith("Ref") or "Ref" in text or "$ref" in text
            if not same or (leads and not self._same_behind):
                yield Reason(at, f"`{word}` is new or says something else", False)

    @staticmethod
    def _narrow(writer: Part) -> bool:
        """Whether a word that is not compared may rule out what the rules take to be written."""
        return bool(_other_words(writer))

    # -- fields and items ------------------------------------------------------------------------

    def _fields(self, reader: Part, writer: Part, at: str, sure: bool) -> Iterator[Reason]:
        read, wrote = dict(reader.properties()), dict(writer.properties())
        more_read, more_written = _more_fields(reader), _more_fields(writer)
        needed, given = reader.listed("required"), writer.listed("required")
        by_name = [word for word in _OF_FIELDS if writer.word(word) is not None]
        by_name += [word for word in _OF_FIELDS if reader.word(word) is not None]
        # A pattern may match any field, so fields cannot be compared by name alone.
        if by_name:
            words = ("properties", "additionalProperties", *_OF_FIELDS)
            if any(_text(reader, word) != _text(writer, word) for word in words):
                yield Reason(at, f"fields beside `{by_name[0]}` are not compared", False)
            elif not self._same_behind:
                yield Reason(at, f"what stands behind `{by_name[0]}` may have changed", False)
        else:
            # The fewest or most fields of the writer may rule a field out.
            limits = ("minProperties", "maxProperties")
            sure = sure and all(writer.word(word) is None for word in limits)
            for name in {**wrote, **dict.fromkeys(given)}:
                written = wrote.get(name, more_written)
                yield from self._compare(read.get(name, more_read), written, f"{at}.{name}", sure)
            if isinstance(more_written.said, dict):  # a map: any name may be written
                for name in read.keys() - wrote.keys() - set(given):
                    yield from self._compare(read[name], more_written, f"{at}.{name}", sure)
                yield from self._compare(more_read, more_written, f"{at}.*", sure)
        # A field that the writer requires is always there.
        for name in needed:
            if name not in given:
                yield Reason(f"{at}.{name}", "is required, and was not", sure)

    def _items(self, reader: Part, writer: Part, at: str, sure: bool) -> Iterator[Reason]:
        said, was = reader.word("items"), writer.word("items")
        if said is None:
            return
        if isinstance(said, list) or isinstance(was, list):
            if _text(reader, "items") != _text(writer, "items") or not self._same_behind:
                yield Reason(at, "`items` has a schema for each place", False)
            return
        # Beside `prefixItems`, `items` means the rest of the list, which may begin at different
        # places.
        if reader.word("prefixItems") is not None or writer.word("prefixItems") is not None:
            if _text(reader, "items") != _text(writer, "items"):
                yield Reason(at, "`items` stands beside `prefixItems`", False)
            return
        sure = sure and writer.word("maxItems") is None
        written = writer.within(True if was is None else was)
        yield from self._compare(reader.within(said), written, f"{at}[]", sure)


def _key(part: Part) -> Any:
    # By identity: equal schemas in different places may refer to different things.
    return id(part.said) if isinstance(part.said, dict) else part.said


def _listed(part: Part) -> list[Any] | None:
    """The values that a schema lists; None if it lists none."""
    if not isinstance(part.said, dict):
        return None
    if part.word("enum") is not None:
        return part.listed("enum")
    return [part.said["const"]] if "const" in part.said and _has(part, "const") else None


def _has(part: Part, word: str) -> bool:
    """Whether its draft has a word that stands there; `word()` does not tell null from none."""
    return Part({word: True}, part.resolver, part.language).word(word) is not None


def _other_words(part: Part) -> list[str]:
    """Words that no rule compares."""
    if not isinstance(part.said, dict):
        return []
    known = _PLAIN | _SAY_NOTHING | _LIMITS.keys()
    return [word for word in part.said if word not in known and word != "$ref" and _has(part, word)]


def _text_of_all(part: Part) -> str:
    """All that counts of a schema, as a text that is the same for the same."""
    said = part.said
    if isinstance(said, dict):
        said = {word: each for word, each in said.items() if word not in _SAY_NOTHING}
    return text_of(said)


def _says_more(part: Part) -> bool:
    """Whether anything that counts stands beside a `$ref`; before draft 2019-09 nothing does."""
    if part.target() is None or part.language.name in ("draft-03", "draft-04", "draft-06"):
        return False
    more = set(part.said) - _SAY_NOTHING - {"$ref"}
    return bool(more) and part.language.name != "draft-07"


def _has_odd_type(part: Part) -> bool:
    return part.types() is None and isinstance(part.word("type"), list)


def _more_fields(part: Part) -> Part:
    """What fields must be that a schema does not name."""
    said = part.word("additionalProperties")
    return part.within(True if said is None else said)


def _text(part: Part, word: str) -> str:
    return text_of(part.word(word))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]
