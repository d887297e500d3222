"""Reading topics of a real cluster over real sockets, without Spark around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan

from pocketmq.client import Message, MessageQueue
from pocketmq.pipeline import read_topic
from pocketmq.pipeline.errors import DataLossError, OptionError
from pocketmq.pipeline.options import offsets
from pocketmq.pipeline.spark.source import TopicReader
from pocketmq.pipeline.topics.partition_numbers import partition_numbers
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.errors import BrokerError
from pocketmq.testing import start_cluster
from support.eventually import PATIENCE_MS
from support.spark_cluster import SparkCluster, spark_cluster
from support.spark_store import plain

pytestmark = pytest.mark.cluster

COUNT = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_topic("Orders")
        cluster.send(
            [
                Message(
                    "Orders",
                    f"order {number} ".encode() * (number % 50 + 1),
                    tags=["TagA", "TagB", "Aa", "BB"][number % 4],
                    keys=f"key-{number}",
                    properties={"number": str(number)},
                )
                for number in range(COUNT)
            ]
        )
        yield cluster


def read(
    cluster: SparkCluster, filters: Sequence[Any] = (), **options: str
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Rows, and the parts they came in."""
    settings = ReadSettings({"nameServer": cluster.nameservers, "topic": "Orders", **options})
    reader = TopicReader(settings, settings.columns)
    if filters:
        reader.pushFilters(list(filters))
    parts = reader.partitions()
    rows: list[dict[str, Any]] = []
    for part in parts:
        for batch in reader.read(part):
            batch.validate(full=True)
            rows += plain(batch.to_pylist())
    return rows, [part.value for part in parts]


def numbers(rows: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(int(row["properties"]["number"]) for row in rows)


def test_every_message_is_a_row_as_it_was_sent(cluster: SparkCluster) -> None:
    rows, parts = read(cluster)
    assert numbers(rows) == list(range(COUNT))
    assert len(parts) == 8
    for row in rows:
        number = int(row["properties"]["number"])
        assert row["body"] == f"order {number} ".encode() * (number % 50 + 1)
        assert row["keys"] == f"key-{number}"
        assert row["tags"] == ["TagA", "TagB", "Aa", "BB"][number % 4]
        assert row["msgId"] == row["uniqKey"] == row["properties"]["UNIQ_KEY"]
    places = {(row["brokerName"], row["queueId"], row["queueOffset"]) for row in rows}
    assert len(places) == COUNT


def test_queues_are_split_for_more_tasks(cluster: SparkCluster) -> None:
    rows, parts = read(cluster, minPartitions="20", columns="properties")
    assert len(parts) >= 20
    assert numbers(rows) == list(range(COUNT))


def test_brokers_are_reached_where_they_are_advertised(cluster: SparkCluster) -> None:
    rows, _ = read(cluster, columns="properties", advertise="127.0.0.1=localhost")
    assert numbers(rows) == list(range(COUNT))
    with pytest.raises(Exception, match=r"127\.0\.0\.2"):  # nobody listens there
        read(cluster, advertise="127.0.0.1=127.0.0.2", retries="0")


def test_keys_are_tested_by_the_source(cluster: SparkCluster) -> None:
    rows, _ = read(cluster, [EqualTo(("keys",), "key-17")])
    assert numbers(rows) == [17]


def test_the_store_of_the_brokers_has_the_same_rows(cluster: SparkCluster) -> None:
    from support import spark_store

    roots = [cluster.store(name) for name in ("broker-a", "broker-b")]
    stored = spark_store.rows(
        path=",".join(map(str, roots)), brokerName="broker-a,broker-b", topic="Orders"
    )
    rows, _ = read(cluster)

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["brokerName"], row["queueId"], row["queueOffset"]

    assert sorted(stored, key=place) == sorted(rows, key=place)


def test_tags_are_chosen_by_the_broker_and_hashes_that_collide_are_told_apart(
    cluster: SparkCluster,
) -> None:
    rows, _ = read(cluster, tags="Aa")
    assert numbers(rows) == list(range(2, COUNT, 4))
    rows, _ = read(cluster, [In(("tags",), ("TagA", "TagB"))])
    assert numbers(rows) == [number for number in range(COUNT) if number % 4 < 2]


def test_conditions_on_queues_and_offsets_narrow_what_is_pulled(cluster: SparkCluster) -> None:
    everything, _ = read(cluster)
    rows, parts = read(
        cluster,
        [
            EqualTo(("brokerName",), "broker-a"),
            EqualTo(("queueId",), 1),
            GreaterThanOrEqual(("queueOffset",), 5),
            LessThan(("queueOffset",), 20),
        ],
    )
    assert [(part.queue.queue_id, part.start, part.end) for part in parts] == [(1, 5, 20)]
    assert rows == [
        row
        for row in everything
        if (row["brokerName"], row["queueId"]) == ("broker-a", 1) and 5 <= row["queueOffset"] < 20
    ]


def test_conditions_on_times_narrow_what_is_pulled(cluster: SparkCluster) -> None:
    everything, _ = read(cluster)
    times = sorted(row["storeTimestamp"] for row in everything)
    middle = times[len(times) // 2]
    moment = datetime.fromtimestamp(middle / 1000, UTC)
    rows, parts = read(cluster, [GreaterThanOrEqual(("storeTimestamp",), moment)])
    assert numbers(rows) == numbers([row for row in everything if row["storeTimestamp"] >= middle])
    assert sum(part.end - part.start for part in parts) < COUNT
    rows, _ = read(cluster, [LessThan(("storeTimestamp",), moment)])
    kept = [row for row in rows if row["storeTimestamp"] < middle]  # Spark tests it as well
    assert numbers(kept) == numbers([row for row in everything if row["storeTimestamp"] < middle])


def test_a_read_may_begin_and_end_anywhere(cluster: SparkCluster) -> None:
    queue = cluster.queues("Orders")[0]
    tree = {queue.topic: {queue.broker_name: {str(queue.queue_id): 3}}}
    start = offsets.to_json(offsets.from_tree(tree))
    rows, _ = read(cluster, startingOffsets=start, endingOffsets='{"Orders":{"broker-a":{"0":9}}}')
    own = [
        row["queueOffset"] for row in rows if row["brokerName"] == "broker-a" and not row["queueId"]
    ]
    assert own == list(range(3, 9))
    assert read(cluster, startingOffsets="latest")[0] == []
    _, parts = read(cluster, startingOffsets='{"Orders":{"broker-a":{"0":-1}}}')
    assert len(parts) == 7


def test_a_read_may_begin_and_end_at_a_moment(cluster: SparkCluster) -> None:
    everything, _ = read(cluster)
    times = sorted(row["storeTimestamp"] for row in everything)
    low, high = times[COUNT // 3], times[2 * COUNT // 3]
    rows, _ = read(
        cluster,
        startingTimestamp=str(low),
        endingTimestamp=str(high),
        startingOffsetsByTimestampStrategy="latest",
    )
    assert numbers(rows) == numbers(
        [row for row in everything if low <= row["storeTimestamp"] < high]
    )
    with pytest.raises(OptionError, match=r"startingTimestamp.*has no message stored at"):
        read(cluster, startingTimestamp=str(times[-1] + 1000))


def test_a_read_may_begin_where_a_group_goes_on(cluster: SparkCluster) -> None:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig

    queues = cluster.queues("Orders")

    async def commit() -> None:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_group(SubscriptionGroupConfig(group_name="readers"))
            for queue in queues[1:]:
                await admin.update_consumer_offset("readers", queue, 200)

    cluster.run(commit())
    _, parts = read(cluster, startingOffsets="group:readers")
    assert [part.start for part in parts] == [0] + [200] * 7


def test_queues_may_be_assigned_and_topics_found_by_pattern(cluster: SparkCluster) -> None:
    options = {"nameServer": cluster.nameservers, "assign": '{"Orders":{"broker-b":[2]}}'}
    reader = TopicReader(ReadSettings(options), ReadSettings(options).columns)
    assert [str(part.value.queue.queue_id) for part in reader.partitions()] == ["2"]
    options = {"nameServer": cluster.nameservers, "subscribePattern": "Ord.*"}
    reader = TopicReader(ReadSettings(options), ReadSettings(options).columns)
    assert len(reader.partitions()) == 8


def test_columns_as_kafkas(cluster: SparkCluster) -> None:
    rows, _ = read(cluster, kafkaCompatible="true", includeHeaders="true")
    queues = [
        MessageQueue("Orders", f"broker-{broker}", number) for broker in "ab" for number in range(4)
    ]
    assert {row["partition"] for row in rows} == set(partition_numbers(queues).values())
    assert len({(row["partition"], row["offset"]) for row in rows}) == COUNT
    row = rows[0]
    headers = {each["key"]: each["value"] for each in row["headers"]}
    assert row["key"] == b"key-" + headers["number"]
    assert row["topic"] == "Orders"
    assert row["timestampType"] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "Order"}, "no name server knows topic 'Order'; did you mean 'Orders'"),
        ({"nameServer": "127.0.0.1:1"}, "'nameServer': no name server answers at 127.0.0.1:1"),
        ({"startingOffsets": '{"Orders":{"broker-x":{"0":1}}}'}, "no broker 'broker-x'; did you"),
        (
            {"startingOffsets": '{"Orders":{"broker-a":{"9":1}}}'},
            "no queue 9 .* its queues there are 0, 1, 2, 3",
        ),
    ],
)
def test_what_the_cluster_does_not_have_is_named(
    options: dict[str, str], says: str, cluster: SparkCluster
) -> None:
    with pytest.raises(OptionError, match=says):
        read(cluster, **options)


def test_a_pattern_or_an_assignment_that_finds_nothing_is_named(cluster: SparkCluster) -> None:
    for options, says in (
        ({"subscribePattern": "Orderz"}, "no topic matches 'Orderz'; did you mean 'Orders'"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"assign": '{"Orders":{"broker-a":[7]}}'}, "'assign': .*no queue 7"),
    ):
        given = {"nameServer": cluster.nameservers, **options}
        with pytest.raises(OptionError, match=says):
            TopicReader(ReadSettings(given), {}).partitions()


def test_offsets_that_do_not_exist_are_named_or_left_out(cluster: SparkCluster) -> None:
    beyond = '{"Orders":{"broker-a":{"0":999999}}}'
    with pytest.raises(DataLossError, match=r"queueId=0\]: offset 999999 does not exist"):
        read(cluster, startingOffsets=beyond)
    rows, parts = read(cluster, startingOffsets=beyond, failOnDataLoss="false")
    assert len(parts) == 7
    assert 0 < len(rows) < COUNT


def test_a_cluster_with_accounts_is_read_with_the_keys_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start_cluster(users={"shop": "secret"}) as secured:
        secured.sync.create_topic("Orders")
        with secured.sync.producer(credentials=("shop", "secret")) as producer:
            producer.send(Message("Orders", b"signed"))
        options = {"nameServer": secured.nameservers, "topic": "Orders", "retries": "0"}
        with pytest.raises(BrokerError, match="username cannot be null"):
            list(read_topic(**options))
        monkeypatch.setenv("POCKETMQ_ACCESS_KEY", "shop")
        monkeypatch.setenv("POCKETMQ_SECRET_KEY", "secret")
        options["timeoutMs"] = "4000"  # another client: that of equal options is used again
        bodies = read_topic(**options).read_all().column("body")
    assert bodies.to_pylist() == [b"signed"]
