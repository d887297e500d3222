"""Finding messages on a running broker (12, 33)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker, send_header


async def test_a_message_is_found_by_its_id(rig: BrokerRig, encoding: Encoding) -> None:  # E-27
    voice = await rig.voice(encoding)
    await voice.send(body=b"first")
    place = await voice.send(body=b"second")
    _, _, offset = parse_offset_msg_id(place.msg_id)
    reply = await voice.ask(ViewMessageRequestHeader(offset=offset))
    (message,) = decode_records(reply.body_view)
    assert (message.body, message.offset_msg_id) == (b"second", place.msg_id)
    for wrong in (offset + 1, 10**9, -1):
        assert (await voice.ask(ViewMessageRequestHeader(offset=wrong))).code == 1


async def test_messages_are_found_by_key(rig: BrokerRig, encoding: Encoding) -> None:  # E-27
    voice = await rig.voice(encoding)
    await voice.send(body=b"1", properties={"KEYS": "red blue", "UNIQ_KEY": "U1"})
    await voice.send(body=b"2", properties={"KEYS": "blue", "UNIQ_KEY": "U2"})

    def by(key: str, *, topic: str = "orders", unique: bool | None = None):  # type: ignore[no-untyped-def]
        return QueryMessageRequestHeader(
            topic=topic,
            key=key,
            max_num=10,
            begin_timestamp=START_MS - 1000,
            end_timestamp=START_MS + 1000,
            unique_key_query=unique,
        )

    reply = await voice.ask(by("blue"))
    assert sorted(m.body for m in decode_records(reply.body_view)) == [b"1", b"2"]
    assert reply.header(QueryMessageResponseHeader).index_last_update_timestamp == START_MS
    reply = await voice.ask(by("red"))
    assert [m.body for m in decode_records(reply.body_view)] == [b"1"]
    reply = await voice.ask(by("U2", unique=True))
    assert [m.body for m in decode_records(reply.body_view)] == [b"2"]
    assert (await voice.ask(by("green"))).code == 22
    assert (await voice.ask(by("red", topic="others"))).code == 22


async def test_a_query_may_ask_for_few(rig: BrokerRig, voice: Voice) -> None:  # S-48
    for n in range(5):
        await voice.send(body=b"%d" % n, properties={"KEYS": "k"})
    header = QueryMessageRequestHeader(
        topic="orders", key="k", max_num=2, begin_timestamp=0, end_timestamp=2**62
    )
    assert len(decode_records((await voice.ask(header)).body_view)) == 2


async def test_a_query_for_none_or_for_nothing_tells_nothing_of_the_index(
    rig: BrokerRig, voice: Voice
) -> None:  # S-48
    await voice.send(properties={"KEYS": "k"})
    answers = {}
    for key, most in (("k", 1), ("k", 0), ("none", 1)):
        header = QueryMessageRequestHeader(
            topic="orders", key=key, max_num=most, begin_timestamp=0, end_timestamp=2**62
        )
        reply = await voice.ask(header)
        told = reply.header(QueryMessageResponseHeader).index_last_update_timestamp
        answers[key, most] = (reply.code, told, len(decode_records(reply.body_view)))
    less = QueryMessageRequestHeader(
        topic="orders", key="k", max_num=-1, begin_timestamp=0, end_timestamp=2**62
    )
    assert (await voice.ask(less)).code == 1, "as Java's list of -1 places fails"
    assert answers == {("k", 1): (0, START_MS, 1), ("k", 0): (22, 0, 0), ("none", 1): (22, 0, 0)}


async def test_a_message_is_given_as_often_as_its_keys_name_it(
    rig: BrokerRig, voice: Voice
) -> None:  # S-48: as RocketMQ indexes each of KEYS, and UNIQ_KEY besides
    await voice.send(body=b"1", properties={"KEYS": "k k other", "UNIQ_KEY": "u"})
    await voice.send(body=b"2", properties={"KEYS": "k", "UNIQ_KEY": "k"})

    async def found(most: int) -> list[bytes]:
        header = QueryMessageRequestHeader(
            topic="orders", key="k", max_num=most, begin_timestamp=0, end_timestamp=2**62
        )
        return [m.body for m in decode_records((await voice.ask(header)).body_view)]

    assert await found(10) == [b"1", b"1", b"2", b"2"]
    assert await found(3) == [b"1", b"2", b"2"], "the newest three, oldest first"


def by_tag(tag: str, **fields: Any) -> QueryMessageRequestHeader:
    values = {"index_type": "T", "max_num": 10, **fields}
    return QueryMessageRequestHeader(
        topic="orders", key=tag, begin_timestamp=0, end_timestamp=2**62, **values
    )


async def test_messages_are_found_by_tag(rig: BrokerRig, encoding: Encoding) -> None:  # S-48
    voice = await rig.voice(encoding)
    await voice.send(body=b"1", properties={"TAGS": "paid"})
    await voice.send(body=b"2", properties={"TAGS": "paid", "KEYS": "unpaid T#paid"})
    await voice.send(body=b"3", properties={"TAGS": "unpaid", "KEYS": "paid"})
    batch = encode_batch([Message("orders", b"4", tags="paid", properties={"UNIQ_KEY": "U4"})])
    assert (await voice.ask(send_header(batch=True), batch)).code == 0

    async def found(header: QueryMessageRequestHeader) -> list[bytes]:
        reply = await voice.ask(header)
        assert reply.code == (0 if reply.body else 22)
        return [m.body for m in decode_records(reply.body_view)]

    assert await found(by_tag("paid")) == [b"1", b"2", b"4"]
    assert await found(by_tag("paid", max_num=2)) == [b"2", b"4"], "the newest"
    assert await found(by_tag("paid", last_key="any")) == [b"1", b"2", b"4"], "RocksDB's alone"
    assert await found(by_tag("unpaid")) == [b"3"]
    assert await found(by_tag("paid", index_type="K")) == [b"3"], "a key, as without a type"
    assert await found(by_tag("paid", index_type="t")) == [b"3"]
    assert await found(by_tag("paid", index_type="")) == [b"3"]
    assert await found(by_tag("U4", unique_key_query=True)) == [b"4"], "the unique key goes first"
    assert await found(by_tag("T#paid", index_type="K")) == [b"2"], "not those with the tag"


@pytest.mark.parametrize("profile", [PROFILE_4_9, PROFILE_5_3])
async def test_earlier_releases_look_for_a_key_whatever_the_type(
    tmp_path: Path, profile: Profile
) -> None:  # S-48
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.send(body=b"1", properties={"TAGS": "paid"})
        assert (await voice.ask(by_tag("paid"))).code == 22
        await voice.send(body=b"2", properties={"KEYS": "paid"})
        reply = await voice.ask(by_tag("paid"))
        assert [m.body for m in decode_records(reply.body_view)] == [b"2"]
