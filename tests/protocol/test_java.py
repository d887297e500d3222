"""Java's rules against known values and a slow oracle (S-31, T-9, A-1)."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.java import (
    bucket,
    java_hash,
    java_integer,
    java_split,
    to_int32,
    utf16_key,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("TagC", 2598921),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -2147483648),
        ("polygenelubricantr", 2147483647),
        ("hello world", 1794106052),
        (">17]|", 58773923),  # 62, 93 and 124 are multiples of 31
        ("\u00e9", 233),
        ("\u4f60\u597d", 652829),  # 31 * 0x4f60 + 0x597d
        ("\U0001f600", 1772899),  # 31 * 0xd83d + 0xde00
        ("\ud83d\ude00", 1772899),  # the same two units, left apart
        ("\ud83d", 0xD83D),
    ],
)
def test_strings_hash_as_in_java(text, expected):
    assert java_hash(text) == expected


def test_texts_of_any_length_hash_however_long_numbers_may_be_written() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)  # Python allows no less
    try:
        for text in ("b" * 640, "b" * 641):
            assert java_hash(text) == to_int32(98 * (31 ** len(text) - 1) // 30)
    finally:
        sys.set_int_max_str_digits(before)


def units(text: str) -> list[int]:
    found = []
    for char in map(ord, text):
        if char > 0xFFFF:
            found += [0xD800 + (char - 0x10000 >> 10), 0xDC00 + (char - 0x10000 & 0x3FF)]
        else:
            found.append(char)
    return found


@given(st.text() | st.text(st.characters()))
def test_the_hash_is_31_times_the_hash_before_plus_a_utf16_unit(text):
    value = 0
    for unit in units(text):
        value = to_int32(31 * value + unit)
    assert java_hash(text) == value


@given(st.lists(st.text(st.characters())))
def test_strings_sort_by_utf16_unit(texts):
    assert sorted(texts, key=utf16_key) == sorted(texts, key=units)


@given(st.integers())
def test_casts_keep_the_low_bits(value):
    assert -(2**31) <= to_int32(value) < 2**31
    assert (to_int32(value) - value) % 2**32 == 0


@pytest.mark.parametrize(
    ("text", "of_32", "of_64"),
    [
        *(("0", 0, 0), ("7", 7, 7), ("+7", 7, 7), ("-7", -7, -7), ("-0", 0, 0), ("000", 0, 0)),
        ("2147483647", 2**31 - 1, 2**31 - 1),
        ("2147483648", None, 2**31),
        ("-2147483648", -(2**31), -(2**31)),
        ("-2147483649", None, -(2**31) - 1),
        ("9223372036854775807", None, 2**63 - 1),
        ("9223372036854775808", None, None),
        ("-9223372036854775808", None, -(2**63)),
        ("-9223372036854775809", None, None),
        ("0" * 5000 + "8", 8, 8),
        *((text, None, None) for text in ("9" * 20, "9" * 5000, "", "+", "-", "--7", "+-7", "x")),
        *((text, None, None) for text in (" 7", "7 ", "1_0", "1.0", "0x7", "\u00b2", "7\n")),
    ],
    ids=lambda value: str(value)[:22],
)
def test_a_number_is_one_where_java_reads_it(
    text: str, of_32: int | None, of_64: int | None
) -> None:
    assert (java_integer(text), java_integer(text, 64)) == (of_32, of_64)


@pytest.mark.parametrize(
    ("value", "buckets", "expected"),
    [(7, 3, 1), (-7, 3, 1), (-8, 3, 2), (-6, 3, 0), (-(2**31), 7, 2)],
)
def test_a_bucket_is_that_of_javas_remainder(value, buckets, expected):  # T-9
    assert bucket(value, buckets) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 1000))
def test_a_bucket_is_the_absolute_value_of_javas_remainder(value, buckets):  # P-51
    assert bucket(value, buckets) == abs(math.fmod(value, buckets))  # which keeps value's sign
    assert 0 <= bucket(value, buckets) < buckets


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,,", ["a"]),
        ("a,,b", ["a", "", "b"]),
        (",", []),
        (",a", ["", "a"]),
    ],
)
def test_texts_are_split_as_in_java(text: str, parts: list[str]) -> None:
    assert java_split(text, ",") == parts
    assert java_split(text.replace(",", " "), " ") == parts
