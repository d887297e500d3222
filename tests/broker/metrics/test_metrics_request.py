"""GET_METRICS (30008): what a broker tells after messages of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pocketmq.broker.metrics import metrics_processor
from pocketmq.broker.metrics.group_lag import MOST_QUEUES
from pocketmq.broker.stats.message_type import MessageType
from pocketmq.broker.store import PutStatus, StoredMessage
from pocketmq.operation.control.requests import GetMetricsRequestHeader
from pocketmq.operation.metrics import ALL
from pocketmq.protocol.bodies.stats import MetricDistribution, MetricsReport
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.topics import DeleteTopicRequestHeader
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.runtime.profile import PROFILE_4_9
from support.broker_rig import BrokerRig, FakePeer, Voice, consumer, running_broker
from support.pop_voice import ack, pop

HOST = bytes([127, 0, 0, 1, 0, 0, 0, 9])
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


class Told:
    """What a broker told."""

    def __init__(self, report: MetricsReport) -> None:
        self.numbers = {
            (n.name.removeprefix("rocketmq_"), *filter(None, self._own(n.name, n.labels))): n.value
            for n in report.numbers
        }
        self.distributions: Mapping[tuple[str, ...], MetricDistribution] = {
            (d.name.removeprefix("rocketmq_"), *self._own(d.name, d.labels)): d
            for d in report.distributions
        }

    @staticmethod
    def _own(name: str, labels: list[str]) -> list[str]:
        """The labels without the store's, which are always the same."""
        metric = ALL[name]
        assert len(labels) == len(metric.labels), name
        if metric.labels[:2] == ("storage_type", "storage_medium"):
            assert labels[:2] == ["local", "disk"]
            return labels[2:]
        return labels

    def __getitem__(self, key: str) -> int | None:
        """`name label label`."""
        return self.numbers.get(tuple(key.split(" ")))


async def told(voice: Voice) -> Told:
    reply = await voice.ask(GetMetricsRequestHeader())
    assert reply.code == 0, reply.remark
    return Told(decode_body(reply.body_view, MetricsReport, reply.encoding))


async def test_sends_are_told_by_type_and_size(rig: BrokerRig, encoding: Encoding) -> None:
    voice = await rig.voice(encoding)
    await voice.send(body=b"plain")
    await voice.send(body=b"b" * 2000)
    await voice.send(properties={names.SHARDING_KEY: "17"})
    await voice.send(properties={names.DELAY: "1"})
    await voice.send(properties={names.TIMER_DELAY_SEC: "60"})
    await voice.send(
        properties={names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: "writers"},
        sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
    )
    await voice.send(
        body=encode_batch([Message("orders", b"a"), Message("orders", b"b")]), batch=True
    )
    told_now = await told(voice)
    assert told_now["messages_in orders normal false"] == 4
    assert told_now["messages_in orders fifo false"] == 1
    assert told_now["messages_in SCHEDULE_TOPIC_XXXX delay true"] == 1  # as RocketMQ has it
    assert told_now["messages_in rmq_sys_wheel_timer delay true"] == 1
    assert told_now[f"messages_in {HALF} transaction true"] == 1
    size = told_now.distributions["message_size", "orders", "normal", "false"]
    assert size.counts == [3, 1, 0, 0, 0, 0, 0]
    assert size.total == told_now["throughput_in orders normal false"]
    assert size.total > 2000 + 4 * 91  # S-5
    await rig.advance(2)
    assert (await told(voice))["messages_in orders delay false"] == 1  # delivered


async def test_sends_of_one_turn_are_told_by_their_types(rig: BrokerRig, voice: Voice) -> None:
    """Runs of one topic, type and size: none may be counted as its neighbour."""
    asked = []
    for number in range(30):
        properties = {names.SHARDING_KEY: "1"} if number % 3 else {}
        asked.append((("orders", "others")[number % 2], b"b" * (2000 * (number % 5)), properties))

    await asyncio.gather(
        *(voice.send(topic, body or b"-", properties=each) for topic, body, each in asked)
    )
    told_now = await told(voice)
    for topic in ("orders", "others"):
        for kind, wanted in (("fifo", True), ("normal", False)):
            mine = [body for to, body, each in asked if to == topic and bool(each) is wanted]
            assert told_now[f"messages_in {topic} {kind} false"] == len(mine)
            counts = told_now.distributions["message_size", topic, kind, "false"].counts
            assert counts[0] == mine.count(b"")
            assert counts[1] == mine.count(b"b" * 2000)
            assert sum(counts) == len(mine)


async def test_messages_of_one_append_are_told_each_by_its_own_size(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic("orders")
    messages = [
        StoredMessage(
            topic="orders", queue_id=0, body=b"b" * size, properties=b"", flag=0, sys_flag=0,
            born_timestamp_ms=0, born_host=HOST, store_host=HOST,
        )
        for size in (10, 2000, 20)
    ]  # fmt: skip
    results = rig.broker.subjects.storing.puts.put_all(messages, MessageType.NORMAL)
    assert {result.status for result in results} == {PutStatus.PUT_OK}
    size = (await told(voice)).distributions["message_size", "orders", "normal", "false"]
    assert size.counts == [2, 1, 0, 0, 0, 0, 0]
    assert size.total == sum(result.size for result in results)


async def test_a_group_that_pulls_is_told_with_its_lag(rig: BrokerRig, voice: Voice) -> None:
    for _ in range(3):
        await voice.send()
        await rig.advance(1)
    await voice.heartbeat(consumers=[consumer("readers")], producers=["writers"])
    [first, *_] = (await voice.pull()).messages
    await voice.commit(1)
    told_now = await told(voice)
    assert told_now["messages_out orders readers false"] == 3
    assert told_now["throughput_out orders readers false"] == 3 * first.store_size
    lag = "readers orders false false"
    assert told_now[f"consumer_lag_messages {lag}"] == 2
    assert told_now[f"consumer_lag_latency_milliseconds {lag}"] == 2000
    assert told_now[f"consumer_inflight_messages {lag}"] == 2
    assert told_now[f"consumer_ready_messages {lag}"] == 0
    assert told_now[f"consumer_queueing_latency_milliseconds {lag}"] == 0
    await voice.send()
    told_now = await told(voice)
    assert told_now[f"consumer_ready_messages {lag}"] == 1
    assert told_now[f"consumer_lag_messages {lag}"] == 3
    connected = [key for key in told_now.numbers if key[0] == "consumer_connections"]
    assert connected == [
        ("consumer_connections", "readers", *_client(told_now), "push", "remoting", "false")
    ]
    assert told_now["broker_permission"] == 6
    assert (told_now["topic_number"] or 0) > 1
    assert (told_now["consumer_group_number"] or 0) > 1


def _client(told_now: Told) -> tuple[str, ...]:
    """Language and version of the one producer."""
    [(_, language, version, protocol)] = [
        key for key in told_now.numbers if key[0] == "producer_connections"
    ]
    assert protocol == "remoting"
    assert version.startswith("v")
    return language, version


async def test_dead_letters_are_told_and_their_topics_left_out(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.send()
    [message] = (await voice.pull()).messages
    assert (await voice.send_back(message, delay_level=-1)).code == 0
    assert (await voice.send_back(message)).code == 0
    await voice.send("%RETRY%readers")
    told_now = await told(voice)
    assert told_now["send_to_dlq_messages readers orders false"] == 1
    assert not [key for key in told_now.numbers if key[0] == "messages_in" and "%" in key[1]]


async def test_pops_are_told_with_their_retries(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    await voice.send()
    await voice.heartbeat(
        consumers=[consumer("poppers", consume_type="CONSUME_POP")],
    )
    assert len((await pop(voice)).messages) == 2
    told_now = await told(voice)
    assert told_now["messages_out orders poppers false false"] == 2
    lag = "poppers orders false false"
    assert told_now[f"consumer_inflight_messages {lag}"] == 2
    assert told_now[f"consumer_lag_messages {lag}"] == 2
    assert told_now[f"consumer_ready_messages {lag}"] == 0
    await rig.advance(15)  # invisible for 10 s; nobody acknowledged
    told_now = await told(voice)
    assert told_now["pop_revive_retry_messages poppers orders PUT_OK"] == 2
    read = [v for k, v in told_now.numbers.items() if k[0] == "pop_revive_out_message"]
    assert read == [1]
    assert told_now["consumer_lag_messages poppers orders true false"] == 2
    for _ in range(20):  # one pop in five reads the retry topic first, the others after it
        if len((await pop(voice)).messages) == 2:
            break
    told_now = await told(voice)
    assert told_now["messages_out orders poppers false true"] == 2
    assert told_now["messages_out orders poppers false false"] == 2
    assert told_now["messages_out orders poppers false"] is None


async def test_queues_of_retries_count_towards_those_that_are_read(
    rig: BrokerRig, voice: Voice
) -> None:
    await voice.create_topic("orders", queues=1)
    await voice.heartbeat(
        consumers=[consumer(group, consume_type="CONSUME_POP") for group in ("poppers", "quick")]
    )
    for group in ("poppers", "quick"):
        await voice.create_topic(pop_retry_topic("orders", group), queues=MOST_QUEUES // 2)
    told_now = await told(voice)
    lags = {key[1:] for key in told_now.numbers if key[0] == "consumer_lag_messages"}
    assert lags == {
        ("poppers", "orders", "false", "false"),
        ("poppers", "orders", "true", "false"),
        ("quick", "orders", "false", "false"),  # the other 2,000 would be 4,002
    }


async def test_check_points_in_memory_are_told(tmp_path: Path) -> None:  # K-100
    async with running_broker(tmp_path, enable_pop_buffer_merge=True) as rig:
        voice = await rig.voice()
        await voice.send()
        [popped] = (await pop(voice, invisible_time=60_000)).messages
        told_now = await told(voice)
        assert told_now["pop_checkpoint_buffer_size"] == told_now["pop_offset_buffer_size"] == 1
        assert (await ack(voice, popped)).code == 0
        await rig.advance(1)
        told_now = await told(voice)
    assert told_now["pop_checkpoint_buffer_size"] == told_now["pop_offset_buffer_size"] == 0
    assert ("pop_buffer_scan_time_consume_milliseconds",) in told_now.distributions


async def test_transactions_and_timers_are_told(rig: BrokerRig, voice: Voice) -> None:
    await voice.heartbeat(producers=["writers"])
    for outcome in (8, 12, None):
        sent = await voice.send(
            properties={names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: "writers"},
            sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
            born_timestamp=rig.clock.time_ms(),
        )
        await rig.advance(2)
        if outcome is not None:
            header = EndTransactionRequestHeader(
                producer_group="writers",
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=parse_offset_msg_id(sent.msg_id)[2],
                commit_or_rollback=outcome,
                msg_id=sent.transaction_id or "",
            )
            assert (await voice.ask(header)).code == 0
    told_now = await told(voice)
    assert told_now["commit_messages orders"] == told_now["rollback_messages orders"] == 1
    assert told_now["half_messages orders"] == 1
    finish = told_now.distributions["finish_message_latency_milliseconds", "orders"]
    assert (finish.counts[0], finish.total) == (1, 2)  # seconds, as in RocketMQ
    await voice.send(properties={names.TIMER_DELAY_SEC: "90"}, born_timestamp=rig.clock.time_ms())
    await rig.advance(1)
    told_now = await told(voice)
    assert told_now["timing_messages orders"] == told_now["timer_enqueue orders"] == 1
    assert told_now["timer_dequeue_lag"] == 1
    assert told_now["timer_message_snapshot 300"] == 1
    assert told_now["timer_message_snapshot 60"] == 0
    assert told_now.distributions["delay_message_latency_seconds", "orders"].counts[1] == 1
    await rig.advance(95)
    told_now = await told(voice)
    assert told_now["timer_dequeue orders"] == 1
    assert told_now["timer_dequeue_lag"] == 0
    assert (await voice.ask(DeleteTopicRequestHeader(topic="orders"))).code == 0
    left = [key for key in (await told(voice)).numbers if "orders" in key]
    assert not left


async def test_the_store_is_told(rig: BrokerRig, voice: Voice) -> None:
    await voice.send()
    await rig.advance(3)
    told_now = await told(voice)
    assert told_now["storage_message_reserve_time_milliseconds"] == 3000
    assert told_now["storage_dispatch_behind_bytes"] == 0
    assert told_now["storage_flush_behind_bytes"] == told_now["throughput_in orders normal false"]
    assert (told_now["storage_size_bytes"] or 0) > 0


async def test_a_broker_of_4_9_tells_what_it_has(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile=PROFILE_4_9) as rig:
        voice = await rig.voice(Encoding.JSON)
        await voice.send()
        told_now = await told(voice)
    assert told_now["messages_in orders normal false"] == 1
    assert told_now["pop_checkpoint_buffer_size"] is None


async def test_many_figures_are_gathered_in_some_turns(
    rig: BrokerRig, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 50,000 took 75 ms of one turn.
    for topic in ("orders", "bills"):
        await voice.create_topic(topic)
        await voice.send(topic, b"x")
    at_once = await told(voice)
    turns: list[Callable[[], None]] = []
    monkeypatch.setattr(metrics_processor, "defer", turns.append)
    monkeypatch.setattr(metrics_processor, "FIGURES_PER_TURN", 2)
    peer, header = FakePeer(), GetMetricsRequestHeader()
    request = Command(header.CODE, header, encoding=Encoding.MSGPACK)
    assert rig.broker.dispatcher.process(peer, request) is None
    count = 0
    while turns:
        turns.pop()()
        count += 1
        rig.broker.stats.note_put(f"new-{count}", 1, 1, now=0.0)  # tables change meanwhile
    assert count > 5
    [reply] = peer.replies
    report = decode_body(reply.body_view, MetricsReport, reply.encoding)
    later = Told(report)
    assert later.numbers.keys() == at_once.numbers.keys()
    assert later["messages_in bills normal false"] == 1


async def test_a_peer_that_has_gone_is_gathered_no_more_figures(
    rig: BrokerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[Callable[[], None]] = []
    monkeypatch.setattr(metrics_processor, "defer", turns.append)
    monkeypatch.setattr(metrics_processor, "FIGURES_PER_TURN", 2)
    peer, header = FakePeer(), GetMetricsRequestHeader()
    rig.broker.dispatcher.process(peer, Command(header.CODE, header))
    peer.close()
    turns.pop()()
    assert (turns, peer.replies) == ([], [])
