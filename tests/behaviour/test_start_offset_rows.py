"""Behaviours 18 to 30: at which offset a consumer begins, and when it does.

Over loopback TCP, on a manual clock. Brokers are scripted where a test must see or bend what they
are asked, real where the behaviour is theirs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageModel, MessageQueue
from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.consumer.progress.offset_store import RemoteBrokerOffsetStore
from pocketmq.client.consumer.progress.offset_table import ReadOffsetType
from pocketmq.client.instance import DuplicateGroupError
from pocketmq.client.name_servers import NameServers
from pocketmq.client.routes import RouteTable
from pocketmq.protocol.allocation.by_config import AllocateMessageQueueByConfig
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.offsets import SearchOffsetRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient
from support.client_rig import START_MS, ClientRig
from support.consuming import Collected, consuming, queues_of
from support.eventually import eventually
from support.scripted_broker import ScriptedBroker
from support.tcp import TcpHouse, tcp_cluster, tcp_rig

LAST = ConsumeFromWhere.LAST_OFFSET
FIRST = ConsumeFromWhere.FIRST_OFFSET
TIMESTAMP = ConsumeFromWhere.TIMESTAMP
QUERY = RequestCode.QUERY_CONSUMER_OFFSET
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
SEARCH = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
PULL = RequestCode.PULL_MESSAGE
QUEUE = MessageQueue("T", "a", 0)
RETRY = "%RETRY%consumers"
HALF_PAST_FOUR = int(datetime(2100, 1, 1, 4, 30).timestamp() * 1000)  # noqa: DTZ001 - local time


async def first_pulls(rig: ClientRig, count: int) -> dict[str, int]:
    """Topic -> the offset at which it was pulled first; returns after `count` topics."""
    first: dict[str, int] = {}

    def all_pulled() -> bool:
        for request in rig.brokers[0].seen:
            if request.code == PULL:
                header = request.header(PullMessageRequestHeader)
                first.setdefault(header.topic, header.queue_offset)
        return len(first) == count

    await eventually(all_pulled, f"{count} topics are pulled")
    return first


async def start_of(
    where: ConsumeFromWhere, *, stored: int | None = None, messages: int = 3
) -> dict[str, int]:
    """Where T and the retry topic begin, each with some messages, under 4.9 (no first delay)."""
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        rig.nameserver.add_topic(RETRY, rig.brokers, queues=1)
        for topic in ("T", RETRY):
            broker.put_many(topic, 0, [b"%d" % i for i in range(messages)])
            if stored is not None:
                broker.offsets["consumers", topic, 0] = stored
        async with consuming(rig, Collected(), consume_from_where=where, profile="4.9"):
            return await first_pulls(rig, 2)


@asynccontextmanager
async def aged(folder: Path, profile: str = "5.x") -> AsyncIterator[tuple[TcpHouse, int]]:
    """A cluster whose queue T 0 has lost its first messages to retention; its smallest offset."""
    async with tcp_cluster(folder, profile=profile, mapped_file_size_commit_log=4096) as cluster:
        await cluster.create_topic("T", queues=1)
        async with cluster.producer() as producer:
            for number in range(30):
                await producer.send(Message("T", b"%04d" % number * 100))
        store = cluster.brokers["a"].store
        await cluster.until(  # retention keeps log files whose queue entries could still be lost
            lambda: store.checkpoint.durable_offset == store.commit_log.max_offset,
            "the queues' entries of all are on the disk",
            step_s=10,
        )
        for job in store._cleaner.run(HALF_PAST_FOUR):
            if job is not None:
                job()
        least = store.reads.min_offset("T", 0)
        assert 0 < least < 30
        yield cluster, least


# -- from where -----------------------------------------------------------------------------------


async def test_clustering_reads_its_start_from_the_broker(tmp_path: Path) -> None:
    """The seed says "from disk"; in the source that is the broker's table."""
    # behaviour 18: C-33, C-65
    async with tcp_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        async with cluster.producer() as producer, cluster.admin() as admin:
            for body in (b"0", b"1", b"2"):
                await producer.send(Message("T", body))
            async with consuming(cluster, Collected()):
                pass  # so that the group exists
            await admin.update_consumer_offset("consumers", QUEUE, 2)
        got = Collected()
        folder = tmp_path / "offsets"
        async with consuming(cluster, got, local_offset_store_dir=folder):
            await cluster.until(lambda: got.bodies == [b"2"], "it goes on where the broker says")
        assert not folder.exists()


async def test_broadcasting_reads_its_start_from_a_local_file(tmp_path: Path) -> None:
    """The seed says "from disk" of both models; in the source only this one has a file."""
    # behaviour 18: C-33, C-66
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])
        broker.offsets["consumers", "T", 0] = 1
        file = tmp_path / "127.0.0.1@DEFAULT" / "consumers" / "offsets.json"
        file.parent.mkdir(parents=True)
        file.write_text('{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:2}}')
        got = Collected()
        async with consuming(
            rig,
            got,
            profile="4.9",
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=tmp_path,
        ):
            await eventually(lambda: got.bodies == [b"2"], "it goes on where the file says")
        assert broker.count(QUERY) == 0


@pytest.mark.parametrize("where", list(ConsumeFromWhere))
async def test_a_stored_offset_of_0_is_used(where: ConsumeFromWhere) -> None:
    """The seed's text takes values over 0 only; the source takes 0 as well."""
    # behaviour 19: C-33
    assert await start_of(where, stored=0) == {"T": 0, RETRY: 0}
    assert await start_of(where, stored=2) == {"T": 2, RETRY: 2}


async def test_minus_one_means_that_the_group_has_no_offset_however_old_the_queue_is(
    tmp_path: Path,
) -> None:
    """The seed takes -1 for a queue that was just created."""
    # behaviour 20: C-33, B-34
    async with aged(tmp_path) as (cluster, least), cluster.admin() as admin:
        route = await admin.route("T")
        assert route is not None
        routes = RouteTable()
        routes.apply("T", route)
        remoting = RemotingClient(
            cluster.network, Dispatcher(), encoding=Encoding.MSGPACK, version=479
        )
        api = ClientApi(
            remoting, cluster.clock, NameServers((cluster.nameserver.address,)), timeout_s=3.0
        )

        async def no_refresh(_topic: str) -> bool:
            return False

        def offset_store(group: str) -> RemoteBrokerOffsetStore:
            return RemoteBrokerOffsetStore(group, api, BrokerAddresses(routes, no_refresh))

        async with consuming(cluster, Collected(), group="old"):
            pass  # so that the group exists
        await admin.update_consumer_offset("old", QUEUE, least + 3)
        read = ReadOffsetType.READ_FROM_STORE
        assert await offset_store("old").read(QUEUE, read) == least + 3
        assert await admin.consumer_offset("new", QUEUE) is None
        assert await offset_store("new").read(QUEUE, read) == -1
        await remoting.close()


async def test_last_offset_begins_at_the_end_and_at_0_in_the_retry_topic() -> None:
    # behaviour 21: C-33
    assert await start_of(LAST) == {"T": 3, RETRY: 0}


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_last_offset_begins_at_0_while_the_first_message_is_in_memory(
    tmp_path: Path, profile: str
) -> None:
    """The seed starts a new group at the end; the source's broker answers 0 for a hot queue."""
    # behaviour 22: B-34
    async with tcp_cluster(tmp_path, profile=profile) as cluster:
        await cluster.create_topic("T", queues=1)
        got = Collected()
        async with cluster.producer() as producer:
            for body in (b"0", b"1", b"2"):
                await producer.send(Message("T", body))
            async with consuming(cluster, got, consume_from_where=LAST):
                await cluster.until(lambda: len(got) == 3, "it has the messages from before")


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_last_offset_begins_at_the_end_of_an_old_queue(tmp_path: Path, profile: str) -> None:
    # behaviour 22: B-34
    async with aged(tmp_path, profile) as (cluster, _), cluster.producer() as producer:
        got = Collected()
        async with consuming(cluster, got, consume_from_where=LAST) as consumer:
            await cluster.until(lambda: queues_of(consumer), "it has the queue")
            await cluster.advance(1)
            await producer.send(Message("T", b"new"))
            await cluster.until(lambda: got.bodies == [b"new"], "it has the new one alone")


async def test_first_offset_begins_at_0() -> None:
    # behaviour 23: C-33
    assert await start_of(FIRST) == {"T": 0, RETRY: 0}


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_first_offset_0_is_corrected_where_the_beginning_is_deleted(
    tmp_path: Path, profile: str
) -> None:
    # behaviour 23: C-33, C-43
    async with aged(tmp_path, profile) as (cluster, least):
        got = Collected()
        async with consuming(cluster, got, consume_from_where=FIRST):
            await cluster.until(lambda: len(got) == 30 - least, "it has all there is")
        offsets = [
            request.header(PullMessageRequestHeader).queue_offset
            for request in cluster.asked["a"]
            if request.code == PULL and request.header(PullMessageRequestHeader).topic == "T"
        ]
        assert offsets[:2] == [0, least]


# -- by time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "moment_ms"),
    [
        ({}, START_MS - 30 * 60 * 1000),
        ({"consume_timestamp": START_MS - 5_000}, START_MS - 5_000),
        (
            {"consume_timestamp": "20231114120000"},
            int(datetime(2023, 11, 14, 12).timestamp() * 1000),  # noqa: DTZ001 - local time
        ),
    ],
)
async def test_timestamp_is_the_one_given_or_half_an_hour_before_the_consumer(
    options: dict[str, int | str], moment_ms: int
) -> None:
    """The seed takes the moment at which the consumer starts."""
    # behaviour 24: C-33
    async with tcp_rig(queues=1) as rig:
        consumer = consuming(rig, Collected(), consume_from_where=TIMESTAMP, **options)
        await rig.advance(600)  # made, not started yet: that does not count
        async with consumer:
            broker = rig.brokers[0]
            await eventually(lambda: broker.count(SEARCH) == 1, "the offset is searched")
            [asked] = [request for request in broker.seen if request.code == SEARCH]
            assert asked.header(SearchOffsetRequestHeader).timestamp == moment_ms


@pytest.mark.parametrize(("profile", "after_the_last"), [("5.x", 30), ("4.9", 29)])
async def test_a_moment_without_a_message_means_the_nearest_end_of_the_queue(
    tmp_path: Path, profile: str, after_the_last: int
) -> None:
    """The seed says 0 whenever nothing is found."""
    # behaviour 25: S-40, S-41, S-42
    async with aged(tmp_path, profile) as (cluster, least), cluster.admin() as admin:
        stored_ms = await admin.earliest_store_time(QUEUE)
        assert await admin.search_offset(QUEUE, stored_ms + 60_000) == after_the_last
        assert await admin.search_offset(QUEUE, stored_ms - 60_000) == least
        assert await admin.search_offset(QUEUE, 0) == least
        assert await admin.search_offset(MessageQueue("T", "a", 7), stored_ms) == 0


async def test_timestamp_begins_at_the_end_of_the_retry_topic() -> None:
    """The seed's listing has no branch for the retry topic."""
    # behaviour 26: C-33
    assert (await start_of(TIMESTAMP, messages=5))[RETRY] == 5


@pytest.mark.parametrize(
    ("where", "start", "searches"),
    [(LAST, 3, 0), (FIRST, 0, 0), (TIMESTAMP, 1, 1)],
)
async def test_each_mode_has_its_own_rule_for_a_group_without_an_offset(
    where: ConsumeFromWhere, start: int, searches: int
) -> None:
    """The seed gives the timestamp's rule as the only one."""
    # behaviour 27: C-33
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put_many("T", 0, [b"0", b"1", b"2"])  # a search answers 1
        async with consuming(rig, Collected(), consume_from_where=where, profile="4.9"):
            assert await first_pulls(rig, 1) == {"T": start}
            assert broker.count(SEARCH) == searches


# -- when -----------------------------------------------------------------------------------------


async def test_an_offset_that_cannot_be_asked_for_starts_nothing_and_writes_nothing() -> None:
    """The seed pulls with -1, has it written back and drops the queue."""
    # behaviour 28: C-25.3, C-65
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"x")
        broker.refuse[QUERY] = lambda request: request.reply(code=1, remark="not now")
        got = Collected()
        async with consuming(rig, got, profile="4.9") as consumer:
            await rig.advance(59)
            assert broker.count(QUERY) == 3, "at the start and in each round"
            assert consumer.assignment == []
            assert broker.count(PULL) == broker.count(UPDATE) == 0
            assert broker.offsets == {}
            del broker.refuse[QUERY]
            await rig.advance(1)
            await eventually(lambda: got.bodies == [b"x"], "the next round takes the queue")


async def test_5_x_begins_to_pull_half_a_second_after_the_assignment_4_9_at_once() -> None:
    """The seed hands the requests over at once."""
    # behaviour 29: C-25.4
    for profile in ("4.9", "5.x"):
        async with tcp_rig() as rig, consuming(rig, Collected(), profile=profile) as consumer:
            broker: ScriptedBroker = rig.brokers[0]
            await eventually(lambda: len(consumer.assignment) == 4, "all queues")
            if profile == "5.x":
                await rig.advance(0.499)
                assert broker.count(PULL) == 0
                await rig.advance(0.001)
            await eventually(lambda: len(broker.held) == 4, "all are pulled")  # noqa: B023


async def test_a_queue_has_one_pull_request_whatever_happens() -> None:
    # behaviour 30: C-25, P-2
    async with tcp_rig() as rig:
        broker = rig.brokers[0]
        async with consuming(rig, Collected(), instance_name="same"):
            await rig.advance(1)
            await eventually(lambda: len(broker.held) == 4, "all are pulled")
            for _ in range(5):
                broker.notify("consumers")
                await rig.advance(5)
            assert broker.count(PULL) == 4
            with pytest.raises(DuplicateGroupError):
                await consuming(rig, Collected(), instance_name="same").start()


async def test_a_second_client_in_the_same_process_makes_pull_requests_of_its_own() -> None:
    # behaviour 30: C-25, P-2
    async with tcp_rig(queues=1) as rig:
        strategy = AllocateMessageQueueByConfig([QUEUE])
        one = consuming(rig, Collected(), instance_name="one", strategy=strategy)
        two = consuming(rig, Collected(), instance_name="two", strategy=strategy)
        async with one, two:
            await rig.advance(1)
            await eventually(lambda: len(rig.brokers[0].held) == 2, "one pull each")
            await rig.advance(5)
            assert rig.brokers[0].count(PULL) == 2
