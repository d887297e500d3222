"""A store as a stream: which files of the log are closed, and what is lost when they go."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from pocketmq.pipeline.errors import CorruptRecordError, DataLossError, OptionError
from pocketmq.pipeline.progress.checkpoint import BEGIN
from pocketmq.pipeline.spark.store_stream import StoreStreamReader
from pocketmq.pipeline.spark.stream_figures import BatchFigures, figures_of
from pocketmq.pipeline.stores.store_read import StoreSettings
from support.spark_store import log_files, mixed, open_store, put, read_rows

ALL = ReadAllAvailable()


def stream(path: Path, **options: str) -> StoreStreamReader:
    settings = StoreSettings({"path": str(path), "columns": "topic,physicalOffset,body", **options})
    return StoreStreamReader(settings, settings.columns)


def batch(reader: Any, start: dict[str, Any], limit: Any = ALL) -> tuple[dict[str, Any], list[int]]:
    """The end of the next batch, and the log offsets of its rows."""
    end = reader.latestOffset(start, limit)
    parts = reader.partitions(start, end) if end != start else []
    return end, [row["physicalOffset"] for row in read_rows(reader, parts)]


def closed(root: Path, offsets: list[int]) -> list[int]:
    """Those before the newest file."""
    end = int(log_files(root)[-1].name)
    return [offset for offset in offsets if offset < end]


def test_files_come_as_they_close_each_record_once(tmp_path: Path) -> None:
    root = tmp_path / "s"
    seen: list[int] = []
    with open_store(root) as store:
        reader = None
        at: dict[str, Any] = {}
        for _ in range(4):
            put(store, mixed(200))
            if reader is None:
                reader = stream(root)
                at = reader.initialOffset()
            at, found = batch(reader, at)
            seen += found
            assert batch(reader, at) == (at, [])
        everything = stream(root, startingOffsets="earliest")
        assert len(log_files(root)) == 4
    assert seen == sorted(set(seen))
    assert at[str(root)]["end"] == int(log_files(root)[-1].name)
    assert batch(everything, everything.initialOffset())[1] == seen


def test_a_batch_has_at_most_so_many_files_and_available_now_ends(copy: Path) -> None:
    reader = stream(copy, maxFilesPerTrigger="2")
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    reader.prepareForTriggerAvailableNow()
    at, sizes = reader.initialOffset(), []
    seen: list[int] = []
    while True:
        end, found = batch(reader, at, reader.getDefaultReadLimit())
        if end == at:
            break
        sizes.append(len(reader.partitions(at, end)))
        at, seen = end, seen + found
    assert max(sizes) == 2
    assert sum(sizes) == len(log_files(copy)) - 1
    whole = stream(copy)
    assert seen == batch(whole, whole.initialOffset())[1]


def test_several_stores_share_the_files_of_a_batch(copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(copy, other)
    reader = stream(Path(f"{copy},{other}"), maxFilesPerTrigger="1")
    at, turns = reader.initialOffset(), []
    while True:
        end, _ = batch(reader, at, reader.getDefaultReadLimit())
        if end == at:
            break
        turns.append([root for root in at if end[root] != at[root]])
        at = {root: end[root] for root in at}
    assert all(len(turn) == 1 for turn in turns), "one file a batch"
    assert len(turns) == 2 * (len(log_files(copy)) - 1)
    assert {turn[0] for turn in turns[:2]} == {str(copy), str(other)}, "none waits for the other"


def test_a_store_that_is_left_out_for_one_run_is_read_on_where_it_was(
    copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(copy, other)
    both = Path(f"{copy},{other}")
    reader = stream(both, maxFilesPerTrigger="3")
    at, seen = batch(reader, reader.initialOffset(), reader.getDefaultReadLimit())
    alone = stream(copy)
    alone.prepareForTriggerAvailableNow()
    at, more = batch(alone, at)
    seen += more
    assert batch(alone, at) == (at, [])
    assert caplog.text.count("event='store.left_out'") == 1
    assert str(other) in caplog.text
    assert at.keys() - {BEGIN} == {str(copy), str(other)}
    at, more = batch(stream(both), at)
    seen += more
    every = stream(copy)
    _, of_one = batch(every, every.initialOffset())
    assert sorted(seen) == sorted(2 * of_one)


def test_a_stream_from_the_latest_begins_with_an_empty_batch(copy: Path) -> None:
    reader = stream(copy, startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    assert batch(reader, start) == (start, [])


def test_files_that_retention_removed_stop_the_stream_or_are_left_out(copy: Path) -> None:
    start = stream(copy).initialOffset()
    for path in log_files(copy)[:2]:
        path.unlink()
    first = int(log_files(copy)[0].name)
    with pytest.raises(DataLossError, match=f"the log begins at {first}, and the stream has read"):
        batch(stream(copy), start)
    _, found = batch(stream(copy, failOnDataLoss="false"), start)
    assert found[0] == first


def test_another_store_at_the_same_place_is_noticed(copy: Path) -> None:
    reader = stream(copy)
    at, _ = batch(reader, reader.initialOffset())
    files = log_files(copy)
    for path in files[2:]:
        path.unlink()
    with pytest.raises(DataLossError, match="the store was replaced"):
        batch(stream(copy), at)
    at = {str(copy): {"end": 65536, "mark": 17}}
    with pytest.raises(DataLossError, match="the store was replaced"):
        batch(stream(copy), at)


def told(
    reader: Any, start: dict[str, Any], limit: Any = None
) -> tuple[BatchFigures, dict[str, Any]]:
    """What the listener tells of the next batch; and its end."""
    end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
    latest = reader.reportLatestOffset()
    rows = len(read_rows(reader, reader.partitions(start, end)))
    source = {"endOffset": end, "latestOffset": latest, "numInputRows": rows}
    found = figures_of({"id": "q", "batchId": 0, "sources": [source]})
    assert found is not None
    return found, end


def test_a_listener_is_told_rows_bytes_and_lag_of_each_batch(copy: Path) -> None:
    files = log_files(copy)
    sizes = [path.stat().st_size for path in files]
    reader = stream(copy, maxFilesPerTrigger="2")
    at = reader.initialOffset()
    behind = sum(sizes[:-1])
    while behind:
        now, at = told(reader, at)
        behind -= now.log_bytes
        assert now.rows > 0
        assert 0 < now.log_bytes <= sum(sizes[:2])
        assert (now.log_lag_bytes, now.log_lags) == (behind, {str(copy): behind})
        assert (now.lost_files, now.remade, now.unread, now.lag) == (0, 0, None, 0)
    now, _ = told(reader, at)
    assert (now.rows, now.log_bytes, now.log_lag_bytes) == (0, 0, 0)


def test_lost_files_are_counted_each_once(
    copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    shutil.copytree(copy, other)
    reader = stream(Path(f"{copy},{other}"), failOnDataLoss="false")
    start = reader.initialOffset()
    for root, gone in ((copy, 2), (other, 1)):
        for path in log_files(root)[:gone]:
            path.unlink()
    now, at = told(reader, start)
    assert (now.lost_files, now.remade) == (3, 0)
    assert now.log_bytes == sum(p.stat().st_size for r in (copy, other) for p in log_files(r)[:-1])
    assert sum("files.lost" in line for line in caplog.messages) == 2
    log_files(copy)[0].unlink()  # it has been read
    now, _ = told(reader, at)
    assert now.lost_files == 3


def test_of_a_store_that_was_replaced_the_files_that_had_been_seen_are_counted(copy: Path) -> None:
    reader = stream(copy, failOnDataLoss="false", maxFilesPerTrigger="2")
    _, at = told(reader, reader.initialOffset())
    files = log_files(copy)
    for path in files[2:]:
        path.unlink()  # two are left, of which one is closed
    now, _ = told(reader, at)
    assert (now.lost_files, now.remade) == (len(files) - 1 - 2, 1)
    assert now.rows > 0


def test_of_a_store_that_was_replaced_by_a_longer_one_no_files_of_that_are_counted(
    copy: Path, tmp_path: Path
) -> None:
    with open_store(tmp_path / "short") as short:
        put(short, mixed(500))
    reader = stream(tmp_path / "short", failOnDataLoss="false")
    _, at = told(reader, reader.initialOffset(), ReadMaxFiles(1))
    seen = len(log_files(tmp_path / "short")) - 1
    assert 1 < seen < len(log_files(copy)) - 1
    shutil.rmtree(tmp_path / "short")
    shutil.copytree(copy, tmp_path / "short")
    at[str(tmp_path / "short")]["mark"] += 1  # stores of tests are made at the same time
    for _ in range(2):
        now, at = told(reader, at)
        assert (now.lost_files, now.remade) == (seen - 1, 1)


def test_a_batch_that_another_process_planned_counts_its_files_and_no_more(copy: Path) -> None:
    killed = stream(copy, maxFilesPerTrigger="1")
    start = killed.initialOffset()
    end = killed.latestOffset(start, killed.getDefaultReadLimit())
    for path in log_files(copy)[:3]:
        path.unlink()
    again = stream(copy, failOnDataLoss="false")
    assert again.partitions(start, end) == []
    assert again.plan.counts()["lostFiles"] == 1
    now, _ = told(again, end)
    assert now.lost_files == 3


def test_a_file_whose_copy_is_not_complete_is_an_error(copy: Path) -> None:
    path = log_files(copy)[1]
    data = path.read_bytes()
    path.write_bytes(data[:30_000] + bytes(len(data) - 30_000))
    reader = stream(copy)
    with pytest.raises(CorruptRecordError, match=path.name):
        batch(reader, reader.initialOffset())


def test_a_file_that_goes_while_its_task_runs_is_an_error(copy: Path) -> None:
    reader = stream(copy, failOnDataLoss="false")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ALL))
    gone = log_files(copy)[0]
    gone.unlink()
    with pytest.raises(CorruptRecordError, match="neither a record nor the mark of a file's end"):
        read_rows(reader, parts)


def test_only_messages_can_be_followed(copy: Path) -> None:
    with pytest.raises(OptionError, match="'index' cannot be read as a stream"):
        stream(copy, table="index", columns="keyHash")


def test_a_limit_of_messages_is_refused(copy: Path) -> None:
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger'.*streamBy=queues"):
        stream(copy, maxOffsetsPerTrigger="100")
