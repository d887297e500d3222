"""A TCP proxy between clients and one broker: cuts them off, and writes down what they say.

    tap = Tap("127.0.0.2", 10911, "127.0.0.1", 10911, watch=WireWatch("broker-a", recorder))
    async with tap:
        tap.cut()      # nothing passes, and connections stay up: a partition
        tap.heal()     # what was held back arrives, as TCP's next tries would
        tap.reset()    # every connection ends

The broker says the tap's address to its clients (`--broker-ip1 127.0.0.2`; `brokerIP1` in
RocketMQ), so that any client takes the way through the tap, whatever it is written in.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from pocketmq.cluster.histories.wire_watch import ConnectionWatch, WireWatch
from pocketmq.runtime.lifetime import StartStop

log = structlog.get_logger()

CHUNK_BYTES = 256 * 1024


class Tap(StartStop):
    """Forwards every connection that comes to one address to another.

    Args:
        host: Listens here.
        port: And here.
        target_host: The broker's.
        target_port: The broker's.
        watch: Is shown all bytes before they are passed on.
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
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        self._server = await asyncio.start_server(self._serve, *self._address, limit=CHUNK_BYTES)

    async def stop(self) -> None:
        """End every connection and listen no more."""
        if self._server is not None:
            self._server.close()
        self._open.set()
        self.reset()  # which ends the tasks, too
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Let nothing through, in both directions."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything through, also what has waited."""
        self._open.set()

    def reset(self) -> None:
        """End all connections with a reset; new ones are served."""
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
