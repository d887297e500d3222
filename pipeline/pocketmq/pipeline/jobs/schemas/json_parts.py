"""A JSON schema's parts: the schemas that stand in it, and those that its `$ref`s lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from pocketmq.runtime.errors import CallerError

MOST_STEPS: Final = 100
"""So many `$ref` may lead to each other before the last one says something."""

_NAMES: Final = ("draft-03", "draft-04", "draft-06", "draft-07", "draft2019-09", "draft2020-12")
_ORDER: Final = {name: number for number, name in enumerate(_NAMES)}
"""Drafts by `referencing`'s names for them, the oldest is 0."""

_NEWEST: Final = len(_NAMES) - 1
_DRAFTS: Final = {
    **dict.fromkeys(("disallow", "divisibleBy", "extends"), (0, 0)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "multipleOf"), (1, _NEWEST)),
    **dict.fromkeys(("minProperties", "maxProperties"), (1, _NEWEST)),
    **dict.fromkeys(("const", "contains", "propertyNames"), (2, _NEWEST)),
    **dict.fromkeys(("if", "then", "else"), (3, _NEWEST)),
    **dict.fromkeys(("dependentRequired", "dependentSchemas"), (4, _NEWEST)),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), (4, _NEWEST)),
    **dict.fromkeys(("minContains", "maxContains"), (4, _NEWEST)),
    "$recursiveRef": (4, 4),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), (5, _NEWEST)),
}
"""The oldest and the newest draft that has a word; others are in all that matter."""


class Part(NamedTuple):
    """A schema, or one within another."""

    said: Any
    """Its JSON: an object, or true or false."""
    resolver: Any
    """Knows where a `$ref` in it leads; of `referencing`."""
    language: Any
    """Its draft; of `referencing`."""

    def word(self, name: str) -> Any:
        """What stands under a word of the language; None if nothing does.

        A word that its draft does not have says nothing.
        """
        if not isinstance(self.said, dict) or name not in self.said:
            return None
        if self.language is not None and name in _DRAFTS:
            first, last = _DRAFTS[name]
            # Validators ignore words of other drafts.
            if not first <= _ORDER.get(self.language.name, first) <= last:
                return None
        return self.said[name]

    def listed(self, name: str) -> list[Any]:
        """The list under a word; an empty one if none stands there."""
        found = self.word(name)
        return found if isinstance(found, list) else []

    def types(self) -> set[str] | None:
        """What stands under `type`; None if it says nothing (or, as draft 3 may, schemas)."""
        said = self.word("type")
        found = said if isinstance(said, list) else [said]
        return set(found) if found and all(isinstance(each, str) for each in found) else None

    def within(self, said: Any) -> Part:
        """A schema that stands in this one."""
        if not isinstance(said, dict):
            return Part(said, self.resolver, self.language)
        # A subschema may name another draft.
        language = self.language.detect(said)
        resolver = self.resolver.in_subresource(language.create_resource(said))
        return Part(said, resolver, language)

    def target(self) -> Part | None:
        """What its `$ref` leads to; None without one.

        Raises:
            CallerError: It leads nowhere.
        """
        from referencing.exceptions import Unresolvable

        ref = self.word("$ref")
        if not isinstance(ref, str):
            return None
        try:
            found = self.resolver.lookup(ref)
        except (Unresolvable, TypeError, ValueError) as exc:  # a pointer into a list or a number
            raise leads_nowhere(ref) from exc
        # `true` and `false` are schemas too.
        if not isinstance(found.contents, dict):
            return Part(found.contents, found.resolver, self.language)
        return Part(found.contents, found.resolver, self.language.detect(found.contents))

    def followed(self) -> Part:
        """It, or what it refers to.

        Raises:
            CallerError: It refers to nothing.
        """
        part = self
        # Bounded: references may form a circle.
        for _ in range(MOST_STEPS):
            found = part.target()
            if found is None:
                return part
            part = found
        ref = part.word("$ref")
        raise CallerError(f"the JSON schema refers to {ref!r}, which refers to itself")

    def properties(self) -> Iterator[tuple[str, Part]]:
        """The schemas of an object's fields."""
        found = self.word("properties")
        for name, said in found.items() if isinstance(found, dict) else ():
            yield name, self.within(said)


def check_parts(root: Part, check: Callable[[Any], None]) -> Iterator[Part]:
    """Every part of a schema that is an object, and those of what they refer to; each once.

    Args:
        root: The whole schema, which `check` has seen.
        check: Raises for JSON that is no schema; is given what a `$ref` leads to outside of `root`.

    Raises:
        CallerError: A `$ref` leads nowhere, or to itself.
    """
    seen: set[int] = set()
    targets = [root]
    while targets:
        target = targets.pop()
        # A schema may refer to itself, as those of trees do.
        if id(target.said) in seen:
            continue
        if target is not root:
            check(target.said)
        parts = [target]
        while parts:
            part = parts.pop()
            if not isinstance(part.said, dict) or id(part.said) in seen:
                continue
            seen.add(id(part.said))
            yield part
            parts += [part.within(each) for each in part.language.subresources_of(part.said)]
            found = part.target()
            if found is not None:
                part.followed()
                targets.append(found)


def leads_nowhere(ref: str) -> CallerError:
    """The error of a `$ref`."""
    return CallerError(
        f"the JSON schema refers to {ref!r}, which is neither in it nor among its references"
    )
