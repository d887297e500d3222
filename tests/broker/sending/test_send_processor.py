"""Sending messages to a running broker (10, 310, 320)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.sending import send_processor
from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2, SendMessageResponseHeader
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, Profile
from support.broker_rig import BrokerRig, Voice, running_broker, send_header
from support.worked_examples import rows


@pytest.mark.parametrize("v2", [False, True], ids=["10", "310"])
async def test_a_sent_message_is_stored_and_told_where(  # E-20, E-21
    rig: BrokerRig, encoding: Encoding, v2: bool
) -> None:
    voice = await rig.voice(encoding)
    properties = {"TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "U1", "WAIT": "true"}
    for offset in range(2):
        place = await voice.send(
            v2=v2, queue_id=3, flag=7, sys_flag=1, reconsume_times=2, properties=properties
        )
        assert (place.queue_id, place.queue_offset) == (3, offset)
        assert place.transaction_id == "U1"
        assert (place.region, place.trace) == ("DefaultRegion", "true")
    message = (await rig.queue("orders", 3))[1]
    assert parse_offset_msg_id(place.msg_id) == ("127.0.0.1", 10911, message.commit_log_offset)
    assert (message.raw_body.tobytes(), message.flag, message.sys_flag) == (b"hello", 7, 1)
    assert message.reconsume_times == 2
    assert message.store_timestamp_ms == rig.clock.time_ms()
    assert message.store_host == "127.0.0.1:10911"
    assert message.born_host.startswith("127.0.0.1:")
    assert message.properties == properties | {  # B-18
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


async def test_a_message_without_a_client_id_gets_one(rig: BrokerRig, voice: Voice) -> None:  # B-18
    first = await voice.send()
    second = await voice.send(properties="TAGS\x01TagA")  # no separator at the end
    assert first.transaction_id
    assert first.transaction_id != second.transaction_id
    stored = await rig.queue("orders")
    assert [m.uniq_key for m in stored] == [first.transaction_id, second.transaction_id]
    assert stored[1].tags == "TagA"


async def test_pop_marks_are_stripped_and_the_brokers_own_properties_are_not_doubled(  # B-18
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send(properties={"POP_CK": "x", "CLUSTER": "elsewhere", "A": "b"})
    (message,) = await rig.queue("orders")
    assert message.properties["CLUSTER"] == "DefaultCluster"
    assert "POP_CK" not in message.properties
    assert message.properties["A"] == "b"


async def test_all_sends_of_one_read_are_one_append(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    puts: list[int] = []
    put = rig.broker.store.put_messages

    def counting(messages: Any) -> Any:
        puts.append(len(messages))
        return put(messages)

    rig.broker.store.put_messages = counting  # type: ignore[method-assign]
    answers = await asyncio.gather(*(voice.send(body=b"%d" % n) for n in range(20)))
    assert puts == [20]
    assert [answer.queue_offset for answer in answers] == list(range(1, 21))
    assert [m.body for m in await rig.queue("orders")][1:] == [b"%d" % n for n in range(20)]


async def test_the_sends_that_the_module_opens_with(rig: BrokerRig) -> None:  # B-110, B-111
    voices = {"A": await rig.voice(), "B": await rig.voice()}
    for queue_id, count in ((0, 7), (1, 4)):
        for _ in range(count):
            await voices["A"].send(queue_id=queue_id)
    shown = rows(send_processor, "from ")
    replies = await asyncio.gather(
        *(voices[who].try_send(queue_id=int(send.split()[-1])) for who, send, *_ in shown)
    )
    for (_, _, stored, *answer), reply in zip(shown, replies, strict=True):
        if reply.code == 0:
            offset = reply.header(SendMessageResponseHeader).queue_offset
            assert stored == f"offset {offset}"
        else:
            assert (stored, answer[0].split(";")[0]) == (
                "no such queue",
                f"{ResponseCode(reply.code).name} ({reply.code})",
            )
    assert [reply.code for reply in replies] == [0, 0, 29, 0]


async def test_one_bad_message_among_good_ones_is_refused_alone(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    replies = await asyncio.gather(
        voice.try_send(),
        voice.try_send(queue_id=99),
        voice.try_send(topic="a.b"),
        voice.try_send(body=b""),
        voice.try_send(),
    )
    assert [reply.code for reply in replies] == [0, 29, 29, 13, 0]
    assert len(await rig.queue("orders")) == 3


async def test_a_missing_field_is_named(rig: BrokerRig, encoding: Encoding) -> None:
    voice = await rig.voice(encoding)
    reply = await voice.channel.request(_without_topic(), b"x", code=RequestCode.SEND_MESSAGE_V2)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "`a`" in (reply.remark or "")


def _without_topic() -> Any:
    from pocketmq.protocol.headers.clients import GetConsumerListRequestHeader

    return GetConsumerListRequestHeader(consumer_group="x")


async def test_a_negative_queue_id_lets_the_broker_choose(rig: BrokerRig, voice: Voice) -> None:
    chosen = {(await voice.send(queue_id=-1)).queue_id for _ in range(60)}
    assert chosen == {0, 1, 2, 3}


async def test_an_unknown_topic_can_be_pulled_after_the_first_message(  # B-12, B-15
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send(default_topic_queue_nums=2)
    config = rig.broker.topics.get("orders")
    assert config is not None
    assert config.write_queue_nums == 2
    assert (await voice.pull()).bodies == [b"hello"]
    assert (await voice.try_send(queue_id=2)).code == 29


async def test_a_topic_is_on_the_disk_before_its_first_message_is_acknowledged(  # fault 1
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    assert "orders" in (rig.broker.config.data / "config" / "topics.json").read_text()


async def test_without_auto_create_an_unknown_topic_is_17(tmp_path: Path) -> None:  # B-13
    async with running_broker(tmp_path, auto_create_topic_enable=False) as rig:
        reply = await (await rig.voice()).try_send()
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        assert "pocketmq topic create" in (reply.remark or "")


async def test_4_9_answers_1_to_illegal_topics_and_queues(tmp_path: Path) -> None:  # B-110, B-111
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        assert (await voice.try_send(topic="a.b")).code == 1
        assert (await voice.try_send(queue_id=99)).code == 1


async def test_the_brokers_own_topics_take_no_messages(rig: BrokerRig, voice: Voice) -> None:
    reply = await voice.try_send(topic="SCHEDULE_TOPIC_XXXX")
    assert reply.code == ResponseCode.NO_PERMISSION


async def test_a_one_way_send_is_stored_and_not_answered(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    voice.channel.oneway(send_header(), b"silent")
    await voice.send(body=b"after")
    assert [m.body for m in await rig.queue("orders")] == [b"hello", b"silent", b"after"]


async def test_a_too_long_message_is_13(tmp_path: Path) -> None:  # B-110, B-111
    async with running_broker(tmp_path, max_message_size=1000) as rig:
        voice = await rig.voice()
        assert (await voice.try_send(body=b"x" * 1001)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await voice.try_send(body=b"x" * 1000)).code == 0
        properties = {"A": "x" * 33_000}
        assert (await voice.try_send(properties=properties)).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_store_that_takes_nothing_is_14_and_says_why(  # B-110, B-111, B-167
    rig: BrokerRig, voice: Voice
) -> None:
    rig.broker.store.readiness.block("the disk is full")
    reply = await voice.try_send()
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the disk is full" in (reply.remark or "")


async def test_a_delayed_message_goes_to_its_levels_queue(  # B-91
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    place = await voice.send(queue_id=2, properties={"DELAY": "3", "UNIQ_KEY": "U"})
    assert (place.queue_id, place.queue_offset, place.transaction_id) == (2, 0, "U")
    (waiting,) = await rig.queue("SCHEDULE_TOPIC_XXXX", 2)
    assert waiting.properties["REAL_TOPIC"] == "orders"
    assert waiting.properties["REAL_QID"] == "2"
    assert await rig.queue("orders", 2) == []


async def test_a_delay_in_milliseconds_is_not_delivered_early_and_a_level_wins(  # B-96
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send("timed", properties={"TIMER_DELAY_MS": "5000"})
    await rig.advance(4.9)
    assert await rig.queue("timed") == []
    past = str(rig.clock.time_ms() - 1)
    await voice.send(properties={"TIMER_DELIVER_MS": past})
    await voice.send(properties={"TIMER_DELAY_SEC": "5", "DELAY": "1"})
    (waiting,) = await rig.queue("SCHEDULE_TOPIC_XXXX", 0)
    assert "TIMER_DELAY_SEC" not in waiting.properties


# -- batches ----------------------------------------------------------------------------------


def batch_of(*bodies: bytes, **fields: Any) -> tuple[SendMessageRequestHeaderV2, bytes]:
    messages = [Message("orders", body, keys=f"k{n}") for n, body in enumerate(bodies)]
    header = send_header(batch=True, **fields)
    assert isinstance(header, SendMessageRequestHeaderV2)
    return header, encode_batch(messages)


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])
async def test_a_batch_is_stored_as_single_messages_with_an_id_each(  # E-47, S-7
    rig: BrokerRig, encoding: Encoding, code: int
) -> None:
    voice = await rig.voice(encoding)
    await voice.send()
    header, body = batch_of(b"one", b"two", b"three")
    reply = await voice.channel.request(header, body, code=code)
    assert reply.code == 0, reply.remark
    place = reply.header(SendMessageResponseHeader)
    stored = await rig.queue("orders")
    assert [m.body for m in stored] == [b"hello", b"one", b"two", b"three"]
    assert place.queue_offset == 1
    assert place.msg_id.split(",") == [m.offset_msg_id for m in stored[1:]]
    assert stored[2].keys == "k1"
    assert "CLUSTER" not in stored[2].properties, "as 5.4 and later (B-19)"


@pytest.mark.parametrize(("properties", "key"), [({"UNIQ_KEY": "B1"}, "B1"), ({}, None)])
async def test_a_batch_s_own_key_comes_back_as_the_transaction_id(
    rig: BrokerRig, encoding: Encoding, properties: dict[str, str], key: str | None
) -> None:  # B-19
    voice = await rig.voice(encoding)
    header, body = batch_of(b"one", b"two", properties=encode_properties(properties))
    reply = await voice.channel.request(header, body, code=RequestCode.SEND_BATCH_MESSAGE)
    assert reply.header(SendMessageResponseHeader).transaction_id == key


async def test_the_m_field_and_not_the_code_makes_a_batch(rig: BrokerRig, voice: Voice) -> None:
    header = send_header()
    reply = await voice.channel.request(header, b"single", code=RequestCode.SEND_BATCH_MESSAGE)
    assert reply.code == 0
    assert [m.body for m in await rig.queue("orders")] == [b"single"]


async def test_a_broken_batch_stores_nothing(rig: BrokerRig, voice: Voice) -> None:  # B-19
    header, body = batch_of(b"one", b"two")
    reply = await voice.ask(header, body[:-1])
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert await rig.queue("orders") == []


async def test_a_batch_may_not_be_delayed_nor_go_to_a_retry_topic(  # B-19
    rig: BrokerRig, voice: Voice
) -> None:
    delayed = encode_batch([Message("orders", b"x", delay_level=1)])
    assert (await voice.ask(send_header(batch=True), delayed)).code == 13
    header, body = batch_of(b"one", topic="%RETRY%readers")
    assert (await voice.ask(header, body)).code == 13


async def test_order_is_kept_between_batches_and_single_messages(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send(body=b"0")
    header, body = batch_of(b"2", b"3")
    await asyncio.gather(voice.send(body=b"1"), voice.ask(header, body), voice.send(body=b"4"))
    assert [m.body for m in await rig.queue("orders")] == [b"0", b"1", b"2", b"3", b"4"]


# -- retry topics -----------------------------------------------------------------------------


async def test_4_9_takes_a_batch_for_a_retry_topic(tmp_path: Path) -> None:  # B-19
    header, body = batch_of(b"one", topic="%RETRY%readers")
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        assert (await (await rig.voice()).ask(header, body)).code == 0
        assert [each.body for each in await rig.queue("%RETRY%readers")] == [b"one"]


@pytest.mark.parametrize(("times", "ends_in"), [(16, "%RETRY%readers"), (17, "%DLQ%readers")])
async def test_a_resend_is_given_up_beyond_16_times(  # B-86
    rig: BrokerRig, voice: Voice, times: int, ends_in: str
) -> None:
    properties = {"DELAY": "0", "RETRY_TOPIC": "orders"}
    await voice.send("%RETRY%readers", reconsume_times=times, properties=properties)
    assert len(await rig.queue(ends_in)) == 1


async def test_4_9_gives_a_resend_up_at_16_times(tmp_path: Path) -> None:  # B-86
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        await (await rig.voice()).send("%RETRY%readers", reconsume_times=16)
        assert len(await rig.queue("%DLQ%readers")) == 1


async def test_a_newer_client_brings_its_own_limit(rig: BrokerRig) -> None:  # B-82, B-86
    new, old = await rig.voice(version=121), await rig.voice(version=120)
    for voice in (new, old):
        await voice.send("%RETRY%readers", reconsume_times=3, max_reconsume_times=2)
    assert len(await rig.queue("%DLQ%readers")) == 1
    assert len(await rig.queue("%RETRY%readers")) == 1


async def test_a_dead_letter_is_not_delayed(rig: BrokerRig, voice: Voice) -> None:  # B-86
    await voice.send("%RETRY%readers", reconsume_times=17, properties={"DELAY": "18"})
    (dead,) = await rig.queue("%DLQ%readers")
    assert dead.properties["DELAY"] == "-1"


# -- sync flush -------------------------------------------------------------------------------


async def test_under_sync_flush_the_answer_comes_after_the_flush(tmp_path: Path) -> None:  # B-144
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        waited: list[int] = []
        when_flushed = rig.broker.store.when_flushed

        def counting(end: int, callback: Any) -> None:
            waited.append(end)
            when_flushed(end, callback)

        rig.broker.store.when_flushed = counting  # type: ignore[method-assign]
        answers = await asyncio.gather(*(voice.send(body=b"%d" % n) for n in range(5)))
        assert sorted(answer.queue_offset for answer in answers) == list(range(5))
        assert waited == [rig.broker.store.commit_log.max_offset]


async def test_a_flush_that_takes_too_long_is_10_with_the_place(tmp_path: Path) -> None:  # B-144
    from pocketmq.broker.store import PutStatus

    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        await voice.send()
        rig.broker.store.when_flushed = (  # type: ignore[method-assign]
            lambda _end, callback: callback(PutStatus.FLUSH_DISK_TIMEOUT)
        )
        place = await voice.send(expect=ResponseCode.FLUSH_DISK_TIMEOUT)
        assert place.queue_offset == 1
        assert place.msg_id


async def test_a_message_that_does_not_wait_is_answered_at_once(tmp_path: Path) -> None:  # B-144
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        await voice.send()
        rig.broker.store.when_flushed = lambda _end, _callback: None  # type: ignore[method-assign]
        place = await voice.send(properties={"WAIT": "false"})
        assert place.queue_offset == 1


async def test_frames_cut_anywhere_are_stored_all_the_same(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    frames = b"".join(
        b"".join(encode_frame(Command(310, send_header(), b"%d" % n, opaque=1000 + n)))
        for n in range(3)
    )
    server_side = next(iter(rig.network.listeners[10911].channels.all))
    for at in range(0, len(frames), 7):
        server_side.data_received(frames[at : at + 7])
    await rig.settle()
    assert [m.body for m in await rig.queue("orders")][1:] == [b"0", b"1", b"2"]
    await voice.send()


@pytest.mark.parametrize(
    ("profile", "added", "wait"),
    [
        (PROFILE_4_9, {"CLUSTER"}, set()),
        (PROFILE_5_3, {"CLUSTER", "MSG_REGION", "TRACE_ON"}, {"WAIT"}),
        (PROFILE_5_5, {"CLUSTER", "MSG_REGION", "TRACE_ON"}, {"WAIT"}),
    ],
)
async def test_a_message_is_stored_with_the_properties_that_its_release_adds(
    tmp_path: Path, profile: Profile, added: set[str], wait: set[str]
) -> None:  # B-18
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        sent = {"UNIQ_KEY": "k", "WAIT": "true", "TAGS": "a"}
        for more in ({}, {"KEYS": "x"}, {"long": "x" * 300}, {"DELAY": "0"}):
            await voice.send("orders", properties=sent | more)
            stored = (await rig.queue("orders"))[-1].properties
            assert set(stored) == (set(sent | more) - {"WAIT"}) | added | wait, more
        # What is rewritten keeps WAIT in 4.9, too.
        await voice.send("orders", properties=sent | {"DELAY": "3"})
        [delayed] = await rig.queue("SCHEDULE_TOPIC_XXXX", 2)
        own = {"DELAY", "REAL_TOPIC", "REAL_QID"}
        assert set(delayed.properties) == set(sent) | added | own
        await voice.send("orders", properties=sent | {"TRAN_MSG": "true", "PGROUP": "g"})
        [half] = await rig.queue("RMQ_SYS_TRANS_HALF_TOPIC")
        assert {"WAIT", "TRAN_MSG"} | added <= set(half.properties)
        assert ("TRACE_ON" in half.properties) is ("TRACE_ON" in added)
