"""What a broker answers and writes under each profile (docs/generated/profiles.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.headers.timers import RecallMessageRequestHeader
from pocketmq.protocol.headers.topics import GetTopicConfigRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import HALF_TOPIC, TIMER_TOPIC
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, PROFILES, Profile
from support.broker_rig import running_broker


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_request_of_a_later_release_is_not_known(tmp_path: Path, profile: Profile) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.create_topic("orders")
        reply = await voice.ask(GetTopicConfigRequestHeader(topic="orders"))  # since 5.0
        assert reply.code == (3 if profile is PROFILE_4_9 else 0)
        assert reply.version == profile.client_version


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
