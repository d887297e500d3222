"""A batch's messages are stored with the properties that they would get as single sends (B-19)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.sending import incoming_batches
from pocketmq.broker.store.index.index_keys import unique_key_hash, unique_key_hashes
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.messages.batch import batch_columns, decode_batch
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.stored.index_hash import key_hash
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, Profile
from support.broker_rig import BrokerRig, Voice, running_broker, send_header

STAMPED = {"UNIQ_KEY", "MSG_REGION", "TRACE_ON", "CLUSTER"}
KEY = "7F0000011A2B18B4AAC212345678"
ALIKE = [f"UNIQ_KEY\x01{KEY}{n:04X}\x02WAIT\x01true\x02TAGS\x01TagA" for n in range(3)]


def entry(properties: bytes, body: bytes = b"x") -> bytes:
    total = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", total, 0, 0, 0, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


@pytest.mark.parametrize(
    "texts",
    [
        ALIKE,
        [text + "\x02" for text in ALIKE],
        [ALIKE[0], ALIKE[1] + "\x02", ALIKE[2]],
        [ALIKE[0], ALIKE[1].replace("TagA", "TagB"), ALIKE[2]],
        [ALIKE[0], ALIKE[1].replace("true", "fals"), ALIKE[2] + "\x02KEYS\x01a b"],
        [ALIKE[0] + "\x02POP_CK\x011 2", ALIKE[1] + "\x02CLUSTER\x01mine", ALIKE[2]],
        [ALIKE[0], f"UNIQ_KEY\x01{'x' * 22}\x02UNIQ_KEY\x01y\x02WAIT\x01true\x02TAGS\x01TagA"],
        [ALIKE[0], ALIKE[1].replace("0001", "\u00e9\u00e9"), ALIKE[2]],
        ["", "UNIQ_KEY\x01", "UNIQ_KEY", "a\x01b", "KEYS\x01k"],
    ],
)
async def test_properties_are_those_of_single_sends(
    rig: BrokerRig, voice: Voice, texts: list[str]
) -> None:
    for text in texts:
        await voice.send(properties=text)
    body = b"".join(entry(text.encode()) for text in texts)
    reply = await voice.ask(send_header(batch=True), body)
    assert reply.code == 0, reply.remark
    stored = [
        {name: value for name, value in record.properties.items() if name not in STAMPED}
        | {"made": record.properties["UNIQ_KEY"] not in text}
        for record, text in zip(await rig.queue("orders"), texts * 2, strict=True)
    ]
    assert stored[len(texts) :] == stored[: len(texts)]
    for text in texts:
        for key in [text[9:41]] if KEY in text else []:
            asked = rig.broker.core.store.query("orders", key, 32, 0, 1 << 62)
            assert len(asked.records) == 2, "found in the index as a single send is"


@pytest.mark.parametrize(
    ("profile", "added"),
    [
        (PROFILE_4_9, "CLUSTER\x01DefaultCluster\x02"),
        (
            PROFILE_5_3,
            "MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02",
        ),
        (PROFILE_5_5, ""),
    ],
)
@pytest.mark.parametrize("texts", [ALIKE, [ALIKE[0] + "\x02", ALIKE[1] + "\x02KEYS\x01k"]])
async def test_what_the_broker_adds_to_a_batch_follows_what_was_sent(
    tmp_path: Path, profile: Profile, added: str, texts: list[str]
) -> None:  # B-19
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        body = b"".join(entry(text.encode()) for text in [*texts, "a\x01b"])
        assert (await voice.ask(send_header(batch=True), body)).code == 0
        *stored, keyless = [bytes(r.raw_properties).decode() for r in await rig.queue("orders")]
        assert stored == [text.rstrip("\x02") + "\x02" + added if added else text for text in texts]
        key = decode_properties(keyless)["UNIQ_KEY"]
        assert keyless == f"a\x01b\x02UNIQ_KEY\x01{key}\x02{added}"


@pytest.mark.parametrize("text", ["", "\x02", "\x02KEYS\x01k", "\x02KEYS\x01k\x02a\x01b\x02"])
async def test_both_ways_to_read_a_batch_store_the_same(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    body = b"".join(entry((each + text).encode()) for each in ALIKE)
    assert (await voice.ask(send_header(batch=True), body)).code == 0
    monkeypatch.setattr(incoming_batches, "keyed_entries", lambda *_: None)
    assert (await voice.ask(send_header(batch=True), body)).code == 0
    stored = [
        (bytes(each.raw_properties), each.body, each.flag, each.sys_flag)
        for each in await rig.queue("orders")
    ]
    assert stored[: len(ALIKE)] == stored[len(ALIKE) :]
    queue = rig.broker.store.consume_queues.get("orders", 0)
    assert queue is not None
    codes = [(queue.entry(number) or (0, 0, 0))[2] for number in range(2 * len(ALIKE))]
    assert len(set(codes)) == 1
    for each in ALIKE:
        found = rig.broker.store.query("orders", each[9:41], 32, 0, 1 << 62)
        assert len(found.records) == 2


async def test_a_message_that_hides_a_delay_in_its_key_is_refused(
    rig: BrokerRig, voice: Voice
) -> None:
    hidden = f"UNIQ_KEY\x01{'x' * 22}\x02DELAY\x011\x02\x02".ljust(len(ALIKE[0]) - 20, "\x02")
    hidden = hidden + ALIKE[0][len(hidden) :]
    assert len(hidden) == len(ALIKE[0])
    body = entry(ALIKE[0].encode()) + entry(hidden.encode())
    reply = await voice.ask(send_header(batch=True), body)
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert await rig.queue("orders") == []


async def test_bytes_that_are_no_text_are_stored_as_text(rig: BrokerRig, voice: Voice) -> None:
    body = entry(ALIKE[0].encode()) + entry(b"UNIQ_KEY\x01k\x02a\x01\xff\x02")
    reply = await voice.ask(send_header(batch=True), body)
    assert reply.code == 0, reply.remark
    assert (await rig.queue("orders"))[1].properties["a"] == "\ufffd"


@given(
    topic=st.text(max_size=5),
    keys=st.lists(
        st.one_of(
            st.integers(0, 0xFFFF).map(lambda n: f"{KEY}{n:04X}"),
            st.integers(0, 0xFFFF).map(lambda n: f"{KEY}{n:04x}"),
            st.text(max_size=40),
        ),
        min_size=1,
    ),
)
def test_quick_hashes_are_javas(topic: str, keys: list[str]) -> None:  # S-46
    expected = [key_hash(topic, key) for key in keys]
    assert [unique_key_hash(topic, key) for key in keys] == expected
    assert unique_key_hashes(topic, [key.encode() for key in keys]) == expected


def test_the_one_hash_without_a_positive_is_zero() -> None:  # S-46
    key = "113A3F0CC"
    assert java_hash(f"T#{key}") == -(2**31)
    assert unique_key_hash("T", key) == key_hash("T", key) == 0
    assert unique_key_hashes("T", [key.encode()]) == [0]
    others = ["113A3F0CD", key, "113A3FFFF", "113A30000"]
    expected = [key_hash("T", each) for each in others]
    assert unique_key_hashes("T", [each.encode() for each in others]) == expected


@given(st.binary(max_size=200))
def test_columns_and_entries_agree(body: bytes) -> None:
    body = entry(b"a\x01b") + entry(body[:50], body or b"x")
    assert [tuple(each) for each in decode_batch(body)] == list(
        zip(*batch_columns(body), strict=True)
    )
