"""A TCP proxy between clients and one broker: partitions them, and records their requests.

    tap = Tap("127.0.0.2", 10911, "127.0.0.1", 10911, watch=WireWatch("broker-a", recorder))
    async with tap:
        tap.cut()      # a partition: no byte is forwarded, but connections stay up
        tap.heal()     # held bytes are forwarded, as TCP would retransmit them
        tap.reset()    # every connection is reset

The broker registers the tap's address (`--broker-ip1 127.0.0.2`; `brokerIP1` in RocketMQ), so that
any client connects to the tap, in whatever language it is written.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from pocketmq.runtime.lifetime import StartStop
from pocketmq.simulation.histories.wire_watch import ConnectionWatch, WireWatch

log = structlog.get_logger()

CHUNK_BYTES = 256 * 1024


class Tap(StartStop):
    """Forwards connections from one address to another.

    Args:
        host: Host to listen on.
        port: Port to listen on.
        target_host: Host of the broker.
        target_port: Port of the broker.
        watch: Gets all bytes before they are forwarded.
    """

    def __init__(
        self,
        host: str,
        port: int,
        target_host: str,
        target_port: int,
        *,
        watch: WireWatch | None = None,
    ) -> None:
        self._address = (host, port)
        self._target = (target_host, target_port)
        self._watch = watch
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The address is in use.
        """
        self._server = await asyncio.start_server(self._serve, *self._address, limit=CHUNK_BYTES)

    async def stop(self) -> None:
        """Stop listening, and end every connection."""
        if self._server is not None:
            self._server.close()
        self._open.set()
        self.reset()  # this also ends the tasks
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Hold all bytes of both directions."""
        self._open.clear()

    def heal(self) -> None:
        """Forward held bytes, and all later ones."""
        self._open.set()

    def reset(self) -> None:
        """Reset all connections; new ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        far_writer: asyncio.StreamWriter | None = None
        try:
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target, limit=CHUNK_BYTES)
            self._writers.add(far_writer)
            watch = self._watch.connection() if self._watch is not None else None
            ways = [
                asyncio.ensure_future(self._carry(reader, far_writer, watch, to_broker=True)),
                asyncio.ensure_future(self._carry(far_reader, writer, watch, to_broker=False)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError as exc:
            log.info("tap.not_connected", target=self._target, reason=str(exc))
        finally:
            for each in (writer, far_writer):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        watch: ConnectionWatch | None,
        *,
        to_broker: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._open.wait()
                if watch is not None:
                    (watch.to_broker if to_broker else watch.to_client)(data)
                writer.write(data)
                await writer.drain()
