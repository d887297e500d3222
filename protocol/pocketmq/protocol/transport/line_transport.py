"""`LineTransport`: a socket's transport as the inner end of a line sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

Write: TypeAlias = Callable[[bytes | bytearray | memoryview], object]


class LineTransport(asyncio.Transport):
    """Everything goes to the socket's transport, but for writes, which a line may take.

    Args:
        transport: Of the socket.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._to = transport
        # Bound directly, which spares a call each.
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_write_buffer_size = transport.get_write_buffer_size  # type: ignore[method-assign]

    def write_to(self, write: Write) -> None:
        """From now on `write` is this."""
        self.write = write  # type: ignore[assignment, method-assign]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._to.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._to.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._to.pause_reading()

    def resume_reading(self) -> None:
        self._to.resume_reading()

    def close(self) -> None:
        self._to.close()

    def abort(self) -> None:
        self._to.abort()
