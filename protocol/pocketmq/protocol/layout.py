"""Fixed fields in a file, declared once: the struct that packs them, and their picture in the docs.

Everything is big endian, as Java writes it. `docs/store.md` is drawn from these declarations.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_KINDS = {"B": "u8", "H": "u16", "I": "u32", "i": "i32", "q": "i64"}
_NUMPY = {"B": "u1", "H": ">u2", "I": ">u4", "i": ">i4", "q": ">i8"}


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
