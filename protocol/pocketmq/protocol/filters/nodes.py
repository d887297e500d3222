"""What a filter is made of: one closure per operation, and what RocketMQ refuses to make one of.

A node's closure takes the message's properties and answers a value: True, False or None (not
known) for a condition. It may raise `NotComparableError`; then nothing matches (Q-12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pocketmq.protocol.errors import FilterError
from pocketmq.protocol.filters.tokens import SqlToken
from pocketmq.protocol.filters.values import NUMBERS, Kind, Value, compare, parse_double
from pocketmq.protocol.scalars import INT32_MAX, INT64_MAX

Properties: TypeAlias = Mapping[str, str]
Closure: TypeAlias = Callable[[Properties], Value]

MAX_DEPTH: Final = 100
"""Operations within operations; each costs a Python frame when a message is judged."""

_SMALLEST_DOUBLE: Final = 4.9e-324


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A part of an expression, compiled."""

    evaluate: Closure
    kind: Kind
    """Of its values that are not None."""
    position: int
    depth: int = 1
    is_condition: bool = False
    constant: tuple[Value] | None = None
    """Its value, of a literal."""
    name: str | None = None
    """Of a property."""


Part: TypeAlias = Node | SqlToken


class Build:
    """Makes nodes of the parts that the grammar found; a method for each rule.

    Every method may raise a `FilterError` without an expression: only its reader knows the text.
    """

    # -- literals and names ---------------------------------------------------------------------

    def string(self, parts: Sequence[SqlToken]) -> Node:
        """A text in single quotes."""
        return _constant(text_of(parts[0]), Kind.TEXT, parts[0])

    def decimal(self, parts: Sequence[SqlToken]) -> Node:
        """An integer; 64 bits wide only if it needs to be."""
        digits = parts[0].text.rstrip("lL")
        number = int(digits) if len(digits) < 20 else INT64_MAX + 1
        if number > INT64_MAX:
            raise self._refused(parts[0], f"{digits[:30]} is beyond 64 bits")
        return _constant(number, Kind.INT if number <= INT32_MAX else Kind.LONG, parts[0])

    def floating(self, parts: Sequence[SqlToken]) -> Node:
        """A number with a point or an exponent; RocketMQ takes neither 0.0 nor infinity."""
        number = parse_double(parts[0].text)
        if not _SMALLEST_DOUBLE <= number < float("inf"):
            reason = f"{parts[0].text[:30]} is no number between 4.9E-324 and 1.8E308; zero is 0"
            raise self._refused(parts[0], reason)
        return _constant(number, Kind.DOUBLE, parts[0])

    def true(self, parts: Sequence[SqlToken]) -> Node:
        """TRUE."""
        return _constant(True, Kind.BOOLEAN, parts[0])

    def false(self, parts: Sequence[SqlToken]) -> Node:
        """FALSE."""
        return _constant(False, Kind.BOOLEAN, parts[0])

    def null(self, parts: Sequence[SqlToken]) -> Node:
        """NULL."""
        return _constant(None, Kind.NOTHING, parts[0])

    def name(self, parts: Sequence[SqlToken]) -> Node:
        """A property; None where the message has none of this name."""
        name = parts[0].text
        return Node(lambda props: props.get(name), Kind.TEXT, parts[0].position, name=name)

    def grouped(self, parts: Sequence[Part]) -> Node:
        """What stands in brackets is what it was."""
        return _node(parts[1])

    # -- signs ----------------------------------------------------------------------------------

    def plus(self, parts: Sequence[Part]) -> Node:
        """A plus changes nothing."""
        return _node(parts[1])

    def negated(self, parts: Sequence[Part]) -> Node:
        """A minus; what is no number becomes None."""
        right = _node(parts[1])
        inner = right.evaluate
        if right.kind not in NUMBERS:

            def nothing(props: Properties) -> Value:
                inner(props)  # it may be no match at all
                return None

            return self._made(nothing, Kind.NOTHING, parts[0], right)

        def negative(props: Properties) -> Value:
            value = inner(props)
            assert isinstance(value, (int, float))
            return -value

        return self._made(negative, right.kind, parts[0], right)

    def inverted(self, parts: Sequence[Part]) -> Node:
        """NOT: None stays None."""
        return self._inverse(self._condition(_node(parts[1])), parts[0].position)

    # -- conditions -----------------------------------------------------------------------------

    def start(self, parts: Sequence[Part]) -> Node:
        """The whole expression."""
        return self._condition(_node(parts[0]))

    def any(self, parts: Sequence[Part]) -> Node:
        """OR of two or more, from the left; the first True ends it."""
        return self._chain(parts, ending=True)

    def all(self, parts: Sequence[Part]) -> Node:
        """AND of two or more, from the left; the first False ends it."""
        return self._chain(parts, ending=False)

    def equal(self, parts: Sequence[Part]) -> Node:
        """`=`: None on the left is None, None on the right only is False."""
        left, right = _node(parts[0]), _node(parts[2])
        for side in (left, right):
            if side.constant == (None,):
                raise self._refused(
                    side, "a comparison with NULL is never true; write IS NULL or IS NOT NULL"
                )
        if (
            left.constant is not None
            and left.kind is Kind.BOOLEAN
            and right.constant is not None
            and right.kind is not Kind.BOOLEAN
        ):
            raise self._refused(
                right,
                "the left side of this comparison is TRUE or FALSE, so the right side cannot be "
                "a number or a text",
            )
        return self._equals(left, right)

    def not_equal(self, parts: Sequence[Part]) -> Node:
        """`<>`: what `=` answers, inverted."""
        return self._inverse(self.equal(parts), _node(parts[0]).position)

    def is_null(self, parts: Sequence[Part]) -> Node:
        """IS NULL: never None."""
        left = _node(parts[0])
        inner = left.evaluate
        return self._made(lambda props: inner(props) is None, Kind.BOOLEAN, left, left)

    def is_not_null(self, parts: Sequence[Part]) -> Node:
        """IS NOT NULL: never None."""
        left = _node(parts[0])
        inner = left.evaluate
        return self._made(lambda props: inner(props) is not None, Kind.BOOLEAN, left, left)

    def ordered(self, parts: Sequence[Part]) -> Node:
        """`>`, `>=`, `<`, `<=`."""
        sign = parts[1]
        assert isinstance(sign, SqlToken)
        return self._ordering(_node(parts[0]), sign.type, _node(parts[2]))

    def between(self, parts: Sequence[Part]) -> Node:
        """BETWEEN: `>=` the one AND `<=` the other."""
        value, low, high = (_node(parts[index]) for index in (0, 2, 4))
        if low.constant is not None and high.constant is not None:
            for side in (low, high):
                if side.kind not in NUMBERS:
                    raise self._refused(side, "BETWEEN needs numbers or properties")
            if compare(high.constant[0], high.kind, low.constant[0], low.kind) < 0:
                raise self._refused(
                    high, "the number after AND must not be less than the number before AND"
                )
        above = self._ordering(value, "NOT_LESS", low)
        below = self._ordering(value, "NOT_GREATER", high)
        return self._chain([above, below], ending=False)

    def not_between(self, parts: Sequence[Part]) -> Node:
        """NOT BETWEEN: `<` the one OR `>` the other."""
        value, low, high = (_node(parts[index]) for index in (0, 3, 5))
        below = self._ordering(value, "LESS", low)
        above = self._ordering(value, "GREATER", high)
        return self._chain([below, above], ending=True)

    def inside(self, parts: Sequence[Part]) -> Node:
        """IN: one of the texts, exactly."""
        return self._membership(parts, wanted=True)

    def not_inside(self, parts: Sequence[Part]) -> Node:
        """NOT IN: there, and none of the texts."""
        return self._membership(parts, wanted=False)

    def text_test(self, parts: Sequence[Part]) -> Node:
        """CONTAINS, STARTSWITH, ENDSWITH."""
        return self._text_test(_node(parts[0]), parts[1], parts[2], wanted=True)

    def not_text_test(self, parts: Sequence[Part]) -> Node:
        """Their NOT forms; None and an empty text are False in both forms."""
        return self._text_test(_node(parts[0]), parts[2], parts[3], wanted=False)

    # -- inside ---------------------------------------------------------------------------------

    def _condition(self, node: Node) -> Node:
        """The node as a condition; a bare property is False where it is set."""
        if node.is_condition:
            return node
        if node.name is None:
            raise self._refused(
                node, "this value is not a condition; compare it with another value"
            )
        inner = node.evaluate
        return self._made(
            lambda props: None if inner(props) is None else False, Kind.BOOLEAN, node, node
        )

    def _chain(self, parts: Sequence[Part], *, ending: bool) -> Node:
        conditions = [self._condition(part) for part in parts if isinstance(part, Node)]
        closures = [condition.evaluate for condition in conditions]

        def chain(props: Properties) -> Value:
            answer: Value = not ending
            for closure in closures:
                value = closure(props)
                if value is ending:
                    return ending
                if value is None:
                    answer = None
            return answer

        return self._made(chain, Kind.BOOLEAN, conditions[0], *conditions)

    def _inverse(self, condition: Node, position: int) -> Node:
        inner = condition.evaluate

        def inverse(props: Properties) -> Value:
            value = inner(props)
            return None if value is None else not value

        return self._made(inverse, Kind.BOOLEAN, position, condition)

    def _equals(self, left: Node, right: Node) -> Node:
        first, first_kind = left.evaluate, left.kind
        second, second_kind = right.evaluate, right.kind
        same_text = first_kind is second_kind is Kind.TEXT

        def equal(props: Properties) -> Value:
            a, b = first(props), second(props)
            # Two missing values are equal; one missing on the left gives unknown, one on the right
            # false.
            if a is None:
                return True if b is None else None
            if b is None:
                return False
            if same_text:
                return a == b
            return compare(a, first_kind, b, second_kind) == 0

        return self._made(equal, Kind.BOOLEAN, left, left, right)

    def _ordering(self, left: Node, sign: str, right: Node) -> Node:
        for side in (left, right):
            if side.is_condition or (side.constant is not None and side.kind not in NUMBERS):
                raise self._refused(
                    side, "only numbers and properties can be compared by <, <=, >, >= and BETWEEN"
                )
        first, first_kind = left.evaluate, left.kind
        second, second_kind = right.evaluate, right.kind
        texts = first_kind is second_kind is Kind.TEXT
        holds = _SIGNS[sign]

        def ordering(props: Properties) -> Value:
            a = first(props)
            # A comparison with a missing value is unknown.
            if a is None:
                return None
            b = second(props)
            if b is None:
                return None
            # Texts are compared as numbers.
            if texts:
                x, y = parse_double(str(a)), parse_double(str(b))
                return holds(compare(x, Kind.DOUBLE, y, Kind.DOUBLE))
            return holds(compare(a, first_kind, b, second_kind))

        return self._made(ordering, Kind.BOOLEAN, left, left, right)

    def _membership(self, parts: Sequence[Part], *, wanted: bool) -> Node:
        left = _node(parts[0])
        if left.name is None:
            raise self._refused(left, "the left side of IN must be a property")
        inner = left.evaluate
        texts = frozenset(
            text_of(part)
            for part in parts[1:]
            if isinstance(part, SqlToken) and part.type == "STRING"
        )

        def membership(props: Properties) -> Value:
            value = inner(props)
            return None if value is None else (value in texts) is wanted

        return self._made(membership, Kind.BOOLEAN, left, left)

    def _text_test(self, left: Node, test: Part, sought: Part, *, wanted: bool) -> Node:
        assert isinstance(test, SqlToken)
        assert isinstance(sought, SqlToken)
        text = text_of(sought)
        inner, holds = left.evaluate, _TEXT_TESTS[test.type]

        def text_test(props: Properties) -> Value:
            if not text:
                return False
            value = inner(props)
            return isinstance(value, str) and holds(value, text) is wanted

        return self._made(text_test, Kind.BOOLEAN, left, left)

    def _made(self, evaluate: Closure, kind: Kind, at: Part | int, *parts: Node) -> Node:
        position = at if isinstance(at, int) else at.position
        depth = 1 + max(part.depth for part in parts)
        if depth > MAX_DEPTH:
            raise FilterError("", position, f"more than {MAX_DEPTH} operations deep")
        return Node(evaluate, kind, position, depth, is_condition=kind is Kind.BOOLEAN)

    def _refused(self, at: Part, reason: str) -> FilterError:
        return FilterError("", at.position, reason)


def text_of(token: SqlToken) -> str:
    """What stands in the quotes of a STRING; two quotes are one."""
    return token.text[1:-1].replace("''", "'")


def _constant(value: Value, kind: Kind, token: SqlToken) -> Node:
    is_condition = kind in (Kind.BOOLEAN, Kind.NOTHING)
    return Node(lambda _: value, kind, token.position, 1, is_condition, (value,))


def _node(part: Part) -> Node:
    assert isinstance(part, Node)
    return part


_SIGNS: Final[dict[str, Callable[[int], bool]]] = {
    "GREATER": lambda order: order > 0,
    "NOT_LESS": lambda order: order >= 0,
    "LESS": lambda order: order < 0,
    "NOT_GREATER": lambda order: order <= 0,
}

_TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda value, text: text in value,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
