"""Transactions through a running broker: delivered, forgotten, asked for; and after a kill."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.headers.settings import UpdateBrokerConfigRequestHeader
from pocketmq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, PROFILES, Profile
from support.broker_rig import BrokerRig, Voice, running_broker
from support.inline_disk import InlineDisk

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
CHECK_S, TIMEOUT_S = 30.0, 6.0
ROUND_S = CHECK_S + TIMEOUT_S


async def send_half(
    rig: BrokerRig, voice: Voice, key: str, **more: str
) -> SendMessageResponseHeader:
    """A half message of group `writers`, for queue 1 of `orders`, born now."""
    properties = {
        names.TRANSACTION_PREPARED: "true",
        names.PRODUCER_GROUP: "writers",
        names.UNIQ_KEY: key,
        names.TAGS: "new",
    }
    return await voice.send(
        body=key.encode(),
        properties=properties | more,
        queue_id=1,
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
        born_timestamp=rig.clock.time_ms(),
    )


def end_of(
    sent: SendMessageResponseHeader, outcome: int, **changes: Any
) -> EndTransactionRequestHeader:
    fields: dict[str, Any] = {
        "producer_group": "writers",
        "tran_state_table_offset": sent.queue_offset,
        "commit_log_offset": parse_offset_msg_id(sent.msg_id)[2],
        "commit_or_rollback": outcome,
        "msg_id": sent.transaction_id or "",
    }
    return EndTransactionRequestHeader(**(fields | changes))


async def end(voice: Voice, sent: SendMessageResponseHeader, outcome: int, **more: Any) -> Command:
    return await voice.ask(end_of(sent, outcome, **more))


async def delivered(rig: BrokerRig, topic: str = "orders", queue_id: int = 1) -> list[str]:
    return [message.body.decode() for message in await rig.queue(topic, queue_id)]


async def producer(rig: BrokerRig, encoding: Encoding = Encoding.MSGPACK) -> Voice:
    voice = await rig.voice(encoding)
    await voice.heartbeat("127.0.0.1@1", producers=["writers"])
    return voice


def questions(voice: Voice) -> list[tuple[CheckTransactionStateRequestHeader, MessageExt]]:
    return [
        (
            command.header(CheckTransactionStateRequestHeader),
            decode_record(bytes(command.body_view)),
        )
        for command in voice.told(RequestCode.CHECK_TRANSACTION_STATE)
    ]


async def answer(voice: Voice, outcome_of: Callable[[str], int]) -> list[str]:
    """Answer all questions heard so far; the keys that were asked for."""
    asked = questions(voice)
    voice.heard.clear()
    for header, message in asked:
        reply = EndTransactionRequestHeader(
            producer_group="writers",
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=outcome_of(message.body.decode()),
            msg_id=header.msg_id or "",
            from_transaction_check=True,
        )
        if reply.commit_or_rollback != UNKNOWN:
            await voice.ask(reply)
    return [message.body.decode() for _, message in asked]


async def test_what_is_committed_is_delivered_and_what_is_rolled_back_is_not(
    rig: BrokerRig, encoding: Encoding
) -> None:  # X-2, B-103, B-104
    voice = await producer(rig, encoding)
    first, second = await send_half(rig, voice, "a"), await send_half(rig, voice, "b")
    assert await delivered(rig) == []
    assert (first.transaction_id, first.queue_offset, second.queue_offset) == ("a", 0, 1)
    assert (await end(voice, first, COMMIT)).code == 0
    assert (await end(voice, second, ROLLBACK)).code == 0
    [message] = await rig.queue("orders", 1)
    assert (message.body, message.tags, message.queue_offset) == (b"a", "new", 0)
    assert message.prepared_transaction_offset == parse_offset_msg_id(first.msg_id)[2]
    assert MessageSysFlag.transaction_type(message.sys_flag) == COMMIT
    assert names.REAL_TOPIC not in message.properties  # X-1, as of 5.4
    assert message.properties[names.TRANSACTION_ID] == "a"
    pulled = await voice.pull(queue_id=1)
    assert pulled.bodies == [b"a"]


async def test_a_half_message_is_ended_before_consumers_see_its_part_of_the_log(
    rig: BrokerRig,
) -> None:
    voice = await producer(rig)
    store = rig.broker.store
    store.confirm(store.commit_log.max_offset)
    first, second = await send_half(rig, voice, "a"), await send_half(rig, voice, "b")
    assert (await end(voice, first, COMMIT)).code == 0
    assert (await end(voice, second, ROLLBACK)).code == 0
    assert await delivered(rig) == [], "nothing is seen earlier by that"
    store.confirm(None)
    assert await delivered(rig) == ["a"]


async def test_ends_that_come_together_are_one_append_and_each_is_answered(
    rig: BrokerRig,
) -> None:
    voice = await producer(rig)
    sent = [await send_half(rig, voice, key) for key in "abc"]
    wrong = end_of(sent[2], COMMIT, tran_state_table_offset=7)
    answers = await asyncio.gather(
        end(voice, sent[0], COMMIT),
        end(voice, sent[1], COMMIT),
        voice.ask(wrong),
        end(voice, sent[0], COMMIT),
        end(voice, sent[1], ROLLBACK),
        end(voice, sent[2], ROLLBACK),
    )
    assert [answer.code for answer in answers] == [0, 0, 1, 0, 604, 0]
    assert await delivered(rig) == ["a", "b"]
    await rig.advance(3.1)
    assert [op.body for op in await rig.queue(OP_HALF_TOPIC)] == [b"0,1,0,2,"]


async def test_op_records_are_written_together_after_three_seconds(rig: BrokerRig) -> None:
    voice = await producer(rig)
    for key in "abc":
        await end(voice, await send_half(rig, voice, key), COMMIT)
    await rig.settle()
    assert await rig.queue(OP_HALF_TOPIC) == []
    await rig.advance(3.1)
    [op] = await rig.queue(OP_HALF_TOPIC)
    assert (op.body, op.properties) == (b"0,1,2,", {"WAIT": "true", "TAGS": "d"})
    await rig.advance(2 * ROUND_S)
    assert questions(voice) == []
    assert await delivered(rig) == ["a", "b", "c"]
    committed = rig.broker.offsets.queues("CID_RMQ_SYS_TRANS", HALF_TOPIC)
    assert dict(committed) == {0: 3}
    assert dict(rig.broker.offsets.queues("CID_RMQ_SYS_TRANS", OP_HALF_TOPIC)) == {0: 1}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("more", [{}, {"REAL_QID": "9"}], ids=["quick", "slow"])
async def test_4_9_adds_no_transaction_id(
    tmp_path: Path, profile: Profile, more: dict[str, str]
) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await producer(rig)
        await end(voice, await send_half(rig, voice, "a", **more), COMMIT)
        half = (await rig.queue(HALF_TOPIC))[0]
        [committed] = await rig.queue("orders", 1)
    expected = None if profile.name == "4.9" else "a"
    assert half.properties.get(names.TRANSACTION_ID) == expected
    assert committed.properties.get(names.TRANSACTION_ID) == expected
    assert (half.properties[names.REAL_TOPIC], half.properties["REAL_QID"]) == ("orders", "1")


async def test_4_9_writes_an_op_record_for_each(tmp_path: Path) -> None:
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await producer(rig)
        for key in "ab":
            await end(voice, await send_half(rig, voice, key), COMMIT)
        await rig.settle()
        assert [op.body.rstrip(b",") for op in await rig.queue(OP_HALF_TOPIC)] == [b"0", b"1"]
        made = [name for name in rig.broker.topics.table if name.endswith("_HALF_TOPIC")]
        assert made == [HALF_TOPIC]  # E-70


async def test_an_undecided_one_is_asked_for_until_its_producer_answers(rig: BrokerRig) -> None:
    voice = await producer(rig)  # B-107, B-108
    sent = await send_half(rig, voice, "a")
    reply = voice.ask(end_of(sent, UNKNOWN))
    reply.close()
    await rig.advance(CHECK_S + 0.1)
    [(header, message)] = questions(voice)
    assert header.topic == HALF_TOPIC
    assert (header.msg_id, header.transaction_id, header.bname) == ("a", "a", "broker-a")
    assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"a")
    assert message.properties[names.TRANSACTION_CHECK_TIMES] == "1"
    again = await rig.queue(HALF_TOPIC)
    assert [half.queue_offset for half in again] == [0, 1]
    assert header.tran_state_table_offset == 1
    assert header.commit_log_offset == again[1].commit_log_offset
    assert await answer(voice, lambda _: UNKNOWN) == ["a"]
    await rig.advance(CHECK_S)
    assert await answer(voice, lambda _: COMMIT) == ["a"]
    assert await delivered(rig) == ["a"]
    await rig.advance(3 * CHECK_S)
    assert questions(voice) == []
    assert await delivered(rig) == ["a"]


async def test_under_sync_flush_an_undecided_one_is_asked_for(tmp_path: Path) -> None:
    async with running_broker(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as rig:
        voice = await producer(rig)
        await send_half(rig, voice, "a")
        asked: list[str] = []
        for _ in range(10):  # the disk takes its own time between the steps of the clock
            await rig.advance(CHECK_S / 2)
            asked += await answer(voice, lambda _: COMMIT)
        assert asked == ["a"]
        assert await delivered(rig) == ["a"]


async def test_another_member_of_the_group_is_asked_when_the_sender_is_gone(
    rig: BrokerRig,
) -> None:
    sender, other = await producer(rig), await rig.voice()
    await send_half(rig, sender, "a")
    sender.channel.close()
    await other.heartbeat("127.0.0.1@2", producers=["writers"])
    await rig.advance(CHECK_S + 0.1)
    assert await answer(other, lambda _: COMMIT) == ["a"]
    assert await delivered(rig) == ["a"]


async def test_what_nobody_answers_for_ends_in_the_check_max_topic(tmp_path: Path) -> None:
    async with running_broker(tmp_path, transaction_check_max=3) as rig:
        voice = await rig.voice()
        await send_half(rig, voice, "a")
        await rig.advance(5 * CHECK_S)
        [lost] = await rig.queue(TRANS_CHECK_MAX_TIME_TOPIC)
        assert lost.body == b"a"
        assert lost.properties[names.TRANSACTION_CHECK_TIMES] == "3"
        assert lost.properties[names.REAL_TOPIC] == "orders"
        assert rig.broker.topics.get(TRANS_CHECK_MAX_TIME_TOPIC) is not None
        assert await delivered(rig) == []
        await voice.heartbeat("127.0.0.1@1", producers=["writers"])
        header = ResumeCheckHalfMessageRequestHeader(msg_id=lost.offset_msg_id)
        assert (await voice.ask(header)).code == 0
        await rig.advance(CHECK_S)
        assert await answer(voice, lambda _: COMMIT) == ["a"]
        assert await delivered(rig) == ["a"]


async def test_a_late_commit_and_the_answer_to_a_check_deliver_once(rig: BrokerRig) -> None:
    voice = await producer(rig)  # RocketMQ would deliver twice
    sent = await send_half(rig, voice, "a")
    await rig.advance(CHECK_S + 0.1)
    assert (await end(voice, sent, COMMIT)).code == 0
    assert await answer(voice, lambda _: COMMIT) == ["a"]
    assert await delivered(rig) == ["a"]
    assert (await end(voice, sent, COMMIT)).code == 0
    assert await delivered(rig) == ["a"]
    refused = await end(voice, sent, ROLLBACK)
    assert refused.code == 604
    assert "already decided, with the outcome commit" in (refused.remark or "")


async def test_what_was_rolled_back_can_not_be_committed(rig: BrokerRig) -> None:
    voice = await producer(rig)
    sent = await send_half(rig, voice, "a")
    await end(voice, sent, ROLLBACK)
    assert (await end(voice, sent, COMMIT)).code == 604
    assert await delivered(rig) == []


async def test_immunity_postpones_the_first_question(rig: BrokerRig) -> None:
    voice = await producer(rig)
    await send_half(rig, voice, "a", CHECK_IMMUNITY_TIME_IN_SECONDS="50")
    await rig.advance(49)
    assert questions(voice) == []
    await rig.advance(12)
    assert await answer(voice, lambda _: ROLLBACK) == ["a"]
    await rig.advance(2 * CHECK_S)
    assert questions(voice) == []


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_5_x_refuses_an_end_after_the_immunity_time_and_4_9_does_not_look(
    tmp_path: Path, profile: Profile
) -> None:  # B-102
    async with running_broker(tmp_path, profile) as rig:
        voice = await producer(rig)
        sent = await send_half(rig, voice, "a", CHECK_IMMUNITY_TIME_IN_SECONDS="10")
        await rig.advance(10.1)
        in_4_9 = profile is PROFILE_4_9
        assert (await end(voice, sent, COMMIT)).code == (0 if in_4_9 else 604)
        assert await delivered(rig) == (["a"] if in_4_9 else [])


async def test_a_committed_message_that_is_delayed_waits_for_its_time(rig: BrokerRig) -> None:
    voice = await producer(rig)
    sent = await send_half(rig, voice, "a", DELAY="1")
    await end(voice, sent, COMMIT)
    assert await delivered(rig) == []
    await rig.advance(1.2)
    assert await delivered(rig) == ["a"]
    await end(voice, sent, COMMIT)
    await rig.advance(5)
    assert await delivered(rig) == ["a"]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_SEC": "2"}], ids=list)
async def test_a_half_message_that_asks_for_a_delay_is_not_lost_to_its_transaction(
    tmp_path: Path, profile: Profile, delay: dict[str, str]
) -> None:  # by RocketMQ it is
    async with running_broker(tmp_path, profile) as rig:
        voice = await producer(rig)
        await send_half(rig, voice, "a", **delay)
        await rig.advance(3 * CHECK_S)
        assert len(await rig.queue("RMQ_SYS_TRANS_HALF_TOPIC")) >= 1
        assert set(await answer(voice, lambda _: COMMIT)) == {"a"}
        await rig.advance(5)
        assert await delivered(rig) == ["a"]


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"commit_log_offset": 3}, "no half message begins at"),
        ({"commit_log_offset": -5}, "no half message begins at"),
        ({"commit_log_offset": 2**40}, "no half message begins at"),
        ({"tran_state_table_offset": 7}, "state table offset wrong"),
        ({"producer_group": "others"}, "producer group wrong"),
        ({"commit_or_rollback": 5}, "commitOrRollback field wrong"),
    ],
)
async def test_a_wrong_end_is_told_so_and_changes_nothing(
    rig: BrokerRig, changes: dict[str, Any], remark: str
) -> None:
    voice = await producer(rig)
    sent = await send_half(rig, voice, "a")
    refused = await end(voice, sent, **({"outcome": COMMIT} | changes))
    assert refused.code == 1
    assert remark in (refused.remark or "")
    assert await delivered(rig) == []
    assert (await end(voice, sent, COMMIT)).code == 0
    assert await delivered(rig) == ["a"]


async def test_an_end_for_a_plain_message_is_refused(rig: BrokerRig) -> None:  # bad input
    voice = await producer(rig)
    sent = await voice.send(body=b"plain")
    refused = await end(voice, sent, COMMIT)
    assert refused.code == 1
    assert "no half message" in (refused.remark or "")
    header = ResumeCheckHalfMessageRequestHeader(msg_id=sent.msg_id)
    assert (await voice.ask(header)).code == 1
    assert (await voice.ask(ResumeCheckHalfMessageRequestHeader(msg_id="x"))).code == 1


async def test_half_messages_can_be_refused(tmp_path: Path) -> None:  # B-100
    async with running_broker(tmp_path, reject_transaction_message=True) as rig:
        voice = await rig.voice()
        refused = await voice.try_send(properties={names.TRANSACTION_PREPARED: "true"})
        assert refused.code == 16


async def test_a_broker_that_stops_writes_what_is_done(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        await end(voice, await send_half(rig, voice, "a"), COMMIT)
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        await rig.advance(2 * ROUND_S)
        assert questions(voice) == []
        assert await delivered(rig) == ["a"]


async def test_a_rollback_of_an_earlier_process_is_not_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    sent: dict[str, SendMessageResponseHeader] = {}
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        sent = {key: await send_half(rig, voice, key) for key in ("old", "asked", "open")}
        await end(voice, sent["old"], ROLLBACK)
        await rig.advance(ROUND_S)
        assert sorted(await answer(voice, lambda key: ROLLBACK if key == "asked" else UNKNOWN)) == [
            "asked", "open",
        ]  # fmt: skip
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        for key in ("old", "asked"):  # the second was rolled back under another offset
            refused = await end(voice, sent[key], COMMIT)
            assert (refused.code, "rollback" in (refused.remark or "")) == (604, True)
        assert (await end(voice, sent["open"], COMMIT)).code == 0
        assert await delivered(rig) == ["open"]


async def test_a_rollback_undoes_no_commit_of_an_earlier_process_and_counts_once(
    tmp_path: Path,
) -> None:
    clock = ManualClock(1_700_000_000_000)

    def open_count(rig: BrokerRig) -> int:
        kept = json.loads((Path(rig.broker.store.root) / "config/transactionMetrics").read_text())
        count: int = kept["transactionCount"]["orders"]["count"]
        return count

    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        done, undone, _ = [await send_half(rig, voice, key) for key in ("done", "undone", "open")]
        await end(voice, done, COMMIT)
        await end(voice, undone, ROLLBACK)
        await rig.advance(4)
    async with running_broker(tmp_path, clock=clock) as rig:
        voice = await producer(rig)
        assert open_count(rig) == 1
        refused = await end(voice, done, ROLLBACK)
        assert (refused.code, "commit" in (refused.remark or "")) == (604, True)
        assert (await end(voice, undone, ROLLBACK)).code == 0  # again, and so it is
        await rig.advance(25)
    async with running_broker(tmp_path, clock=clock) as rig:
        assert open_count(rig) == 1


async def test_without_an_index_op_records_tell_of_a_rollback(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    options: dict[str, Any] = {"clock": clock, "message_index_enable": False}
    async with running_broker(tmp_path, **options) as rig:
        sent = await send_half(rig, voice := await producer(rig), "a")
        assert (await end(voice, sent, ROLLBACK)).code == 0
        await rig.advance(4)
    async with running_broker(tmp_path, **options) as rig:
        refused = await end(await producer(rig), sent, COMMIT)
        assert (refused.code, "rollback" in (refused.remark or "")) == (604, True)
        assert await delivered(rig) == []


async def test_open_half_messages_are_counted_in_rocketmq_s_file(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await producer(rig)
        first, second, _ = [await send_half(rig, voice, key) for key in "abc"]
        await end(voice, first, COMMIT)
        await end(voice, first, COMMIT)
        await end(voice, second, ROLLBACK)
        await rig.advance(25)
        file = Path(rig.broker.store.root) / "config" / "transactionMetrics"
        kept = json.loads(file.read_text())
        assert kept["transactionCount"]["orders"]["count"] == 1
        assert set(kept["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
    async with running_broker(tmp_path) as rig:
        await send_half(rig, await producer(rig), "d")
        await rig.advance(25)
        assert json.loads(file.read_text())["transactionCount"]["orders"]["count"] == 2


@pytest.mark.parametrize(("profile", "period_s"), [(PROFILE_5_3, 3), (PROFILE_5_5, 10)])
async def test_how_often_open_half_messages_are_written(
    tmp_path: Path, profile: Profile, period_s: int
) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await producer(rig)
        file = Path(rig.broker.store.root) / "config" / "transactionMetrics"
        for count in (1, 2):
            await send_half(rig, voice, str(count))
            written = file.read_bytes() if file.exists() else None
            await rig.advance(period_s - 1)
            assert (file.read_bytes() if file.exists() else None) == written
            await rig.advance(1)
            assert json.loads(file.read_text())["transactionCount"]["orders"]["count"] == count


@pytest.mark.parametrize("profile", [PROFILE_5_3, PROFILE_5_5])
async def test_an_option_says_how_often_open_half_messages_are_written(
    tmp_path: Path, profile: Profile
) -> None:
    async with running_broker(
        tmp_path, profile, transaction_metric_flush_interval_ms=20_000
    ) as rig:
        voice = await producer(rig)
        file = Path(rig.broker.store.root) / "config" / "transactionMetrics"
        await send_half(rig, voice, "a")
        await rig.advance(19)
        assert not file.exists()
        await rig.advance(1)
        assert json.loads(file.read_text())["transactionCount"]["orders"]["count"] == 1
        setting = b"transactionMetricFlushInterval=1000"
        assert (await voice.ask(UpdateBrokerConfigRequestHeader(), setting)).code == 0
        await send_half(rig, voice, "b")
        await rig.advance(1)
        assert json.loads(file.read_text())["transactionCount"]["orders"]["count"] == 2


async def test_4_9_keeps_no_file_of_open_half_messages(tmp_path: Path) -> None:
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        await send_half(rig, await producer(rig), "a")
        await rig.advance(25)
        folder = Path(rig.broker.store.root) / "config"
    assert not (folder / "transactionMetrics").exists()


# -- kills ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("flush", list(FlushDiskType), ids=lambda flush: flush.name.lower())
async def test_a_kill_at_any_step_delivers_what_is_committed_once_and_asks_for_the_rest(
    tmp_path: Path, seed: int, flush: FlushDiskType
) -> None:  # fault 48
    """The files as they are when the process dies; what it had in memory is gone (X-26)."""
    pick = Random(seed)
    wanted: dict[str, int] = {}
    acknowledged: dict[str, int] = {}
    sent: dict[str, SendMessageResponseHeader] = {}
    options: dict[str, Any] = {
        "clock": ManualClock(1_700_000_000_000),
        "disk": InlineDisk(),
        "flush_disk_type": flush,
    }
    for life in range(3):
        folder, copy = tmp_path / f"{life}", tmp_path / f"{life + 1}"
        async with running_broker(folder, **options) as rig:
            voice = await producer(rig)
            for _ in range(pick.randrange(4, 25)):
                match pick.randrange(6):
                    case 0 | 1 | 2:
                        key = f"key-{len(sent)}"
                        wanted[key] = pick.choice([COMMIT, ROLLBACK])
                        sent[key] = await send_half(rig, voice, key)
                    case 3 | 4 if sent:
                        key = pick.choice(sorted(sent))
                        reply = await end(voice, sent[key], wanted[key])
                        assert reply.code == 0, reply.remark
                        acknowledged[key] = wanted[key]
                    case _:
                        await voice.heartbeat("127.0.0.1@1", producers=["writers"])
                        await rig.advance(pick.choice([0.5, 4.0, CHECK_S]))
                        if pick.random() < 0.5:
                            for key in await answer(voice, wanted.__getitem__):
                                acknowledged[key] = wanted[key]
            shutil.copytree(folder, copy)  # SIGKILL: another process finds this
            (copy / "store" / "lock").unlink(missing_ok=True)
    async with running_broker(tmp_path / "3", **options) as rig:
        at_once = await delivered(rig)
        for key, outcome in acknowledged.items():
            assert at_once.count(key) == (outcome == COMMIT), key
        voice = await producer(rig)
        for _ in range(8):
            await rig.advance(ROUND_S)
            await voice.heartbeat("127.0.0.1@1", producers=["writers"])
            await answer(voice, wanted.__getitem__)
        assert sorted(await delivered(rig)) == sorted(k for k, o in wanted.items() if o == COMMIT)
        await rig.advance(3 * CHECK_S)
        assert questions(voice) == []
