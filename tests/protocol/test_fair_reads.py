"""A peer that sends faster than it is read does not hold up the others."""

from __future__ import annotations

import asyncio
import socket

from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.wire_pair import request_bytes, served

GREEDY, MODEST = 29_101, 29_102
BODY_BYTES = 8 * 1024
READ_BYTES = 256_000
"""What uvloop reads at once."""
MOST_READS = 4
"""The one under way, and one more; a loop of asyncio reads a little more at once."""


class Flood:
    """Counts what it is asked, and fills the greedy peer's socket anew each time.

    So there is always a whole read of it in the socket, as with a client that answers at once.
    """

    def __init__(self, greedy: socket.socket, modest: socket.socket) -> None:
        self.greedy, self.modest = greedy, modest
        self.came = 0
        self.came_before = 0
        self.waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """How many requests of the greedy peer came before the modest peer's one."""
        self.dispatcher = Dispatcher()
        self.dispatcher.register(GREEDY, self.on_greedy)
        self.dispatcher.register(MODEST, self.on_modest)
        self._frame = memoryview(request_bytes(GREEDY, body=bytes(BODY_BYTES)))
        self._at = 0

    def fill(self) -> None:
        """Send until the socket takes no more."""
        try:
            while not self.waited.done():
                self._at += self.greedy.send(self._frame[self._at :], socket.MSG_DONTWAIT)
                self._at %= len(self._frame)
        except BlockingIOError:
            pass

    def on_greedy(self, _peer: Peer, _request: Command) -> Reply:
        self.came += 1
        if self.came == 500:  # the socket has grown by now
            self.modest.send(request_bytes(MODEST))
            self.came_before = self.came
        self.fill()
        return None

    def on_modest(self, _peer: Peer, _request: Command) -> Reply:
        if not self.waited.done():
            self.waited.set_result(self.came - self.came_before)
        return None


async def test_one_request_does_not_wait_for_all_that_another_peer_sends() -> None:
    with socket.socket() as greedy, socket.socket() as modest:
        flood = Flood(greedy, modest)
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        async with served(TcpNetwork(), flood.dispatcher) as (listener, _):
            for each in (greedy, modest):
                each.connect(("127.0.0.1", listener.port))
            flood.fill()
            waited = await flood.waited
    assert waited <= MOST_READS * READ_BYTES // BODY_BYTES
