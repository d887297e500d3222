"""A slave that catches up answers others between a few reads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.replication import auto_switch_frames, ha_frames
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epoch_slave import EpochMasterConnection
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.ha_client import FULL_READS_A_TURN, MasterConnection
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import OsDisk, PutStatus
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock

PIECE = 32 * 1024
READ_BYTES = 256_000
"""What uvloop reads at once."""
MOST_READS = FULL_READS_A_TURN + 1
"""A loop of asyncio reads a little more at once."""

Head = Callable[[int], bytes]


def epoch_head(offset: int) -> bytes:
    return auto_switch_frames.encode_head(offset, PIECE, Epoch(1, 0), 0)


class Slave:
    """A slave's store, which has its master's socket filled anew whenever it appends.

    So there is always a whole read of it in the socket, as while a long log comes.
    """

    def __init__(self, head: Head) -> None:
        self.master: socket.socket | None = None
        self.commit_log = SimpleNamespace(min_offset=0, max_offset=0)
        self.replica = SimpleNamespace(append=self._append, is_following=True)
        self.waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """How much was appended in a row, before others had a turn."""
        self._head = head
        self._sent = 0
        self._frame = memoryview(b"")

    @property
    def shippable_offset(self) -> int:
        end: int = self.commit_log.max_offset
        return end

    async def flush(self) -> PutStatus:
        return PutStatus.PUT_OK

    def confirm(self, offset: int) -> None:
        pass

    def fill(self) -> None:
        """Send until the socket takes no more."""
        assert self.master is not None
        try:
            while not self.waited.done():
                if not self._frame:
                    self._frame = memoryview(self._head(self._sent) + bytes(PIECE))
                    self._sent += PIECE
                self._frame = self._frame[self.master.send(self._frame, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            pass

    def _append(self, offset: int, body: memoryview) -> None:
        before = offset
        self.commit_log.max_offset = offset + len(body)
        if offset == 256 * PIECE:  # the socket has grown by now

            def turn() -> None:
                self.waited.set_result(self.commit_log.max_offset - before)

            asyncio.get_running_loop().call_soon(turn)
        self.fill()


@pytest.mark.parametrize("by_controller", [False, True])
async def test_others_have_their_turn_while_a_long_log_comes(
    tmp_path: Path, by_controller: bool
) -> None:
    make: Any = MasterConnection
    head: Head = partial(ha_frames.encode_head, size=PIECE)
    if by_controller:
        file = EpochFile(str(tmp_path), OsDisk())
        make, head = partial(EpochMasterConnection, epochs=file, own_id=lambda: 2), epoch_head
    slave = Slave(head)
    connection = make(slave, HaRules(), ManualClock(0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        await TcpNetwork().dial(f"127.0.0.1:{server.getsockname()[1]}", connection)
        master, _ = server.accept()
        with master:
            master.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
            slave.master = master
            if by_controller:
                handshake = auto_switch_frames.encode_master_handshake(1 << 30, 1, [Epoch(1, 0)])
                master.send(handshake)
            slave.fill()
            ended = asyncio.ensure_future(connection.ended())
            await asyncio.wait([slave.waited, ended], return_when=asyncio.FIRST_COMPLETED)
            connection.close("the test is over")
            await ended
    waited = slave.waited.result()
    assert waited <= MOST_READS * READ_BYTES
