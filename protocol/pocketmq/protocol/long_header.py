"""A frame whose header is over `budget.header_bytes`: passed over, and its sender told.

Nothing of it is kept but both ends of the header. There stands the opaque: encoding 1 has it at the
begin, our msgpack map too, and JSON, whose keys Java sorts, behind the fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pocketmq.protocol.codecs.rocketmq import FIXED_BYTES, fixed_part
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import OverBudgetError

KEPT_BYTES = 512
"""Of each end."""

_JSON_NUMBER = rb'"%s"\s*:\s*(-?[0-9]{1,10})(?=[^0-9])'
_PACKED_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xD0: 1, 0xD1: 2, 0xD2: 4}
_PACKED_NAME = {"opaque": b"\xa6opaque", "flag": b"\xa4flag", "code": b"\xa4code"}


@dataclass(frozen=True, slots=True)
class TooLong:
    """What is to be answered."""

    request: Command
    error: OverBudgetError


class LongHeader:
    """Reads a frame to its end and keeps next to nothing.

    Args:
        encoding: Of its header.
        header_bytes: How long the header is.
        body_bytes: And what follows it.
        limit: How long a header may be.
    """

    __slots__ = ("_encoding", "_head", "_header_bytes", "_header_left", "_left", "_limit", "_tail")

    def __init__(self, encoding: Encoding, header_bytes: int, body_bytes: int, limit: int) -> None:
        self._encoding = encoding
        self._header_bytes = header_bytes
        self._limit = limit
        self._header_left = header_bytes
        self._left = header_bytes + body_bytes
        self._head = b""
        self._tail = b""

    @property
    def is_over(self) -> bool:
        """Whether the next byte belongs to another frame."""
        return not self._left

    def feed(self, data: memoryview) -> int:
        """Take what belongs to the frame; returns how many bytes that are."""
        # The next frame may begin in the same read.
        taken = min(self._left, len(data))
        header = data[: min(self._header_left, taken)]
        # Keep both ends of the header: the opaque is near one of them.
        if missing := KEPT_BYTES - len(self._head):
            self._head += header[:missing]
        self._tail = (self._tail + bytes(header[-KEPT_BYTES:]))[-KEPT_BYTES:]
        self._header_left -= len(header)
        self._left -= taken
        return taken

    def error(self) -> OverBudgetError:
        """Why it was refused."""
        return OverBudgetError(
            "bytes of a header", self._header_bytes, self._limit, "budget.header_bytes",
            "shorten its fields, or raise it", ResponseCode.INVALID_PARAMETER,
        )  # fmt: skip

    def request(self) -> Command | None:
        """Whom to answer; None when neither end of the header says it."""
        # The fixed part at the front holds code, opaque and flag.
        if self._encoding is Encoding.ROCKETMQ:
            if len(self._head) < FIXED_BYTES:
                return None
            code, opaque, flag = fixed_part(self._head)
            return self._command(code, opaque, flag)
        number = self._json if self._encoding is Encoding.JSON else self._packed
        opaque_found = number("opaque")
        # Without the opaque, no answer could be matched to its request.
        if opaque_found is None:
            return None
        return self._command(number("code") or 0, opaque_found, number("flag") or 0)

    def _command(self, code: int, opaque: int, flag: int) -> Command:
        return Command(code, None, b"", opaque, flag, encoding=self._encoding)

    def _json(self, name: str) -> int | None:
        pattern = _JSON_NUMBER % name.encode()
        # Search the end first: Java sorts the keys, so `opaque` comes after `extFields`.
        for end in (self._tail, self._head):
            # Take the last match: a text before it may contain the same name.
            if found := re.findall(pattern, end):
                number = int(found[-1])
                # An opaque has 32 bits; a larger number is part of some text.
                return number if -(2**31) <= number < 2**31 else None
        return None

    def _packed(self, name: str) -> int | None:
        key = _PACKED_NAME[name]
        # Search the front first: PocketMQ writes the opaque there.
        for end in (self._head, self._tail):
            at = end.find(key)
            if at >= 0:
                number = _first_number(end[at + len(key) :][:5])
                if number is not None:
                    return number
        return None


def _first_number(data: bytes) -> int | None:
    """The integer of 32 bits at most that msgpack data begin with."""
    if not data:
        return None
    first, size = data[0], _PACKED_BYTES.get(data[0], 0)
    if size:
        packed = data[1 : 1 + size]
        number = int.from_bytes(packed, signed=first >= 0xD0) if len(packed) == size else None
    elif first < 0x80:
        number = first
    else:
        number = first - 0x100 if first >= 0xE0 else None
    # A larger number does not fit a Java int.
    return number if number is not None and number < 2**31 else None
