"""A consumer sends a message back (36): retries by level, then the dead letter topic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.headers.settings import UpdateBrokerConfigRequestHeader
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X
from support.broker_rig import BrokerRig, Voice, consumer, running_broker
from support.eventually import eventually
from support.hanging_disk import HangingDisk

RETRY, DLQ = "%RETRY%readers", "%DLQ%readers"
DELAYS_S = [10, 30, *(60 * n for n in range(1, 11)), 1200, 1800, 3600, 7200]
"""What retry 1 .. 16 waits."""


async def failed(rig: BrokerRig, voice: Voice):  # type: ignore[no-untyped-def]
    """A member of the group, and the message it could not consume."""
    await voice.heartbeat(consumers=[consumer()])
    await voice.send(properties={"TAGS": "TagA", "KEYS": "k", "UNIQ_KEY": "U"})
    return (await rig.queue("orders"))[0]


async def test_a_failed_message_comes_back_after_10_s(  # B-80 to B-84, B-87
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    original = await failed(rig, voice)
    reply = await voice.send_back(original)
    assert (reply.code, bytes(reply.body_view)) == (0, b"")
    await rig.advance(9.5)
    assert await rig.queue(RETRY) == []
    await rig.advance(1)
    (again,) = (await voice.pull(RETRY)).messages
    assert (again.body, again.reconsume_times) == (b"hello", 1)
    assert again.born_timestamp_ms == original.born_timestamp_ms
    assert again.properties["RETRY_TOPIC"] == "orders"
    assert again.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id
    assert (again.tags, again.keys, again.uniq_key) == ("TagA", "k", "U")
    assert again.properties == original.properties | {
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": original.offset_msg_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": RETRY,
        "REAL_QID": "0",
    }
    assert (await rig.queue(RETRY))[0].properties == again.properties


@pytest.mark.parametrize(
    ("asked", "kept", "waits_s"), [(1, "1", 1), (0, "3", 10), (99, "18", 7200)]
)
async def test_a_retry_keeps_the_level_by_which_it_came_and_waits_once(  # B-83, X-3
    rig: BrokerRig, voice: Voice, asked: int, kept: str, waits_s: int
) -> None:
    await voice.send_back(await failed(rig, voice), delay_level=asked)
    await rig.advance(waits_s + 2)
    (again,) = await rig.queue(RETRY)
    assert again.properties["DELAY"] == kept
    await rig.advance(3 * waits_s)
    assert len(await rig.queue(RETRY)) == 1


async def test_the_next_retry_and_the_dead_letter_have_levels_of_their_own(  # B-83, X-3
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send_back(await failed(rig, voice))
    await rig.advance(11)
    (first,) = await rig.queue(RETRY)
    await voice.send_back(first)
    await rig.advance(31)
    second = (await rig.queue(RETRY))[1]
    assert (first.properties["DELAY"], second.properties["DELAY"]) == ("3", "4")
    await voice.send_back(second, delay_level=-1)
    (dead,) = await rig.queue(DLQ)
    assert dead.properties == second.properties | {"DELAY": "0"}
    assert list(dead.properties) == list(second.properties)


@pytest.mark.parametrize("profile", [PROFILE_4_9, PROFILE_5_X], ids=["4.9", "5.x"])
async def test_after_1_and_16_deliveries_a_message_lies_in_the_dlq(  # B-83, B-84, fault 53
    tmp_path: Path, profile: object
) -> None:
    async with running_broker(tmp_path, profile) as rig:  # type: ignore[arg-type]
        message = await failed(rig, await rig.voice())
        voice = await rig.voice()  # one without heartbeats, which nobody misses
        first_id = message.offset_msg_id
        for retry, delay_s in enumerate(DELAYS_S):
            stored_ms = rig.clock.time_ms()
            assert (await voice.send_back(message)).code == 0
            await rig.advance(delay_s + 2)
            message = (await rig.queue(RETRY))[-1]
            assert message.reconsume_times == retry + 1
            assert message.store_timestamp_ms - stored_ms in range(
                delay_s * 1000, delay_s * 1000 + 100
            )
        assert len(await rig.queue(RETRY)) == 16
        assert (await voice.send_back(message)).code == 0
        (dead,) = await rig.queue(DLQ)
        assert (dead.body, dead.reconsume_times) == (b"hello", 17)
        assert dead.properties["ORIGIN_MESSAGE_ID"] == first_id
        assert dead.properties["RETRY_TOPIC"] == "orders"
        # An ordinary topic: it can be read, and its messages sent again.
        assert (await voice.pull(DLQ, consumer_group="undertaker")).bodies == [b"hello"]
        await voice.send("orders", dead.body)


async def test_a_negative_level_gives_up_at_once_and_an_explicit_one_is_kept(  # B-83
    rig: BrokerRig, voice: Voice
) -> None:
    message = await failed(rig, voice)
    await voice.send_back(message, delay_level=-1)
    assert len(await rig.queue(DLQ)) == 1
    await voice.send_back(message, delay_level=1)
    assert len(await rig.queue("SCHEDULE_TOPIC_XXXX", 0)) == 1


async def test_the_clients_limit_counts(rig: BrokerRig, voice: Voice) -> None:  # B-82
    message = await failed(rig, voice)
    await voice.send_back(message, max_reconsume_times=0)
    assert len(await rig.queue(DLQ)) == 1


async def test_a_group_without_retry_queues_loses_the_message_and_hears_success(  # B-80
    rig: BrokerRig, voice: Voice
) -> None:
    message = await failed(rig, voice)
    rig.broker.groups.put(SubscriptionGroupConfig(group_name="readers", retry_queue_nums=0), 0)
    end = rig.broker.store.commit_log.max_offset
    assert (await voice.send_back(message)).code == 0
    assert rig.broker.store.commit_log.max_offset == end


async def test_what_cannot_be_sent_back_is_refused(tmp_path: Path) -> None:  # B-80, B-85
    async with running_broker(tmp_path, auto_create_subscription_group=False) as rig:
        voice = await rig.voice()
        header = ConsumerSendMsgBackRequestHeader(offset=0, group="nobody", delay_level=0)
        assert (await voice.ask(header)).code == 26
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        message = await failed(rig, voice)
        header = ConsumerSendMsgBackRequestHeader(offset=5, group="readers", delay_level=0)
        missing = await voice.ask(header)
        assert (missing.code, missing.remark) == (1, "no message is stored at commit log offset 5")
        rig.broker.topics.put(TopicConfig(topic_name=RETRY, perm=4), 0)
        assert (await voice.send_back(message)).code == 16
        rig.broker.topics.put(TopicConfig(topic_name=RETRY, perm=6), 0)
        rig.broker.store.readiness.block("the disk is full")
        assert (await voice.send_back(message)).code == 1


async def test_a_broker_that_may_not_be_written_to_takes_nothing_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        message = await failed(rig, voice)
        end = rig.broker.store.commit_log.max_offset
        for permission, code in ((b"4", 16), (b"6", 0)):
            setting = UpdateBrokerConfigRequestHeader()
            assert (await voice.ask(setting, b"brokerPermission=" + permission)).code == 0
            assert (await voice.send_back(message)).code == code
            assert (rig.broker.store.commit_log.max_offset > end) is (code == 0)


async def test_a_dlq_topic_is_on_the_disk_before_the_answer(rig: BrokerRig, voice: Voice) -> None:
    message = await failed(rig, voice)
    await voice.send_back(message, delay_level=-1)
    assert DLQ in (rig.broker.config.data / "config" / "topics.json").read_text()


@pytest.mark.parametrize("profile", [PROFILE_4_9, PROFILE_5_X], ids=["4.9", "5.x"])
@pytest.mark.parametrize("group", ["/../../x", "/../orders", "a/b", "x" * 256])
async def test_a_group_whose_name_leads_elsewhere_writes_nowhere(
    tmp_path: Path, profile: object, group: str
) -> None:
    async with running_broker(tmp_path, profile) as rig:  # type: ignore[arg-type]
        voice = await rig.voice()
        message = await failed(rig, voice)
        await voice.heartbeat(consumers=[consumer(group)])
        for delay_level in (-1, 0):
            reply = await voice.send_back(message, group=group, delay_level=delay_level)
            assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            assert "cannot retry messages: the group " in (reply.remark or "")
        assert rig.broker.groups.get(group) is None
        assert [m.body for m in await rig.queue("orders")] == [b"hello"]
    found = files_below(tmp_path)
    assert not {name for name in found if not name.startswith("store")}
    assert {name.split("/")[2] for name in found if name.startswith("store/consumequeue/")} == {
        "orders"
    }


def files_below(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*")}


@pytest.mark.parametrize("failure", [None, OSError(5, "Input/output error")], ids=["", "EIO"])
async def test_under_sync_flush_the_answer_waits_until_the_copy_is_on_the_disk(
    tmp_path: Path, failure: OSError | None
) -> None:
    # The consumer's offset passes the message after it: a power cut took both (found by seed 4 of
    # the simulation).
    disk = HangingDisk(tmp_path / "store")
    async with running_broker(tmp_path, disk=disk, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        message = await failed(rig, voice)
        disk.hangs = True
        answer = asyncio.create_task(voice.send_back(message))
        await eventually(lambda: bool(disk.waiting), "a flush of the copy")
        assert not answer.done()
        disk.go_on(failure)
        wanted = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
        assert (await answer).code == wanted


async def test_names_of_topics_that_producers_make_up_are_not_counted(
    rig: BrokerRig, voice: Voice
) -> None:
    # Each took some KB for ever.
    await voice.heartbeat(consumers=[consumer()])
    for number in range(5):
        await voice.send(properties={"RETRY_TOPIC": f"nowhere-{number}"})
    await voice.send(properties={"RETRY_TOPIC": "TBW102"})
    for message in await rig.queue("orders"):
        assert (await voice.send_back(message)).code == 0
    stats = rig.broker.stats
    sent_back = {key: each.times for (name, key), each in stats.named.items() if "SNDBCK" in name}
    assert sent_back == {"orders@readers": 5, "TBW102@readers": 1}
