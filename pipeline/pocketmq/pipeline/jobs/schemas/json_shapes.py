"""What a JSON schema says of one value, put together from all the places where it says it.

Those are the schema itself, what its `$ref` leads to, what stands beside that `$ref` (drafts up to
7 do not look at it), and `allOf`. A choice (`anyOf`, `oneOf`) is kept as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from pocketmq.pipeline.jobs.schemas.json_parts import Part
from pocketmq.pipeline.jobs.schemas.json_patterns import pattern_of
from pocketmq.pipeline.jobs.schemas.json_values import text_of, type_of

TYPES: Final = ("null", "boolean", "string", "number", "array", "object")
"""Each value has one of them; an `integer` is a `number`."""

_REF_ALONE: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
NARROW: Final = ("not", "if", "disallow", "extends", "$dynamicRef", "$recursiveRef")
"""Words by which a value may not fit though the others would let it."""

_DEEPEST: Final = 2
"""So deep fields in fields are looked at to tell choices apart: each level multiplies the work."""

_MOST_FIELDS: Final = 10
"""So many required fields may be in a field that is looked into."""


class Choice(NamedTuple):
    """Schemas of which a value fits at least one, or exactly one."""

    word: str
    """`anyOf` or `oneOf`."""
    part: Part
    """Where it stands."""

    def branches(self) -> list[Part]:
        """The schemas."""
        return [self.part.within(each) for each in self.part.listed(self.word)]


@dataclass(frozen=True)
class Shape:
    """What a value must fit: all parts, a branch of each choice, and none of `others`."""

    parts: tuple[Part, ...] = ()
    """Without what their `$ref`, `allOf`, `anyOf` and `oneOf` say."""
    choices: tuple[Choice, ...] = ()
    others: tuple[Part, ...] = ()
    """The branches of a `oneOf` that were not taken."""
    is_doubled: bool = False
    """Whether all that fits was also taken by another branch of a `oneOf`, which lets none fit."""

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Names it among the shapes of the same schemas."""
        choices = frozenset((word, id(part.said)) for word, part in self.choices)
        places = (frozenset(id(part.said) for part in each) for each in (self.parts, self.others))
        return (*places, choices, self.is_doubled)

    def cases(self) -> Iterator[tuple[str, Shape]]:
        """What it is for each branch of its first choice, with the name of the branch."""
        choice, *choices = self.choices
        word, branches = choice.word, choice.branches()
        for number, branch in enumerate(branches):
            inner = shape_of([branch])
            others = (*branches[:number], *branches[number + 1 :]) if word == "oneOf" else ()
            yield (
                f"({word} {number + 1})",
                Shape(
                    (*self.parts, *inner.parts),
                    (*choices, *inner.choices),
                    (*self.others, *others),
                ),
            )

    def types(self) -> set[str] | None:
        """Those that a value may have; None if that is not said."""
        return self._types

    @cached_property
    def _types(self) -> set[str] | None:
        found: set[str] | None = None
        for part in self.parts:
            found = _both(found, _types(part))
        for choice in self.choices:
            several = [_types(each.followed()) for each in choice.branches()]
            if None not in several:
                found = _both(found, {kind for kinds in several for kind in kinds or ()})
        return found

    def may_be(self, kind: str) -> bool:
        """Whether a value may be of a type."""
        types = self.types()
        return types is None or kind in types or (kind == "number" and "integer" in types)

    def values(self) -> list[Any] | None:
        """All that a value may be; None if those are not listed."""
        return self._values

    def lists(self, value: Any) -> bool:
        """Whether a value is among these."""
        return text_of(value) in self._texts

    @cached_property
    def _texts(self) -> set[str]:
        return {text_of(each) for each in self._values or ()}

    @cached_property
    def _values(self) -> list[Any] | None:
        found: list[Any] | None = None
        for part in self.parts:
            listed = values_of(part)
            if listed is not None and found is None:
                found = listed
            elif listed is not None and found is not None:
                texts = {text_of(each) for each in listed}
                found = [each for each in found if text_of(each) in texts]
        types = self.types()
        if found is None and types is not None and types <= {"null", "boolean"}:
            found = [None] * ("null" in types) + [True, False] * ("boolean" in types)
        elif found is not None and types is not None:
            found = [each for each in found if is_of(type_of(each), types)]
        return found

    def is_nothing(self) -> bool:
        """Whether it is plain that no value fits."""
        return self.types() == set() or self.values() == []

    def words(self, name: str) -> list[Any]:
        """What its parts say under a word."""
        return [part.word(name) for part in self.parts if part.word(name) is not None]

    # -- objects and lists ------------------------------------------------------------------------

    def required(self) -> list[str]:
        """Names of the fields that an object has."""
        found: dict[str, None] = {}
        for part in self.parts:
            found |= dict.fromkeys(part.listed("required"))
            for name, said in _properties(part).items():
                if isinstance(said, dict) and said.get("required") is True:  # draft 3
                    found[name] = None
        return list(found)

    def names(self) -> list[str]:
        """Names of the fields that it knows, also of those that it only requires."""
        known = dict.fromkeys(name for part in self.parts for name in _properties(part))
        return list(known | dict.fromkeys(self.required()))

    def field(self, name: str) -> Shape | None:
        """What the value of a field is; None if nothing is said of that field."""
        said = [each for part in self.parts for each in fields_of(part, name)]
        found = [each for each in said if each.said is not True]
        return shape_of(found) if found else None

    def other_fields(self) -> Shape | None:
        """What the values of other fields are, whose names no pattern matches either.

        Returns:
            None if nothing is said of them.
        """
        found = [
            part.within(beyond)
            for part in self.parts
            if isinstance(beyond := part.word("additionalProperties"), dict)
        ]
        return shape_of(found) if found else None

    def knows_names(self) -> bool:
        """Whether it names all fields that are written with it."""
        return (
            bool(self.words("properties"))
            and self.other_fields() is None
            and not self.words("patternProperties")
        )

    def items(self) -> Shape | None:
        """What the items of a list are; None if the first ones have schemas of their own."""
        said = self.words("items")
        if self.words("prefixItems") or any(isinstance(each, list) for each in said):
            return None
        parts = (part for part in self.parts if part.word("items") is not None)
        return shape_of(part.within(part.word("items")) for part in parts)


def shape_of(parts: Iterable[Part]) -> Shape:
    """What a value must fit that fits all these.

    Raises:
        CallerError: A `$ref` in them leads nowhere.
    """
    found: list[Part] = []
    choices: list[Choice] = []
    seen: set[int] = set()
    waiting = list(parts)
    while waiting:
        part = waiting.pop(0)
        if part.said is True or id(part.said) in seen:
            continue
        seen.add(id(part.said))
        target = part.target()
        if target is not None:
            waiting.append(target)
            if part.language.name in _REF_ALONE:
                continue
        waiting += [part.within(each) for each in part.listed("allOf")]
        choices += [Choice(word, part) for word in ("anyOf", "oneOf") if part.listed(word)]
        found.append(part)
    return Shape(tuple(found), tuple(choices))


def fields_of(part: Part, name: str) -> list[Part]:
    """What a part says of the value of a field."""
    properties = _properties(part)
    found = [part.within(properties[name])] if name in properties else []
    for pattern, said in (part.word("patternProperties") or {}).items():
        if pattern_of(pattern).is_in(name):
            found.append(part.within(said))
    beyond = part.word("additionalProperties")
    return found or ([] if beyond is None else [part.within(beyond)])


def _properties(part: Part) -> dict[str, Any]:
    found = part.word("properties")
    return found if isinstance(found, dict) else {}


def _types(part: Part) -> set[str] | None:
    if part.said is False:
        return set()
    values = values_of(part)
    listed = None if values is None else {type_of(each) for each in values}
    types = part.types()
    return listed if types is None or "any" in types else _both(types, listed)


def values_of(part: Part) -> list[Any] | None:
    """The values that a part lists; None if it lists none."""
    if not isinstance(part.said, dict):
        return None
    if "const" in part.said and part.language.name not in _REF_ALONE[:2]:
        return [part.said["const"]]
    found = part.word("enum")
    return found if isinstance(found, list) else None


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """The types that two schemas allow."""
    if one is None or other is None:
        return other if one is None else one
    return {kind for kind in one | other if is_of(kind, one) and is_of(kind, other)}


def is_of(kind: str, types: set[str]) -> bool:
    """Whether a type is one of several; an `integer` is a `number`."""
    return kind in types or (kind == "integer" and "number" in types)


def are_apart(one: Shape, other: Shape, depth: int = 0) -> bool:
    """Whether it is plain that no value fits both.

    Args:
        one: A schema.
        other: The one that values are written with: they have no fields that it does not know.
        depth: Of the fields that led here.
    """
    types = _both(one.types(), other.types())
    if types == set():
        return True
    values = one.values(), other.values()
    if values[0] is not None and values[1] is not None and not any(map(other.lists, values[0])):
        return True
    if types != {"object"} or depth >= _DEEPEST:
        return False
    required = dict.fromkeys((*one.required(), *other.required()))
    if depth > 0 and len(required) > _MOST_FIELDS:
        return False
    for name in required:
        if other.knows_names() and name not in other.names():
            return True
        here, there = one.field(name), other.field(name)
        if here is not None and there is not None and are_apart(here, there, depth + 1):
            return True
    return False


def kinds_of(shape: Shape) -> Sequence[str]:
    """The types of a value, each once."""
    types = shape.types()
    return TYPES if types is None else sorted(types)
