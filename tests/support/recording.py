"""A TCP proxy that writes down every frame, for golden files from a real conversation."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from support.raw_remoting import split_frames


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """One frame in the order in which the proxy saw it."""

    connection: int
    """Number of the connection, from 0, in the order of acceptance."""
    from_client: bool
    """Whether the side that connected sent it."""
    data: bytes
    """The frame, length word included."""


@dataclass
class RecordingProxy:
    """Forwards `listen` to `target` (both `host:port`) between `with` and its end."""

    listen: str
    target: str
    frames: list[RecordedFrame] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        """Listen; the target may start later."""
        server = socket.create_server(_address(self.listen))
        self._sockets.append(server)
        self._thread(self._accept, server)
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections; `frames` stays."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _thread(self, run: object, *args: object) -> None:
        assert callable(run)
        threading.Thread(target=run, args=args, daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        number = 0
        with suppress(OSError):  # closed by __exit__
            while True:
                client, _ = server.accept()
                try:
                    target = socket.create_connection(_address(self.target))
                except ConnectionRefusedError:
                    client.close()
                    continue
                self._sockets += [client, target]
                self._thread(self._pump, client, target, number, True)
                self._thread(self._pump, target, client, number, False)
                number += 1

    def _pump(
        self, source: socket.socket, sink: socket.socket, connection: int, from_client: bool
    ) -> None:
        pending = bytearray()
        with suppress(OSError):
            while part := source.recv(1 << 16):
                pending += part
                with self._lock:
                    for frame in list(split_frames(pending)):
                        self.frames.append(RecordedFrame(connection, from_client, frame))
                        del pending[: len(frame)]
                sink.sendall(part)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)
