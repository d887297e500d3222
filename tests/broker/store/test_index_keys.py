"""Hashes of a batch's keys are those of single keys, whatever way they are counted (S-46)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.store.index.index_keys import unique_key_hash, unique_key_hashes
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.stored.index_hash import key_hash

TOPICS = [f"topic-{n}" for n in range(40)]
"""Enough that their hashes lie in each part of the 32 bits."""


def check(topic: str, keys: list[str]) -> None:
    """Compare both ways with the hash of each key."""
    expected = [key_hash(topic, key) for key in keys]
    assert unique_key_hashes(topic, [key.encode() for key in keys]) == expected
    assert [unique_key_hash(topic, key) for key in keys] == expected


@pytest.mark.parametrize("topic", TOPICS)
def test_keys_of_one_client_that_differ_in_their_last_characters(topic: str) -> None:
    start = "7F0000011A2B18B4AAC2123456780"
    check(topic, [f"{start}{n:03X}" for n in range(0x1FE, 0x303)])
    check(topic, [f"{start}000"])


@pytest.mark.parametrize(
    "keys",
    [
        ["", "a", "ab", "abc"],
        ["a", "b"],
        ["ab", "cd"],
        ["abc", "abd", "xyz", "xyw", "abc"],
        ["abc", "abcd"],
        ["aé", "bé"],
        ["abcé", "abcd", "ébcd"],
        [f"{n:04}" for n in range(600)],
    ],
)
def test_keys_of_any_kind(keys: list[str]) -> None:
    for topic in TOPICS[:8]:
        check(topic, keys)


@pytest.mark.parametrize("topic", TOPICS[:8])
def test_keys_of_acks_that_differ_in_their_middle(topic: str) -> None:
    keys = [f"orders@1@{offset}@payments@17{offset}@broker-a@ack" for offset in range(97, 200, 7)]
    check(topic, keys)
    check(topic, keys[1:])  # all of one length
    check("é", keys[1:])


def test_the_hash_without_an_absolute_value_is_0() -> None:
    # Java's Math.abs(Integer.MIN_VALUE) is negative, and the index counts 0 for it.
    topic, key = "T", "5eeed|7"
    assert java_hash(f"{topic}#{key}") == -(1 << 31)
    check(topic, [key, key])
    assert unique_key_hashes(topic, [key.encode()]) == [0]
    assert unique_key_hashes(topic, [key.encode(), b"0123456"])[0] == 0  # hashed by themselves


@given(st.text(max_size=5), st.lists(st.text(max_size=6), min_size=1, max_size=6))
def test_any_texts(topic: str, keys: list[str]) -> None:
    check(topic, keys)
