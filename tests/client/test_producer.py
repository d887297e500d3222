"""Producers against scripted brokers, in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest

from pocketmq.client import Message, MessageQueue, SendFailedError, SendStatus, select_by_hash
from pocketmq.client.instance import DuplicateGroupError
from pocketmq.protocol.codes import BUSY_CODES, RequestCode, ResponseCode
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ClientError,
    IllegalMessageError,
    IllegalNameError,
    NoNameServerError,
    TopicNotFoundError,
)
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from pocketmq.protocol.java import java_hash
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.profile import PROFILE_4_9, PROFILES, Profile
from support.client_rig import client_rig


async def test_a_message_is_stored_and_the_result_says_where() -> None:  # P-43
    async with client_rig() as rig, rig.producer() as producer:
        message = Message("T", b"hello", tags="A", keys="k1")
        result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    assert result.is_ok
    assert result.msg_id == message.uniq_key
    assert result.queue.broker_name == "a"
    assert result.queue_offset == 0
    [stored] = rig.brokers[0].messages("T")
    assert (stored.body, stored.tags, stored.keys) == (b"hello", "A", "k1")
    assert stored.msg_id == result.msg_id


async def test_queues_take_turns_over_all_brokers() -> None:  # P-30
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        results = [await producer.send(Message("T", b"x")) for _ in range(16)]
    assert set(Counter(result.queue for result in results).values()) == {2}


async def test_the_first_headers_carry_the_model_topic_and_its_queue_number() -> None:  # P-43
    async with client_rig() as rig, rig.producer() as producer:
        await producer.send(Message("T", b"x"))
    [request] = [each for each in rig.brokers[0].seen if each.code == RequestCode.SEND_MESSAGE_V2]
    header = request.header(SendMessageRequestHeaderV2)
    assert (header.default_topic, header.default_topic_queue_nums) == ("TBW102", 4)
    assert header.producer_group == "producers"
    assert header.born_timestamp == rig.clock.time_ms()


async def test_long_header_names_when_smart_messages_are_off() -> None:  # P-43
    async with client_rig() as rig, rig.producer(send_smart_msg=False) as producer:
        await producer.send(Message("T", b"x"))
    assert rig.brokers[0].count(RequestCode.SEND_MESSAGE) == 1


async def test_an_unknown_topic_gets_the_model_topics_brokers_and_at_most_4_queues() -> None:
    # P-14
    async with client_rig() as rig, rig.producer() as producer:
        result = await producer.send(Message("New", b"x"))
        assert await producer.publish_queues("New") == tuple(
            MessageQueue("New", "a", i) for i in range(4)
        )
        assert rig.nameserver.seen == ["New", "TBW102"]
    assert result.queue.topic == "New"


async def test_the_next_refresh_finds_the_real_route() -> None:  # P-14, P-3
    async with client_rig() as rig, rig.producer() as producer:
        await producer.send(Message("New", b"x"))
        rig.nameserver.add_topic("New", rig.brokers, queues=6)
        await rig.advance(31)
        assert len(await producer.publish_queues("New")) == 6


async def test_no_route_and_no_model_is_error_10005() -> None:  # P-15, T-14
    async with client_rig() as rig, rig.producer() as producer:
        del rig.nameserver.routes["TBW102"]
        with pytest.raises(TopicNotFoundError) as caught:
            await producer.send(Message("New", b"x"))
    assert caught.value.code == 10005


async def test_no_name_server_is_error_10004(monkeypatch: pytest.MonkeyPatch) -> None:  # P-15
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    async with client_rig() as rig, rig.producer(nameservers=None) as producer:
        with pytest.raises(NoNameServerError) as caught:
            await producer.send(Message("T", b"x"))
    assert caught.value.code == 10004


async def test_name_servers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_rig() as rig:
        monkeypatch.setenv("NAMESRV_ADDR", f"{rig.nameserver.address};127.0.0.1:9")
        async with rig.producer(nameservers=None) as producer:
            assert (await producer.send(Message("T", b"x"))).is_ok


async def test_a_dead_name_server_is_left_for_the_next() -> None:  # P-9
    async with client_rig() as rig:
        servers = ["127.0.0.1:1", "127.0.0.1:2", rig.nameserver.address]
        async with rig.producer(nameservers=servers) as producer:
            assert (await producer.send(Message("T", b"x"))).is_ok


@pytest.mark.parametrize(
    ("code", "brokers"),
    [
        (ResponseCode.TOPIC_NOT_EXIST, 2),
        (ResponseCode.SERVICE_NOT_AVAILABLE, 2),
        (ResponseCode.SYSTEM_ERROR, 2),
        (ResponseCode.SYSTEM_BUSY, 2),
        (ResponseCode.NO_PERMISSION, 2),
        (ResponseCode.NO_BUYER_ID, 2),
        (ResponseCode.NOT_IN_CURRENT_UNIT, 2),
        (ResponseCode.GO_AWAY, 2),
        (ResponseCode.MESSAGE_ILLEGAL, 1),
    ],
)
@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_which_broker_errors_are_tried_on_another_broker(
    profile: str, code: int, brokers: int
) -> None:  # P-41, P-31
    if profile == "4.9" and code in BUSY_CODES:
        brokers = 1
    async with client_rig("a", "b") as rig, rig.producer(profile=profile) as producer:
        refused: list[str] = []
        for broker in rig.brokers:
            broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda request, name=broker.name: (  # type: ignore[misc]
                refused.append(name) or request.reply(code=code, remark="no")  # type: ignore[func-returns-value]
            )
        with pytest.raises(SendFailedError if brokers == 2 else BrokerError) as caught:
            await producer.send(Message("T", b"x"))
    assert caught.value.code == code
    assert len(set(refused)) == brokers
    assert len(refused) == (3 if brokers == 2 else 1)  # P-40: 1 + 2 retries
    if brokers == 2:
        assert refused[0] != refused[1] != refused[2]


async def test_a_refused_first_try_ends_well_on_the_other_broker_with_the_same_key() -> None:
    # P-31, P-43
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        for broker in rig.brokers:
            broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda request: request.reply(code=14)
        del rig.brokers[1].refuse[RequestCode.SEND_MESSAGE_V2]
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "b"
    keys = [message.msg_id for message in rig.brokers[1].messages("T")]
    assert len(set(keys)) == 4


async def test_a_dead_broker_is_avoided_within_the_send() -> None:  # P-41
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        await rig.brokers[0].stop()
        for _ in range(4):
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "b"


async def test_stored_but_not_flushed_is_a_result_not_an_error() -> None:  # P-42
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        for broker in rig.brokers:
            broker.send_code = ResponseCode.FLUSH_DISK_TIMEOUT
        result = await producer.send(Message("T", b"x"))
        assert result.status is SendStatus.FLUSH_DISK_TIMEOUT
        assert sum(broker.count(RequestCode.SEND_MESSAGE_V2) for broker in rig.brokers) == 1


async def test_not_stored_ok_can_be_tried_on_another_broker() -> None:  # P-42
    async with (
        client_rig("a", "b") as rig,
        rig.producer(
            retry_another_broker_when_not_store_ok=True,
            send_timeout_ms=60_000,  # of real time, which all three tries share
        ) as producer,
    ):
        for broker in rig.brokers:
            broker.send_code = ResponseCode.SLAVE_NOT_AVAILABLE
        result = await producer.send(Message("T", b"x"))
        assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
        assert sum(broker.count(RequestCode.SEND_MESSAGE_V2) for broker in rig.brokers) == 3
        rig.brokers[0].send_code = ResponseCode.SUCCESS
        assert (await producer.send(Message("T", b"x"))).is_ok


async def test_a_silent_broker_costs_the_whole_time_of_the_send() -> None:  # P-40
    async with client_rig() as rig, rig.producer(send_timeout_ms=50) as producer:
        rig.brokers[0].refuse[RequestCode.SEND_MESSAGE_V2] = lambda _: None
        with pytest.raises(SendFailedError):
            await producer.send(Message("T", b"x"))
        assert rig.brokers[0].count(RequestCode.SEND_MESSAGE_V2) == 1


async def test_the_bound_per_try_holds_for_the_first_try_too() -> None:  # P-40
    async with (
        client_rig("a", "b") as rig,
        rig.producer(send_timeout_ms=60_000, send_timeout_per_request_ms=300) as producer,
    ):
        for silent, other in (rig.brokers, rig.brokers[::-1]):
            silent.refuse[RequestCode.SEND_MESSAGE_V2] = lambda _: None
            silent.refuse[RequestCode.SEND_BATCH_MESSAGE] = lambda _: None
            for _ in range(2):  # at least one begins with the silent one
                assert (await producer.send(Message("T", b"x"))).queue.broker_name == other.name
                batch = [Message("T", b"x"), Message("T", b"y")]
                assert (await producer.send_batch(batch)).queue.broker_name == other.name
            silent.refuse.clear()


async def test_equal_keys_meet_in_one_queue_by_javas_hash() -> None:  # 4.7
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        queues = await producer.publish_queues("T")
        for key in ("N14228", "N24211", "polygenelubricants"):
            result = await producer.send(Message("T", b"x"), key=key)
            assert result.queue == queues[abs(java_hash(key)) % 8]
            again = await producer.send(Message("T", b"x"), selector=select_by_hash, key=key)
            assert again.queue == result.queue


async def test_a_chosen_queue_gets_one_try() -> None:  # 4.7
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        queue = MessageQueue("T", "b", 2)
        assert (await producer.send(Message("T", b"x"), queue=queue)).queue == queue
        rig.brokers[1].refuse[RequestCode.SEND_MESSAGE_V2] = lambda request: request.reply(code=2)
        with pytest.raises(BrokerError):
            await producer.send(Message("T", b"x"), queue=queue)
        assert rig.brokers[1].count(RequestCode.SEND_MESSAGE_V2) == 2


async def test_a_selector_that_chooses_nothing_is_an_error() -> None:  # 4.7
    async with client_rig() as rig, rig.producer() as producer:
        with pytest.raises(ClientError, match="chose no queue"):
            await producer.send(Message("T", b"x"), selector=lambda *_: None)


async def test_a_queue_of_another_topic_is_refused() -> None:  # P-24
    async with client_rig() as rig, rig.producer() as producer:
        with pytest.raises(IllegalMessageError):
            await producer.send(Message("T", b"x"), queue=MessageQueue("U", "a", 0))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("T", b""), IllegalMessageError),  # P-22
        (Message("T", b"x" * 101), IllegalMessageError),  # P-22
        (Message("T", cast(Any, "text")), IllegalMessageError),
        (Message("T", cast(Any, None)), IllegalMessageError),  # P-22
        (Message("", b"x"), IllegalNameError),  # P-20
        (Message("t.dot", b"x"), IllegalNameError),  # P-20
        (Message("t" * 128, b"x"), IllegalNameError),  # P-20
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), IllegalNameError),  # P-21
    ],
)
async def test_an_illegal_message_never_leaves(message: Message, error: type[Exception]) -> None:
    async with client_rig() as rig, rig.producer(max_message_size=100) as producer:
        await producer.send(Message("T", b"fits"))
        with pytest.raises(error):
            await producer.send(message)
        assert rig.brokers[0].count(RequestCode.SEND_MESSAGE_V2) == 1


@pytest.mark.parametrize("group", ["", " ", "a.b", "x" * 121, "DEFAULT_PRODUCER"])
async def test_an_illegal_group_is_refused(group: str) -> None:  # P-23
    async with client_rig() as rig:
        with pytest.raises(IllegalNameError):
            rig.producer(group)


async def test_a_group_of_255_characters_is_legal_in_4_9() -> None:  # P-23
    async with client_rig() as rig:
        assert rig.producer("x" * 255, profile="4.9").group == "x" * 255


@pytest.mark.parametrize(("profile", "sys_flag"), [("4.9", 0x301), ("5.x", 0x301)])
async def test_a_body_of_4096_bytes_is_compressed(profile: str, sys_flag: int) -> None:  # P-44
    async with client_rig() as rig, rig.producer(profile=profile) as producer:
        message = Message("T", b"a" * 4096)
        await producer.send(message)
        await producer.send(Message("T", b"b" * 4095))
        assert message.body == b"a" * 4096  # P-44: the caller's body is untouched
    stored = {m.body[:1]: m for m in rig.brokers[0].messages("T")}
    assert stored[b"a"].sys_flag == sys_flag
    assert stored[b"a"].body == b"a" * 4096
    assert stored[b"a"].body_size < 100
    assert stored[b"b"].sys_flag == 0


@pytest.mark.parametrize(("kind", "sys_flag"), [("lz4", 0x101), ("zstd", 0x201)])
async def test_bodies_are_compressed_as_5_x_can(kind: str, sys_flag: int) -> None:  # P-44
    async with client_rig() as rig, rig.producer(compression=kind) as producer:
        await producer.send(Message("T", b"a" * 4096))
        [stored] = rig.brokers[0].messages("T")
        assert (stored.sys_flag, stored.body) == (sys_flag, b"a" * 4096)
        assert stored.body_size < 100
        with pytest.raises(ConfigError, match="there is no 'rar'; choose from"):
            rig.producer(compression="rar")


async def test_a_one_way_send_wants_no_answer() -> None:  # P-47
    async with client_rig() as rig, rig.producer() as producer:
        for number in range(300):
            await producer.send_oneway(Message("T", b"%d" % number))
        await producer.send(Message("T", b"last"))
        assert len(rig.brokers[0].messages("T")) == 301
        assert rig.brokers[0].seen[-1].is_oneway is False
        assert all(each.is_oneway for each in rig.brokers[0].seen if each.body == b"1")


async def test_start_sends_no_heartbeat_to_unknown_brokers_but_later_ones_do() -> None:  # P-8, P-70
    async with client_rig() as rig, rig.producer(profile="4.9") as producer:
        await producer.send(Message("T", b"x"))
        assert rig.brokers[0].count(RequestCode.HEART_BEAT) == 0
        await rig.advance(1)  # P-4: the first one comes after 1 s
        assert rig.brokers[0].count(RequestCode.HEART_BEAT) == 1
        await rig.advance(60)
        assert rig.brokers[0].count(RequestCode.HEART_BEAT) == 3
        [data] = rig.brokers[0].clients.values()
        assert [each.group_name for each in data.producer_data_set] == ["producers"]


async def test_stopping_unregisters_at_every_known_broker() -> None:  # P-70
    async with client_rig("a", "b") as rig:
        async with rig.producer() as producer:
            await producer.send(Message("T", b"x"))
            client_id = producer.client_id
        for broker in rig.brokers:
            [header] = broker.unregistered
            assert (header.client_id, header.producer_group) == (client_id, "producers")


async def test_client_ids_are_unique_unless_an_instance_name_says_otherwise() -> None:  # P-1, P-2
    async with client_rig() as rig:
        async with rig.producer("g1") as first, rig.producer("g2") as second:
            assert first.client_id != second.client_id
            assert first.client_id.startswith("127.0.0.1@")
        async with (
            rig.producer("g1", instance_name="n", unit_name="u", client_ip="10.0.0.1") as first,
            rig.producer("g2", instance_name="n", unit_name="u", client_ip="10.0.0.1") as second,
        ):
            assert first.client_id == second.client_id == "10.0.0.1@n@u"
            with pytest.raises(DuplicateGroupError):
                await rig.producer(
                    "g1", instance_name="n", unit_name="u", client_ip="10.0.0.1"
                ).start()


async def test_a_producer_that_is_not_started_says_so() -> None:
    async with client_rig() as rig:
        producer = rig.producer()
        with pytest.raises(ClientError, match="in a `with` block, or call start"):
            await producer.send(Message("T", b"x"))
        async with producer:
            await producer.send(Message("T", b"x"))
        with pytest.raises(ClientError, match="in a `with` block, or call start"):
            await producer.send(Message("T", b"x"))


@pytest.mark.parametrize("encoding", ["msgpack", "json", "rocketmq"])
async def test_every_encoding_sends(encoding: str) -> None:
    async with client_rig() as rig, rig.producer(encoding=encoding) as producer:
        await producer.send(Message("T", b"x", tags="A"))
        await producer.send_batch([Message("T", b"y"), Message("T", b"z")])
        await rig.advance(1)
        assert len(rig.brokers[0].clients) == 1
    assert sorted(message.body for message in rig.brokers[0].messages("T")) == [b"x", b"y", b"z"]


async def test_later_messages_to_a_queue_are_sent_as_the_first_but_for_what_differs() -> None:
    async with client_rig() as rig, rig.producer() as producer:
        queue = (await producer.publish_queues("T"))[0]
        sent = [Message("T", b"%d" % n, tags="A", keys=f"k{n}" * n or None) for n in range(4)]
        sent += [
            Message("T", b"flagged", flag=7),
            Message("T", b"x" * 5_000),
            Message("T", b"delayed", delay_level=3),
            Message("T", b"plain", tags="\u00e4"),
        ]
        for message in sent:
            await producer.send(message, queue=queue)
            await rig.advance(1)
    stored = rig.brokers[0].messages("T")
    assert [each.body for each in stored] == [each.body for each in sent]
    assert [each.flag for each in stored] == [each.flag for each in sent]
    assert [each.tags for each in stored] == [each.tags for each in sent]
    assert [each.keys for each in stored] == [each.keys for each in sent]
    requests = [each for each in rig.brokers[0].seen if each.code == RequestCode.SEND_MESSAGE_V2]
    born = [each.header(SendMessageRequestHeaderV2).born_timestamp for each in requests]
    assert [later - born[0] for later in born] == [1_000 * n for n in range(len(sent))]


async def test_messages_follow_a_master_that_moved_although_its_old_place_answers() -> None:
    async with client_rig("a", "b") as rig, rig.producer() as producer:
        old, new = rig.brokers
        rig.nameserver.add_topic("M", [old], queues=1)
        await producer.send(Message("M", b"0"))
        await producer.send(Message("M", b"1"))
        route = rig.nameserver.routes["M"]
        route.broker_datas[0].broker_addrs[0] = new.address
        await rig.advance(31)
        await producer.send(Message("M", b"2"))
        await producer.send(Message("M", b"3"))
    assert [message.body for message in old.messages("M")] == [b"0", b"1"]
    assert [message.body for message in new.messages("M")] == [b"2", b"3"]


async def test_a_broker_that_answers_a_probe_may_be_chosen_again() -> None:  # P-38
    async with (
        client_rig("a", "b") as rig,
        rig.producer(
            send_latency_fault_enable=True, start_detector_enable=True, send_timeout_ms=500
        ) as producer,
    ):
        for broker in rig.brokers:
            broker.refuse[RequestCode.SEND_MESSAGE_V2] = lambda request: request.reply(code=1)
            broker.refuse[RequestCode.GET_MAX_OFFSET] = lambda _: None
        with pytest.raises(SendFailedError):
            await producer.send(Message("T", b"x"))
        assert set(producer.fault_strategy.unreachable_brokers()) == {"a", "b"}
        await rig.advance(3.1)
        assert set(producer.fault_strategy.unreachable_brokers()) == {"a", "b"}
        del rig.brokers[1].refuse[RequestCode.GET_MAX_OFFSET]
        await rig.advance(3.1)
        assert set(producer.fault_strategy.unreachable_brokers()) == {"a"}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
async def test_a_try_that_failed_in_the_client_isolates_its_broker_in_4_9_only(
    monkeypatch: pytest.MonkeyPatch, profile: Profile
) -> None:  # P-37
    async with (
        client_rig("a", "b") as rig,
        rig.producer(send_latency_fault_enable=True, profile=profile.name) as producer,
    ):
        delivery = producer._delivery
        open_channel = delivery.open_channel

        def without_a(queue: MessageQueue) -> Channel | None:
            if queue.broker_name == "a":
                raise BrokerNotFoundError("a")
            return open_channel(queue)

        monkeypatch.setattr(delivery, "open_channel", without_a)
        table = producer.fault_strategy.table
        while "a" not in table.items:
            assert (await producer.send(Message("T", b"x"))).queue.broker_name == "b"
        assert table.is_available("a", rig.clock.monotonic()) is (profile is not PROFILE_4_9)
        assert table.is_reachable("a")
