"""Declares the columns of a message: name and Spark type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pocketmq.pipeline.errors import ColumnsError, near
from pocketmq.pipeline.options.options import Options

MOST_BODY_BYTES: Final = 2**30
"""Longest body that may be asked for: it lies in an array with others, of 2 GiB at most."""

MESSAGE: Final[Mapping[str, str]] = {
    "topic": "string",
    "brokerName": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "body": "binary",
    "keys": "string",
    "tags": "string",
    "bornTimestamp": "timestamp",
    "storeTimestamp": "timestamp",
    "flag": "int",
    "sysFlag": "int",
    "properties": "map<string,string>",
    "msgId": "string",
    "uniqKey": "string",
    "reconsumeTimes": "int",
    "physicalOffset": "bigint",
    "offsetMsgId": "string",
    "bornHost": "string",
    "storeHost": "string",
}
"""The columns of both sources."""

KAFKA: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The Kafka connector's columns, for queries that were written for it."""

CONSUME_QUEUE: Final[Mapping[str, str]] = {
    "brokerName": "string",
    "topic": "string",
    "queueId": "int",
    "queueOffset": "bigint",
    "physicalOffset": "bigint",
    "size": "int",
    "tagsCode": "bigint",
}

INDEX: Final[Mapping[str, str]] = {
    "brokerName": "string",
    "file": "string",
    "number": "int",
    "keyHash": "int",
    "physicalOffset": "bigint",
    "storeTimestamp": "timestamp",
    "older": "int",
}

OFFSETS: Final[Mapping[str, str]] = {
    "brokerName": "string",
    "consumerGroup": "string",
    "topic": "string",
    "queueId": "int",
    "consumerOffset": "bigint",
    "minOffset": "bigint",
    "maxOffset": "bigint",
    "lag": "bigint",
}


def chosen(options: Options, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns that option `columns` names, in its order; all columns without it.

    Raises:
        OptionError: It names a column that does not exist.
    """
    wanted = options.words("columns")
    if not wanted:
        return dict(columns)
    return {name: columns[name] for name in map_names(options, "columns", wanted, columns)}


def map_names(
    options: Options, option: str, wanted: Sequence[str], columns: Mapping[str, str]
) -> list[str]:
    """Column names as declared, for names in any case; each once.

    Raises:
        OptionError: One does not exist.
    """
    # Spark may change the case of column names in options.
    by_lower = {name.lower(): name for name in columns}
    for name in wanted:
        if name.lower() not in by_lower:
            meant = near(name, columns)
            problem = f"there is no column {name!r}"
            if not meant:
                problem += f"; there are {', '.join(columns)}"
            raise options.error(option, problem, near=meant)
    return list(dict.fromkeys(by_lower[name.lower()] for name in wanted))


def ddl(columns: Mapping[str, str]) -> str:
    """The columns as Spark reads a schema."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def of_spark(schema: Any, columns: Mapping[str, str], source: str) -> dict[str, str]:
    """The columns that Spark asks for: all, or those of the user's `schema(...)`.

    Raises:
        ColumnsError: The user's schema has an unknown column, or another type for a column.
    """
    wanted = {}
    for field in schema.fields:
        kind = field.dataType.simpleString()
        ours = columns.get(field.name)
        if ours is None:
            meant = near(field.name, columns)
            hint = f"; did you mean {meant[0]!r}?" if meant else ""
            raise ColumnsError(f"{source}: the source has no column {field.name!r}{hint}")
        # Arrow's arrays have our type, whatever type Spark was given.
        if ours != kind:
            raise ColumnsError(
                f"{source}: column {field.name!r} has the type {ours}, but your schema says {kind}"
            )
        wanted[field.name] = ours
    return wanted
