"""A proxy in front of a broker: what it lets through, and what it writes down of any client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from pocketmq.client import Message, MessageQueue
from pocketmq.simulation.histories import Recorder
from pocketmq.simulation.histories.files import judge_files, lines_of
from pocketmq.simulation.histories.tap import Tap
from pocketmq.simulation.histories.wire_watch import WireWatch
from support.consuming import Collected, consuming
from support.eventually import eventually
from support.real_rocketmq import free_port
from support.tcp import tcp_rig


async def test_sends_receipts_and_offsets_of_any_client_are_written_down(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        real_port, broker.port = broker.port, free_port()
        rig.nameserver.add_topic("T", [broker], queues=1)
        with Recorder(path) as recorder:
            watch = WireWatch("a", recorder)
            async with Tap("127.0.0.1", broker.port, "127.0.0.1", real_port, watch=watch):
                got = Collected()
                async with consuming(rig, got), rig.producer() as producer:
                    await rig.advance(1)
                    for number in range(3):
                        await producer.send(
                            Message("T", b"%d" % number, keys="k"), queue=MessageQueue("T", "a", 0)
                        )
                    await eventually(lambda: len(got) == 3, "consumed")
        assert broker.offsets["consumers", "T", 0] == 3
    kinds = [line[0] for line in lines_of(path)]
    assert kinds.count("send") == kinds.count("ack") == kinds.count("receive") == 3
    commits = [list(line[2:]) for line in lines_of(path) if line[0] == "commit"]
    assert commits[-1] == ["consumers", "a/T/0", 3]
    judgement = judge_files([path])
    assert judgement.is_clean, judgement
    assert judgement.acknowledged == 3


async def test_a_cut_holds_everything_back_and_a_reset_ends_connections() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    port = free_port()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[1]
    async with server, Tap("127.0.0.1", port, "127.0.0.1", target) as tap:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        tap.cut()
        writer.write(b"two")
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(b"new")
        waiting = asyncio.ensure_future(reader.readexactly(3))
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        tap.heal()
        assert await waiting == b"two"
        assert await other_reader.readexactly(3) == b"new"
        tap.reset()
        for each in (reader, other_reader):
            with suppress(ConnectionResetError):
                assert await each.read() == b""
        for each in (writer, other):
            each.close()
