"""A broker with few descriptors: connections are refused, and sends go on."""

from __future__ import annotations

import asyncio
import resource
import socket
import stat
import sys
from pathlib import Path

import pytest

from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.process import parse_ready_line
from support.broker_rig import Voice
from support.disk_voice import SMALL
from support.eventually import eventually

pytestmark = pytest.mark.cluster

LIMIT = 256


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def is_hung_up_on(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def modes_below(path: Path) -> set[str]:
    """Each kind of thing in a folder with its permission bits."""
    return {
        f"{'folder' if found.is_dir() else 'file'} {stat.S_IMODE(found.stat().st_mode):o}"
        for found in [path, *path.rglob("*")]
    }


async def test_idle_connections_cannot_make_sends_fail(tmp_path: Path) -> None:
    # 1,400 of them at `ulimit -n 1024`: "a sync of the commit log failed".
    store = tmp_path / "deep" / "store"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pocketmq.broker", "--port", "0", "--data", str(store),
        "--flush-disk-type", "SYNC_FLUSH", *SMALL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=few_descriptors,
    )  # fmt: skip
    idle: list[socket.socket] = []
    try:
        assert process.stdout is not None
        facts = None
        while facts is None:
            facts = parse_ready_line((await process.stdout.readline()).decode())
        address = ("127.0.0.1", int(facts["port"]))
        told: list[bytes] = []
        listening = asyncio.create_task(_hear(process.stdout, told))
        network = TcpNetwork()
        voice = Voice(await network.connect(f"127.0.0.1:{address[1]}", Dispatcher()))
        for number in range(400):
            idle.append(socket.create_connection(address))
            if number % 10 == 0:  # each makes files of a new queue, and of tables
                await voice.send(f"topic-{number}")
        refused = [peer for peer in idle if is_hung_up_on(peer)]
        await eventually(
            lambda: sum(map(is_hung_up_on, idle)) >= 400 - LIMIT, "those too many are refused"
        )
        assert len(refused) < 400, "and the others are not"
        for peer in idle:
            peer.close()
        again = await eventually(lambda: _answered(network, address[1]), "there is room again")
        assert again
        await voice.send("orders")
        voice.channel.abort()
        process.terminate()
        assert await process.wait() == 0
        await listening
        events = b"".join(told)
        assert b'"peer.refused"' in events
        assert b"flush_failed" not in events
        assert b"save_failed" not in events
        assert modes_below(tmp_path / "deep") == {"folder 700", "file 600"}
    finally:
        for peer in idle:
            peer.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _hear(stream: asyncio.StreamReader, told: list[bytes]) -> None:
    while line := await stream.readline():
        told.append(line)


async def _answered(network: TcpNetwork, port: int) -> bool:
    channel = await network.connect(f"127.0.0.1:{port}", Dispatcher())
    try:
        await Voice(channel).send("orders")
    except Exception:  # noqa: BLE001 - refused still: the caller asks again
        return False
    finally:
        channel.abort()
    return True
