"""Who is connected and what they are told: Telemetry, Heartbeat, routes (G-20 to G-61)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.budget import DEFAULT_BUDGET
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType, Code, MessageType, Permission
from pocketmq.proxy.routes.queues import permissions
from pocketmq.proxy.settings.limits import Limits
from pocketmq.proxy.settings.merging import for_consumer, kept_of_consumer
from support.eventually import PATIENCE_S, eventually
from support.proxy_rig import ProxyRig, Sdk, proxy_rig

LIMITS = Limits.of(DEFAULT_BUDGET, ProxyConfig().max_message_size)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ProxyRig]:
    async with proxy_rig(tmp_path) as made:
        yield made


async def fault_of(sdk: Sdk) -> tuple[grpc.StatusCode, str]:
    """How a stream ends."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await sdk.hear()
    return raised.value.code(), raised.value.details() or ""


async def test_a_producers_settings_come_back_with_the_servers_values(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("orders")
    told = await rig.sdk().publish("orders", "payments")
    assert told.status.code == Code.OK
    settings = told.settings
    assert [topic.name for topic in settings.publishing.topics] == ["orders", "payments"]
    assert settings.access_point.addresses[0].port == rig.proxy.grpc_port  # as it was
    assert settings.publishing.max_body_size == 4_194_304
    assert settings.publishing.validate_message_type
    backoff = settings.backoff_policy
    assert backoff.max_attempts == 3
    assert backoff.exponential_backoff.initial.nanos == 10_000_000
    assert backoff.exponential_backoff.max.seconds == 1
    assert backoff.exponential_backoff.multiplier == 2.0
    assert not settings.metric.on


async def test_a_consumers_settings_follow_its_group(rig: ProxyRig) -> None:
    async with rig.cluster.admin() as admin:
        await admin.create_group(
            SubscriptionGroupConfig(
                group_name="billing", consume_message_orderly=True, retry_max_times=4
            )
        )
    settings = (await rig.sdk().subscribe("billing", "orders")).settings
    subscription, backoff = settings.subscription, settings.backoff_policy
    assert (subscription.fifo, backoff.max_attempts) == (True, 5)
    assert (subscription.receive_batch_size, subscription.long_polling_timeout.seconds) == (32, 20)
    steps = [each.seconds for each in backoff.customized_backoff.next]
    assert steps[:4] == [1, 5, 10, 30]
    assert len(steps) == 18


async def test_each_settings_command_is_answered(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    for _ in range(3):
        assert (await sdk.publish("orders")).status.code == Code.OK


async def test_headers_of_the_stream_come_at_once(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    sdk.open_stream()
    async with asyncio.timeout(PATIENCE_S):
        await sdk.stream.initial_metadata()  # Rust's SDK writes nothing before (G-13)


async def test_faults_end_the_stream_with_rocketmqs_codes(rig: ProxyRig) -> None:
    nameless = rig.sdk("")
    await nameless.say(settings=pb.Settings())
    assert (await nameless.hear()).status.code == Code.CLIENT_ID_REQUIRED
    assert await nameless.hear() is grpc.aio.EOF

    empty = rig.sdk()
    await empty.say(settings=pb.Settings())
    assert await fault_of(empty) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "there is no publishing or subscription data in settings",
    )

    blank = rig.sdk()
    settings = pb.Settings()
    settings.publishing.topics.add()
    await blank.say(settings=settings)
    assert await fault_of(blank) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "process client telemetryCommand failed. The specified topic is blank",
    )

    lite = rig.sdk()
    settings = pb.Settings(client_type=ClientType.LITE_PUSH_CONSUMER)
    settings.subscription.group.name = "g"
    await lite.say(settings=settings)
    assert await fault_of(lite) == (
        grpc.StatusCode.INTERNAL,
        "process client telemetryCommand failed. Client type is not consumer, type: "
        "LITE_PUSH_CONSUMER",
    )


async def test_a_client_is_known_from_its_settings_to_its_end(rig: ProxyRig) -> None:
    sdk, group = rig.sdk(), pb.Resource(name="billing")
    unknown = (await sdk.call("Heartbeat", client_type=ClientType.PRODUCER)).status
    assert unknown.code == Code.UNRECOGNIZED_CLIENT_TYPE
    assert unknown.message == "cannot find client settings for this client"
    await sdk.subscribe("billing", "orders")
    assert (await sdk.call("Heartbeat", group=group)).status.code == Code.OK
    [client] = rig.proxy.clients.members("billing")
    assert (client.client_id, client.language) == ("sdk-1", "PYTHON")
    assert client.address.startswith("127.0.0.1:")
    assert (await sdk.call("NotifyClientTermination", group=group)).status.code == Code.OK
    assert rig.proxy.clients.members("billing") == []
    again = (await sdk.call("NotifyClientTermination", group=group)).status
    assert again.code == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_consumers_heartbeat_makes_it_known_to_a_new_proxy(rig: ProxyRig) -> None:
    # The named deviation (G-27): Go's SDK sends its settings again only after 5 minutes.
    sdk, group = rig.sdk(), pb.Resource(name="billing")
    beat = await sdk.call("Heartbeat", group=group, client_type=ClientType.PUSH_CONSUMER)
    assert beat.status.code == Code.OK
    [client] = rig.proxy.clients.members("billing")
    assert client.settings.backoff_policy.max_attempts == 17


async def test_the_end_of_a_stream_forgets_nobody_and_silence_does(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    await sdk.subscribe("billing", "orders")
    sdk.stream.cancel()
    await eventually(
        lambda: all(client.write is None for client in rig.proxy.clients.all()), "it is noticed"
    )
    await rig.cluster.advance(119)
    assert len(rig.proxy.clients) == 1
    await rig.cluster.advance(12)
    assert len(rig.proxy.clients) == 0


async def test_a_route_says_the_address_that_was_used(rig: ProxyRig) -> None:
    await rig.cluster.create_topic("orders", queues=2, message_type="MIXED")
    endpoints = pb.Endpoints(scheme=3, addresses=[pb.Address(host="docker.example", port=18_081)])
    answer = await rig.sdk().call(
        "QueryRoute", topic=pb.Resource(name="orders"), endpoints=endpoints
    )
    assert answer.status.code == Code.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1]
    for queue in answer.message_queues:
        assert (queue.broker.name, queue.broker.id) == ("a", 0)
        assert queue.broker.endpoints == endpoints
        assert queue.permission == Permission.READ_WRITE
        assert list(queue.accept_message_types) == [
            MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY, MessageType.TRANSACTION,
        ]  # fmt: skip


async def test_a_missing_topic_has_no_route(rig: ProxyRig) -> None:
    sdk = rig.sdk()
    answer = await sdk.call("QueryRoute", topic=pb.Resource(name="missing"))
    assert answer.status.code == Code.TOPIC_NOT_FOUND
    assert "No topic route info in name server for the topic: missing" in answer.status.message
    await rig.cluster.create_topic("missing")  # made since: nothing of it was kept
    again = await sdk.call("QueryRoute", topic=pb.Resource(name="missing"), endpoints=sdk.endpoints)
    assert again.status.code == Code.OK


@pytest.mark.parametrize(
    ("perm", "reads", "writes", "expected"),
    [
        (6, 3, 2, "R RW RW"),
        (6, 1, 3, "W W RW"),
        (4, 2, 5, "R R"),
        (2, 5, 1, "W"),
        (0, 0, 0, "NONE"),
    ],
)
def test_queues_are_numbered_in_rocketmqs_order(
    perm: int, reads: int, writes: int, expected: str
) -> None:
    data = QueueData(broker_name="a", read_queue_nums=reads, write_queue_nums=writes, perm=perm)
    short = {"READ": "R", "WRITE": "W", "READ_WRITE": "RW", "NONE": "NONE"}
    assert " ".join(short[each.name] for each in permissions(data)) == expected


async def test_what_the_proxy_does_not_answer_is_unimplemented(rig: ProxyRig) -> None:
    for rpc in ("SyncLiteSubscription", "UpdateOffset", "GetOffset", "QueryOffset"):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await rig.sdk().call(rpc)
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert raised.value.details() == (
            f"Method apache.rocketmq.v2.MessagingService/{rpc} is unimplemented"
        )


async def test_a_call_without_a_client_id_is_refused_in_its_answer(rig: ProxyRig) -> None:
    answer = await rig.sdk(" ").call("QueryRoute", topic=pb.Resource(name="orders"))
    assert (answer.status.code, answer.status.message) == (
        Code.CLIENT_ID_REQUIRED,
        "client id cannot be empty",
    )


def test_what_a_consumer_says_stands_over_a_fresh_groups_values() -> None:
    said = pb.Settings()
    said.subscription.group.name = "g"
    said.backoff_policy.max_attempts = 7
    kept = kept_of_consumer(said, LIMITS)
    assert kept.backoff_policy.max_attempts == 7
    assert len(kept.backoff_policy.customized_backoff.next) == 18
    assert for_consumer(kept, None, LIMITS).backoff_policy.max_attempts == 7


def test_as_many_tries_as_a_group_can_say_fit_into_the_settings() -> None:
    group = SubscriptionGroupConfig(group_name="g", retry_max_times=2**31 - 1)
    told = for_consumer(pb.Settings(), group, LIMITS)
    assert told.backoff_policy.max_attempts == 2**31 - 1
