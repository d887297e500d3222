"""A store as a stream by its queues: up to the last message, and what is lost when queues go."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

from pocketmq.pipeline.errors import DataLossError, OptionError
from pocketmq.pipeline.jobs.sources import source_of
from pocketmq.pipeline.progress.checkpoint import Checkpoint
from pocketmq.pipeline.spark.store_queue_stream import StoreQueueReader
from pocketmq.pipeline.spark.stream_figures import figures_of
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.runtime.errors import CallerError
from support.remade_store import HOUR_MS, remake, retain, write
from support.spark_store import START_MS, open_store, put, read_rows, stored

QUEUE = "MessageQueue [topic=T, brokerName=broker-a, queueId=0]"


class Table:
    """What a query that runs now and again has read of a store, and where it stands.

    Args:
        root: The store.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.at: dict[str, Any] | None = None
        self.numbers: list[int] = []

    def reader(self, **options: str) -> StoreQueueReader:
        settings = StoreSettings(
            {
                "path": str(self.root),
                "topic": "T",
                "columns": "queueOffset,body",
                "brokerName": self.root.name,
                "streamBy": "queues",
                **options,
            }
        )
        return StoreQueueReader(settings, settings.columns)

    def run(self, **options: str) -> int:
        """Read what is there now, batch by batch, as AvailableNow does; how many rows."""
        reader = self.reader(**options)
        reader.prepareForTriggerAvailableNow()
        at = self.at = reader.initialOffset() if self.at is None else self.at
        rows = 0
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            end = json.loads(json.dumps(end))  # as Spark stores it
            found = read_rows(reader, reader.partitions(at, end))
            self.numbers = sorted([*self.numbers, *(int(row["body"]) for row in found)])
            rows += len(found)
            at = self.at = end
        self.lost = reader.plan.counts()["lost"]
        return rows


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "broker-a"


def fill(root: Path, numbers: Iterable[int], queue_id: int) -> None:
    with open_store(root) as store:
        for number in numbers:
            put(store, [stored(b"%d" % number, queue_id=queue_id)])


def test_each_message_comes_once_up_to_the_last_one_in_batches_of_a_size(root: Path) -> None:
    table = Table(root)
    write(root, range(20))
    fill(root, range(20, 25), 3)
    write(root, range(7), topic="Other")
    assert table.run(maxOffsetsPerTrigger="8") == 25
    assert table.run() == 0
    write(root, range(25, 30))
    assert table.run(minPartitions="3") == 5
    assert table.numbers == list(range(30))
    latest = Table(root)
    assert latest.run(startingOffsets="latest") == 0
    write(root, range(30, 32))
    assert latest.run() == 2
    reader = table.reader(maxOffsetsPerTrigger="3")
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    assert table.reader().getDefaultReadLimit() == ReadAllAvailable()
    with pytest.raises(CallerError, match="cannot limit a batch by"):
        reader.latestOffset(table.at or {}, ReadMaxFiles(2))


def test_what_is_no_stream_of_queues_is_refused(root: Path, tmp_path: Path) -> None:
    write(root, range(2))
    with pytest.raises(OptionError, match="cannot be read as a stream"):
        Table(root).reader(table="index", columns="")
    with pytest.raises(OptionError, match="no store has a queue of topic 'U'"):
        Table(root).reader(topic="U").initialOffset()
    with pytest.raises(OptionError, match=r"'maxFilesPerTrigger'.*streamBy=files"):
        Table(root).reader(maxFilesPerTrigger="1")
    with pytest.raises(OptionError, match=r"'scan'.*streamBy=queues reads the queues"):
        Table(root).reader(scan="commitlog")
    shutil.copytree(root, tmp_path / "copy")
    both = {"path": f"{root},{tmp_path / 'copy'}", "brokerName": "broker-a,broker-a"}
    with pytest.raises(OptionError, match="are both of broker 'broker-a'"):
        Table(root).reader(**both).initialOffset()


def test_a_store_with_messages_and_without_queues_is_refused(root: Path) -> None:
    table = Table(root)
    write(root, range(2))
    assert table.run() == 2
    shutil.rmtree(root / "consumequeue")
    advice = f"{root} has messages but no queues; run `pocketmq store rebuild {root}`"
    deleted = "unless its topics were deleted: it would bring them back"
    for reading in (
        table.run,
        Table(root).run,
        lambda: source_of(f"store:{root}").queues(Checkpoint({})),
    ):
        with pytest.raises(OptionError, match=re.escape(advice) + f".*{deleted}"):
            reading()


def test_a_store_without_messages_has_no_rows_yet(root: Path) -> None:
    with open_store(root):
        pass
    (root / "commitlog").mkdir(exist_ok=True)
    table = Table(root)
    assert source_of(f"store:{root}").queues(Checkpoint({})) == []
    assert table.run(topic="") == 0
    write(root, range(2))
    assert table.run(topic="") == 2


def test_a_topic_made_anew_stops_the_stream_however_long_it_is_or_is_read_beside(
    root: Path,
) -> None:
    table = Table(root)
    write(root, range(20))
    assert table.run(maxOffsetsPerTrigger="8") == 20
    remake(root, range(100, 105))
    with pytest.raises(DataLossError, match="offset 20 does not exist; the queue now ends at 5"):
        table.run()
    write(root, range(105, 130), hours=2)
    with pytest.raises(DataLossError) as caught:
        table.run()
    assert str(caught.value).startswith(QUEUE)
    assert "offset 19 has another message" in str(caught.value)
    assert f"stored at {START_MS + 2 * HOUR_MS} ms and not at {START_MS} ms" in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    assert table.numbers == list(range(20))
    assert table.run(failOnDataLoss="false", maxOffsetsPerTrigger="8") == 30
    write(root, range(130, 135), hours=2)
    assert table.run() == 5
    assert table.numbers == [*range(20), *range(100, 135)]


def test_what_retention_removed_before_it_was_read_is_told_or_counted(root: Path) -> None:
    table = Table(root)
    write(root, range(10), size=1000)
    table.run()
    write(root, range(10, 200), size=1000)
    retain(root, 2)
    with pytest.raises(DataLossError, match=r"offsets 10 to \d+ \(\d+ messages\)") as caught:
        table.run()
    said = re.search(r"\((\d+) messages\).* begins at (\d+)", str(caught.value))
    assert said is not None
    count, begin = int(said[1]), int(said[2])
    assert (count, 10 < begin < 200) == (begin - 10, True)
    assert table.run(failOnDataLoss="false", maxOffsetsPerTrigger="50") == 200 - begin
    assert table.lost == count
    assert table.numbers == [*range(10), *range(begin, 200)]
    assert table.run() == 0


def test_a_queue_that_was_empty_or_is_new_and_does_not_begin_at_0_is_a_loss(root: Path) -> None:
    table = Table(root)
    fill(root, [0], 0)
    (root / "consumequeue/T/1").mkdir()
    table.run()
    with open_store(root) as store:
        for number in range(400):
            put(store, [stored(b"%d" % number + b" " * 1000, queue_id=1 + number % 2)])
    retain(root, 2)
    with pytest.raises(DataLossError) as caught:
        table.run()
    assert re.search(r"queueId=1\]: offsets 0 to \d+ .*\(and 1 more queue", str(caught.value))
    (root / "consumequeue/T/1").rename(root / "consumequeue/T/7")
    table.at = {"T": {"broker-a": {"0": 1}}, "@marks": (table.at or {})["@marks"]}
    with pytest.raises(DataLossError, match=r"queueId=2\]: is new and begins at \d+"):
        table.run()


def test_a_batch_that_is_planned_again_notices_what_went_meanwhile(root: Path) -> None:
    table = Table(root)
    write(root, range(10), size=1000)
    table.run()
    write(root, range(10, 200), size=1000)
    planned = table.reader()
    end = planned.latestOffset(table.at or {}, ReadAllAvailable())
    retain(root, 2)
    with pytest.raises(DataLossError, match="were removed before they were read"):
        table.reader().partitions(table.at or {}, end)
    remake(root, range(300))
    with pytest.raises(DataLossError, match="made anew"):
        planned.partitions(table.at or {}, end)
    shutil.rmtree(root)
    write(root, range(50))
    with pytest.raises(DataLossError, match="cut short or made anew after this batch was planned"):
        planned.partitions(table.at or {}, end)


def test_a_queue_that_goes_is_told_once_and_read_on_when_it_comes_back(
    root: Path, tmp_path: Path
) -> None:
    table = Table(root)
    queue, aside = root / "consumequeue/T/1", tmp_path / "aside"
    fill(root, range(3), 0)
    fill(root, range(3, 8), 1)
    table.run()
    queue.rename(aside)
    with pytest.raises(DataLossError) as caught:
        table.run()
    assert "queueId=1]: there is no such queue any more; it was read up to offset 5" in str(
        caught.value
    )
    assert table.run(failOnDataLoss="false") == 0
    assert table.run() == 0  # told, and noted
    aside.rename(queue)
    assert table.run() == 0
    fill(root, range(8, 10), 1)
    assert table.run() == 2
    queue.rename(aside)
    with pytest.raises(DataLossError, match=r"queueId=1\]: there is no such queue any more"):
        table.run()
    assert table.numbers == list(range(10))


def test_stores_that_are_left_out_stay_where_they_are(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "broker-b"
    table = Table(root)
    fill(root, range(3), 0)
    fill(other, range(3, 8), 1)
    assert table.run() == 3
    table.root = other
    assert table.run() == 5
    table.root = root
    assert table.run() == 0
    fill(other, range(8, 10), 0)
    shutil.rmtree(other / "consumequeue/T/1")
    both = {"path": f"{root},{other}", "brokerName": "broker-a,broker-b"}
    with pytest.raises(DataLossError, match=r"broker-b, queueId=1\]: there is no such queue"):
        table.run(**both)


def test_a_quiet_queue_whose_messages_retention_removed_stops_nothing(root: Path) -> None:
    table = Table(root)
    fill(root, range(3), 0)
    assert table.run() == 3
    write(root, range(200), topic="Other", size=1000)
    retain(root, 1)
    for numbers in (range(3, 8), range(8, 10)):
        fill(root, numbers, 1)
        assert table.run() == len(numbers)
    fill(root, range(10, 12), 0)
    assert table.run() == 2
    assert table.numbers == list(range(12))


def test_a_topic_that_is_not_named_any_more_stays_where_it_is(root: Path) -> None:
    table = Table(root)
    write(root, range(3))
    write(root, range(3, 8), topic="U")
    assert table.run() == 3
    assert table.run(topic="U") == 5
    write(root, range(8, 10))
    shutil.rmtree(root / "consumequeue/U")
    assert table.run() == 2
    assert "@gone" not in (table.at or {})
    with pytest.raises(DataLossError, match=r"topic=U, .*: there is no such queue any more"):
        table.run(topic="")
    assert table.numbers == list(range(10))


def test_a_queue_made_anew_with_as_many_messages_is_read_once(root: Path) -> None:
    table = Table(root)
    fill(root, range(20), 0)
    assert table.run() == 20
    remake(root, range(100, 120))
    assert table.run(failOnDataLoss="false") == 20
    fill(root, range(120, 123), 1)
    assert table.run() == 3
    assert table.numbers == [*range(20), *range(100, 123)]


def test_figures_tell_what_a_batch_has_and_what_comes_behind_it(root: Path) -> None:
    write(root, range(20))
    reader = Table(root).reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(5))
    source = {"latestOffset": reader.reportLatestOffset(), "endOffset": end, "numInputRows": 5}
    found = figures_of({"id": "q", "batchId": 0, "sources": [source]})
    assert found is not None
    assert (found.rows, found.lag, found.unread) == (5, 15, 0)
