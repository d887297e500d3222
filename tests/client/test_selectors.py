"""Selectors, with Java's hash codes."""

from __future__ import annotations

import pytest

from pocketmq.client import Message, MessageQueue, select_by_hash, select_by_random
from pocketmq.client.producer.selectors import java_hash_code, select_by_machine_room

QUEUES = [MessageQueue("T", "a", i) for i in range(7)]
MESSAGE = Message("T", b"x")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("polygenelubricants", -(2**31)),
        (True, 1231),
        (False, 1237),
        (7, 7),
        (-7, -7),
        (2**31, -(2**31)),
        (2**40 + 1, 257),
        (-(2**40), -256),
        (b"", 1),
        (b"\xff", 30),
    ],
)
def test_hash_codes_are_those_of_java(value: object, expected: int) -> None:  # P-51, T-9
    assert java_hash_code(value) == expected


def test_a_key_whose_hash_is_the_smallest_int_has_a_queue() -> None:  # T-9
    assert select_by_hash(QUEUES, MESSAGE, "polygenelubricants") == QUEUES[(2**31) % 7]
    assert select_by_hash(QUEUES, MESSAGE, -9) == QUEUES[2]  # remainder first, then its absolute


def test_random_chooses_any_and_machine_room_none() -> None:  # P-51
    assert {select_by_random(QUEUES, MESSAGE, None) for _ in range(200)} == set(QUEUES)
    assert select_by_machine_room(QUEUES, MESSAGE, None) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-(2**31), -(2**31)),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),  # Long.hashCode
        (2**32 - 1, -1),
        (-(2**31) - 1, -(2**31)),
        (b"\x7f", 31 + 127),
        (b"\x80", 31 - 128),
        (b"ab", (31 + 97) * 31 + 98),
        (2.5, 49529),  # as its text, "2.5"
    ],
)
def test_hash_codes_at_the_edges_of_java_s_types(value: object, expected: int) -> None:  # T-9
    assert java_hash_code(value) == expected
