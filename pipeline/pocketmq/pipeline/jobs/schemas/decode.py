"""Bodies of topics into tables by their schemas, and those that do not fit into a bad-row table.

    schema("store:cluster/broker-a", "schemas.json", "tables/orders", topics=["orders"])

Each topic becomes Parquet files `<topic>-<n>.parquet` with the place of each message (topic,
broker, queue, offset, keys, store time), and a column for each field of its schema: texts, numbers
and truth values as such, everything else as JSON text. `bad-<n>.parquet` has the place, the reason
and the body of what could not be decoded.

With `envelope` bodies are change events of a database (`envelopes.py`): a row for each change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pocketmq.pipeline.installed import check_installed
from pocketmq.pipeline.jobs.schemas.decoded import Decoded
from pocketmq.pipeline.jobs.schemas.registry import Registry, registry_of
from pocketmq.runtime.errors import CallerError


def schema(
    source: str,
    registry: str | Registry,
    out: str | Path,
    *,
    topics: Sequence[str] = (),
    framed: bool = False,
    envelope: bool = False,
    keys: Sequence[str] = (),
    nameservers: str = "",
    on_batch: Callable[[Decoded], None] | None = None,
) -> Decoded:
    """Decode all messages of a source.

    Args:
        source: As `source_of` takes it.
        registry: A file, an address, or a registry; empty for change events in plain JSON.
        out: Folder for the tables; it must be empty or not be there.
        topics: Only these.
        framed: Whether bodies begin with the id of their schema (Confluent's wire format).
        envelope: Whether they are change events.
        keys: Columns of the primary key, for change events that do not say it.
        nameservers: For topics.
        on_batch: Told what was done so far.

    Raises:
        CallerError: A topic has no schema, or the folder is not empty.
        RegistryError: The registry does not answer.
        MissingToolError: A library that reads the bodies or the source is not installed.
    """
    check_installed("schema", "schema", "pyarrow", "numpy")
    from pocketmq.pipeline.jobs.schemas.tables import COLUMNS, Tables, is_internal
    from pocketmq.pipeline.jobs.sources import source_of

    folder = Path(out)
    # File names are numbered from 0, so the tables of two runs would mix.
    if folder.exists() and any(folder.iterdir()):
        raise CallerError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    known = registry_of(registry) if isinstance(registry, str) and registry else registry
    done = Decoded()
    work = Tables(folder, done, known or None, framed, envelope, tuple(keys))
    for batch in source_of(source, topics=topics, nameservers=nameservers).batches(COLUMNS):
        for row in batch.to_pylist():
            # Retries, dead letters and system topics have no schema of their own.
            if not is_internal(row["topic"]):
                work.add(row)
        if on_batch is not None:
            on_batch(done)
    work.finish()
    return done
