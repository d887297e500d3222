"""The remoting protocol in a few lines of blocking code, as an oracle for our own.

It shares no line with `pocketmq.protocol`: a mistake there is not repeated here.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parity.wire import decode


@dataclass(frozen=True)
class RawHeader:
    """What the oracle knows of a frame; `code` is the outcome in a response."""

    code: int
    opaque: int
    flag: int
    ext: dict[str, str]
    body: bytes

    @property
    def is_response(self) -> bool:
        """Bit 0 of the flag."""
        return bool(self.flag & 1)

    @property
    def is_oneway(self) -> bool:
        """Bit 1 of the flag: nobody answers."""
        return bool(self.flag & 2)


def parse(frame: bytes) -> tuple[str, RawHeader]:
    """Encoding and header of a frame, read here by hand (E-3, E-4)."""
    read = decode(frame)
    return read.encoding, RawHeader(read.code, read.opaque, read.flag, read.ext, read.body)


def encode_json(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A whole frame with a JSON header (E-1, E-2)."""
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def split_frames(data: bytes | bytearray) -> Iterator[bytes]:
    """The complete frames at the start of `data`, length words included."""
    at = 0
    while len(data) - at >= 4:
        end = at + 4 + int(struct.unpack_from(">i", data, at)[0])
        if end > len(data):
            return
        yield bytes(data[at:end])
        at = end


def ask(
    address: str,
    code: int,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    timeout_s: float = 60.0,
) -> RawHeader:
    """Send one request on a connection of its own and wait for the response.

    Raises:
        OSError: nobody listens, the peer closed, or it took longer than `timeout_s`.
    """
    host, _, port = address.rpartition(":")
    header = {
        "code": code, "language": "JAVA", "version": 479, "opaque": 1, "flag": 0,
        "extFields": ext or {},
    }  # fmt: skip
    with socket.create_connection((host, int(port)), timeout=timeout_s) as peer:
        peer.sendall(encode_json(header, body))
        length = _receive(peer, 4)
        frame = length + _receive(peer, *struct.unpack(">i", length))
    return parse(frame)[1]


def _receive(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise ConnectionResetError("the peer closed before its whole answer was there")
        data += part
    return bytes(data)
