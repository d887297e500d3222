"""Frames of sends that are alike: the same header again and again, but for four values (E-20).

A producer sends thousands of messages to one queue, and their headers differ in the opaque, the
moment of birth and the properties. Making a header and encoding it costs more than a microsecond,
filling a template a third of one. What the codec writes for a header with marks in place of the
values is cut at the marks; the tests decode both and compare.

    length i32 | word, constant | opaque u32 | constant | birth u64 | constant | properties
               | constant

Encoding 77 only. The numbers have their full width, which the codec would shorten; msgpack allows
both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from pocketmq.protocol.command import CODECS, Encoding
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.frame import MAX_FRAME_BYTES
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2

# The first two bytes of each number's encoding occur in no text: 0xCE and 0xCF begin a character
# of UTF-8 that 0x7F does not continue.
_OPAQUE_MARK: Final = 0x7F5A17C3
_BIRTH_MARK: Final = 0x7F5A17C37F5A17C3
_TEXT_MARK: Final = "\x01\x02\x03"
_WORD: Final = struct.Struct(">I")
_MOST_LAYOUTS: Final = 128

_Layout = tuple[Callable[..., bytes], int, bytes, bytes]
"""What packs a head; bytes after the length word without a body; first constant; the one before
the properties."""


class SendTemplate:
    """Heads of requests that differ in opaque, birth and properties.

    Args:
        header: Of any of them.
        version: Stamped on all.

    Raises:
        FrameError: the header holds a mark; encode it by the codec.
    """

    __slots__ = ("_before_birth", "_before_text", "_layouts", "_start", "_tail", "kind")

    def __init__(
        self, header: SendMessageRequestHeaderV2 | SendMessageRequestHeader, version: int
    ) -> None:
        self.kind = type(header)
        # Encode the header once, with marks that no text can contain in place of what differs.
        marked = msgspec.structs.replace(header, born_timestamp=_BIRTH_MARK, properties=_TEXT_MARK)
        encoded = CODECS[Encoding.MSGPACK].encode_request(
            marked, header.CODE, _OPAQUE_MARK, 0, version
        )
        mark, text = _WORD.pack(_OPAQUE_MARK), _TEXT_MARK.encode()
        self._start, rest = _cut(encoded, b"\xce", mark)
        self._before_birth, rest = _cut(rest, b"\xcf", 2 * mark)
        self._before_text, self._tail = _cut(rest, b"", b"%c%b" % (0xA0 | len(text), text))
        self._layouts: dict[int, _Layout] = {}

    def head(self, opaque: int, born_ms: int, properties: str, body_bytes: int) -> bytes:
        """What comes before the body: length, header word and header.

        Raises:
            FrameError: the frame would be longer than a peer accepts.
        """
        text = properties.encode()
        # Layouts are cached by the length of the properties, which is often the same.
        layout = self._layouts.get(len(text))
        if layout is None:
            layout = self._make_layout(len(text))
        pack, header_bytes, start, before_text = layout
        total = header_bytes + body_bytes
        if total > MAX_FRAME_BYTES - 4:
            raise FrameError(
                f"a frame has {total} bytes, but may have at most {MAX_FRAME_BYTES} bytes"
            )
        return pack(
            total, start, opaque, self._before_birth, born_ms, before_text, text, self._tail
        )

    def _make_layout(self, text_bytes: int) -> _Layout:
        if len(self._layouts) >= _MOST_LAYOUTS:
            # Bound the cache: each new length adds a layout.
            self._layouts.clear()
        text_head = msgspec.msgpack.encode("x" * text_bytes)[: -text_bytes or None]
        before_text = self._before_text + text_head
        packed = struct.Struct(
            f">I{4 + len(self._start)}sI{len(self._before_birth)}sQ{len(before_text)}s"
            f"{text_bytes}s{len(self._tail)}s"
        )
        # The length word and the header word are not part of the header itself.
        header_bytes = packed.size - 8
        start = _WORD.pack(Encoding.MSGPACK << 24 | header_bytes) + self._start
        layout = (packed.pack, header_bytes + 4, start, before_text)
        self._layouts[text_bytes] = layout
        return layout


def _cut(encoded: bytes, code: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """What comes before a mark, the code of its type included, and what after it."""
    before, *after = encoded.split(code + mark)
    # If the header's own text contains the mark, the template cannot be used.
    if len(after) != 1:
        raise FrameError(
            "the text of the header contains a mark of the send template, so no template can be "
            "made from this header"
        )
    return before + code, after[0]
