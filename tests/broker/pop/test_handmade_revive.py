"""What clients put into the revive topic by hand holds no other pop up (K-72, K-82, K-83).

As RocketMQ's, the topic takes messages from anyone, with any body.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pocketmq.protocol.messages.validation import REVIVE_GROUP
from support.broker_rig import START_MS, BrokerRig, running_broker
from support.pop_voice import GROUP, REVIVED_S, ack_all, fill, pop

REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"
POINT = {
    "so": 0, "pt": START_MS, "it": 1000, "bm": 0, "n": 1, "q": 0, "t": "orders", "c": GROUP,
    "ro": 0, "d": [0], "bn": "broker-a",
}  # fmt: skip
ACK = {
    "ao": 0, "so": 0, "pt": START_MS, "q": 0, "t": "orders", "c": GROUP, "bn": "broker-a",
}  # fmt: skip
LONGEST = 10**4299
"""As many digits as Python reads."""
NUMBERS = (-1, 2**31, 2**63, -(2**63), LONGEST, "9" * 5000, 1e300)
NAMES = ("", "../x", "x" * 10_000, "\ud800", "SCHEDULE_TOPIC_XXXX", f"%RETRY%{GROUP}_../x")

POINTS: list[dict[str, object]] = [
    *({name: value} for name in ("so", "pt", "it", "bm", "n", "q", "ro") for value in NUMBERS),
    *({name: value} for name in ("t", "c", "bn") for value in NAMES),
    {"d": []},
    {"d": [], "n": 255},
    {"n": 2},  # more than distances
    {"n": 32, "d": list(range(32))},
    {"n": 2, "d": [-1, 2**63]},
    {"n": 2, "d": [2**62, -(2**62)], "so": 2**63 - 1},
    {"d": list(range(500)), "n": 500},
    {"pt": START_MS + 10**9},
    {"it": 2**62},
    {"pt": -(2**63), "it": -(2**63)},
]
ACKS: list[dict[str, object]] = [
    *({name: value} for name in ("ao", "so", "pt", "q") for value in NUMBERS),
    *({name: value} for name in ("t", "c", "bn") for value in NAMES),
    {"aol": [LONGEST, -1]},
    {"aol": list(range(500))},
]
BODIES = [b"", b"{}", b"no JSON", b"\xff", b"[" * 2_000, b'{"x":' * 500, b"null"]


def name_of(changes: dict[str, object]) -> str:
    """Short, and unique."""
    text = str(changes)
    return f"{text[:30]}-{len(text)}"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BrokerRig]:
    """With one revive queue, which all share."""
    async with running_broker(
        tmp_path, revive_queue_num=1, mapped_file_size_commit_log=8 << 20
    ) as rig:
        yield rig


async def both_come_again(rig: BrokerRig, *records: tuple[str, bytes]) -> None:
    """Others pop before and after the records are sent; see what they get."""
    voice = await rig.voice()
    [before] = await fill(voice, 1, "before")
    assert (await pop(voice, "before")).bodies == [before]
    for tags, body in records:
        await voice.send(REVIVE_TOPIC, body, properties={"TAGS": tags})
    await fill(voice, 2, "behind", queues=1)
    taken = await pop(voice, "behind")
    taken.messages.pop()
    await ack_all(voice, taken)
    await rig.advance(REVIVED_S)
    assert (await pop(voice, "before", invisible_time=100_000)).bodies == [before]
    assert (await pop(voice, "behind", invisible_time=100_000)).bodies == [b"001"]
    await rig.advance(10)
    passed = rig.broker.offsets.queues(REVIVE_GROUP, REVIVE_TOPIC)
    assert passed[0] >= len(records) + 2, "it reads the same again after a restart"


@pytest.mark.parametrize("changes", POINTS, ids=name_of)
async def test_a_check_point_that_no_pop_made(rig: BrokerRig, changes: dict[str, object]) -> None:
    await fill(await rig.voice(), 1)
    body = text_of(POINT | changes)
    await both_come_again(rig, ("ck", body), ("ck", body))


@pytest.mark.parametrize("changes", ACKS, ids=name_of)
async def test_an_ack_that_nobody_sent(rig: BrokerRig, changes: dict[str, object]) -> None:
    point = ("ck", text_of(POINT | {key: changes[key] for key in changes if key in POINT}))
    body = text_of(ACK | changes)
    await both_come_again(rig, point, ("ack", body), ("bAck", body))


@pytest.mark.parametrize("tags", ["ck", "ack", "bAck", "other", ""])
async def test_a_body_that_is_no_record(rig: BrokerRig, tags: str) -> None:
    await both_come_again(rig, *((tags, body) for body in BODIES if body))


@pytest.mark.parametrize("tags", ["ck", "ack", "bAck"])
@pytest.mark.parametrize("sys_flag", [1, 0x301])
async def test_a_body_that_says_it_is_compressed(rig: BrokerRig, tags: str, sys_flag: int) -> None:
    voice = await rig.voice()
    properties = {"TAGS": tags}
    await voice.send(REVIVE_TOPIC, text_of(POINT), properties=properties, sys_flag=sys_flag)
    await both_come_again(rig)


def text_of(fields: dict[str, object]) -> bytes:
    return json.dumps(fields).replace('"' + "9" * 5000 + '"', "9" * 5000).encode()
