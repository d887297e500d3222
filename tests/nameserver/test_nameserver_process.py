"""`python -m pocketmq.nameserver`: a process with a ready line, a port and a clock (N-1)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.operation.control.requests import (
    ClockResponseHeader,
    GetClockRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.kv import GetKvConfigRequestHeader, PutKvConfigRequestHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.process import parse_ready_line
from support.eventually import PATIENCE_S
from support.nameserver_rig import BrokerVoice

pytestmark = pytest.mark.cluster

MODULE = ["-m", "pocketmq.nameserver", "--port", "0"]


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A nameserver process and its address."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, *MODULE, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert started.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            facts = parse_ready_line((await started.stdout.readline()).decode())
        assert facts is not None
        assert facts["role"] == "nameserver"
        yield started, f"127.0.0.1:{facts['port']}"
    finally:
        if started.returncode is None:
            started.send_signal(signal.SIGTERM)
        await started.communicate()


async def test_it_serves_moves_its_clock_and_stops_in_order(tmp_path: Path) -> None:
    client = RemotingClient(TcpNetwork())
    options = ("--clock", "manual", "--kv-config-path", str(tmp_path / "kv.json"))
    async with process(*options) as (started, address):
        broker = BrokerVoice(await client.channel(address), "broker-a")
        await broker.register()
        route = GetRouteInfoRequestHeader(topic="TopicA")
        assert (await client.call(address, route)).code == 0
        put = PutKvConfigRequestHeader(namespace="ns", key="k", value="v")
        assert (await client.call(address, put)).code == 0

        before = (await client.call(address, RoleStatusRequestHeader())).body_view
        assert decode_body(before, KVTable, client.encoding).table["brokers"] == "broker-a"
        # On a connection of its own: the broker's is closed when it expires (N-21).
        mover = RemotingClient(TcpNetwork())
        reply = await mover.call(address, GetClockRequestHeader())
        now_ms = reply.header(ClockResponseHeader).now_ms + 126_000
        moved = await mover.call(
            address, MoveClockRequestHeader(time_ms=now_ms), timeout_s=PATIENCE_S
        )
        clock = moved.header(ClockResponseHeader)
        assert (clock.now_ms, clock.manual) == (now_ms, True)
        assert clock.next_deadline_ms is not None
        assert (await mover.call(address, route)).code == 17
        await mover.close()

        started.send_signal(signal.SIGTERM)
        assert await started.wait() == 0
    async with process(*options) as (_, address):
        get = GetKvConfigRequestHeader(namespace="ns", key="k")
        assert (await client.call(address, get)).code == 0
    await client.close()


async def test_a_taken_port_is_one_line_and_exit_status_1() -> None:
    async with process() as (first, address):
        port = address.rpartition(":")[2]
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pocketmq.nameserver", "--port", port,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await second.communicate()
    assert second.returncode == 1
    assert out == b""
    assert len(err.decode().splitlines()) == 1
    assert f"port {port} on 127.0.0.1 is taken by pid {first.pid}" in err.decode()


def test_the_process_loads_nothing_that_it_does_not_need() -> None:
    code = (
        "import sys, json; sys.argv = ['nameserver', '--help']\n"
        "import pocketmq.nameserver.__main__, pocketmq.nameserver.server\n"
        "import pocketmq.protocol.transport.tcp\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(json.loads(ran.stdout))
    assert loaded.isdisjoint({"typer", "rich", "pandas", "psutil", "pocketmq.broker"})


def test_it_listens_on_loopback_and_9876_unless_told_otherwise() -> None:  # N-1
    config = NameServerConfig()
    assert (config.host, config.port) == ("127.0.0.1", 9876)
    assert config.kv_config_path == Path("~/namesrv/kvConfig.json")
