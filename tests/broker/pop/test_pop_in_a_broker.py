"""Pop, ack, change and revive, asked of a broker (K-30 to K-134)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType, StoredMessage
from pocketmq.broker.timers.rewrite import timer_rewrite
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.groups import DeleteSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.pop import (
    BatchAckMessageRequestHeader,
)
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import START_MS, BrokerRig, Voice, running_broker
from support.hanging_disk import HangingDisk
from support.pop_voice import (
    GROUP,
    REVIVED_S,
    ack,
    ack_all,
    change,
    fill,
    pop,
    pop_later,
    read_pop,
)

# -- taking and coming back ---------------------------------------------------------------------


async def test_messages_are_handed_out_once_and_not_again_when_acknowledged(
    rig: BrokerRig, voice: Voice
) -> None:
    sent = await fill(voice, 40)
    taken = [await pop(voice), await pop(voice)]
    assert sorted(taken[0].bodies + taken[1].bodies) == sent
    assert (await pop(voice)).code == ResponseCode.POLLING_TIMEOUT
    for answer in taken:
        await ack_all(voice, answer)
    await rig.advance(60)
    assert (await pop(voice)).bodies == []
    assert "%RETRY%poppers_orders" not in rig.broker.topics.table


async def test_a_pop_may_choose_by_sql_where_pulls_may_not(rig: BrokerRig, voice: Voice) -> None:
    # K-31: RocketMQ's proxy pops for SDKs with SQL filters, on brokers as they come.
    assert not rig.broker.config.enable_property_filter
    for number in ("1", "2"):
        await voice.send("orders", number.encode(), properties={"number": number})
    assert (await pop(voice, exp="number = 2", exp_type="SQL92")).bodies == [b"2"]
    wrong = await pop(voice, exp="number >", exp_type="SQL92")
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_check_point_waits_in_the_timers_until_a_second_before_its_time(
    rig: BrokerRig, voice: Voice
) -> None:  # K-70
    await fill(voice, 1)
    await pop(voice, invisible_time=30_000)
    point = next(m for m in await rig.queue(TIMER_TOPIC) if m.tags == "ck")
    assert int(point.properties["TIMER_DELIVER_MS"]) == rig.clock.time_ms() + 30_000 - 1000


async def test_what_is_not_acknowledged_in_time_comes_again_and_counts(
    rig: BrokerRig, voice: Voice
) -> None:  # K-83, K-90
    await fill(voice, 6)
    first = await pop(voice)
    for popped in first.messages[::2]:
        assert (await ack(voice, popped)).code == 0
    await rig.advance(REVIVED_S)
    again = await pop(voice)
    assert sorted(again.bodies) == sorted(p.body for p in first.messages[1::2])
    for popped in again.messages:
        message = popped.message
        assert (message.topic, message.reconsume_times) == ("orders", 1)
        assert popped.handle.mark == 1
        assert int(message.properties["1ST_POP_TIME"]) == first.header.pop_time
    await rig.advance(REVIVED_S)
    third = await pop(voice)
    assert {popped.message.reconsume_times for popped in third.messages} == {2}
    await ack_all(voice, third)
    await rig.advance(60)
    assert (await pop(voice)).bodies == []


async def test_a_retry_of_a_delayed_message_waits_by_its_level_each_time_and_once(
    rig: BrokerRig, voice: Voice
) -> None:  # K-92, X-3
    await voice.create_topic()
    await voice.send("orders", body=b"late", properties={"DELAY": "5"})
    await rig.advance(61)
    for times in range(3):
        (popped,) = (await pop(voice)).messages
        message = popped.message
        assert (message.reconsume_times, message.properties["DELAY"]) == (times, "5")
        await rig.advance(REVIVED_S)  # hidden no more, and delayed by the level
        assert (await pop(voice)).bodies == []
        await rig.advance(61)
    last = await pop(voice)
    assert last.bodies == [b"late"]
    await ack_all(voice, last)
    await rig.advance(200)
    assert (await pop(voice)).bodies == []
    waited = await rig.queue("SCHEDULE_TOPIC_XXXX", 4)
    assert [message.reconsume_times for message in waited] == [0, 1, 2, 3]


async def test_nothing_comes_before_its_time_is_up(rig: BrokerRig, voice: Voice) -> None:
    await fill(voice, 3)
    await pop(voice, invisible_time=30_000)
    for _ in range(10):
        await rig.advance(2.99)
        assert (await pop(voice)).bodies == []
    await rig.advance(6)
    assert len((await pop(voice)).bodies) == 3


async def test_an_ack_in_the_last_moment_counts(rig: BrokerRig, voice: Voice) -> None:  # K-82
    await fill(voice, 1)
    answer = await pop(voice)
    await rig.advance(9.999)
    await ack_all(voice, answer)
    await rig.advance(30)
    assert (await pop(voice)).bodies == []


async def test_a_message_with_a_separator_in_a_value_comes_again_as_others_do(
    rig: BrokerRig, voice: Voice
) -> None:  # K-83, K-90
    await voice.send(body=b"odd", properties="a\x01b\x01c\x02")
    await voice.send(body=b"plain")
    assert sorted((await pop(voice)).bodies) == [b"odd", b"plain"]
    await rig.advance(REVIVED_S)
    again = {popped.body: popped.message for popped in (await pop(voice)).messages}
    assert sorted(again) == [b"odd", b"plain"]
    assert again[b"odd"].properties["a"] == "b\x01c"


async def test_a_changed_time_decides_when_a_message_comes_again(
    rig: BrokerRig, voice: Voice
) -> None:  # K-55
    await fill(voice, 2)
    soon, late = (await pop(voice)).messages
    reply, answer = await change(voice, soon, 3000)
    assert (reply.code, answer.invisible_time, answer.pop_time) == (0, 3000, START_MS + 1)
    await change(voice, late, 60_000)
    await rig.advance(7)
    assert (await pop(voice)).bodies == [soon.body]
    await rig.advance(40)
    await rig.advance(14)
    bodies = (await pop(voice)).bodies
    assert late.body not in bodies
    await rig.advance(6)
    assert late.body in (await pop(voice)).bodies


@pytest.mark.parametrize("invisible_ms", [9_000, 10_000, 11_000])
async def test_a_time_changed_in_the_millisecond_of_the_pop_loses_nothing(
    rig: BrokerRig, voice: Voice, invisible_ms: int
) -> None:  # K-74: the ack of the old check point once counted for the new one as well
    await fill(voice, 1)
    [popped] = (await pop(voice)).messages
    await change(voice, popped, invisible_ms)
    seen = []
    for _ in range(30):
        await rig.advance(1)
        seen += (await pop(voice, invisible_time=200_000)).bodies
    assert seen == [popped.body]


async def test_an_ack_of_the_old_handle_does_nothing_after_a_change(
    rig: BrokerRig, voice: Voice
) -> None:
    await fill(voice, 1)
    [popped] = (await pop(voice)).messages
    await change(voice, popped, 5000)
    assert (await ack(voice, popped)).code == 0
    await rig.advance(10)
    assert (await pop(voice)).bodies == [popped.body]


async def test_a_batch_ack_acknowledges_by_distance(rig: BrokerRig, voice: Voice) -> None:  # K-52
    await fill(voice, 5, queues=1)
    answer = await pop(voice)
    handle = answer.messages[0].handle
    entry = BatchAck(
        consumer_group=GROUP, topic="orders", retry="0", start_offset=handle.start_offset,
        queue_id=0, revive_queue_id=handle.revive_queue_id, pop_time=handle.pop_time_ms,
        invisible_time=handle.invisible_ms, bits=ack_bits([0, 2, 4]),
    )  # fmt: skip
    body = BatchAckBody(broker_name="broker-a", acks=[entry])
    assert (await voice.ask(BatchAckMessageRequestHeader(), body)).code == 0
    await rig.advance(REVIVED_S)
    assert (await pop(voice)).bodies == [b"001", b"003"]
    empty = await voice.ask(BatchAckMessageRequestHeader(), BatchAckBody())
    assert empty.code == ResponseCode.NO_MESSAGE


async def test_pops_of_one_turn_share_an_append_and_no_message(
    rig: BrokerRig, voice: Voice
) -> None:
    sent = await fill(voice, 12, queues=1)
    store, appends = rig.broker.store, 0

    def count() -> None:
        nonlocal appends
        appends += 1

    store.grew.connect(count)
    pops = [pop_later(voice, queue_id=0, max_msg_nums=5) for _ in range(4)]
    answers = [read_pop(await each) for each in pops]
    assert [answer.bodies for answer in answers] == [sent[:5], sent[5:10], sent[10:], []]
    assert appends == 1
    for answer in answers[:3]:
        await ack_all(voice, answer)
    await rig.advance(60)
    assert (await pop(voice)).bodies == []


async def test_pops_whose_check_points_cannot_be_stored_hand_out_nothing(
    rig: BrokerRig, voice: Voice
) -> None:  # K-34
    sent = await fill(voice, 8, queues=2)
    rig.broker.store.readiness.block("a full disk")
    pops = [pop_later(voice, queue_id=n % 2, max_msg_nums=3, poll_time=0) for n in range(4)]
    refused = [read_pop(await each) for each in pops]
    assert [answer.bodies for answer in refused] == [[]] * 4
    rig.broker.store.readiness.unblock("a full disk")
    assert sorted((await pop(voice)).bodies) == sent
    assert [await voice.committed(group=GROUP, queue_id=n) for n in range(2)] == [4, 4]


async def test_a_check_point_is_stored_as_a_send_with_a_delivery_time(
    rig: BrokerRig, voice: Voice
) -> None:  # K-70, T-105
    await fill(voice, 1, queues=1)
    await pop(voice, invisible_time=10_500)
    found = rig.broker.store.reads.get_message(TIMER_TOPIC, 0, 0, 1)
    [record] = decode_records(b"".join(found.records))
    now_ms = rig.clock.time_ms()
    texts = {
        "TIMER_DELIVER_MS": str(now_ms + 9_500),
        "UNIQ_KEY": record.uniq_key or "",
        "TAGS": "ck",
    }
    message = StoredMessage(
        topic="rmq_sys_REVIVE_LOG_DefaultCluster", queue_id=1, body=b"", properties=b"", flag=0,
        sys_flag=0, born_timestamp_ms=0, born_host=b"", store_host=b"",
    )  # fmt: skip
    assert timer_rewrite(TimerRules(), "broker-a")(message, texts, now_ms)
    assert record.properties == decode_properties(bytes(message.properties).decode())
    assert (message.topic, message.queue_id) == (record.topic, record.queue_id)


async def test_tags_choose_and_the_group_gets_past_what_it_does_not_want(
    rig: BrokerRig, voice: Voice
) -> None:
    for n in range(20):
        await voice.send(body=b"%d" % n, properties={"TAGS": "TagA" if n % 5 == 0 else "TagB"})
    answer = await pop(voice, exp_type="TAG", exp="TagA")
    assert answer.bodies == [b"0", b"5", b"10", b"15"]
    await ack_all(voice, answer)
    for _ in range(3):
        assert (await pop(voice, exp_type="TAG", exp="TagA")).bodies == []
    assert await voice.committed(group=GROUP) == 20
    await rig.advance(30)
    assert (await pop(voice, exp_type="TAG", exp="TagA")).bodies == []


async def test_a_new_group_begins_where_it_asks_to(rig: BrokerRig, voice: Voice) -> None:  # K-34
    await fill(voice, 8)
    assert len((await pop(voice, init_mode=0)).bodies) == 8
    assert len((await pop(voice, init_mode=1, consumer_group="young")).bodies) == 8


async def test_every_restart_goes_on_where_the_group_was(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock=ManualClock(START_MS)) as rig:
        voice = await rig.voice()
        await fill(voice, 12)
        kept = await pop(voice, max_msg_nums=5)
        await ack(voice, kept.messages[0])
        await rig.advance(6)
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 60_000)) as rig:
        voice = await rig.voice()
        rest = await pop(voice, invisible_time=600_000)
        await rig.advance(5)
        again = await pop(voice, invisible_time=600_000)
        assert sorted(rest.bodies + again.bodies + [kept.bodies[0]]) == [
            b"%03d" % n for n in range(12)
        ]
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 90_000)) as rig:
        voice = await rig.voice()
        await rig.advance(30)
        assert (await pop(voice)).bodies == []
        committed = rig.broker.offsets.queues(
            "CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_DefaultCluster"
        )
        assert committed


async def test_under_sync_flush_the_group_moves_on_when_the_check_point_is_on_the_disk(
    tmp_path: Path,
) -> None:  # K-103
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await rig.voice()
        sent = await fill(voice, 10)
        taken = [await pop(voice, max_msg_nums=5), await pop(voice)]
        assert sorted(body for answer in taken for body in answer.bodies) == sent
        await ack_all(voice, taken[0])  # answered once its record is on the disk
        assert [await voice.committed(group=GROUP, queue_id=n) for n in range(4)] == [3, 3, 2, 2]
        again: list[bytes] = []
        for _ in range(100):
            await rig.advance(1)
            await rig.broker.store.flush()  # the disk takes its own time, whatever the clock says
            again += (await pop(voice, invisible_time=200_000)).bodies
            if len(again) >= 5:
                break
        assert sorted(again) == sorted(taken[1].bodies)


class HangsAtTheCopy(HangingDisk):
    """Its log hangs as soon as a message was put into a retry topic."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_copied: Callable[[], bool] = lambda: False

    @property
    def hangs(self) -> bool:
        return self.is_copied()

    @hangs.setter
    def hangs(self, hangs: bool) -> None:
        self.is_copied = lambda: hangs


async def test_no_check_point_is_passed_before_the_copies_of_those_before_it_are_on_the_disk(
    tmp_path: Path,
) -> None:  # K-83
    disk = HangsAtTheCopy(tmp_path / "store")
    options = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "revive_queue_num": 1}
    async with running_broker(tmp_path, disk=disk, **options) as rig:
        voice = await rig.voice()
        await fill(voice, 1)
        await fill(voice, 1, "gone")
        await pop(voice)
        await rig.advance(0.3)
        await pop(voice, "gone")
        del rig.broker.topics.table["gone"]  # so the second one leaves no copy to wait for
        disk.is_copied = lambda: "%RETRY%poppers_orders" in rig.broker.topics.table

        def passed() -> dict[int, int]:
            return rig.broker.offsets.queues(
                "CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_DefaultCluster"
            )

        while not disk.hangs:
            await rig.advance(0.1)
        await rig.advance(2)  # the second one is settled meanwhile
        before = passed()
        disk.go_on()
        await rig.advance(2)
        assert (before, passed()) == ({}, {0: 1})


# -- in order -----------------------------------------------------------------------------------


async def test_an_ordered_queue_gives_no_more_until_all_before_is_acknowledged(
    rig: BrokerRig, voice: Voice
) -> None:  # K-112, K-113
    await fill(voice, 5, queues=1)
    ordered: dict[str, Any] = {"order": True, "queue_id": 0, "attempt_id": "a1"}
    first = await pop(voice, max_msg_nums=3, **ordered)
    assert (first.bodies, first.header.revive_qid) == ([b"000", b"001", b"002"], 999)
    assert first.header.order_count_info == "0 0 0"
    refused = await pop(voice, order=True, queue_id=0, attempt_id="a2")
    assert (refused.code, refused.header.order_count_info) == (210, "")
    assert (await pop(voice, max_msg_nums=3, **ordered)).bodies == first.bodies
    second = await pop(voice, max_msg_nums=3, **ordered)
    assert (await ack(voice, second.messages[1])).code == 0
    assert await voice.committed(group=GROUP) == 0
    assert (await ack(voice, second.messages[0])).code == 0
    assert await voice.committed(group=GROUP) == 2
    future = pop_later(await rig.voice(), poll_time=60_000, order=True, queue_id=0, attempt_id="a3")
    await rig.settle()
    assert not future.done()
    assert (await ack(voice, second.messages[2])).code == 0
    assert read_pop(await future).bodies == [b"003", b"004"]


async def test_what_is_not_acknowledged_blocks_until_it_is_seen_again(
    rig: BrokerRig, voice: Voice
) -> None:  # K-112, K-115
    await fill(voice, 2, queues=1)
    await pop(voice, order=True, queue_id=0, attempt_id="a1")
    future = pop_later(
        await rig.voice(), poll_time=60_000, order=True, queue_id=0, attempt_id="a2",
        born_time=START_MS,
    )  # fmt: skip
    await rig.advance(9.9)
    assert not future.done()
    await rig.advance(0.2)
    again = read_pop(await future)
    assert again.bodies == [b"000", b"001"]
    assert again.header.order_count_info == "0 qo0%0 1;0 qo0%1 1;0 0 1"
    assert {popped.message.reconsume_times for popped in again.messages} == {0}


async def test_what_is_out_of_an_ordered_queue_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock=ManualClock(START_MS)) as rig:
        voice = await rig.voice()
        await fill(voice, 2, queues=1)
        await pop(voice, order=True, queue_id=0, attempt_id="a1", invisible_time=60_000)
    file = tmp_path / "store" / "config" / "consumerOrderInfo.json"
    assert json.loads(file.read_bytes())["table"]["orders@poppers"]["0"]["o"] == [0, 1]
    async with running_broker(tmp_path, clock=ManualClock(START_MS + 30_000)) as rig:
        voice = await rig.voice()
        assert (await pop(voice, order=True, queue_id=0, attempt_id="a2")).bodies == []
        await rig.advance(31)
        assert len((await pop(voice, order=True, queue_id=0, attempt_id="a2")).bodies) == 2


@pytest.mark.parametrize(
    "deletion",
    [
        DeleteTopicRequestHeader(topic="orders"),
        DeleteSubscriptionGroupRequestHeader(group_name=GROUP, clean_offset=True),
    ],
    ids=["topic", "group"],
)
async def test_what_was_out_of_an_ordered_queue_blocks_none_that_was_made_again(
    rig: BrokerRig, voice: Voice, deletion: Header
) -> None:  # K-112
    await fill(voice, 2, queues=1)
    assert (await pop(voice, order=True, queue_id=0, attempt_id="a1")).bodies
    assert (await voice.ask(deletion)).code == 0
    await fill(voice, 2, queues=1)
    assert (await pop(voice, order=True, queue_id=0, attempt_id="a2")).bodies[:2] == [
        b"000",
        b"001",
    ]
