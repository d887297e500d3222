"""Pop since RocketMQ 5.5: suspended messages, notifications by expression (K-57, K-66)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketmq.broker.pop.records import decode_check_point
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.pop import NotificationRequestHeader, NotificationResponseHeader
from pocketmq.protocol.headers.settings import UpdateBrokerConfigRequestHeader
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.profile import PROFILE_5_3, PROFILE_5_5, Profile
from support.broker_rig import SUBSCRIPTION, BrokerRig, Voice, pull_header, running_broker
from support.pop_voice import GROUP, REVIVED_S, ack_all, change, pop, pop_header


async def check_points(rig: BrokerRig) -> list[str]:
    """Bodies of the check points that wait in the timers."""
    return [m.body.decode() for m in await rig.queue(TIMER_TOPIC) if m.tags == "ck"]


@pytest.mark.parametrize(("suspend", "tries"), [(True, 0), (False, 1), (None, 1)])
async def test_a_suspended_message_comes_again_as_if_it_had_never_come(
    rig: BrokerRig, voice: Voice, *, suspend: bool | None, tries: int
) -> None:  # K-57
    await voice.send("orders", b"m")
    [popped] = (await pop(voice)).messages
    reply, _ = await change(voice, popped, 5000, suspend=suspend)
    assert reply.code == 0
    first, second = await check_points(rig)
    assert [json.loads(text)["sp"] for text in (first, second)] == [False, suspend is True]
    keys = list(json.loads(second))
    assert keys[keys.index("sp") - 1 : keys.index("sp") + 2] == ["so", "sp", "t"]
    await rig.advance(10)
    answer = await pop(voice)
    [again] = answer.messages
    assert (again.body, again.message.reconsume_times) == (b"m", tries)
    await ack_all(voice, answer)


async def test_a_broker_of_5_3_knows_neither(tmp_path: Path) -> None:
    async with running_broker(tmp_path, PROFILE_5_3) as rig:
        voice = await rig.voice()
        await voice.send("orders", b"m")
        [popped] = (await pop(voice)).messages
        assert (await change(voice, popped, 5000, suspend=True))[0].code == 0
        assert all("sp" not in json.loads(text) for text in await check_points(rig))
        await rig.advance(10)
        [again] = (await pop(voice)).messages
        assert again.message.reconsume_times == 1


@pytest.mark.parametrize(("profile", "group"), [(PROFILE_5_3, None), (PROFILE_5_5, GROUP)])
async def test_a_message_that_comes_again_names_its_group(
    tmp_path: Path, profile: Profile, group: str | None
) -> None:  # K-90
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.send("orders", b"m", properties={"TAGS": "a"})
        [first] = (await pop(voice)).messages
        assert "ORIGIN_GROUP" not in first.message.properties
        await rig.advance(REVIVED_S)
        [again] = (await pop(voice)).messages
        assert again.message.reconsume_times == 1
        assert again.message.properties.get("ORIGIN_GROUP") == group


@pytest.mark.parametrize(
    ("profile", "makes_groups", "written"),
    [(PROFILE_5_3, False, ["ck"]), (PROFILE_5_5, False, []), (PROFILE_5_5, True, ["ck"])],
)
async def test_a_check_point_of_a_group_that_is_gone_is_not_written(
    tmp_path: Path, profile: Profile, *, makes_groups: bool, written: list[str]
) -> None:  # K-102
    options = {"enable_pop_buffer_merge": True, "auto_create_subscription_group": makes_groups}
    async with running_broker(tmp_path, profile, **options) as rig:
        voice = await rig.voice()
        groups = rig.broker.groups
        groups.put(SubscriptionGroupConfig(group_name=GROUP), rig.clock.time_ms())
        await voice.send("orders", b"m")
        assert (await pop(voice, invisible_time=60_000)).bodies == [b"m"]
        groups.delete(GROUP, rig.clock.time_ms())
        await rig.advance(11)  # it has been in memory for 10 s
        assert [record.tags for record in await rig.queue(TIMER_TOPIC)] == written
        buffer = rig.broker.subjects.pop.buffer
        assert buffer is not None
        assert not len(buffer)
        assert not buffer.ordered


def test_check_points_of_either_release_are_read() -> None:
    old = (
        b'{"bm":0,"bn":"b","c":"G","d":[0],"it":6000,"n":1,"pt":1000,"q":3,"reviveTime":7000,'
        b'"ro":0,"so":7,"t":"T"}'
    )
    assert decode_check_point(old).suspended is None
    new = old.replace(b'"so":7,', b'"so":7,"sp":true,')
    assert decode_check_point(new).suspended is True
    assert decode_check_point(new).encode() == new


@pytest.mark.parametrize("profile", [PROFILE_5_3, PROFILE_5_5], ids=lambda profile: profile.name)
async def test_a_notification_counts_what_its_expression_chooses(
    tmp_path: Path, profile: Profile
) -> None:  # K-66
    async with running_broker(tmp_path, profile, enable_property_filter=True) as rig:
        voice = await rig.voice()
        await voice.send("orders", b"m", properties={"TAGS": "a", "number": "3"})

        async def has_message(exp: str, exp_type: str) -> bool:
            header = NotificationRequestHeader(
                consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=0, exp=exp,
                exp_type=exp_type,
            )  # fmt: skip
            reply = await voice.ask(header)
            assert reply.code == 0, reply.remark
            return reply.header(NotificationResponseHeader).has_msg

        knows = profile is PROFILE_5_5
        assert await has_message("a || c", "TAG")
        assert await has_message("b", "TAG") is not knows
        assert await has_message("number = 3", "SQL92")
        assert await has_message("number = 4", "SQL92") is not knows
        [stored] = decode_records(
            b"".join(rig.broker.store.reads.get_message("orders", 0, 0, 1).records)
        )
        assert stored.body == b"m"
        setting = b"useMessageFilterForNotification=false"
        assert (await voice.ask(UpdateBrokerConfigRequestHeader(), setting)).code == 0
        assert await has_message("b", "TAG"), "whatever it chooses"


@pytest.mark.parametrize("exp_type", ["TAG", "SQL92"])
async def test_a_pop_and_a_notification_bring_no_longer_expression_than_a_pull(
    tmp_path: Path, exp_type: str
) -> None:
    async with running_broker(tmp_path, PROFILE_5_5, enable_property_filter=True) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        long = "a = '" + "x" * 16_384 + "'"
        peek = NotificationRequestHeader(
            consumer_group=GROUP,
            topic="orders",
            queue_id=-1,
            poll_time=0,
            exp=long,
            exp_type=exp_type,
        )
        pull = pull_header(sys_flag=SUBSCRIPTION, subscription=long, expression_type=exp_type)
        asked: list[Header] = [pop_header(exp=long, exp_type=exp_type), peek, pull]
        for header in asked:
            reply = await voice.ask(header)
            assert reply.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED, reply.remark
            assert "(budget.subscription_chars)" in (reply.remark or "")
