"""What a broker answers and writes under each profile (docs/generated/profiles.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.groups import GetAllSubscriptionGroupsRequestHeader
from pocketmq.protocol.headers.offsets import (
    GetAllConsumerOffsetRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
)
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.headers.timers import RecallMessageRequestHeader
from pocketmq.protocol.headers.topics import (
    GetAllTopicConfigRequestHeader,
    GetTopicConfigRequestHeader,
)
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import HALF_TOPIC, TIMER_TOPIC
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, PROFILES, Profile
from support.broker_rig import consumer, running_broker


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_request_of_a_later_release_is_not_known(tmp_path: Path, profile: Profile) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.create_topic("orders")
        reply = await voice.ask(GetTopicConfigRequestHeader(topic="orders"))  # since 5.0
        assert reply.code == (3 if profile is PROFILE_4_9 else 0)
        assert reply.version == profile.client_version


LATER = {
    "21:dataVersion.stateVersion",
    "21:topicConfigTable.orders.attributes",
    "201:dataVersion.stateVersion",
    "201:forbiddenTable",
    "201:subscriptionGroupTable.readers.attributes",
    "201:subscriptionGroupTable.readers.consumeMessageOrderly",
    "201:subscriptionGroupTable.readers.consumeTimeoutMinute",
    "201:subscriptionGroupTable.readers.groupRetryPolicy",
    "201:subscriptionGroupTable.readers.groupSysFlag",
    "202:topicPutTps",
    "208:offsetTable.{queue}.pullOffset",
    "317:consumeStatsList.readers.offsetTable.{queue}.pullOffset",
    "317:totalInflightDiff",
    "43:dataVersion",
}
"""Fields of answers about `orders` and `readers` that came with 5.x."""


@pytest.mark.parametrize("encoding", [Encoding.JSON, Encoding.MSGPACK], ids=lambda each: each.name)
async def test_answers_of_4_9_lack_the_fields_of_5_x(
    tmp_path: Path, encoding: Encoding
) -> None:  # E-62, E-65
    told: dict[str, set[str]] = {}
    for profile in (PROFILE_4_9, PROFILE_5_3):
        async with running_broker(tmp_path / profile.name, profile) as rig:
            voice = await rig.voice(encoding)
            await voice.create_topic("orders", queues=1)
            await voice.heartbeat(consumers=[consumer()])
            await voice.commit(0)
            told[profile.name] = set()
            for header in (
                GetAllTopicConfigRequestHeader(),
                GetAllSubscriptionGroupsRequestHeader(),
                GetTopicStatsRequestHeader(topic="orders"),
                GetConsumeStatsRequestHeader(consumer_group="readers", topic="orders"),
                GetConsumeStatsInBrokerHeader(is_order=False),
                GetAllConsumerOffsetRequestHeader(),
            ):
                body = bytes((await voice.ask(header)).body_view)
                plain = (
                    json.loads(body)
                    if encoding is Encoding.JSON
                    else msgpack.unpackb(body, strict_map_key=False)
                )
                told[profile.name] |= {f"{header.CODE}:{each}" for each in _fields(plain)}
    assert told["5.3"] >= LATER
    assert not told["4.9"] & LATER
    assert "43:offsetTable.orders@readers.0" in told["4.9"]
    assert "21:topicConfigTable.orders.order" in told["4.9"]
    assert "201:subscriptionGroupTable.readers.retryMaxTimes" in told["4.9"]


def _fields(body: object, path: str = "") -> Iterator[str]:
    """Each field's path; a key that is a queue is `{queue}`, and a list has no part in it."""
    if isinstance(body, list):
        for each in body:
            yield from _fields(each, path)
    elif isinstance(body, dict):
        for key, value in body.items():
            name = "{queue}" if str(key).startswith("{") else str(key)
            inner = f"{path}.{name}".lstrip(".")
            yield inner
            yield from _fields(value, inner)


@pytest.mark.parametrize(
    ("profile", "key"), [(PROFILE_5_3, "orders+K"), (PROFILE_5_5, "K")], ids=["5.3", "5.5"]
)
async def test_a_cancel_names_its_message_as_the_release_does(
    tmp_path: Path, profile: Profile, key: str
) -> None:  # T-136
    async with running_broker(tmp_path, profile, recall_message_enable=True) as rig:
        voice = await rig.voice()
        properties = {names.TIMER_DELAY_SEC: "60", names.UNIQ_KEY: "K"}
        sent = await voice.try_send("orders", properties=properties)
        handle = sent.header(SendMessageResponseHeader).recall_handle
        header = RecallMessageRequestHeader(topic="orders", recall_handle=handle)
        assert (await voice.ask(header)).code == 0
        [_, cancel] = await rig.queue(TIMER_TOPIC)
        assert cancel.properties[names.TIMER_DEL_UNIQKEY] == key
        await rig.advance(70)
        assert await rig.queue("orders") == []


@pytest.mark.parametrize(("appends", "key"), [(True, "orders+K"), (False, "K")])
@pytest.mark.parametrize("profile", [PROFILE_5_3, PROFILE_5_5], ids=lambda profile: profile.name)
async def test_an_option_says_how_a_cancel_names_its_message(
    tmp_path: Path, profile: Profile, appends: bool, key: str
) -> None:  # T-136
    async with running_broker(
        tmp_path,
        profile,
        recall_message_enable=True,
        append_topic_for_timer_delete_key=appends,
    ) as rig:
        voice = await rig.voice()
        properties = {names.TIMER_DELAY_SEC: "60", names.UNIQ_KEY: "K"}
        sent = await voice.try_send("orders", properties=properties)
        handle = sent.header(SendMessageResponseHeader).recall_handle
        header = RecallMessageRequestHeader(topic="orders", recall_handle=handle)
        assert (await voice.ask(header)).code == 0
        [_, cancel] = await rig.queue(TIMER_TOPIC)
        assert cancel.properties[names.TIMER_DEL_UNIQKEY] == key
        await rig.advance(70)
        assert await rig.queue("orders") == []


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_resend_that_is_given_up_waits_by_its_delay_in_4_9_only(
    tmp_path: Path, profile: Profile
) -> None:  # B-86
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        fields = {"properties": {"DELAY": "2"}, "reconsume_times": 20, "max_reconsume_times": 16}
        await voice.send("%RETRY%readers", **fields)
        waits = not await rig.queue("%DLQ%readers")
        await rig.advance(10)
        (dead,) = await rig.queue("%DLQ%readers")
        assert (waits, dead.properties["DELAY"]) == (
            (True, "2") if profile is PROFILE_4_9 else (False, "-1")
        )


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_delayed_retry_with_tran_msg_is_a_half_message_in_4_9_only(
    tmp_path: Path, profile: Profile
) -> None:  # B-100, X-10
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        properties = {names.TRANSACTION_PREPARED: "true", names.DELAY: "1"}
        await voice.send("orders", properties=properties, reconsume_times=1)
        await rig.advance(10)
        halves, plain = await rig.queue(HALF_TOPIC), await rig.queue("orders")
        assert (len(halves), len(plain)) == ((1, 0) if profile is PROFILE_4_9 else (0, 1))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_answers_to_sends_tell_a_transaction_id_since_5_0(
    tmp_path: Path, profile: Profile
) -> None:  # E-20
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        place = await voice.send(properties={"UNIQ_KEY": "U"})
        assert place.transaction_id == (None if profile is PROFILE_4_9 else "U")
