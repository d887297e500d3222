"""Stores that lie where fsspec reaches, in memory; test_spark_store_stream.py has them on S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pocketmq.pipeline import read_store
from pocketmq.pipeline.errors import OptionError
from support.spark_store import plain

TABLES = ("messages", "consumequeue", "index", "offsets")


@pytest.fixture(scope="module")
def in_memory(store: Path) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    files.put(str(store), "/stores/broker-a", recursive=True)
    yield "memory://stores/broker-a"
    files.rm("/stores", recursive=True)


def told(path: str, **options: str) -> list[dict[str, Any]]:
    return plain(read_store(path, brokerName="b", **options).read_all().to_pylist())


@pytest.mark.parametrize("table", TABLES)
def test_a_store_in_memory_has_the_rows_of_the_directory(
    table: str, store: Path, in_memory: str
) -> None:
    assert told(in_memory, table=table) == told(str(store), table=table)


def test_a_path_that_is_no_store_is_named(in_memory: str) -> None:
    with pytest.raises(OptionError, match=r"no directory .*did you mean 'memory://stores/broker-a"):
        told(in_memory.replace("broker-a", "broker-b"))
    with pytest.raises(OptionError, match="did you mean 'memory://stores/broker-a"):
        told("memory://stores")
    with pytest.raises(OptionError, match="'nofs://x' cannot be read: Protocol not known: nofs"):
        told("nofs://x")
    with pytest.raises(OptionError, match="'storageOptions': the value is not a JSON object"):
        told(in_memory, storageOptions="[]")
