"""Names that lead elsewhere and batches that lie, sent to a whole broker (faults 31 and 32)."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import HeartbeatRequestHeader
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import profile_named
from support.broker_rig import (
    START_MS,
    Voice,
    consumer,
    pull_header,
    running_broker,
    send_header,
)

NAMES = [
    "../x", "/../../x", "a/../../x", "/abs", ".", "..", "a/b", "a\\b", "a\0b", "\0", "", " ", "a b",
    "a" * 128, "a" * 256, "a" * 40_000, "\u0430bc", "or\u200bders", "con\n", "~", "*", "%00",
    "%2e%2e", "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%../x",
    "%RETRY%/../../x", "%DLQ%../../x", "%DLQ%a/b", "..%RETRY%", "orders/../../x",
    "SELF_TEST_TOPIC", "\ud7ff",
    "\U0001f600",
]  # fmt: skip
LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


async def try_everything(voice: Voice, name: str) -> list[int]:
    """Every request that could make a file of a name; the answers' codes."""
    codes = []

    async def ask(header: Header, body: bytes | HeartbeatData = b"") -> None:
        codes.append((await voice.ask(header, body)).code)

    await ask(send_header(name), b"x")
    await ask(send_header(name, v2=False), b"x")
    await ask(send_header(f"%RETRY%{name}"), b"x")
    queues = {"read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}
    await ask(UpdateAndCreateTopicRequestHeader(topic=name, **queues))
    codes.append((await voice.commit(1, topic=name)).code)
    codes.append((await voice.commit(1, group=name)).code)
    await ask(pull_header(name))
    await ask(pull_header(consumer_group=name))
    data = HeartbeatData(client_id="c", consumer_data_set=[consumer(name, [name or "x"])])
    await ask(HeartbeatRequestHeader(), data)
    stored = (await voice.pull("orders")).messages[0]
    codes.append((await voice.send_back(stored, group=name, delay_level=0)).code)
    codes.append((await voice.send_back(stored, group=name, delay_level=-1)).code)
    return codes


@pytest.mark.parametrize("profile", ["5.x", "4.9"])
async def test_no_name_makes_a_file_outside_of_the_store(tmp_path: Path, profile: str) -> None:
    home = tmp_path / "deep" / "below"
    root = home / "store"
    async with running_broker(home, profile_named(profile)) as rig:
        voice = await rig.voice()
        await voice.send("orders")
        for name in NAMES:
            codes = await try_everything(voice, name)
            assert len(codes) == 11, "every request is answered"
        await rig.advance(60)  # and what is saved by the clock is saved
        await voice.send("orders")
        assert len(await rig.queue("orders")) == 2, "nothing else came into the queue"
    files, queues = written(tmp_path, root)
    assert files == []
    if profile == "5.x":  # 4.9 looks at no group's name, and its dead letters are named by it
        assert [name for name in queues if not LEGAL.fullmatch(name)] == []


def written(top: Path, root: Path) -> tuple[list[Path], list[str]]:
    """Files that are not in the store, and topics that have queues on the disk."""
    outside = [path for path in top.rglob("*") if path.is_file() and root not in path.parents]
    return outside, [path.name for path in (root / "consumequeue").iterdir()]


def lying_batches(chance: Random, count: int) -> list[bytes]:
    """Batches of which one length, at any place, is wrong."""
    whole = encode_batch([Message("orders", b"body-%d" % n, tags="a") for n in range(4)])
    sizes = [int.from_bytes(whole[:4])] * 4
    made = []
    for _ in range(count):
        data = bytearray(whole)
        entry = chance.randrange(4) * sizes[0]
        at, width = chance.choice(((0, 4), (16, 4), (26, 2)))  # of the entry, its body, properties
        old = int.from_bytes(data[entry + at : entry + at + width])
        wrong = chance.choice(
            (0, 1, old - 1, old + 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width) - 1)
        )
        data[entry + at : entry + at + width] = wrong.to_bytes(width)
        made.append(bytes(data))
    made += [whole[:cut] for cut in range(1, len(whole)) if cut % sizes[0]]
    made += [bytes(22), (b"\0\0\0\x16" + bytes(18)) * 100_000]
    return made


async def test_a_batch_with_a_wrong_length_stores_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock=ManualClock(START_MS)) as rig:
        voice = await rig.voice()
        await voice.send("orders", b"first")
        answers = set()
        batches = lying_batches(Random(31), 200)
        for body in batches:
            header = send_header("orders", batch=True)
            reply = await voice.channel.request(header, body, code=RequestCode.SEND_BATCH_MESSAGE)
            answers.add(reply.code)
        assert answers == {ResponseCode.MESSAGE_ILLEGAL}
        assert [message.body for message in await rig.queue("orders")] == [b"first"]
