"""When a client's requests leave: together, unless they are many."""

from __future__ import annotations

import socket

import pytest

from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from support.wire_pair import Word, commands_in


async def test_the_first_of_many_requests_leave_before_the_last_is_made() -> None:
    """So that the broker works while the producer still writes; in order, and each once."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        channel = await TcpNetwork().connect(f"{host}:{port}", Dispatcher())
        peer, _ = server.accept()
        with peer:
            for number in range(100):
                channel.oneway(Word(word=str(number)), bytes(1024))
            came.append(peer.recv(1 << 20, socket.MSG_DONTWAIT))  # the loop had no turn
            assert came[0]
            channel.close()
            await channel.closed
            while more := peer.recv(1 << 20):
                came.append(more)
    words = [command.header(Word).word for command in commands_in(b"".join(came))]
    assert words == [str(number) for number in range(100)]


async def test_few_requests_of_one_turn_leave_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        channel = await TcpNetwork().connect(f"{host}:{port}", Dispatcher())
        peer, _ = server.accept()
        with peer:
            for number in range(10):
                channel.oneway(Word(word=str(number)), bytes(1024))
            with pytest.raises(BlockingIOError):
                peer.recv(1 << 20, socket.MSG_DONTWAIT)
            channel.close()
            await channel.closed
