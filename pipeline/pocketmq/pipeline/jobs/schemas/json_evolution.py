"""Why values that fit one JSON schema may not fit another, as far as that can be told.

A reason is certain where a value can be named that one schema allows and the other does not. What
no rule here decides is told as such, and never taken for a fit.

It is taken, as registries do, that a writer writes no fields that its schema does not name, even
where that would allow them: every new field would be a misfit otherwise.

    `allOf`, `$ref`, what stands beside it    all of them hold
    `anyOf`, `oneOf` of the writer            the reader must read each choice
    `anyOf` of the reader                     one choice must read it: more choices read more
    `oneOf` of the reader                     the others must not read it, too: they say other types
                                              or values, or require fields that are not written
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from pocketmq.pipeline.jobs.schemas.json_parts import Part
from pocketmq.pipeline.jobs.schemas.json_rules import (
    Reason,
    value_reason,
    word_reasons,
)
from pocketmq.pipeline.jobs.schemas.json_shapes import (
    NARROW,
    Choice,
    Shape,
    are_apart,
    fields_of,
    kinds_of,
    shape_of,
)
from pocketmq.pipeline.jobs.schemas.json_words import does_fit

MOST_COMPARISONS: Final = 20_000
"""So many pairs of schemas are compared; choices of choices may lead to more."""

_MOST_TRIED: Final = 50
"""So many reasons are looked at why a choice does not read something."""

_VALUES_PER_COMPARISON: Final = 5
"""So many listed values take the time of a pair."""

_CHOICES_PER_COMPARISON: Final = 20
"""So many choices are told apart in the time of a pair."""

Reasons = Generator[Reason, None, None]


class Comparison:
    """Compares two schemas, which may hold themselves."""

    def __init__(self) -> None:
        self._around: list[Any] = []
        """Pairs whose inner ones are being compared."""
        self._fit: dict[Any, None] = {}
        """Those which fit."""
        self._made: dict[str, Part] = {}
        """Parts that stand in no schema, by their text: shapes are known by where parts are."""
        self._left = MOST_COMPARISONS

    def compare(self, reader: Shape, writer: Shape, at: str = "$") -> Reasons:
        """Why values that fit the writer's schema may not fit the reader's."""
        pair = reader.key, writer.key
        if pair in self._fit or pair in self._around:  # the latter: a type that holds itself
            return
        self._left -= 1
        if self._left < 0:
            yield Reason(at, "there are too many choices of choices", False)
            return
        is_fit, before = True, len(self._fit)
        self._around.append(pair)
        try:
            for each in self._compare(reader, writer, at):
                is_fit = False
                yield each
        finally:
            self._around.pop()
            while not is_fit and len(self._fit) > before:  # some may fit only if this pair does
                self._fit.popitem()
        self._fit[pair] = None
        if not is_fit:
            del self._fit[pair]

    def _compare(self, reader: Shape, writer: Shape, at: str) -> Reasons:
        if writer.is_nothing():
            return
        if writer.choices:
            for name, case in writer.cases():
                yield from self.compare(reader, case, at + name)
            return
        narrow = [word for word in NARROW if writer.words(word)]
        plain = Shape(writer.parts)
        self._left -= len(writer.others) // _CHOICES_PER_COMPARISON
        near = [each for each in writer.others if not are_apart(shape_of([each]), plain)]
        if near:
            is_doubled = any(self._is_within(plain, each) for each in near)
            writer = replace(writer, others=tuple(near), is_doubled=is_doubled)
            narrow.append("oneOf")
        for each in self._plain(reader, writer, at):
            if narrow and each.is_certain:
                yield Reason(each.at, f"{each.what}, unless `{narrow[0]}` rules that out", False)
            else:
                yield each

    def _plain(self, reader: Shape, writer: Shape, at: str) -> Reasons:
        values = writer.values()
        if values is not None:
            self._left -= len(values) // _VALUES_PER_COMPARISON
            yield from _listed(reader, writer, values, at)
            return
        for part in reader.parts:
            if part.said is False:
                yield Reason(at, "nothing is allowed any more")
                return
            yield from word_reasons(part, writer, at)
            if writer.may_be("object"):
                yield from self._fields(part, writer, at)
            if writer.may_be("array"):
                yield from self._items(part, writer, at)
        for choice in reader.choices:
            yield from self._choice(choice, writer, at)

    # -- objects and lists ------------------------------------------------------------------------

    def _fields(self, part: Part, writer: Shape, at: str) -> Reasons:
        names = writer.names()
        for name in names:
            written = writer.field(name) or Shape()
            for inner in fields_of(part, name):
                yield from self.compare(shape_of([inner]), written, f"{at}.{name}")
        for name, inner in part.properties():
            found = None if name in names else writer.field(name)
            if found is not None:
                yield from self.compare(shape_of([inner]), found, f"{at}.{name}")
        beyond, others = part.word("additionalProperties"), writer.other_fields()
        if others is None or beyond is None:
            return
        has_patterns = part.word("patternProperties") or writer.words("patternProperties")
        for each in self.compare(shape_of([part.within(beyond)]), others, f"{at}.*"):
            if has_patterns and each.is_certain:
                what = f"{each.what}, unless `patternProperties` has all names"
                yield Reason(each.at, what, False)
            else:
                yield each

    def _items(self, part: Part, writer: Shape, at: str) -> Reasons:
        said = part.word("items")
        if isinstance(said, dict | bool) and part.word("prefixItems") is None:
            written = writer.items()
            if written is None:
                yield Reason(f"{at}[]", "the first items have schemas of their own", False)
            elif 0 not in writer.words("maxItems"):
                yield from self.compare(shape_of([part.within(said)]), written, f"{at}[]")

    # -- choices of the reader --------------------------------------------------------------------

    def _choice(self, choice: Choice, writer: Shape, at: str) -> Reasons:
        unread: list[str] = []
        for name, case in self._cases(writer):
            trials = dict(self._trials(choice, case, at))
            fitting = [number for number, reasons in trials.items() if not reasons]
            if not trials:
                unread.append(name)
            elif len(trials) == 1:
                yield from next(iter(trials.values()))
            elif not fitting:
                yield _none_reads(choice.word, [*trials.values()], at)
            elif choice.word == "oneOf" and not writer.is_doubled:
                yield _several_read(fitting, [*trials], at)
        if unread:
            nearest = self._nearest(choice, writer, at)
            what = f"no choice of `{choice.word}` reads {', '.join(unread)}{nearest}"
            yield Reason(at, what)

    def _cases(self, writer: Shape) -> Iterator[tuple[str, Shape]]:
        """A writer for each of its types: each may be read by another choice."""
        for kind in kinds_of(writer):
            said = {"type": kind}
            part = self._made.setdefault(kind, Part(said, None, None))
            yield kind, replace(writer, parts=(*writer.parts, part))

    def _trials(self, choice: Choice, writer: Shape, at: str) -> Iterator[tuple[int, list[Reason]]]:
        """Numbers of the branches that may read values of the writer, and why they may not."""
        branches = choice.branches()
        self._left -= len(branches) // _CHOICES_PER_COMPARISON
        for number, branch in enumerate(branches, 1):
            shape = shape_of([branch])
            if are_apart(shape, writer) or (
                choice.word == "oneOf"
                and not writer.is_doubled
                and any(self._is_within(shape, each) for each in writer.others)
            ):
                continue
            yield number, _first(self.compare(shape, writer, at), _MOST_TRIED)

    def _nearest(self, choice: Choice, writer: Shape, at: str) -> str:
        """What is missing for one branch, if an object was written."""
        if writer.types() != {"object"}:
            return ""
        shapes = [shape_of([branch]) for branch in choice.branches()]
        found = [
            _first(self.compare(shape, writer, at), _MOST_TRIED)
            for shape in shapes
            if shape.may_be("object")
        ]
        return f"; the nearest: {min(found, key=len)[0]}" if found and all(found) else ""

    def _is_within(self, shape: Shape, other: Part) -> bool:
        """Whether all that fits a shape also fits another schema."""
        found = shape_of([other])
        return not are_apart(found, shape) and not _first(self.compare(found, shape), 1)


def _first(reasons: Reasons, count: int) -> list[Reason]:
    with closing(reasons):
        return list(islice(reasons, count))


def _listed(reader: Shape, writer: Shape, values: list[Any], at: str) -> Iterator[Reason]:
    """For a writer that lists its values: they are looked at themselves."""
    for value in values:
        is_written = all(does_fit(part, value) is not False for part in writer.parts)
        if is_written and not any(does_fit(part, value) for part in writer.others):
            found = value_reason(reader, value, at)
            if found is not None:
                yield found


def _several_read(fitting: list[int], tried: list[int], at: str) -> Reason:
    if len(fitting) > 1:
        names = " and ".join(map(str, fitting))
        return Reason(at, f"choices {names} of `oneOf` read the same, and only one may")
    others = " or ".join(str(number) for number in tried if number not in fitting)
    what = f"choice {fitting[0]} of `oneOf` reads it, but {others} may read some of it, too"
    return Reason(at, what, False)


def _none_reads(word: str, several: list[list[Reason]], at: str) -> Reason:
    """No branch reads all of it. Together they might, unless one value fits none of them."""
    nearest = min(several, key=len)[0]
    what = f"no choice of `{word}` reads all of it: {nearest}"
    taken: list[Reason] = []
    for reasons in sorted(several, key=len):
        found = (each for each in reasons if each.is_certain and _is_beside(each, taken))
        one = next(found, None)
        if one is None:
            return Reason(at, what, False)
        taken.append(one)
    return Reason(at, what)


def _is_beside(one: Reason, taken: list[Reason]) -> bool:
    """Whether one value can be a misfit for this reason and for the others."""
    return all(
        one == each or not (one.at.startswith(each.at) or each.at.startswith(one.at))
        for each in taken
    )
