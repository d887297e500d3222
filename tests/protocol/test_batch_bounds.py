"""Batches at their bounds, on each of the ways that read them."""

from __future__ import annotations

import struct

import pytest

from pocketmq.protocol.errors import BatchError
from pocketmq.protocol.messages.batch import BatchEntry, decode_batch, first_entry

HEAD = struct.Struct(">iiiii")


def raw(
    body: bytes = b"abc",
    properties: bytes = b"k\x01v\x02",
    flag: int = 0,
    *,
    total: int | None = None,
    body_len: int | None = None,
    properties_len: int | None = None,
) -> bytes:
    """A message of a batch; lengths that are given may be lies."""
    size = HEAD.size + len(body) + 2 + len(properties)
    total = size if total is None else total
    body_len = len(body) if body_len is None else body_len
    properties_len = len(properties) if properties_len is None else properties_len
    head = HEAD.pack(total, 0, 0, flag, body_len)
    return head + body + struct.pack(">h", properties_len) + properties


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (bytes(21), "21 bytes of the batch are left, but a message has at least 22 bytes"),
        (
            raw(b"", b""),
            "has 0 bytes, but must have at least 1 byte .* its message of 22 bytes",
        ),
        (raw(b"abcd", b"", total=99), "must be from 22 to 26 bytes, but is 99"),
        (raw(b"abcd", b"", total=21), "must be from 22 to 26 bytes, but is 21"),
        (raw(b"abcd", b"", total=27, properties_len=1), "must be from 22 to 26 bytes, but is 27"),
        (
            raw(b"abcd", b"", body_len=5),
            "has 5 bytes, but must .* fit into its message of 26 bytes",
        ),
        (
            raw(b"ab", b"xy", properties_len=3),
            "have 3 bytes, but the message has 2 bytes left for them",
        ),
    ],
    ids=["short", "empty", "too-long", "too-small", "one-more", "body", "properties"],
)
def test_a_wrong_length_says_what_is_wrong_and_where(second: bytes, reason: str) -> None:
    first = raw()
    with pytest.raises(BatchError, match=reason) as caught:
        decode_batch(first + second)
    assert str(len(first)) in str(caught.value)


@pytest.mark.parametrize(
    "second",
    [
        raw(flag=29, total=30), raw(flag=29, total=28),
        raw(flag=29, body_len=2), raw(flag=29, body_len=4),
        raw(flag=29, properties_len=3), raw(flag=29, properties_len=5),
    ],
    ids=["total+1", "total-1", "body-1", "body+1", "properties-1", "properties+1"],
)  # fmt: skip
def test_messages_of_equal_lengths_have_to_say_so(second: bytes) -> None:
    assert len(raw()) == 29  # the flag, too: no field is taken for another
    with pytest.raises(BatchError):
        decode_batch(raw(flag=29) + second)
    with pytest.raises(BatchError):
        decode_batch(raw(flag=29) + second + raw(flag=29))


def test_empty_messages_of_equal_lengths_are_refused() -> None:
    with pytest.raises(BatchError, match="the body of a message has 0 bytes"):
        decode_batch(raw(b"", b"") * 2)


@pytest.mark.parametrize("others", [b"", raw(b"abcdef")], ids=["alone", "among-longer-ones"])
def test_a_message_without_properties_is_read(others: bytes) -> None:
    entries = decode_batch(raw(b"xy", b"", flag=5) + others)
    assert entries[0] == BatchEntry(5, b"xy", b"")


def test_the_first_message_may_have_no_properties_but_a_body() -> None:
    assert first_entry(raw(b"x", b"")) == BatchEntry(0, b"x", b"")
    assert first_entry(raw(b"", b"")) is None
    assert first_entry(raw(b"", b"") + b"more") is None


def test_the_first_message_is_not_read_behind_its_end() -> None:
    # A body of 5 in a message of 23; what stands where its properties begin would fit it.
    lying = HEAD.pack(23, 0, 0, 0, 5) + b"abcde" + struct.pack(">h", 23 - 27) + bytes(9)
    assert first_entry(lying) is None
