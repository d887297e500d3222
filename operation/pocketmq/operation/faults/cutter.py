"""Cuts one direction of a connection into frames, and keeps the bytes of each. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import MAX_FRAME_BYTES, FrameDecoder


class Frame(NamedTuple):
    """A frame that is complete."""

    raw: bytes
    command: Command | None
    """None: not to be judged, because its beginning has already passed, or nobody can read it."""


class FrameCutter:
    """Frames of a byte stream.

    Args:
        passed: The beginning of a frame that was passed on before anybody cut.
    """

    def __init__(self, passed: bytes = b"") -> None:
        self._buffer = bytearray(passed)
        self._passed = len(passed)
        self._is_lost = False

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that are complete now."""
        # After a broken frame everything is passed on as it comes.
        if self._is_lost:
            return [Frame(bytes(data), None)]
        self._buffer += data
        frames: list[Frame] = []
        while len(self._buffer) >= 4:
            # Signed, as Java reads it: a negative length is a broken stream and not a long frame.
            length = int.from_bytes(self._buffer[:4], signed=True)
            # The next frame cannot be found, so the real reader gets the bytes as they came.
            if not 4 <= length <= MAX_FRAME_BYTES - 4:
                self._is_lost = True  # whoever reads it closes the connection
                return [*frames, Frame(self.rest(), None)]
            if len(self._buffer) < 4 + length:
                break
            raw = bytes(self._buffer[: 4 + length])
            del self._buffer[: 4 + length]
            # The beginning of this frame was passed on before there was a rule, so the rest
            # follows.
            if self._passed:
                frames.append(Frame(raw[self._passed :], None))
                self._passed = 0
                continue
            # Each frame gets its own decoder: an unreadable one must not spoil the next.
            commands = FrameDecoder().feed(raw)
            # An unreadable frame has no command: the real reader reports the fault.
            frames.append(Frame(raw, commands[0] if commands else None))
        return frames

    def rest(self) -> bytes:
        """What has come of a frame that is not complete, to be passed on; it is forgotten here."""
        # Leave out what was passed on before: the reader has it already.
        rest = bytes(self._buffer[self._passed :])
        self._buffer.clear()
        self._passed = 0
        return rest
