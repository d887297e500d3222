"""Random SQL92 expressions and messages, some not quite right; the same for the same seed."""

from __future__ import annotations

import random

NAMES = ["a", "b", "c", "A", "_x", "$y", "TAGS"]

VALUES = [
    "5", "6", "6.5", " 5", "5 ", "+5", "-5", "007", "x", "", "true", "TRUE", "no", "it's", "1e3",
    "0x10", "0x1p3", "NaN", "Infinity", "-Infinity", "inf", "nan", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "-0.0", "0.0", "0", "5d", "5L", "5.", ".5", "1_0",
    "ab", "abc", "b", "größe", "\U0001f6eb", "\u0665", "1e400", "4.9E-324", "5f", "e", "\t5",
]  # fmt: skip

NUMBERS = [
    "0", "5", "6", "-5", "+5", "- 5", "5L", "0L", "007", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "5.0", "6.5", ".5", "5.",
    "5E0", "1e3", "1E-3", "0.0", "1e400", "3000000000", "5.0e", "--5", "-a", "+a",
]  # fmt: skip

TEXTS = [
    "'x'",
    "'ab'",
    "''",
    "'it''s'",
    "'5'",
    "'b'",
    "'größe'",
    "'true'",
    "'a\nb'",
    "'\U0001f6eb'",
]

NOISE = [
    "foo", ";", "#", "!", "==", "!=", "\"x\"", "LIKE", "(", ")", ",", "*", "/", "%", "'", "NULL",
    "TRUE", "NOT", "IS", "AND", "OR", "IN", "BETWEEN", "-- end", "/* c */", "/* c", "--\n", "1",
    ".",
    "a.b", "a-b", "now()", "\u017f", "K", "_",
]  # fmt: skip


class SqlCases:
    """Draws from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def messages(self, count: int) -> list[dict[str, str]]:
        """Messages that have about two of three properties."""
        pick = self._random
        return [
            {name: pick.choice(VALUES) for name in NAMES if pick.random() < 0.65}
            for _ in range(count)
        ]

    def expressions(self, count: int) -> list[str]:
        """Texts, most of them expressions; no two the same."""
        found: dict[str, None] = {}
        while len(found) < count:
            text = self._or(3)
            if self._random.random() < 0.2:
                text = self._spoilt(text)
            found[self._cased(text)] = None
        return list(found)

    def _or(self, depth: int) -> str:
        return self._joined(" OR ", self._and, depth)

    def _and(self, depth: int) -> str:
        return self._joined(" AND ", self._equality, depth)

    def _joined(self, word: str, part: object, depth: int) -> str:
        assert callable(part)
        count = self._random.choices([1, 2, 3], [7, 3, 1])[0]
        return word.join(part(depth) for _ in range(count))

    def _equality(self, depth: int) -> str:
        """Mostly a condition over a property; now and then anything beside anything."""
        pick = self._random
        if pick.random() < 0.06:
            return (
                f"{self._any(depth)} {pick.choice(['=', '<>', '>', '<=', ''])} {self._any(depth)}"
            )
        no, name = pick.choice(["", "NOT "]), self._property()
        match pick.randrange(11):
            case 0 | 1:
                other = pick.choice([self._number(), pick.choice(TEXTS), "TRUE", "FALSE", name])
                sides = [name, other]
                if pick.random() < 0.2:
                    sides.reverse()
                return f" {pick.choice(['=', '<>'])} ".join(sides)
            case 2 | 3 | 4:
                sides = [name, pick.choice([self._number(), self._number(), self._property()])]
                if pick.random() < 0.2:
                    sides.reverse()
                return f" {pick.choice(['>', '>=', '<', '<='])} ".join(sides)
            case 5:
                ends = sorted([self._number(), self._number()], key=len)
                return f"{name} {no}BETWEEN {ends[0]} AND {ends[1]}"
            case 6:
                texts = ", ".join(pick.choice(TEXTS) for _ in range(pick.randint(1, 6)))
                return f"{name} {no}IN ({texts})"
            case 7:
                word = pick.choice(["CONTAINS", "STARTSWITH", "ENDSWITH"])
                return f"{name} {no}{word} {pick.choice(TEXTS)}"
            case 8:
                return f"{name} IS {pick.choice(['', 'NOT '])}NULL"
            case 9 if depth:
                inner = f"{no}({self._or(depth - 1)})"
                return inner + pick.choice(["", "", " IS NULL", " = TRUE", " <> FALSE"])
        return f"{no}{name}"

    def _property(self) -> str:
        name = self._random.choice(NAMES)
        return self._random.choices([name, f"({name})", f"+{name}", f"-{name}"], [30, 2, 1, 1])[0]

    def _number(self) -> str:
        return self._random.choice(NUMBERS)

    def _any(self, depth: int) -> str:
        pick = self._random
        sign = pick.choice(["", "-", "+", "NOT "])
        part = [pick.choice(NAMES), self._number(), pick.choice(TEXTS), "NULL", "TRUE"]
        return sign + pick.choice([*part, f"({self._or(depth - 1)})" if depth else "a"])

    def _spoilt(self, text: str) -> str:
        pick = self._random
        at = pick.randrange(len(text) + 1)
        match pick.randrange(4):
            case 0:
                return text[:at]
            case 1:
                return f"{text} {pick.choice(NOISE)}"
            case 2:
                return f"{text[:at]} {pick.choice(NOISE)} {text[at:]}"
        return text[:at] + text[at + 1 :]

    def _cased(self, text: str) -> str:
        if self._random.random() < 0.8:
            return text
        words = ("NOT", "AND", "OR", "IS", "NULL", "TRUE", "IN", "BETWEEN", "CONTAINS")
        for word in words:
            text = text.replace(word, self._random.choice([word.lower(), word.title()]))
        return text
