"""Heartbeats, departures and notifications of a broker (34, 35, 38, 40, 46, 203, 204, 328)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    ConsumerConnection,
    HeartbeatData,
    ProducerConnection,
    ProducerData,
    ProducerTableInfo,
)
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import FLAG_ONEWAY, Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.clients import (
    CheckClientConfigRequestHeader,
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.runtime.profile import PROFILE_4_9, PROFILES, Profile
from support.broker_rig import BrokerRig, Voice, consumer, running_broker
from support.own_logs import own_logs

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def member(rig: BrokerRig, client_id: str, **fields: object) -> Voice:
    """A connected consumer."""
    voice = await rig.voice()
    await voice.heartbeat(client_id, consumers=[consumer(**fields)])  # type: ignore[arg-type]
    await rig.settle()
    return voice


async def test_a_heartbeat_makes_the_group_its_retry_topic_and_a_member(  # B-21, T-3
    rig: BrokerRig, encoding: Encoding
) -> None:
    voice = await rig.voice(encoding)
    assert await voice.members() is None  # B-28
    reply = await voice.heartbeat("one", consumers=[consumer()])
    answer = reply.header(HeartbeatResponseHeader)
    assert (answer.support_heartbeat_v2, answer.subscription_changed) == (True, True)
    assert rig.broker.groups.get("readers") is not None
    config = rig.broker.topics.get("%RETRY%readers")
    assert config is not None
    assert (config.read_queue_nums, config.perm, config.order) == (1, 6, False)
    assert await voice.members() == ["one"]


async def test_4_9_answers_a_heartbeat_with_nothing(tmp_path: Path) -> None:  # B-21
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        reply = await (await rig.voice()).heartbeat("one", consumers=[consumer()])
        assert not reply.fields


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_the_retry_topic_of_a_group_on_an_order_topic_is_ordered_in_5_x(
    tmp_path: Path, profile: Profile
) -> None:  # B-21
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.create_topic("orders")
        rig.broker.topics.take_order_table(["orders"], now_ms=0)
        await voice.heartbeat("one", consumers=[consumer()])
        config = rig.broker.topics.get("%RETRY%readers")
        assert config is not None
        assert config.order is (profile is not PROFILE_4_9)


async def test_a_group_that_may_not_be_created_is_skipped_silently(tmp_path: Path) -> None:
    # B-21, B-40
    async with running_broker(tmp_path, auto_create_subscription_group=False) as rig:
        voice = await rig.voice()
        await voice.heartbeat("one", consumers=[consumer()], producers=["writers"])
        assert await voice.members() is None
        assert len(rig.broker.producers.members("writers")) == 1


async def test_everybody_hears_of_a_newcomer_and_the_newcomer_too(  # B-24, T-5
    rig: BrokerRig, encoding: Encoding
) -> None:
    one, two = await rig.voice(encoding), await rig.voice()
    await one.heartbeat("one", consumers=[consumer()])
    await rig.settle()
    assert len(one.told(NOTIFY)) == 1
    await two.heartbeat("two", consumers=[consumer()])
    await rig.settle()
    assert len(one.told(NOTIFY)) == 2
    (notice,) = two.told(NOTIFY)
    assert notice.is_oneway
    assert notice.header(NotifyConsumerIdsChangedRequestHeader).consumer_group == "readers"
    await two.heartbeat("two", consumers=[consumer()])
    await rig.settle()
    assert len(one.told(NOTIFY)) == 2


async def test_those_who_stay_hear_of_a_good_bye(rig: BrokerRig) -> None:  # B-25
    one, two = await member(rig, "one"), await member(rig, "two")
    heard = len(one.told(NOTIFY))
    await two.leave(client_id="two")
    await rig.settle()
    assert len(one.told(NOTIFY)) == heard + 1
    assert await one.members() == ["one"]


async def test_those_who_stay_hear_of_a_closed_connection_at_once(rig: BrokerRig) -> None:  # B-26
    one, two = await member(rig, "one"), await member(rig, "two")
    heard = len(one.told(NOTIFY))
    two.channel.close()
    await two.channel.closed
    await rig.settle()
    assert len(one.told(NOTIFY)) == heard + 1
    assert await one.members() == ["one"]


async def test_a_silent_member_is_forgotten_after_120_s_and_nobody_is_told(  # B-27, T-6
    rig: BrokerRig,
) -> None:
    one, two = await member(rig, "one"), await member(rig, "two")
    await rig.advance(100)
    await one.heartbeat("one", consumers=[consumer()])
    heard = len(one.told(NOTIFY))
    await rig.advance(20)
    assert await one.members() == ["one", "two"]
    await rig.advance(10)
    assert await one.members() == ["one"]
    await two.channel.closed
    await rig.settle()
    assert len(one.told(NOTIFY)) == heard


async def test_a_broker_that_stood_still_hears_its_clients_before_it_forgets_them(
    rig: BrokerRig,
) -> None:  # fault 38
    one = await member(rig, "one")
    silent = rig.broker.subjects.groups.silent
    silent._due_at -= 500  # the last look is long ago, as after a SIGSTOP
    rig.broker.consumers.expiry_s = -1
    with own_logs() as logs:
        silent.scan()
    assert [line["event"] for line in logs] == ["broker.stalled"]
    assert await one.members() == ["one"]
    silent.scan()
    assert rig.broker.consumers.get("readers") is None


async def test_a_silent_producer_is_forgotten_after_120_s(rig: BrokerRig, voice: Voice) -> None:
    # B-30
    await voice.heartbeat("one", producers=["writers"])
    await rig.advance(130)
    assert rig.broker.producers.members("writers") == []


async def test_a_broadcast_group_is_told_in_4_9_only(tmp_path: Path) -> None:  # B-24
    for profile, told in ((PROFILE_4_9, 1), (None, 0)):
        path = tmp_path / str(told)
        async with running_broker(path, *([profile] if profile else [])) as rig:
            one = await member(rig, "one", message_model="BROADCASTING")
            assert len(one.told(NOTIFY)) == told


async def test_subscriptions_that_disagree_are_named(rig: BrokerRig) -> None:  # B-23
    await member(rig, "one", topics=["orders"])
    with own_logs() as logs:
        await member(rig, "two", topics=["others"])
    (warning,) = [line for line in logs if line["event"] == "subscription.disagrees"]
    assert (warning["client_id"], warning["group"]) == ("two", "readers")
    assert (warning["added"], warning["removed"]) == (["others"], ["orders"])


async def test_a_client_id_that_comes_twice_is_named(rig: BrokerRig) -> None:  # B-28
    await member(rig, "one")
    with own_logs() as logs:
        await member(rig, "one")
    assert [line["client_id"] for line in logs if line["event"] == "client.duplicated"] == ["one"]


async def test_a_heartbeat_without_subscriptions_keeps_them(rig: BrokerRig, voice: Voice) -> None:
    # B-29
    await voice.heartbeat("one", consumers=[consumer()], heartbeat_fingerprint=5)
    short = consumer(topics=[])
    reply = await voice.heartbeat(
        "one", consumers=[short], heartbeat_fingerprint=5, without_sub=True
    )
    assert reply.header(HeartbeatResponseHeader).subscription_changed is False
    assert rig.broker.consumers.subscription("readers", "orders") is not None
    reply = await voice.heartbeat(
        "one", consumers=[short], heartbeat_fingerprint=6, without_sub=True
    )
    assert reply.header(HeartbeatResponseHeader).subscription_changed is True


async def test_the_connections_of_a_group_are_told(rig: BrokerRig, encoding: Encoding) -> None:
    # E-29 (203, 204)
    voice = await rig.voice(encoding)
    header = GetConsumerConnectionListRequestHeader(consumer_group="readers")
    assert (await voice.ask(header)).code == 206
    producers = GetProducerConnectionListRequestHeader(producer_group="writers")
    assert (await voice.ask(producers)).code == 1
    await voice.heartbeat("one", consumers=[consumer()], producers=["writers"])
    reply = await voice.ask(header)
    told = decode_body(reply.body_view, ConsumerConnection, encoding)
    assert [(c.client_id, c.language, c.version) for c in told.connection_set] == [
        ("one", "PYTHON", 479)
    ]
    assert list(told.subscription_table) == ["orders"]
    reply = await voice.ask(producers)
    assert (
        decode_body(reply.body_view, ProducerConnection, encoding)
        .connection_set[0]
        .client_addr.startswith("127.0.0.1:")
    )


async def test_all_producers_are_told_by_group(rig: BrokerRig, encoding: Encoding) -> None:
    # 328, as Java writes an address: with a slash before it
    voice = await rig.voice(encoding)
    reply = await voice.ask(GetAllProducerInfoRequestHeader())
    assert decode_body(reply.body_view, ProducerTableInfo, encoding).data == {}
    beaten_ms = rig.clock.time_ms()
    await voice.heartbeat("one", producers=["writers", "others"])
    await rig.advance(30)
    reply = await voice.ask(GetAllProducerInfoRequestHeader())
    told = decode_body(reply.body_view, ProducerTableInfo, encoding).data
    assert sorted(told) == ["others", "writers"]
    [one] = told["writers"]
    assert (one.client_id, one.language, one.version) == ("one", "PYTHON", 479)
    assert one.remote_ip.startswith("/127.0.0.1:")
    assert one.last_update_timestamp == beaten_ms


@pytest.mark.parametrize(
    ("expression", "kind", "code"), [("a", "TAG", 0), ("a > 1", "SQL92", 1), (" ", "SQL92", 1)]
)
async def test_a_client_may_ask_whether_its_subscription_works_here(  # E-24 (46)
    rig: BrokerRig, voice: Voice, expression: str, kind: str, code: int
) -> None:
    body = CheckClientRequestBody(
        client_id="one",
        group="readers",
        subscription_data=SubscriptionData(
            topic="orders", sub_string=expression, expression_type=kind
        ),
    )
    assert (await voice.ask(CheckClientConfigRequestHeader(), body)).code == code


async def test_a_producer_says_good_bye(rig: BrokerRig, voice: Voice) -> None:  # B-25
    await voice.heartbeat("one", producers=["writers"])
    header = UnregisterClientRequestHeader(client_id="one", producer_group="writers")
    assert (await voice.ask(header)).code == 0
    assert rig.broker.producers.members("writers") == []


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_group_that_a_client_leaves_is_made_if_it_is_unknown(  # B-25
    tmp_path: Path, profile: Profile
) -> None:
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        header = UnregisterClientRequestHeader(client_id="one", consumer_group="readers")
        assert (await voice.ask(header)).code == 0
        assert rig.broker.groups.get("readers") is not None


async def test_a_hundred_newcomers_at_once_cause_hundreds_of_notices_and_not_thousands(
    rig: BrokerRig,
) -> None:  # fault 46
    import asyncio

    voices = [await rig.voice() for _ in range(100)]
    await asyncio.gather(
        *(v.heartbeat(f"client-{n}", consumers=[consumer()]) for n, v in enumerate(voices))
    )
    await rig.settle()
    notices = sum(len(voice.told(NOTIFY)) for voice in voices)
    assert all(voice.told(NOTIFY) for voice in voices)
    assert notices < 1000


async def test_without_real_time_notices_a_group_is_told_every_15_s(tmp_path: Path) -> None:  # B-24
    async with running_broker(tmp_path, real_time_notify_consumer_change=False) as rig:
        one, two = await member(rig, "one"), await member(rig, "two")
        await rig.advance(29)
        assert (one.told(NOTIFY), two.told(NOTIFY)) == ([], [])
        await rig.advance(2)
        assert (len(one.told(NOTIFY)), len(two.told(NOTIFY))) == (1, 1), "one for both changes"
        await one.ask(UnregisterClientRequestHeader(client_id="one", consumer_group="readers"))
        await rig.advance(13)
        assert len(two.told(NOTIFY)) == 1
        await rig.advance(2)
        assert len(two.told(NOTIFY)) == 2, "45 s after the start"
        await rig.advance(60)
        assert len(two.told(NOTIFY)) == 2, "nothing has changed"


@pytest.mark.parametrize("language", [12345, -(2**31)])
async def test_a_client_in_an_unknown_language_spoils_no_answer(
    rig: BrokerRig, encoding: Encoding, language: int
) -> None:
    # One msgpack heartbeat with language 12345 broke 203 and 204 for its whole group.
    known, odd = await rig.voice(), await rig.voice(encoding)
    await known.heartbeat("127.0.0.1@1", consumers=[consumer()], producers=["writers"])
    body = HeartbeatData(
        client_id="127.0.0.1@2",
        consumer_data_set=[consumer()],
        producer_data_set=[ProducerData(group_name="writers")],
    )
    fits = -128 <= language <= 127 or encoding is not Encoding.ROCKETMQ  # one byte there
    request = Command(
        RequestCode.HEART_BEAT,
        body=encode_body(body, encoding),
        encoding=encoding,
        language=language if fits else 127,
        flag=FLAG_ONEWAY,
    )
    odd.channel._write(encode_frame(request))  # ours would never say so
    await rig.settle()
    for header, cls in (
        (GetConsumerConnectionListRequestHeader(consumer_group="readers"), ConsumerConnection),
        (GetProducerConnectionListRequestHeader(producer_group="writers"), ProducerConnection),
    ):
        reply = await known.ask(header)
        assert reply.code == 0, reply.remark
        found = decode_body(reply.body_view, cls, reply.encoding)
        languages = {each.client_id: each.language for each in found.connection_set}
        assert languages == {"127.0.0.1@1": "PYTHON", "127.0.0.1@2": "OTHER"}
