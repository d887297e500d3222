"""The declared fields of the store's files: where they stand, and the formats that come of them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from pocketmq.pipeline.columns.fixed_fields import HEAD
from pocketmq.protocol.layout import Field, Layout
from pocketmq.protocol.store_layout import BODY_AT, FIXED_SIZE, QUEUE_ENTRY, RECORD

LAYOUT = Layout(
    Field("a", "i", ""), Field("b", "8s", ""), Field("c", "q", ""), Field("rest", "", "")
)


def test_a_pick_passes_over_what_it_does_not_name() -> None:
    picked = LAYOUT.picking("a", "c")
    assert picked.unpack(struct.pack(">i8sq", 1, b"12345678", 2)) == (1, 2)
    assert LAYOUT.picking("a").size == 4  # and ends behind the last that it names


@pytest.mark.parametrize("name", ["rest", "nothing"])
def test_what_has_no_fixed_place_cannot_be_picked(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        LAYOUT.picking("a", name)


def test_columns_and_struct_read_the_same() -> None:
    dtype = np.dtype(LAYOUT.columns({"a": "x", "b": "y", "c": "z"}))
    data = struct.pack(">i8sq", -7, b"12345678", 1 << 40)
    (row,) = np.frombuffer(data, dtype)
    assert (row["x"], bytes(row["y"]), row["z"]) == LAYOUT.struct.unpack(data)


def test_the_sizes_are_those_of_rocketmqs_files() -> None:  # S-1, S-30
    assert (BODY_AT, FIXED_SIZE, HEAD.itemsize) == (88, 91, 88)
    assert QUEUE_ENTRY.struct.size == 20
    places = {"PHYSICALOFFSET": 28, "SYSFLAG": 36, "BORNHOST": 48, "STORETIMESTAMP": 56}
    assert {name: RECORD.offset_of(name) for name in places} == places


@pytest.mark.parametrize("count", [1, 2, 64, 65, 200])
def test_rows_that_differ_in_one_field_are_packed_as_any(count: int) -> None:
    offsets = [1 << 40 | 100 * number for number in range(count)]
    any_rows = b"".join(QUEUE_ENTRY.struct.pack(offset, 100, -7) for offset in offsets)
    assert QUEUE_ENTRY.pack_numbered(offsets, 100, -7) == any_rows
    assert QUEUE_ENTRY.pack_columns(offsets, [100] * count, [-7] * count) == any_rows


@pytest.mark.parametrize("width", [1, 5])
def test_rows_of_any_width_are_packed(width: int) -> None:
    layout = Layout(*(Field(str(number), "i", "") for number in range(width)))
    rows = [tuple(range(at, at + width)) for at in range(200)]
    expected = b"".join(layout.struct.pack(*row) for row in rows)
    assert layout.pack_columns(*zip(*rows, strict=True)) == expected


@pytest.mark.parametrize("name", ["behind", "nothing"])
def test_what_has_no_fixed_place_has_no_position(name: str) -> None:
    layout = Layout(Field("a", "i", ""), Field("rest", "", ""), Field("behind", "i", ""))
    assert layout.offset_of("rest") == 4
    with pytest.raises(KeyError, match=name):
        layout.offset_of(name)


def test_a_field_says_what_it_holds() -> None:
    assert [field.kind for field in LAYOUT.fields] == ["i32", "8 bytes", "i64", "bytes"]
