"""Fixed fields in a file, declared once: the struct that packs them, and their picture in the docs.

Everything is big endian, as Java writes it. `docs/store-files.md` is drawn from these declarations.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_KINDS = {"B": "u8", "H": "u16", "I": "u32", "i": "i32", "q": "i64"}
_NUMPY = {"B": "u1", "H": ">u2", "I": ">u4", "i": ">i4", "q": ">i8"}
_ROWS = 64
"""So many rows are packed by one `struct`: it takes 32 bytes a field, and is kept."""


class Field(NamedTuple):
    """One field."""

    name: str
    """RocketMQ's name, where it has one."""
    code: str
    """Its `struct` code; "" for bytes whose number the field before it says."""
    meaning: str

    @property
    def size(self) -> int | None:
        """Its bytes; None when the field before it says."""
        return struct.calcsize(">" + self.code) if self.code else None

    @property
    def kind(self) -> str:
        """`i32`, `16 bytes`, or `bytes` for as many as the field before it says."""
        if not self.code:
            return "bytes"
        return _KINDS.get(self.code) or f"{self.size} bytes"


class Layout:
    """Fields one behind the other, without gaps."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields
        self.struct = self.struct_with({})
        """Packs and unpacks the fields before the first of no fixed size."""

    def struct_with(self, codes: Mapping[str, str]) -> struct.Struct:
        """`struct`, with other codes for the fields of these names."""
        return struct.Struct(
            ">" + "".join(codes.get(field.name, field.code) for field in self._head())
        )

    def pack_columns(self, *columns: Sequence[object]) -> bytes:
        """Rows one behind the other: `struct.pack` of each, in a fourth of the time.

        Args:
            columns: a value for each row, of each field; all are equally long.
        """
        count, width = len(columns[0]), len(columns)
        values: list[object] = [None] * (width * count)
        for number, column in enumerate(columns):
            values[number::width] = column
        codes = self.struct.format[1:]
        if count <= _ROWS:
            return _rows(codes, count).pack(*values)
        step = _ROWS * width
        return b"".join(
            [
                _rows(codes, len(piece) // width).pack(*piece)
                for piece in (values[at : at + step] for at in range(0, len(values), step))
            ]
        )

    def pack_numbered(self, numbers: Sequence[int], *others: object) -> bytes:
        """`pack_columns` of rows that differ in their first field only, in half the time.

        Args:
            numbers: the first field of each row.
            others: what the other fields have in all of them.
        """
        count = len(numbers)
        if count > _ROWS:
            return self.pack_columns(numbers, *([other] * count for other in others))
        codes = self.struct.format[1:]
        rest = struct.pack(">" + codes[1:], *others)
        values: list[object] = [rest] * (2 * count)
        values[0::2] = numbers
        return _rows(f"{codes[0]}{len(rest)}s", count).pack(*values)

    def _head(self) -> Iterator[Field]:
        for field in self.fields:
            if not field.code:
                return
            yield field

    def picking(self, *names: str) -> struct.Struct:
        """A struct of these fields only, in the layout's order; what lies between is passed over.

        Raises:
            KeyError: there is no such field, or it has no fixed place.
        """
        codes, wanted = "", set(names)
        for field in self._head():
            if not wanted:
                break
            codes += field.code if field.name in wanted else f"{field.size}x"
            wanted.discard(field.name)
        if wanted:
            raise KeyError(", ".join(sorted(wanted)))
        return struct.Struct(">" + codes)

    def columns(self, names: Mapping[str, str]) -> list[tuple[str, str]]:
        """The fields of fixed size as NumPy's `dtype` takes them: (name, type code).

        Args:
            names: what each field is called there, in the layout's order.

        Raises:
            KeyError: a field has no name.
        """
        return [
            (names[field.name], _NUMPY.get(field.code) or f"V{field.size}")
            for field in self._head()
        ]

    def offset_of(self, name: str) -> int:
        """Position of a field's first byte.

        Raises:
            KeyError: there is no such field, or it has no fixed place.
        """
        at = 0
        for field in self.fields:
            if field.name == name:
                return at
            if field.size is None:
                break
            at += field.size
        raise KeyError(name)


@lru_cache(maxsize=2 * _ROWS)
def _rows(codes: str, count: int) -> struct.Struct:
    """Packs so many rows of these fields."""
    return struct.Struct(">" + codes * count)
