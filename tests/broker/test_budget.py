"""What one peer may cost a broker: each limit has its answer, and no request takes long."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.broker.admin.group_views_processor import MOST_QUEUES
from pocketmq.broker.holding import held_requests
from pocketmq.broker.pulling.pull_processor import PullProcessor
from pocketmq.protocol.bodies.clients import (
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    ProducerData,
)
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import HeartbeatRequestHeader
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupListRequestHeader
from pocketmq.protocol.headers.locks import LockBatchMqRequestHeader
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsInBrokerHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    CreateTopicListRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X
from support.broker_rig import (
    SUBSCRIPTION,
    SUSPEND,
    BrokerRig,
    FakePeer,
    Voice,
    consumer,
    pull_header,
    running_broker,
)
from support.cost import cost_s, peak_bytes, slowest_s

pytestmark = pytest.mark.slow
PROFILES = pytest.mark.parametrize("profile", [PROFILE_4_9, PROFILE_5_X], ids=["4.9", "5.x"])


def cost_of(rig: BrokerRig, header: Header, body: bytes, encoding: Encoding) -> tuple[float, Any]:
    """Processor seconds from a request's bytes to its answer, and the answer."""
    command = Command(header.CODE, header, body, encoding=encoding)
    data = b"".join(bytes(part) for part in encode_frame(command))
    answers: list[Any] = []

    def work() -> None:
        (request,) = FrameDecoder().feed(data)
        answers.append(rig.broker.dispatcher.process(FakePeer(), request))

    return cost_s(work), answers[-1]


def pulls_of(rig: BrokerRig) -> PullProcessor:
    processor: Any = rig.broker.dispatcher.single[RequestCode.PULL_MESSAGE]
    found: PullProcessor = processor.__self__
    return found


def refused(answer: Command, option: str, code: int) -> None:
    assert answer.code == code, answer.remark
    assert f"(budget.{option})" in (answer.remark or "")


# -- the costs that an attack found ---------------------------------------------------------------


async def test_a_pull_with_a_subscription_of_10_mb_is_refused_at_once(
    rig: BrokerRig, voice: Voice, encoding: Encoding
) -> None:
    await voice.create_topic()
    tags = "||".join(f"tag{number}" for number in range(800_000))
    header = pull_header(sys_flag=SUBSCRIPTION, subscription=tags)
    took_s, answer = cost_of(rig, header, b"", encoding)
    refused(answer, "subscription_chars", ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    assert took_s < slowest_s()
    assert not pulls_of(rig)._reader._checks._filters.kept_bytes


async def test_the_longest_subscription_is_parsed_in_time(
    rig: BrokerRig, voice: Voice, encoding: Encoding
) -> None:
    await voice.create_topic()
    tags = "||".join(f"{number:x}" for number in range(4000))[:16_384]
    header = pull_header(sys_flag=SUBSCRIPTION, subscription=tags)
    took_s, answer = cost_of(rig, header, b"", encoding)
    assert answer.code == ResponseCode.PULL_NOT_FOUND, answer.remark
    assert took_s < slowest_s()


async def test_long_subscriptions_count_as_memory_of_their_peer(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic()
    pull, peer = pulls_of(rig), FakePeer()

    def hold() -> None:
        for number in range(20):
            tags = "||".join(f"{number:x}{tag:x}" for tag in range(2500))[:16_384]
            header = pull_header(
                sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=1_000, subscription=tags
            )
            pull.pull(peer, Command(RequestCode.PULL_MESSAGE, header))

    taken = peak_bytes(hold)
    assert len(rig.broker.held) == 20
    assert 0.5 * taken < peer.kept_bytes < 4 * taken
    assert not pull._reader._checks._filters.kept_bytes, "nor are they kept anywhere else"
    await rig.advance(10)
    assert peer.kept_bytes == 0


async def test_whatever_texts_a_held_pull_has_count_as_memory_of_its_peer(
    rig: BrokerRig, voice: Voice
) -> None:
    # 250 KB of any of them, with one letter beyond the basic plane, took 780 KB and counted as 1.5.
    await voice.create_topic()
    peer, long = FakePeer(), "x" * 50_000 + "\U0001f600"

    def hold() -> None:
        for number in range(20):
            header = pull_header(
                sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=1_000, bname=long
            )
            command = Command(header.CODE, header, opaque=number, remark=long)
            data = b"".join(bytes(part) for part in encode_frame(command))
            (request,) = FrameDecoder().feed(data)
            assert rig.broker.dispatcher.process(peer, request) is None  # type: ignore[arg-type]

    taken = peak_bytes(hold)
    assert len(rig.broker.held) == 20
    assert 0.5 * taken < peer.kept_bytes < 4 * taken
    await rig.advance(10)
    assert peer.kept_bytes == 0


async def test_a_heartbeat_of_20_000_groups_is_refused_at_once(
    rig: BrokerRig, encoding: Encoding
) -> None:
    groups = [consumer(f"group-{number}") for number in range(20_000)]
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=groups), encoding)
    took_s, answer = cost_of(rig, HeartbeatRequestHeader(), body, encoding)
    refused(answer, "body_bytes", ResponseCode.INVALID_PARAMETER)
    assert took_s < slowest_s()
    assert rig.broker.groups.get("group-0") is None


@pytest.mark.parametrize(
    ("data", "option"),
    [
        ({"producer_data_set": [ProducerData(group_name=f"g{n}") for n in range(501)]},
         "groups_per_heartbeat"),
        ({"consumer_data_set": [ConsumerData(group_name=f"g{n}") for n in range(501)]},
         "groups_per_heartbeat"),
        ({"consumer_data_set": [ConsumerData(group_name="g", subscription_data_set=[
            SubscriptionData(topic=f"t{n}") for n in range(5001)])]},
         "subscriptions_per_heartbeat"),
        ({"consumer_data_set": [ConsumerData(group_name="g", subscription_data_set=[
            SubscriptionData(topic="t", sub_string="x" * 16_385)])]},
         "subscription_chars"),
    ],
)  # fmt: skip
async def test_a_heartbeat_over_a_limit_changes_nothing(
    rig: BrokerRig, encoding: Encoding, data: dict[str, Any], option: str
) -> None:
    body = encode_body(HeartbeatData(client_id="c", **data), encoding)
    took_s, answer = cost_of(rig, HeartbeatRequestHeader(), body, encoding)
    refused(answer, option, ResponseCode.INVALID_PARAMETER)
    assert took_s < slowest_s()
    assert rig.broker.consumers.get("g") is None
    assert rig.broker.groups.get("g0") is None


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (CreateTopicListRequestHeader(), '"topicConfigList":[%s]'),
        (UpdateSubscriptionGroupListRequestHeader(), '"groupConfigList":[%s]'),
    ],
)
async def test_a_tool_changes_so_many_topics_or_groups_at_once(
    rig: BrokerRig, header: Header, text: str
) -> None:
    def listed(count: int) -> bytes:
        names = (f'{{"topicName":"n{n}","groupName":"n{n}"}}' for n in range(count))
        return ("{" + text % ",".join(names) + "}").encode()

    for count in (1_001, 20_000):
        took_s, answer = cost_of(rig, header, listed(count), Encoding.JSON)
        refused(answer, "records_per_request", ResponseCode.INVALID_PARAMETER)
        assert took_s < slowest_s()
    assert rig.broker.topics.get("n0") is None
    assert rig.broker.groups.get("n0") is None
    took_s, _ = cost_of(rig, header, listed(1_000), Encoding.JSON)
    assert took_s < slowest_s()
    assert bool(rig.broker.topics.get("n999")) != bool(rig.broker.groups.get("n999"))


async def test_progress_in_so_many_queues_is_told_at_once(
    tmp_path: Path, encoding: Encoding
) -> None:
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        await voice.create_topic("T", queues=1_000)
        for queue_id in range(1_000):
            await voice.send("T", b"x", queue_id=queue_id)
        for group in range(MOST_QUEUES // 1_000):
            commit_everywhere(rig, f"g{group}")
        everything = GetConsumeStatsInBrokerHeader(is_order=False)
        took_s, answer = cost_of(rig, everything, b"", encoding)
        assert answer.code == 0, answer.remark
        assert took_s < slowest_s()
        commit_everywhere(rig, "one more")
        await voice.create_topic("wide", queues=MOST_QUEUES + 1)
        for header in (everything, QueryConsumeTimeSpanRequestHeader(topic="wide", group="g0")):
            took_s, answer = cost_of(rig, header, b"", encoding)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "one answer can contain at most 5000 queues" in (answer.remark or "")
            assert took_s < slowest_s()
        await voice.create_topic("wide", queues=MOST_QUEUES)
        took_s, answer = cost_of(rig, header, b"", encoding)
        assert answer.code == 0, answer.remark
        assert took_s < slowest_s()


def commit_everywhere(rig: BrokerRig, group: str) -> None:
    rig.broker.groups.put(SubscriptionGroupConfig(group_name=group), 0)
    for queue_id in range(1_000):
        rig.broker.offsets.commit(group, "T", queue_id, 0, 0)


async def test_the_largest_heartbeat_is_carried_out_in_time(
    tmp_path: Path, encoding: Encoding
) -> None:
    topics = [f"topic-{number}" for number in range(10)]
    groups = [consumer(f"group-{number}", topics) for number in range(500)]
    body = encode_body(HeartbeatData(client_id="c", consumer_data_set=groups), encoding)
    async with running_broker(tmp_path) as rig:
        took_s, answer = cost_of(rig, HeartbeatRequestHeader(), body, encoding)
        assert answer.code == 0, answer.remark
        assert took_s < slowest_s()
        assert len(rig.broker.consumers.groups) == 500


async def test_a_broken_body_costs_no_seconds(rig: BrokerRig, encoding: Encoding) -> None:
    # The reader of fastjson's dialect takes 1 us a byte.
    body = b'{"clientID":"x","a":{1:"y"},"b":[' + b"1," * 500_000 + b"x]}"
    took_s, answer = cost_of(rig, HeartbeatRequestHeader(), body, encoding)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert took_s < slowest_s()


async def test_held_pulls_of_one_connection_end(tmp_path: Path) -> None:
    async with running_broker(tmp_path, budget=Budget(held_pulls_per_connection=3)) as rig:
        voice, other = await rig.voice(), await rig.voice()
        await voice.create_topic()
        header = pull_header(sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=20_000)
        held = [voice.channel.request(header, timeout_s=60) for _ in range(3)]
        refused(await voice.ask(header), "held_pulls_per_connection", ResponseCode.SYSTEM_BUSY)
        held.append(other.channel.request(header, timeout_s=60))
        await rig.settle()
        assert len(rig.broker.held) == 4
        await rig.advance(25)
        assert [(await each).code for each in held] == [ResponseCode.PULL_NOT_FOUND] * 4


async def test_no_turn_answers_all_of_10_000_held_pulls(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100,000 on one connection were swept in one turn of 6 s.
    await voice.create_topic()
    pull = pulls_of(rig)
    turns: list[Any] = []
    monkeypatch.setattr(held_requests, "defer", turns.append)
    peer = FakePeer()
    header = pull_header(sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=1_000)
    for opaque in range(10_000):
        pull.pull(peer, Command(RequestCode.PULL_MESSAGE, header, opaque=opaque))
    assert len(rig.broker.held) == 10_000
    assert peer.kept_bytes > 10_000 * 1024, "they count as the peer's memory"
    await rig.advance(4)
    pull._held.sweep()
    took_s = []
    while turns:
        began = time.thread_time()
        turns.pop()()
        took_s.append(time.thread_time() - began)
    assert len(peer.replies) == 10_000
    assert peer.kept_bytes == 0
    assert len(took_s) > 30
    assert sorted(took_s)[-5] < slowest_s(), "but for a collection of the whole test run's objects"


async def test_no_turn_looks_at_all_held_pulls(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 80,000 of as many queues took 40 ms of a turn every 5 s.
    monkeypatch.setattr(held_requests, "LOOKED_AT_PER_TURN", 4)
    await voice.create_topic(queues=7)
    table, pull, peer = rig.broker.held, pulls_of(rig), FakePeer()
    looks: list[int] = []
    due = table.due

    def counted(*args: Any) -> list[Any]:
        ready = due(*args)
        looks.append(len(ready))
        return ready

    monkeypatch.setattr(table, "due", counted)
    for queue_id in range(7):
        header = pull_header(
            sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=1_000, queue_id=queue_id
        )
        pull.pull(peer, Command(RequestCode.PULL_MESSAGE, header))
    await rig.advance(5)
    assert looks == [2, 2, 2, 1]
    assert len(peer.replies) == 7


# -- records that strangers make -------------------------------------------------------------------


@PROFILES
async def test_a_commit_for_a_queue_that_does_not_exist_is_refused(
    tmp_path: Path, profile: Any
) -> None:
    # RocketMQ 5.3.3 looks for topic and group, 4.9.8 for nothing; neither for the queue.
    async with running_broker(tmp_path, profile) as rig:
        voice = await rig.voice()
        await voice.create_topic(queues=4)
        await voice.heartbeat(consumers=[consumer()])
        for queue_id in (4, -1, 120_000, 2**31 - 1):
            reply = await voice.commit(5, queue_id=queue_id)
            assert reply.code == profile.broker.invalid_parameter_code
            assert "has only 4 queues on this broker" in (reply.remark or "")
        reply = await voice.commit(5, topic="nowhere")
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST
        assert (await voice.commit(5, queue_id=3)).code == 0
        assert rig.broker.offsets.count == 1
        table = msgspec.to_builtins(rig.broker.offsets.wrapper())["offsetTable"]
        assert table == {"orders@readers": {3: 5}}


async def test_a_commit_for_a_queue_that_was_taken_away_still_counts(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic(queues=4)
    await voice.heartbeat(consumers=[consumer()])
    await voice.send(queue_id=3)
    await voice.create_topic(queues=2)
    assert (await voice.commit(1, queue_id=3)).code == 0
    assert (await voice.commit(1, queue_id=2)).code == ResponseCode.INVALID_PARAMETER


async def test_offsets_of_groups_without_end_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, PROFILE_4_9, budget=Budget(offsets=2)) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        codes = [(await voice.commit(1, group=f"g{number}")).code for number in range(4)]
        assert codes == [0, 0, ResponseCode.INVALID_PARAMETER, ResponseCode.INVALID_PARAMETER]
        assert (await voice.commit(2, group="g1")).code == 0
        reply = await voice.commit(2, group="g1", queue_id=2)
        refused(reply, "offsets", ResponseCode.INVALID_PARAMETER)
        rig.broker.offsets.forget("g0", "orders")
        assert (await voice.commit(2, group="g1", queue_id=2)).code == 0
        assert rig.broker.offsets.count == 2


async def test_names_that_are_kept_have_a_length(tmp_path: Path) -> None:
    long, orders = "x" * 1025, {"orders": "*"}
    async with running_broker(tmp_path, PROFILE_4_9) as rig:
        voice = await rig.voice()
        await voice.create_topic()
        for data in (
            HeartbeatData(client_id=long),
            HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name=long)]),
            HeartbeatData(client_id="c", consumer_data_set=[consumer(long, orders)]),
            HeartbeatData(client_id="c", consumer_data_set=[consumer("g", {long: "*"})]),
        ):
            refused(
                await voice.ask(HeartbeatRequestHeader(), data), "name_chars",
                ResponseCode.INVALID_PARAMETER,
            )  # fmt: skip
        refused(await voice.commit(1, group=long), "name_chars", ResponseCode.INVALID_PARAMETER)
        assert not rig.broker.consumers.groups
        assert rig.broker.offsets.count == 0


async def test_locks_end_at_a_number(tmp_path: Path) -> None:
    def body(client_id: str, first: int, count: int, group: str = "g") -> LockBatchBody:
        queues = [MessageQueue("orders", "broker-a", first + n) for n in range(count)]
        return LockBatchBody(consumer_group=group, client_id=client_id, mq_set=queues)

    async with running_broker(tmp_path, budget=Budget(queue_locks=5)) as rig:
        voice = await rig.voice()
        header = LockBatchMqRequestHeader()
        invalid = ResponseCode.INVALID_PARAMETER
        assert (await voice.ask(header, body("c", 0, 4))).code == 0
        refused(await voice.ask(header, body("c", 3, 3)), "queue_locks", invalid)
        assert (await voice.ask(header, body("c", 0, 5))).code == 0, "what it holds it may renew"
        refused(await voice.ask(header, body("c", 0, 1, "h")), "queue_locks", invalid)
        refused(await voice.ask(header, body("x" * 1025, 0, 1)), "name_chars", invalid)
        await rig.advance(75)
        assert (await voice.ask(header, body("c", 0, 5, "h"))).code == 0


async def test_heartbeats_without_end_cost_their_connection(tmp_path: Path) -> None:
    # Neither producer groups nor subscriptions counted as anybody's memory.
    async with running_broker(tmp_path, budget=Budget(peer_memory_bytes=4 * 1024 * 1024)) as rig:
        voice, healthy = await rig.voice(), await rig.voice()
        for number in range(20):
            producers = [ProducerData(group_name=f"{number}-{n}") for n in range(300)]
            data = HeartbeatData(client_id="c", producer_data_set=producers)
            with suppress(ConnectionLostError):
                await voice.ask(HeartbeatRequestHeader(), data)
        await rig.settle()
        assert not voice.channel.is_open
        assert not rig.broker.producers.groups
        await healthy.create_topic()


async def test_topics_and_groups_are_made_for_strangers_up_to_a_number(tmp_path: Path) -> None:
    async with running_broker(tmp_path, budget=Budget(records=40)) as rig:
        voice = await rig.voice()
        replies = [await voice.try_send(f"topic-{number}") for number in range(60)]
        assert replies[0].code == 0
        refused(replies[-1], "records", ResponseCode.INVALID_PARAMETER)
        assert len(rig.broker.topics.table) == 40
        await voice.create_topic("wanted")  # tools may
        assert (await voice.try_send("wanted")).code == 0
        assert (await voice.try_send("topic-0")).code == 0
        body = HeartbeatData(
            client_id="c", consumer_data_set=[consumer(f"g{number}") for number in range(60)]
        )
        refused(
            await voice.ask(HeartbeatRequestHeader(), body), "records",
            ResponseCode.INVALID_PARAMETER,
        )  # fmt: skip
        assert len(rig.broker.groups.table) == 40


async def test_a_topic_may_not_have_millions_of_queues(rig: BrokerRig, voice: Voice) -> None:
    header = UpdateAndCreateTopicRequestHeader(
        topic="orders", read_queue_nums=2**31 - 1, write_queue_nums=4, perm=6
    )
    refused(await voice.ask(header), "queues_per_topic", ResponseCode.INVALID_PARAMETER)
