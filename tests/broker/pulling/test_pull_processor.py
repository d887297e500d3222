"""Pulling from a running broker, and waiting for messages (11, 361)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from pocketmq.broker.pulling import pull_processor
from pocketmq.broker.pulling.pull_checks import MOVED, response_code
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.queues.lookup import GetStatus
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, Profile
from support.broker_rig import (
    COMMIT,
    SUBSCRIPTION,
    SUSPEND,
    BrokerRig,
    Voice,
    consumer,
    pull_header,
    read_pull,
    running_broker,
)
from support.worked_examples import rows

HELD = SUBSCRIPTION | SUSPEND


async def hold(
    rig: BrokerRig, voice: Voice, offset: int = 0, **fields: object
) -> asyncio.Future[Command]:
    """Start a pull that the broker holds."""
    before = len(rig.broker.held)
    fields = {"sys_flag": HELD, **fields}
    future = voice.channel.request(pull_header(offset=offset, **fields), timeout_s=60.0)
    await rig.settle()
    assert len(rig.broker.held) == before + 1
    return future


@pytest.mark.parametrize(("profile", "flags"), [(PROFILE_4_9, None), (PROFILE_5_3, 0)])
async def test_pulls_tell_system_flags_from_5_on(
    tmp_path: Path, profile: Profile, flags: int | None
) -> None:
    async with running_broker(tmp_path, profile=profile) as rig:
        voice = await rig.voice()
        await voice.send(body=b"0")
        header = read_pull(await voice.ask(pull_header())).header
        assert (header.topic_sys_flag, header.group_sys_flag) == (flags, flags)


@pytest.mark.parametrize("code", [RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE])
async def test_a_pull_brings_whole_records_in_order_and_where_to_go_on(  # B-59, B-64
    rig: BrokerRig, encoding: Encoding, code: int
) -> None:
    voice = await rig.voice(encoding)
    for n in range(5):
        await voice.send(body=b"%d" % n)
    reply = await voice.channel.request(pull_header(offset=2, max_msg_nums=2), code=code)
    pulled = read_pull(reply)
    assert pulled.bodies == [b"2", b"3"]
    assert pulled.status == "FOUND"
    header = pulled.header
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (4, 0, 5)
    assert header.suggest_which_broker_id == 0
    assert all(name in reply.fields for name in ("suggestWhichBrokerId", "minOffset"))


async def test_what_lies_outside_the_queue_is_told_apart(rig: BrokerRig, voice: Voice) -> None:
    # B-59
    await voice.create_topic()
    empty = await voice.pull()
    assert (empty.code, empty.header.next_begin_offset) == (19, 0)
    moved = await voice.pull(offset=7)
    assert (moved.code, moved.header.next_begin_offset) == (21, 0)
    await voice.send()
    end = await voice.pull(offset=1)
    assert (end.code, end.status, end.header.next_begin_offset) == (19, "OFFSET_OVERFLOW_ONE", 1)
    beyond = await voice.pull(offset=2)
    assert (beyond.code, beyond.header.next_begin_offset) == (21, 1)
    assert (beyond.header.min_offset, beyond.header.max_offset) == (0, 1)


async def test_messages_with_other_tags_are_passed_over(
    rig: BrokerRig, voice: Voice
) -> None:  # B-57
    for tag in ("TagA", "TagB", "TagC", "TagB"):
        await voice.send(body=tag.encode(), properties={"TAGS": tag})
    await voice.send(body=b"none")
    some = await voice.pull(subscription="TagA || TagC")
    assert some.bodies == [b"TagA", b"TagC"]
    assert some.header.next_begin_offset == 5
    nothing = await voice.pull(subscription="TagX")
    assert (nothing.code, nothing.status) == (20, "NO_MATCHED_MESSAGE")
    assert nothing.header.next_begin_offset == 5  # T-4


async def test_the_heartbeats_subscription_counts_without_one_in_the_pull(  # B-56
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    header = pull_header(sys_flag=0)
    assert (await voice.ask(header)).code == 24
    await voice.heartbeat(consumers=[consumer(topics={"orders": "TagA"})])
    for tag in ("TagA", "TagB"):
        await voice.send(body=tag.encode(), properties={"TAGS": tag})
    assert (await voice.pull(sys_flag=0)).bodies == [b"TagA"]


async def test_a_pull_commits_the_offset_that_it_carries(rig: BrokerRig, voice: Voice) -> None:
    # B-35
    await voice.send()
    await voice.pull(offset=1, commit_offset=1)
    assert await voice.committed(set_zero_if_not_found=False) is None
    await voice.pull(offset=1, commit_offset=1, sys_flag=SUBSCRIPTION | COMMIT)
    assert await voice.committed() == 1


# -- long polling -----------------------------------------------------------------------------


async def test_a_held_pull_is_answered_by_the_next_message(  # B-70, B-72
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice, other = await rig.voice(encoding), await rig.voice()
    await other.create_topic()
    future = await hold(rig, voice)
    await other.send(queue_id=1)
    await other.send(topic="others")
    assert not future.done()
    await other.send(body=b"news")
    pulled = read_pull(await future)
    assert pulled.bodies == [b"news"]
    assert pulled.header.next_begin_offset == 1


async def test_all_messages_of_one_read_answer_a_held_pull_together(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    other = await rig.voice()
    future = await hold(rig, voice)
    await asyncio.gather(*(other.send(body=b"%d" % n) for n in range(5)))
    assert len(read_pull(await future).messages) == 5


async def test_a_held_pull_whose_time_is_up_is_answered_with_19(  # B-70, B-72
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    future = await hold(rig, voice, suspend_timeout_millis=15_000)
    await rig.advance(14)
    assert not future.done()
    await rig.advance(6)
    pulled = read_pull(await future)
    assert (pulled.code, pulled.header.next_begin_offset) == (19, 0)


async def test_a_message_with_another_tag_keeps_it_waiting_until_the_next_look(  # B-72, B-73
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    other = await rig.voice()
    future = await hold(rig, voice, subscription="TagA")
    await other.send(properties={"TAGS": "TagB"})
    await rig.settle()
    assert not future.done()
    await rig.advance(5)
    pulled = read_pull(await future)
    assert (pulled.code, pulled.header.next_begin_offset) == (20, 1)  # B-73


async def test_a_pull_at_the_end_is_answered_at_once_unless_it_may_be_held(  # B-70
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    assert (await voice.pull()).code == 19
    assert len(rig.broker.held) == 0


async def test_a_pull_that_must_move_is_never_held(rig: BrokerRig, voice: Voice) -> None:  # B-70
    await voice.create_topic()
    assert (await voice.pull(offset=5, sys_flag=HELD)).code == 21


async def test_a_held_pull_commits_once_before_it_waits(rig: BrokerRig, voice: Voice) -> None:
    # B-35
    await voice.send()
    other = await rig.voice()
    future = await hold(rig, voice, offset=1, commit_offset=1, sys_flag=HELD | COMMIT)
    assert await other.committed() == 1
    await other.commit(9)
    await other.send()
    await future
    assert await other.committed() == 9


async def test_a_closed_connection_drops_its_held_pulls(rig: BrokerRig, voice: Voice) -> None:
    # B-70
    await voice.create_topic()
    other = await rig.voice()
    future = await hold(rig, voice)
    voice.channel.close()
    await voice.channel.closed
    with pytest.raises(Exception, match="closed the connection"):
        await future
    await rig.settle()
    assert len(rig.broker.held) == 0
    await other.send()


async def test_short_polling_holds_for_a_second(tmp_path: Path) -> None:  # B-70, B-71
    async with running_broker(tmp_path, long_polling_enable=False) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        future = await hold(rig, voice)
        await rig.advance(0.9)
        assert not future.done()
        await rig.advance(1.1)
        assert read_pull(await future).code == 19


async def test_a_deleted_topic_ends_the_waits_on_it(rig: BrokerRig, voice: Voice) -> None:  # B-16
    await voice.create_topic()
    other = await rig.voice()
    future = await hold(rig, voice)
    assert (await other.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    assert (await future).code == 17


async def test_a_held_pull_is_woken_after_the_flush_under_sync_flush(tmp_path: Path) -> None:
    # B-74: what a consumer has seen cannot be taken back by a power cut
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice, other = await rig.voice(), await rig.voice()
        await other.create_topic()
        future = await hold(rig, voice)
        await other.send(body=b"safe")
        assert read_pull(await future).bodies == [b"safe"]


async def test_4_9_leaves_a_message_about_each_moved_pull(tmp_path: Path) -> None:  # B-65
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await voice.send()
        assert (await voice.pull(offset=5)).code == 21
        (event,) = await rig.queue("OFFSET_MOVED_EVENT")
        assert event.body == (
            b'{"consumerGroup":"readers","messageQueue":{"brokerName":"broker-a","queueId":0,'
            b'"topic":"orders"},"offsetNew":1,"offsetRequest":5}'
        )
        assert event.tags == "readers"


async def test_5_x_leaves_none(rig: BrokerRig, voice: Voice) -> None:  # B-65
    await voice.send()
    assert (await voice.pull(offset=5)).code == 21
    assert await rig.queue("OFFSET_MOVED_EVENT") == []


async def test_a_pulled_body_has_the_records_byte_for_byte(rig: BrokerRig, voice: Voice) -> None:
    for n in range(3):
        await voice.send(body=b"%d" % n)
    reply = await voice.ask(pull_header())
    found = rig.broker.store.reads.get_message("orders", 0, 0, 32)
    assert bytes(reply.body_view) == b"".join(found.records)
    assert [m.queue_offset for m in decode_records(reply.body_view)] == [0, 1, 2]


async def test_the_pulls_that_the_module_opens_with(rig: BrokerRig, voice: Voice) -> None:  # B-59
    for _ in range(20):
        await voice.send(properties={"TAGS": "TagA"})
    tried = []
    for begin, answer, next_offset in rows(pull_processor, "from "):
        code, going_on = re.findall(r"\((\d+)\)", answer) or ["19"], int(next_offset.split(":")[0])
        tried.append(int(code[0]))
        if int(begin) < going_on == 10:  # nothing was deleted here
            assert response_code(GetStatus.OFFSET_TOO_SMALL, int(begin)) == MOVED == tried[-1]
            continue
        tag = "TagB" if "tag" in next_offset else "*"
        pulled = await voice.pull(offset=int(begin), subscription=tag)
        assert (pulled.code, pulled.header.next_begin_offset) == (tried[-1], going_on)
        if pulled.code == 0:
            ends = pulled.messages[0].queue_offset, pulled.messages[-1].queue_offset
            assert answer.endswith("messages {} to {}".format(*ends))
    assert tried == [0, 19, 21, 21, 20]
