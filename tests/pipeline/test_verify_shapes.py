"""Records of a known shape are recognised by their tails; their keys hashed as in the index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.pipeline import verify_shapes
from pocketmq.pipeline.columns.fixed_fields import Ints
from pocketmq.pipeline.verify_shapes import ABSENT, Mask, Shapes
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.stored.index_hash import key_hash

TOPICS = ["orders", "bills"]
PLAIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7F), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def _a_shape_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_shapes, "_FEW", 2)


def tail_of(topic: str, properties: dict[str, str]) -> bytes:
    text = encode_properties(properties).encode()
    return bytes((len(topic),)) + topic.encode() + len(text).to_bytes(2, "big") + text


def recognised(tails: list[bytes], queues: list[int], tags: list[str]) -> tuple[Mask, list[Ints]]:
    """What `Shapes` says of records with these tails, and queue entries of these tags."""
    buffer = np.frombuffer(b"".join(bytes(88) + tail for tail in tails), np.uint8)
    lengths = np.array([len(tail) for tail in tails])
    shapes = Shapes(
        [topic.encode() for topic in TOPICS], [java_hash(topic + "#") for topic in TOPICS]
    )
    codes = np.array([tags_code(tag) for tag in tags], np.int64)
    return shapes.recognise(buffer, np.cumsum(lengths + 88), lengths, np.array(queues), codes)


@settings(max_examples=100)
@given(uniq=PLAIN, key=PLAIN, tag=PLAIN)
def test_keys_have_the_hashes_of_the_index(uniq: str, key: str, tag: str) -> None:  # S-46
    properties = {"UNIQ_KEY": uniq, "WAIT": "true", "KEYS": key, "TAGS": tag}
    other = {**properties, "UNIQ_KEY": uniq[::-1], "KEYS": key[::-1]}
    queues = [0, 1, 0, 1]
    tails = [tail_of(TOPICS[queue], properties) for queue in queues[:2]]
    tails += [tail_of(TOPICS[queue], other) for queue in queues[2:]]
    known, hashes = recognised(tails, queues, [tag] * 4)
    assert known.all()
    keys_of = (uniq, uniq[::-1]), (key, key[::-1]), (f"T#{tag}", f"T#{tag}")
    for column, keys in zip(hashes, keys_of, strict=True):
        wanted = [key_hash(TOPICS[queue], keys[row // 2]) for row, queue in enumerate(queues)]
        assert column.tolist() == wanted


def test_a_record_without_keys_has_no_hash() -> None:
    known, hashes = recognised([tail_of("orders", {"a": "b"})] * 3, [0] * 3, [""] * 3)
    assert known.all()
    assert [set(column.tolist()) for column in hashes] == [{ABSENT}] * 3


def test_any_byte_that_is_not_a_key_counts() -> None:
    good = tail_of("orders", {"UNIQ_KEY": "7F0001", "TAGS": "A", "KEYS": "order-1", "x": "y"})
    keys = {
        n
        for key in (b"7F0001", b"order-1")
        for n in range(good.find(key), good.find(key) + len(key))
    }
    for at in range(len(good)):
        for mask in (1, 0x80):
            bad = bytearray(good)
            bad[at] ^= mask
            known, _ = recognised([good, bytes(bad), good], [0] * 3, ["A"] * 3)
            is_plain_key = at in keys and mask == 1
            assert known.tolist() == [True, is_plain_key, True], (at, mask)


@pytest.mark.parametrize("key", ["a b", "ключ", "tab\t"])
def test_a_key_that_is_not_plain_is_left_to_others(key: str) -> None:
    tails = [tail_of("orders", {"KEYS": text}) for text in ("k" * len(key.encode()), key)]
    known, _ = recognised([*tails, tails[0]], [0] * 3, [""] * 3)
    assert known.tolist() == [True, False, True]


def test_the_queue_says_which_topic_and_which_tag_it_must_be() -> None:
    tail = tail_of("orders", {"TAGS": "A"})
    known, _ = recognised([tail] * 6, [0, 0, 1, 1, 0, 0], ["A", "A", "A", "A", "B", "B"])
    assert known.tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    "text", [b"", b"A\x01b", b"A\x01b\x02\x02", b"A\x01b\x02A\x01c\x02", b"\x01b\x02", b"A\x01b\0"]
)
def test_only_regular_properties_make_a_shape(text: bytes) -> None:
    tail = b"\6orders" + len(text).to_bytes(2, "big") + text
    known, _ = recognised([tail] * 2, [0] * 2, [""] * 2)
    assert known.tolist() == [text in (b"", b"A\x01b")] * 2
