"""How much one Arrow record batch holds, whatever was compressed, and what cannot overflow."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pocketmq.client import Message
from pocketmq.pipeline.columns.arrow_arrays import MOST_BYTES, binaries, repeated_text
from pocketmq.pipeline.errors import OptionError
from pocketmq.pipeline.spark.source import TopicReader
from pocketmq.pipeline.spark.store_source import StoreReader
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.pipeline.topics.settings import ReadSettings
from support.spark_cluster import SparkCluster, spark_cluster

MIB = 1024 * 1024
MOST = 16 * MIB
BODIES = 96
"""Of 1 MiB each; a portion of the broker's answers has all of them."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), brokers=1) as cluster:
        cluster.create_topic("Large", queues=1)
        # Every third one is small, and is not compressed.
        cluster.send(
            [
                Message("Large", str(n).encode().ljust(1 if n % 3 == 2 else MIB), keys=f"k{n}")
                for n in range(3 * BODIES // 2)
            ]
        )
        yield cluster


def reader(cluster: SparkCluster, source: str, **options: str) -> Any:
    if source == "store":
        given = {"path": str(cluster.store("broker-a")), "topic": "Large", **options}
        store = StoreSettings(given)
        return StoreReader(store, store.columns)
    topic = ReadSettings({"nameServer": cluster.nameservers, "topic": "Large", **options})
    return TopicReader(topic, topic.columns)


@pytest.mark.cluster
@pytest.mark.parametrize("source", ["topic", "store"])
@pytest.mark.parametrize("options", [{}, {"columns": "body"}, {"kafkaCompatible": "true"}], ids=str)
def test_a_batch_holds_so_much_after_its_bodies_were_decompressed(
    cluster: SparkCluster, source: str, options: dict[str, str]
) -> None:
    if source == "store" and "kafkaCompatible" in options:
        pytest.skip("stores have no such columns")
    read = reader(cluster, source, **options)
    numbers: list[int] = []
    sizes = []
    for part in read.partitions():
        for batch in read.read(part):
            batch.validate(full=True)
            name = "body" if "body" in batch.schema.names else "value"
            numbers += [int(body.as_py()) for body in batch.column(name)]
            if "keys" in batch.schema.names:
                assert batch.column("keys").to_pylist() == [f"k{n}" for n in numbers[-len(batch) :]]
            sizes.append(batch.nbytes)
    assert numbers == list(range(3 * BODIES // 2))
    # What was not compressed comes on top: at most what one portion has of it.
    assert max(sizes) <= MOST + MIB
    assert len(sizes) <= 2 + BODIES * MIB / (MOST - MIB), "but no smaller than that"


@pytest.mark.cluster
@pytest.mark.parametrize("source", ["topic", "store"])
def test_bodies_that_are_longer_than_a_batch_come_one_by_one(
    cluster: SparkCluster, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.pipeline.columns.arrow.MOST_INFLATED_BYTES", 1000)
    read = reader(cluster, source)
    rows = [len(batch) for part in read.partitions() for batch in read.read(part)]
    assert sum(rows) == 3 * BODIES // 2
    assert max(rows) <= 2, "a large one, and the small one behind it"


@pytest.mark.cluster
@pytest.mark.parametrize("source", ["topic", "store"])
def test_broken_bodies_of_any_of_the_batches_are_left_out_or_told(
    cluster: SparkCluster, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.pipeline.columns.arrow.MOST_INFLATED_BYTES", 4 * MIB)
    read = reader(cluster, source, maxBodyBytes=str(MIB - 1), mode="PERMISSIVE")
    rows = [row for part in read.partitions() for b in read.read(part) for row in b.to_pylist()]
    assert [row["keys"] for row in rows] == [f"k{n}" for n in range(2, 3 * BODIES // 2, 3)]
    read = reader(cluster, source, maxBodyBytes=str(MIB - 1))
    with pytest.raises(Exception, match=str(MIB - 1)):
        list(read.read(read.partitions()[0]))


def test_what_does_not_fit_into_an_array_is_refused_before_it_is_made() -> None:
    """Offsets of 32 bits turn negative beyond 2 GiB, and the rows are others then."""
    body = b"x" * MIB
    count = MOST_BYTES // MIB + 1
    tracemalloc.start()
    try:
        with pytest.raises(pa.ArrowCapacityError, match="2,147,483,648 bytes"):
            binaries([body] * count)
        with pytest.raises(pa.ArrowCapacityError, match="2,147,483,648 bytes"):
            repeated_text(body.decode(), count)
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("settings", [ReadSettings, StoreSettings])
def test_a_body_cannot_be_allowed_to_be_longer_than_an_array(settings: Any, tmp_path: Path) -> None:
    given = {"maxBodyBytes": str(2**31)}
    given |= {"nameServer": "127.0.0.1:1", "topic": "T"}
    if settings is StoreSettings:
        given = {"maxBodyBytes": given["maxBodyBytes"], "path": str(tmp_path)}
    with pytest.raises(OptionError, match="'maxBodyBytes': 2147483648 is more than 1073741824"):
        settings(given)
