"""The words of JSON schemas as `jsonschema` checks them, with a bound to the work for one body.

Two kinds of work have none there. A body that is nested in itself may be looked at again for each
choice of each level: with two choices that hold the same schema that is 2 to the power of the
depth. And some words take the square of what a list or an object has, or search with Python's
regular expressions. The former is counted in steps rather than timed, so that a body is bad on
every machine or on none; the latter are done otherwise (`json_patterns`, `json_evaluated`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.bodies import BadBodyError
from pocketmq.pipeline.jobs.schemas.json_evaluated import evaluated_items, evaluated_names
from pocketmq.pipeline.jobs.schemas.json_parts import Part
from pocketmq.pipeline.jobs.schemas.json_patterns import pattern_of
from pocketmq.pipeline.jobs.schemas.json_values import are_unlike, text_of

MOST_STEPS: Final = 200_000
"""So many a body may take, and STEPS_PER_BYTE more for each of its bytes: some seconds."""
STEPS_PER_BYTE: Final = 20

_CHARACTERS_PER_STEP: Final = 100

_MANY: Final = 20
"""Of more listed values one is looked up."""

_MOST_LISTS: Final = 1024
"""So many lists are known at a time."""

_KINDS: Final = {
    "draft-03": "Draft3Validator",
    "draft-04": "Draft4Validator",
    "draft-06": "Draft6Validator",
    "draft-07": "Draft7Validator",
    "draft2019-09": "Draft201909Validator",
    "draft2020-12": "Draft202012Validator",
}
"""`jsonschema`'s validators by the names that `referencing` has for their languages."""

Word = Callable[[Any, Any, Any, Any], Iterable[Any] | None]
"""A validator, what stands under the word, a value, and the schema where the word stands."""


class Work:
    """What may still be done for a body."""

    def __init__(self) -> None:
        self._left = 0

    def begin(self, size_bytes: int) -> None:
        """Begin with another body."""
        self._left = MOST_STEPS + STEPS_PER_BYTE * size_bytes

    def take(self, steps: int) -> None:
        """Do some of it.

        Raises:
            BadBodyError: It is too much.
        """
        self._left -= steps
        if self._left < 0:
            raise BadBodyError("checking the body with its schema takes too many steps")


class Lists:
    """What stands under `enum`, by the text of each value."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[list[Any], set[str]]] = {}
        """By the identity of a list, which is kept so that no other one gets it."""

    def has(self, values: list[Any], value: Any) -> bool:
        """Whether a list has a value."""
        known = self._known.get(id(values))
        if known is None:
            # All are dropped at once: so many lists are rare, and each is quickly made again.
            if len(self._known) >= _MOST_LISTS:
                self._known.clear()
            known = self._known[id(values)] = values, {text_of(each) for each in values}
        return text_of(value) in known[1]


class Words:
    """Makes validators of `jsonschema` whose work is bounded."""

    def __init__(self) -> None:
        self.work = Work()
        self._lists = Lists()
        self._kinds: dict[Any, Any] = {}
        """By those of `jsonschema`, and by themselves."""

    def kind(self, plain: Any) -> Any:
        """The class of validators for the draft of one of `jsonschema`'s."""
        if plain not in self._kinds:
            made = self._made(plain)
            self._kinds |= {plain: made, made: made}
        return self._kinds[plain]

    def _made(self, plain: Any) -> Any:
        from attrs import fields
        from jsonschema.validators import extend, validator_for

        # A draft that lacks a word must not get it here.
        own = {name: word for name, word in _OWN.items() if name in plain.VALIDATORS}
        # Wrapped and not replaced, which keeps the package's messages.
        if "additionalProperties" in plain.VALIDATORS:
            own["additionalProperties"] = _additional(plain.VALIDATORS["additionalProperties"])
        own["enum"] = _enum(plain.VALIDATORS["enum"], self._lists)
        words = {**plain.VALIDATORS, **own}
        made = extend(plain, {name: self._counted(word) for name, word in words.items()})
        names = [(each.alias, each.name) for each in fields(made) if each.init]

        def evolve(self_: Any, **changes: Any) -> Any:
            """A validator for another schema, which may name another draft."""
            schema = changes.setdefault("schema", self_.schema)
            kept = {alias: getattr(self_, name) for alias, name in names}
            return self.kind(validator_for(schema, default=made))(**(kept | changes))

        made.evolve = evolve  # its own would leave for a class without bounds at each `$schema`
        return made

    def _counted(self, word: Word) -> Word:
        take = self.work.take

        def count(error: Any) -> Any:
            take(1 + len(error.message) // _CHARACTERS_PER_STEP)  # it has the value in it
            return error

        def check(validator: Any, said: Any, value: Any, schema: Any) -> Iterable[Any]:
            # Counted before the word is evaluated, so that a body out of steps is looked at no
            # further.
            take(1)
            return map(count, word(validator, said, value, schema) or ())

        return check


@lru_cache(maxsize=1)
def _words() -> Words:
    return Words()


def does_fit(part: Part, value: Any) -> bool | None:
    """Whether a value fits a part of a schema; None if that cannot be checked."""
    if part.language is None:
        return None
    import jsonschema

    words = _words()
    # The base budget is enough: values within schemas are short.
    words.work.begin(0)
    plain = getattr(jsonschema, _KINDS[part.language.name])
    try:
        validator = words.kind(plain)(part.said, _resolver=part.resolver)
        return bool(validator.is_valid(value))
    except (ArithmeticError, BadBodyError, RecursionError, TypeError, ValueError):
        return None


# -- words ----------------------------------------------------------------------------------------


def _pattern(_validator: Any, said: str, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, str) and not pattern_of(said).is_in(value):
        yield _error(f"{value!r} does not match {said!r}")


def _pattern_properties(validator: Any, said: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for pattern, inner in said.items():
            for name, field in value.items():
                if pattern_of(pattern).is_in(name):
                    yield from validator.descend(field, inner, path=name, schema_path=pattern)


def _additional(plain: Word) -> Word:
    """`jsonschema`'s word, told which fields the patterns are about."""

    def check(validator: Any, said: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        patterns = schema.get("patternProperties")
        if not patterns or not isinstance(value, dict):
            return plain(validator, said, value, schema)
        names = {name for pattern in patterns for name in value if pattern_of(pattern).is_in(name)}
        known = {**schema.get("properties", {}), **dict.fromkeys(names, True)}
        return plain(validator, said, value, {"properties": known})

    return check


def _enum(plain: Word, lists: Lists) -> Word:
    """`jsonschema`'s word, which compares with each listed value, with a look-up for many."""

    def check(validator: Any, said: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        # Short lists are as fast without this; for lists and objects making the text costs more.
        if len(said) <= _MANY or isinstance(value, list | dict):
            return plain(validator, said, value, schema)
        if lists.has(said, value):
            return None
        return [_error(f"{value!r} is none of {len(said)} values")]

    return check


def _unique_items(_validator: Any, said: Any, value: Any, _schema: Any) -> Iterator[Any]:
    if said and isinstance(value, list) and not are_unlike(value):
        yield _error(f"{value!r} has non-unique elements")


def _unevaluated_items(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, list):
        known = evaluated_items(validator, value, schema)
        left = (place for place in range(len(value)) if place not in known)
        yield from _left_over(validator, said, value, left)


def _unevaluated_properties(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        known = evaluated_names(validator, value, schema)
        yield from _left_over(validator, said, value, (name for name in value if name not in known))


def _left_over(validator: Any, said: Any, value: Any, left: Iterable[Any]) -> Iterator[Any]:
    for place in left:
        if said is False:
            yield _error(f"no schema has looked at {place!r}, and nothing else is allowed")
        else:
            yield from validator.descend(value[place], said, path=place)


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


_OWN: Final[dict[str, Word]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
}
