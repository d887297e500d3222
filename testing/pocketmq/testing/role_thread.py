"""One role in its own thread: start, freeze, thaw, kill, stop.

These do to a thread's event loop what signals do to a process:

    freeze   the loop blocks: it reads no socket and fires no timer, and its connections stay up
    thaw     the loop continues, with the timers that became due meanwhile
    kill     its sockets are reset and its tasks cancelled, and no later write reaches the disk;
             earlier writes stay, as after SIGKILL
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from pocketmq.broker.store.disk.disk_worker import DiskWorker
from pocketmq.broker.store.disk.ruled_disk import RuledDisk
from pocketmq.cluster.errors import WrongStateError
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.faulty_tcp import FaultyTcp
from pocketmq.operation.membership.options import SecurityOptions
from pocketmq.operation.role_seams import role_seams
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.command import VERSION_5_3_3, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import MakeProtocol, OnChannel
from pocketmq.protocol.transport.tcp import TcpListener, TcpStreams
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.runtime.tasks import TaskOwner
from pocketmq.testing.killable_stream import KillableStream

T = TypeVar("T")

PERMISSIVE: Final = SecurityOptions()
"""TLS and plaintext on each port, as RocketMQ's roles have them."""


class Server(Protocol):
    """A nameserver, a broker or a proxy."""

    @property
    def port(self) -> int: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


MakeServer = Callable[["RoleSeams", int], Server]
"""Makes a server from the seams of a start and the port to listen on (0: any)."""


class RoleSeams:
    """Time, network and disk of one start of a role.

    Args:
        name: Name of the role, also in fault rules.
        clock: The role's own clock; a cluster's clocks are moved together.
        security: TLS of its ports and connections, and whether members must prove who they are.
    """

    def __init__(self, name: str, clock: Clock, security: SecurityOptions) -> None:
        self.clock = clock
        # The tasks end with the role's loop.
        self._watches = TaskOwner(f"files of {name}")
        # All events: the report of a failed test needs those that roles otherwise record only on
        # request.
        made = role_seams(name, clock, security, self._watches, TrackedNetwork, all_events=True)
        self.events = made.events
        self.sockets = made.sockets
        self.network = made.network
        self.members = made.members
        self.disk = KillableDisk(made.rules)

    def cut(self) -> None:
        """Reset every connection, and drop all later writes to the disk."""
        # The disk first: resetting a connection wakes tasks, which must not be able to save any
        # more.
        self.disk.cut()
        self.sockets.cut()


class RoleThread:
    """A role over all its starts.

    Args:
        name: Name of the role, such as `broker-a`.
        role: `broker`, `nameserver` or `proxy`.
        thread_name: Name of its threads, by which log lines are assigned to the role.
        make: Makes a server for each start.
        make_clock: Makes the clock for each start, inside the role's loop.
        host: Where its server listens.
        security: TLS of its ports and connections, and whether members must prove who they are.
    """

    def __init__(
        self,
        name: str,
        role: str,
        thread_name: str,
        make: MakeServer,
        make_clock: Callable[[], Clock],
        *,
        host: str = "127.0.0.1",
        security: SecurityOptions = PERMISSIVE,
    ) -> None:
        self._security = security
        self.name = name
        self.role = role
        self.port = 0
        self._host = host
        self._thread_name = thread_name
        self._make = make
        self._make_clock = make_clock
        self._thread: LoopThread | None = None
        self._server: Server | None = None
        self._seams: RoleSeams | None = None
        self._stillness: _Stillness | None = None

    # -- reading ----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """`running`, `frozen` or `ended`."""
        if self._thread is None:
            return "ended"
        return "running" if self._stillness is None else "frozen"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the current start."""
        if self._thread is None:
            raise WrongStateError(self.name, "run", self.state)
        return self._thread.loop

    @property
    def address(self) -> str:
        """`host:port`; the port stays the same over all starts."""
        return address_text(self._host, self.port)

    @property
    def clock(self) -> Clock | None:
        """The clock of the current start; None when it does not run."""
        return None if self._seams is None else self._seams.clock

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the role, on the same port as before."""
        if self._thread is not None:
            raise WrongStateError(self.name, "start", self.state)
        thread = LoopThread(self._thread_name)
        try:
            await thread.run(self._begin())
        except BaseException:
            # Nothing else ends this thread, as the role does not have it yet.
            await asyncio.to_thread(thread.stop)
            raise
        self._thread = thread

    async def stop(self) -> None:
        """Stop it orderly; a frozen role is thawed first."""
        if self._thread is None:
            return
        if self._stillness is not None:
            # A blocked loop could not run `stop`.
            self.thaw()
        assert self._server is not None
        await self._thread.run(self._server.stop())
        await self._end()

    async def freeze(self) -> None:
        """Block its loop; returns when it is blocked."""
        if self.state != "running" or self._thread is None:
            raise WrongStateError(self.name, "freeze", self.state)
        here = asyncio.get_running_loop()
        # `freeze` returns when the loop stands still: before that, a frame might still be answered.
        stands: asyncio.Future[None] = here.create_future()
        stillness = self._stillness = _Stillness(
            lambda: here.call_soon_threadsafe(stands.set_result, None)
        )
        self._thread.loop.call_soon_threadsafe(stillness.begin)
        await stands

    def thaw(self) -> None:
        """Unblock its loop."""
        if self._stillness is None:
            raise WrongStateError(self.name, "thaw", self.state)
        stillness, self._stillness = self._stillness, None
        stillness.end(lambda: None)

    async def kill(self) -> None:
        """End it at once, so that it cannot save anything."""
        if self._thread is None or self._seams is None:
            raise WrongStateError(self.name, "kill", self.state)
        seams = self._seams
        stillness, self._stillness = self._stillness, None
        if stillness is None:
            self._thread.loop.call_soon_threadsafe(seams.cut)
        else:
            stillness.end(seams.cut)  # before any other callback of the loop
        await asyncio.to_thread(seams.disk.close_workers)
        # Sockets must be gone before `restart` binds the same port.
        await self._thread.run(seams.sockets.gone())
        abort = getattr(self._server, "abort", None)  # a proxy has sockets beside the network's
        if abort is not None:
            await self._thread.run(abort())
        await self._end()

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something in its loop."""
        if self._thread is None:
            # Otherwise Python warns of a coroutine that was never awaited, on top of the error.
            coroutine.close()
            raise WrongStateError(self.name, "run", self.state)
        return await self._thread.run(coroutine)

    async def _begin(self) -> None:
        self._seams = RoleSeams(self.name, self._make_clock(), self._security)
        self._server = self._make(self._seams, self.port)
        await self._server.start()
        # The port stays the same over all starts: clients and nameservers know the role by its
        # address.
        self.port = self._server.port

    async def _end(self) -> None:
        thread, self._thread = self._thread, None
        self._seams = self._server = None
        # In another thread: `stop` joins, which would block the control's loop.
        if thread is not None:
            await asyncio.to_thread(thread.stop)


class _Stillness:
    """Blocks a loop from `begin`, called inside it, to `end`, called from another thread."""

    def __init__(self, on_begun: Callable[[], object]) -> None:
        self._on_begun = on_begun
        self._over = threading.Event()
        self._then: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Block the loop that calls this."""
        self._on_begun()
        self._over.wait()
        self._then()

    def end(self, then: Callable[[], None]) -> None:
        """Unblock the loop; it calls `then` before anything else."""
        # Before the event is set: the blocked loop reads `_then` as soon as it wakes.
        self._then = then
        self._over.set()


class TrackedNetwork(FaultyTcp):
    """Real sockets with fault rules; all of them can be reset at once."""

    def __init__(
        self, book: RuleBook, *, server_tls: ServerTls | None, client_tls: ClientTls | None
    ) -> None:
        super().__init__(book, server_tls=server_tls, client_tls=client_tls)
        self._is_cut = False
        self._channels: set[Channel] = set()
        self._listeners: list[TcpListener] = []
        self._streams: set[KillableStream] = set()
        self._stream_listeners: list[TcpStreams] = []

    async def serve(
        self,
        host: str,
        port: int,
        dispatcher: Dispatcher,
        *,
        version: int = VERSION_5_3_3,
        on_open: OnChannel | None = None,
        on_close: OnChannel | None = None,
    ) -> TcpListener:
        def opened(channel: Channel) -> None:
            self._track(channel)
            if on_open is not None:
                on_open(channel)

        listener = await super().serve(
            host, port, dispatcher, version=version, on_open=opened, on_close=on_close
        )
        self._listeners.append(listener)
        return listener

    async def connect(
        self,
        address: str,
        dispatcher: Dispatcher,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        timeout_s: float = 3.0,
        on_close: OnChannel | None = None,
        credentials: Credentials | None = None,
    ) -> Channel:
        channel = await super().connect(
            address,
            dispatcher,
            encoding=encoding,
            version=version,
            timeout_s=timeout_s,
            on_close=on_close,
            credentials=credentials,
        )
        self._track(channel)
        return channel

    async def listen(
        self,
        host: str,
        port: int,
        make: MakeProtocol,
        *,
        budget: BudgetSource = default_budget,
        tls: bool = False,
    ) -> TcpStreams:
        streams = await super().listen(
            host,
            port,
            lambda: KillableStream(make(), self._stream_changed),
            budget=budget,
            tls=tls,
        )
        self._stream_listeners.append(streams)
        return streams

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        stream = KillableStream(protocol, self._stream_changed)
        await super().dial(address, stream, timeout_s=timeout_s, tls=tls, to_member=to_member)

    def cut(self) -> None:
        """Stop listening, and reset every connection, also later ones."""
        self._is_cut = True
        for listener in self._listeners:
            listener.stop_accepting()
        for streams in self._stream_listeners:
            streams.stop_accepting()
        # Copies, as an abort may take the channel out of the set at once.
        for channel in list(self._channels):
            channel.abort()
        for stream in list(self._streams):
            stream.abort()

    async def gone(self) -> None:
        """Wait until every socket is closed."""
        for listener in self._listeners:
            await listener.close()
        # Not waited for: an aborted stream needs only the loop, which runs until `_end`.
        channels = [channel.closed for channel in self._channels]
        if channels:
            await asyncio.wait(channels)

    def _stream_changed(self, stream: KillableStream) -> None:
        if not stream.is_open:
            self._streams.discard(stream)
            return
        self._streams.add(stream)
        if self._is_cut:
            stream.abort()

    def _track(self, channel: Channel) -> None:
        if self._is_cut:
            # It was being made when all were cut: a dead process would not answer it either.
            channel.abort()
        self._channels.add(channel)
        channel.add_close_listener(self._channels.discard)


class KillableDisk(RuledDisk):
    """The real file system with fault rules; after `cut` nothing is written."""

    def __init__(self, book: RuleBook) -> None:
        super().__init__(book)
        self._is_cut = False
        self._workers: list[DiskWorker] = []

    def cut(self) -> None:
        """Drop all writes from now on."""
        self._is_cut = True

    def close_workers(self) -> None:
        """End the worker threads of a killed store."""
        for worker in self._workers:
            worker.close()

    def start_worker(self, name: str) -> DiskWorker:
        worker = super().start_worker(name)
        self._workers.append(worker)
        return worker

    def write_file(self, path: str, content: bytes) -> None:
        # A task of the killed role may still run after the cut, but must not write anything.
        if not self._is_cut:
            super().write_file(path, content)

    async def write_text(self, path: str, text: str) -> None:
        if not self._is_cut:
            await super().write_text(path, text)

    async def rename(self, source: str, target: str) -> None:
        if not self._is_cut:
            await super().rename(source, target)

    def remove_file(self, path: str) -> None:
        if not self._is_cut:
            super().remove_file(path)

    def remove_directory(self, path: str) -> None:
        if not self._is_cut:
            super().remove_directory(path)
